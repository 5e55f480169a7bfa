"""Reads a TorchScript graph into the captured graph: what is constant is computed, the rest becomes nodes."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias, cast

import torch

from onnxport.capture.script.binding import bound, check_flags, largest, overload_in, plain, used_unranked
from onnxport.capture.script.contents import READS_NUMBER, element_kind, known_content, read_from
from onnxport.capture.script.items import Heap, Item, ScriptList, item_of
from onnxport.capture.script.locations import Fork, Frame, Location
from onnxport.capture.sizes.expressions import decided, expression_of
from onnxport.capture.sizes.meta_runs import WithoutMeta
from onnxport.capture.sizes.points import Points, depends_on_data
from onnxport.errors import CaptureError
from onnxport.graph.interpret import operator, writes
from onnxport.graph.ir import (
    Argument,
    Node,
    ScalarType,
    Scope,
    SequenceType,
    Source,
    TensorType,
    Type,
    UnrankedType,
    Value,
    schema_of,
    values_in,
)
from onnxport.graph.sizes import Shape, Size, SizeExpr, number_of, product, size, values

SCALARS: dict[str, type] = {"IntType": int, "FloatType": float, "BoolType": bool, "NumberType": float}
Handler: TypeAlias = "Callable[[Reader, Location, list[Item]], Sequence[Item] | None]"


class Reader:
    """One reading of a program. ``nodes`` is the block under construction.

    ``functions`` are the paths of modules whose calls are told apart. With ``unranked`` outputs may have another number
    of dimensions in each branch; ``squeezes`` are the lines of those that drop a dynamic axis at some sizes.
    """

    def __init__(
        self,
        points: Points,
        handlers: dict[str, Handler],
        functions: Collection[str] = (),
        *,
        unranked: bool = False,
        squeezes: Collection[Source] = (),
    ) -> None:
        self.points = points
        self.handlers = handlers
        self.heap = Heap()
        self.nodes: list[Node] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.largest = 1  # the largest constant among the arguments of operators
        # After a write the content of a constant tensor is not known.
        self.has_written = False
        # Views of complex tensors may be conjugated or negated when they are read.
        self.has_complex = False
        self.squeezes = squeezes
        self.unranked = unranked
        self.outcomes: dict[tuple[int, ...], bool] = {}  # of the forks that are being read
        self._numbers_read: dict[Value, tuple[int, ...]] = {}
        self._functions = functions
        self._calls = itertools.count()

    def scope(self, path: str | None, method: str, outer: str) -> str:
        """The scope of a method of the module at this path; of no module with None."""
        if path is None:
            return outer
        inside = Scope.inside(path, outer)
        if method != "forward" or path not in self._functions:
            return inside
        calls = inside.calls if isinstance(inside, Scope) else ()
        return Scope(path, (*calls, (next(self._calls), path)))

    def call(self, graph: Any, arguments: Sequence[Item], path: str = "", called_at: Source | None = None) -> Item:
        """Read a function's graph with these arguments; returns its result."""
        frame = Frame(graph, path, called_at)
        for value, item in zip(graph.inputs(), arguments, strict=True):
            frame.env[value.unique()] = item
        results = self.block(frame, graph)
        return results[0] if len(results) == 1 else tuple(results)

    def block(self, frame: Frame, block: Any) -> list[Item]:
        return self._from(frame, list(block.nodes()), list(block.outputs()))

    def _from(self, frame: Frame, nodes: Sequence[Any], outputs: Sequence[Any]) -> list[Item]:
        for position, node in enumerate(nodes):
            location = Location(node, frame)
            args = [frame.env[node.inputsAt(index).unique()] for index in range(node.inputsSize())]
            try:
                results = self._read(location, args)
            except Fork as fork:
                return fork.results(functools.partial(self._from, frame, nodes[position:], outputs))
            for index, item in enumerate(results):
                frame.env[node.outputsAt(index).unique()] = item
        return [frame.env[output.unique()] for output in outputs]

    @contextlib.contextmanager
    def inside(self, nodes: list[Node]) -> Iterator[None]:
        """Let nodes be added to another block."""
        before, self.nodes = self.nodes, nodes
        try:
            yield
        finally:
            self.nodes = before

    def _read(self, location: Location, args: list[Item]) -> Sequence[Item]:
        kind = location.node.kind()
        handler = self.handlers.get(kind)
        if handler is not None:
            self.heap.location = location
            results = handler(self, location, args)
            if results is not None:
                return results
        if "mkldnn" in kind:
            raise CaptureError(
                f"{location.where}: {kind} is an operator for this machine's processor, which "
                "torch.jit.optimize_for_inference inserts; export the module without that call"
            )
        schema = location.node.schema()
        if "..." in schema or not schema.startswith(kind):
            # Operators with "..." take their arguments from TorchScript's stack: called from here they end the process.
            raise CaptureError(
                f"{location.where}: {kind} cannot be called outside of TorchScript; write this line in another way, or "
                "export the module without scripting it"
            )
        return self.run(location, kind, overload_in(schema), args)

    # Operators

    def run(self, location: Location, op: str, overload: str, args: Sequence[Item]) -> Sequence[Item]:
        """A call of an operator: computed now if all arguments are constants and no result is a tensor, else a node."""
        arguments = [plain(self._with_elements(location, item), location) for item in args]
        kinds = location.output_kinds()
        self.largest = max(self.largest, *map(largest, arguments), 1)
        inputs = bound(schema_of(op, overload), arguments)
        node = Node(op, inputs, (), overload=overload, scope=location.frame.path, source=location.source)
        if not any(map(values_in, arguments)) and "TensorType" not in str(kinds):
            return self._constant(location, node, kinds)
        outcome = decided(op, arguments, self.points)
        if outcome is not None:
            return [outcome]
        if op in READS_NUMBER and isinstance(arguments[0], Value):
            content = None if self.has_written else known_content(arguments[0])
            if content is not None and content.numel() == 1:
                return [READS_NUMBER[op](content)]
        check_flags(location, node)
        if len(kinds) == 1 and kinds[0] in SCALARS:
            return [self.scalar(node, element_kind(node) or SCALARS[kinds[0]])]
        return self._tensors(location, node, kinds)

    def emit(self, location: Location, op: str, overload: str = "", /, **inputs: Argument) -> Item:
        """Add a node with one tensor as result; it need not be in the program itself."""
        node = Node(op, inputs, (), overload=overload, scope=location.frame.path, source=location.source)
        (result,) = self._tensors(location, node, ["TensorType"])
        return result

    def add(self, location: Location, op: str, types: Sequence[Type], /, **inputs: Argument) -> list[Value]:
        """A node whose results have known types."""
        outputs = [Value(type) for type in types]
        self.nodes.append(Node(op, inputs, outputs, scope=location.frame.path, source=location.source))
        return outputs

    def size(self, location: Location, tensor: Value, dim: int) -> Item:
        """The size of a dimension: a number if it is static, else a value."""
        found = tensor.shape[dim]
        if isinstance(found, int):
            return found
        inputs = {"self": tensor, "dim": dim % len(tensor.shape)}
        value = Value(ScalarType(int), size=found)
        node = Node("aten::size", inputs, [value], overload="int", scope=location.frame.path, source=location.source)
        self.nodes.append(node)
        return value

    def number_of(self, location: Location, tensor: Value, kind: str) -> Value:
        """The element of a tensor as a number of the program."""
        op = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool"}[kind]
        node = Node(op, {"a": tensor}, (), overload="Tensor", scope=location.frame.path, source=location.source)
        return self.scalar(node, {"int": int, "float": float, "bool": bool}[kind])

    def _with_elements(self, location: Location, item: Item) -> Item:
        """A list of numbers that is one tensor of known length, as a list of its elements."""
        numbers = item.state if isinstance(item, ScriptList) else None
        if not isinstance(numbers, Value) or not numbers.is_tensor or not isinstance(numbers.shape[0], int):
            return item
        select = "aten::select", "int"
        elements = [
            self.number_of(location, self.emit(location, *select, self=numbers, dim=0, index=index), item.kind)
            for index in range(numbers.shape[0])
        ]
        return ScriptList(elements, item.kind)

    def number_node(self, location: Location, op: str, kind: type, overload: str = "", /, **inputs: Argument) -> Value:
        """A number that an operator computes at run time."""
        node = Node(op, inputs, (), overload=overload, scope=location.frame.path, source=location.source)
        return self.scalar(node, kind)

    def negated(self, location: Location, condition: Value) -> Value:
        return self.number_node(location, "aten::__not__", bool, self=condition)

    def as_tensor(self, location: Location, number: Item, dtype: torch.dtype) -> Value:
        """A number of the program as a 0-dim tensor."""
        if not isinstance(number, Value):
            return Value(TensorType(dtype, ()), data=torch.tensor(number, dtype=dtype))
        if number.is_tensor:
            return number
        return self.add(location, "prim::NumToTensor", [TensorType(dtype, ())], a=number)[0]

    def converted(self, location: Location, tensor: Value, dtype: torch.dtype, *, copy: bool = False) -> Value:
        """A tensor in another dtype; a new tensor if ``copy`` is set."""
        rest = {"non_blocking": False, "copy": copy, "memory_format": None}
        result: Value = self.emit(location, "aten::to", "dtype", self=tensor, dtype=dtype, **rest)
        return result

    def number_dtype(self, number: Value) -> torch.dtype:
        assert isinstance(number.type, ScalarType)
        return {int: torch.int64, float: torch.float64, bool: torch.bool}[number.type.kind]

    def joined(self, location: Location, types: Sequence[Type]) -> TensorType:
        """The common type of tensors that are elements of one list."""
        first = types[0]
        for other in types[1:]:
            first = self.common(location, first, other)
        assert isinstance(first, TensorType)
        return first

    def common(self, location: Location, left: Type, right: Type) -> TensorType:
        if isinstance(left, UnrankedType) or isinstance(right, UnrankedType):
            raise used_unranked(location)
        if not isinstance(left, TensorType) or not isinstance(right, TensorType):
            raise CaptureError(f"{location.where}: a list of lists of tensors whose length is only known at run time")
        if left == right:
            return left
        if left.dtype != right.dtype:
            raise CaptureError(
                f"{location.where}: a tensor is {left.dtype} in one branch or iteration and {right.dtype} in another; "
                "ONNX needs one dtype. Convert it with to() in one of them."
            )
        if left.rank != right.rank:
            raise CaptureError(
                f"{location.where}: a tensor has {left.rank} dimensions in one branch or iteration and {right.rank} in "
                "another; give it the same number in both, with unsqueeze or reshape"
            )
        pairs = zip(left.shape, right.shape, strict=True)
        return TensorType(left.dtype, tuple(a if a == b else self.points.guess() for a, b in pairs))

    def _constant(self, location: Location, node: Node, kinds: Sequence[str]) -> Sequence[Item]:
        try:
            result = operator(node.op, node.overload)(**node.inputs)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
            raise CaptureError(f"{location.where}: {node.op} cannot be computed: {error}") from error
        results = [result] if len(kinds) == 1 else list(result or ())
        return [item_of(result, location.node.outputsAt(index).type()) for index, result in enumerate(results)]

    def scalar(self, node: Node, kind: type) -> Value:
        """Add a node whose result is a number. One that is computed from sizes has its size expression."""
        numbers = self._numbers(node)
        self.points.note_conditions(node, numbers)
        value = Value(ScalarType(kind))
        if numbers is None:
            value.size = number_of(value, self._read_number(node)) if kind is int else None
        else:
            self.points.numbers[value] = numbers
            self._express(value, node, kind, numbers)
        node.outputs = [value]
        value.node = node
        self.nodes.append(node)
        return value

    def _express(self, value: Value, node: Node, kind: type, numbers: tuple[Any, ...]) -> None:
        """Note the size expression of a number. A number without one is identified by its values at the points."""
        found = expression_of(node, kind, self.points)
        at = found.at if isinstance(found, SizeExpr) else (found,) * len(numbers)
        if found is not None and at == numbers:
            if kind is int:
                value.size = cast("Size", found)
                self.points.explain(value.size)
            else:
                self.points.expressions[value] = found
        elif kind is int and numbers.count(numbers[0]) != len(numbers):
            known = {self.points.number(argument) for argument in node.values()}
            value.size = None if numbers in known else number_of(value, numbers)

    def _read_number(self, node: Node) -> tuple[int, ...]:
        """A guess for a number read from a tensor. A tensor that is read twice gives the same guess."""
        tensor = None if self.has_written else read_from(node)
        if tensor is None:
            return self.points.guess(least=0).at
        if tensor not in self._numbers_read:
            self._numbers_read[tensor] = self.points.guess(least=0).at
        return self._numbers_read[tensor]

    def run_time_number(self, value: Value) -> Value:
        """A number that is an input or a result of a block. A guess distinguishes an integer from others."""
        if value.type == ScalarType(int):
            value.size = number_of(value, self.points.guess(least=0).at)
        return value

    def _numbers(self, node: Node) -> tuple[Any, ...] | None:
        """The number at each point, if it is computed from numbers or from the sizes of a tensor only."""
        if node.op == "aten::numel":
            return values(product(node.inputs["self"].shape), self.points.count)
        if any(value.is_tensor or isinstance(value.type, SequenceType) for value in node.values()):
            return None
        function = operator(node.op, node.overload)
        numbers = []
        for point in range(self.points.count):
            arguments = {name: self.points.at(argument, point) for name, argument in node.inputs.items()}
            try:
                numbers.append(function(**arguments))
            except (RuntimeError, ValueError, ZeroDivisionError):
                return None
        return tuple(numbers)

    def _tensors(self, location: Location, node: Node, kinds: Sequence[str]) -> list[Item]:
        try:
            if depends_on_data(node):
                results = self._results(node, self.points.counted(node), kinds)
            else:
                results = self._typed(location, node, kinds)
        except WithoutMeta:
            results = self._results(node, self.points.without_meta(node), kinds)
        for output in node.outputs:
            output.node = node
        self.points.note_results(node)
        self.has_written |= writes(node)
        self.has_complex |= any(value.is_tensor and value.dtype.is_complex for value in node.outputs)
        if node.outputs or writes(node):
            self.nodes.append(node)
        return results

    def _results(self, node: Node, types: Sequence[TensorType], kinds: Sequence[str]) -> list[Item]:
        node.outputs = [Value(type) for type in types]
        node.returns_list = list(kinds) == ["ListType"]
        return [ScriptList(list(node.outputs), "Tensor")] if node.returns_list else list(node.outputs)

    def _typed(self, location: Location, node: Node, kinds: Sequence[str]) -> list[Item]:
        """The results of an operator whose sizes follow from those of its arguments."""
        results: list[Item] = []
        rows, shapes = self.points.typed(node)
        known_shapes = iter(shapes or ())
        for index, column in enumerate(zip(*rows, strict=True)):
            if isinstance(column[0], torch.Tensor):
                node.outputs.append(Value(self._type(location, column, next(known_shapes, None))))
                results.append(node.outputs[-1])
            elif isinstance(column[0], (list, tuple)):
                results.append(self._list(location, node, column, known_shapes, only=len(kinds) == 1))
            elif any(other != column[0] for other in column):
                raise CaptureError(f"{location.where}: {node.op} returns a number that is only known at run time")
            else:
                results.append(column[0] if index < len(kinds) else None)
        return results

    def _type(self, location: Location, column: Sequence[Any], shape: Shape | None) -> TensorType:
        try:
            return self.points.type_of(column, shape)
        except CaptureError as error:
            raise CaptureError(f"{location.where}: {error}") from None

    def _list(
        self, location: Location, node: Node, column: Sequence[Any], shapes: Iterator[Shape], *, only: bool
    ) -> ScriptList:
        """A list of tensors that an operator returns: one value each if their number is the same at every point."""
        if not only:
            raise CaptureError(f"{location.where}: {node.op} returns a list beside tensors, which is not supported")
        if any(not isinstance(element, torch.Tensor) for result in column for element in result):
            raise CaptureError(f"{location.where}: {node.op} returns a list of numbers that are only known at run time")
        counts = {len(result) for result in column}
        if len(counts) == 1:
            parts = list(zip(*column, strict=True))
            node.outputs = [Value(self._type(location, part, next(shapes, None))) for part in parts]
            node.returns_list = True
            return ScriptList(list(node.outputs), "Tensor")
        elements = [element for result in column for element in result]
        first = self.points.types([elements[0]])
        shape = tuple(
            length if all(element.shape[axis] == length for element in elements) else self._common(column, axis)
            for axis, length in enumerate(first.shape)
        )
        sequence = Value(SequenceType(TensorType(first.dtype, shape)))
        node.op, node.overload, node.outputs = f"onnxport::{node.op.partition('::')[2]}_sequence", "", [sequence]
        return ScriptList(sequence, "Tensor")

    def _common(self, column: Sequence[Any], axis: int) -> Any:
        """The size along an axis of all elements at each point; a guess where the elements of one point differ."""
        lengths = [{element.shape[axis] for element in result} for result in column]
        if all(len(found) == 1 for found in lengths):
            return self.points.explain(size(found.pop() for found in lengths))
        return self.points.guess()
