"""Numbers of a run as expressions over the values of the graph."""

from __future__ import annotations

from typing import Any

from onnxport.capture.build.building import Building
from onnxport.capture.record.record import ATTEMPT, Call, Number, Ref
from onnxport.graph.ir import NUMBER, Argument, Node, ScalarType, Scope, TensorType, Value
from onnxport.graph.sizes import SizeExpr, exact, leaves_of, number_of, product, size_of

# The operator that reads a tensor's only element as a number.
READS = {int: "aten::Int", float: "aten::Float", bool: "aten::Bool"}


class Numbers:
    """The numbers so far, and the values from which the file can read their sizes at run time."""

    def __init__(self, builder: Building) -> None:
        self._builder = builder
        self._known: dict[int, Any] = {}
        self._carriers: dict[Any, tuple[Value, int | None]] = {}
        self._asked_of: dict[Any, tuple[Value, int | None]] = {}  # the value that Python read a size from last
        self.lengths: dict[Value, Any] = {}  # of lists with an element per iteration of a loop

    def carry(self, value: Value) -> None:
        """Remember that a value's sizes can be read from it."""
        for axis, size in enumerate(value.shape):
            if isinstance(size, SizeExpr):
                self._builder.points.explain(size)
                self._carriers.setdefault(size, (value, axis))

    def give(self, number: Number, expression: Any, value: Value) -> None:
        """Note a number that is an argument of the recorded function: ``value`` is it at run time."""
        self._known[id(number)] = expression
        if isinstance(expression, SizeExpr) and expression.is_leaf:
            self._carriers.setdefault(expression, (value, None))

    def is_carried(self, expression: SizeExpr) -> bool:
        return expression in self._carriers

    def is_read_from(self, size: Any, values: set[Value]) -> bool:
        return _has_leaf_of(size, self._carriers, values)

    def resolve(self, number: Any) -> Any:
        """A number of the run as an expression over the graph's values, or a plain number."""
        if not isinstance(number, Number):
            return number
        waiting = [number]
        while waiting:
            current = waiting[-1]
            operands = [o for o in current.operands if isinstance(o, Number) and id(o) not in self._known]
            if operands:
                waiting += operands
                continue
            waiting.pop()
            if id(current) not in self._known:
                self._known[id(current)] = self._resolved(current)
        return self._known[id(number)]

    def _resolved(self, number: Number) -> Any:
        op, operands = number.op, number.operands
        if op in ("constant", "place"):
            return number.value
        if op == "size":
            return self._size(self._builder.value(operands[0]), operands[1])
        if op == "length":
            return self.lengths[self._builder.value(operands[0])]
        if op == "numel":
            value = self._builder.value(operands[0])
            return product([self._size(value, axis) for axis in range(len(value.shape))])
        if op == "stride":
            value = self._builder.value(operands[0])
            return product([self._size(value, axis) for axis in operands[1]])
        if op == "item":
            # C++ reads a 0-dim mask as the number of elements that it selects.
            kind = int if type(number.value) is bool else type(number.value)
            return self._read(self._builder.value(operands[0]), kind, number)
        if op == "element":
            return self._element(number)
        if op == "returned":
            return self._returned(operands[0])
        if op == ATTEMPT:
            return self._builder.attempted(number)
        resolved = [self._known[id(o)] if isinstance(o, Number) else o for o in operands]
        found = exact(op, *resolved)
        if isinstance(found, SizeExpr) and found.kind is int and self._builder.points.follows_data(found):
            self._builder.points.explain(found)  # sizes that are equal at all points share a name in the file
        return found

    def _size(self, value: Value, axis: int) -> Any:
        size = self._builder.points.explain(value.shape[axis])
        if not isinstance(size, SizeExpr):
            return size
        if size.op == "Unknown":
            carrier, at = self._carriers[size]
            # The size may have been found to be equal to a number that was read from data.
            found = number_of(carrier, size.at) if at is None else size_of(carrier, at, size.at)
            size = self._builder.points.explain(found)
            self._carriers.setdefault(size, (carrier, at))
        self._asked_of[size] = value, axis
        return size

    def _read(self, tensor: Value, kind: type, number: Number) -> Any:
        """The element of a tensor as a number, read at run time."""
        if tensor.data is not None and tensor not in self._builder.parameters.values():
            return number.value
        known = self._builder.contents.at_points(tensor)
        value = Value(ScalarType(kind))
        node = Node(READS[kind], {"a": tensor}, [value], overload="Tensor")
        self._builder.nodes.append(node)
        if known is not None:
            at = tuple(kind(content.item()) for content in known)
            if at.count(at[0]) == len(at):
                return at[0]
        else:
            at = (
                self._builder.points.count_of(("item", tensor), int(number.value)).at
                if kind is int
                else self._builder.points.number(value)
            )
        leaf = number_of(value, at)
        value.size = leaf if kind is int else None
        self._builder.points.numbers[value] = at
        self._carriers[leaf] = value, None
        return leaf

    def _element(self, number: Number) -> Any:
        tensor = self._builder.value(number.operands[0])
        for index in number.operands[1]:
            shape = tensor.shape[1:]
            output = Value(TensorType(tensor.dtype, shape))
            inputs = {"self": tensor, "dim": 0, "index": index}
            self._builder.nodes.append(Node("aten::select", inputs, [output], overload="int"))
            tensor = output
        return self._read(tensor, type(number.value), number)

    def _returned(self, ref: Ref) -> Any:
        """A number that a script returned."""
        value = self._builder.values[ref.number]
        if not isinstance(value, Value):
            return value
        assert isinstance(value.type, ScalarType)
        known = value.type.kind is not int or value.size is not None or value in self._builder.points.numbers
        at = self._builder.points.number(value) if known else self._builder.points.count_of(("returned", ref.number)).at
        leaf = number_of(value, at)
        value.size = leaf if value.type.kind is int else None
        self._builder.points.numbers[value] = at
        self._carriers[leaf] = value, None
        return leaf

    def forget(self, inner: set[Value]) -> None:
        """Forget the numbers of a block that ends."""
        for number, expression in list(self._known.items()):
            if _has_leaf_of(expression, self._carriers, inner):
                del self._known[number]
        for carriers in (self._carriers, self._asked_of):
            for leaf in [leaf for leaf, (carrier, _) in carriers.items() if carrier in inner]:
                del carriers[leaf]

    def value(self, expression: Any, call: Call) -> Argument:
        """An expression as an argument of a node."""
        if not isinstance(expression, SizeExpr):
            return expression
        leaves = [leaf for leaf in leaves_of(expression) if leaf in self._carriers]
        # A module that becomes a function reads sizes from values inside it.
        nearest = self._asked_of if isinstance(call.scope, Scope) else {}
        carriers = [nearest.get(leaf) or self._carriers[leaf] for leaf in leaves]
        if expression.is_leaf and len(carriers) == 1 and carriers[0][1] is None:
            return carriers[0][0]
        kind = expression.kind
        value = Value(ScalarType(kind), size=expression if kind is int else None)
        self._builder.points.numbers[value] = expression.at
        inputs = {
            "expression": expression,
            "leaves": tuple((leaf, axis) for leaf, (_, axis) in zip(leaves, carriers, strict=True)),
            "of": [carrier for carrier, _ in carriers],
        }
        self._builder.nodes.append(Node(NUMBER, inputs, [value], scope=call.scope, source=call.source))
        return value


def _has_leaf_of(expression: Any, carriers: dict[Any, tuple[Value, int | None]], inner: set[Value]) -> bool:
    """Whether a number is read from one of these values."""
    if not isinstance(expression, SizeExpr):
        return False
    return any(carriers[leaf][0] in inner for leaf in leaves_of(expression) if leaf in carriers)
