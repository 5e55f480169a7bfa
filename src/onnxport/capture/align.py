"""Lays the traces of one model at several sizes side by side and reads them as one graph."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from onnxport.capture.binding import bound
from onnxport.capture.branching import Branching
from onnxport.capture.functions import PYTHON_OP, common_call
from onnxport.capture.parting import parting, rewiring
from onnxport.capture.parts import without_unused_parts
from onnxport.capture.reader import MARKS, PACKS, Origin, Record, Trace
from onnxport.capture.script.calls import CALLS, Calls
from onnxport.capture.script.points import LEAST_POINTS, MorePoints, OneSize, Points, Settled
from onnxport.capture.sizes import Sizes
from onnxport.capture.varying import Making, made
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.dims import Dim, Size, product, size
from onnxport.graph.dims import values as sizes_at
from onnxport.graph.doubts import Doubt, ordered_sizes
from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import (
    BAKED,
    Argument,
    Block,
    Graph,
    Node,
    ScalarType,
    TensorType,
    Value,
    Varying,
    schema_of,
)

SCALAR_KINDS: dict[str, type] = {"IntType": int, "FloatType": float, "BoolType": bool, "NumberType": float}
# Passing a number from one Python type to another; all of them by evaluation where the number comes from sizes.
CONVERSIONS = frozenset(
    {"aten::Int", "aten::Float", "aten::ScalarImplicit", "aten::IntImplicit", "aten::FloatImplicit"}
)
INTEGERS = (torch.int64, torch.int32)
# Functions of a size that may be equal at several sizes and another at the next.
MAY_COINCIDE = frozenset(
    f"aten::{name}"
    for name in ("remainder", "floor_divide", "div", "clamp", "minimum", "maximum", "min", "max", "fmod")
)

REMAINDERS = frozenset({"aten::remainder", "aten::fmod"})
COMPARISONS = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))

UNKNOWN = object()
NOWHERE = Origin(source=None, scope="")

# How often the traces are laid side by side until the sizes in scripted code fit.
MOST_READINGS = 40


class Aligner:
    """Walks all traces in step; ``env`` maps a value's number in the first trace to what it is in the
    common graph, ``constants`` the numbers that a constant has in all of them."""

    def __init__(
        self,
        traces: Sequence[Trace],
        points: Sequence[Sizes] = (),
        settled: Settled | None = None,
    ) -> None:
        self.traces = traces
        self.numbers: dict[Value, tuple[Any, ...]] = {}
        alike = [next(i for i, other in enumerate(traces) if other is trace) for trace in traces]
        self.scripts = Calls(traces[0].scripts, Points(len(traces), dict(settled or {}), alike), self.numbers)
        self.points = points
        self.env: dict[int, Argument] = {}
        self.constants: dict[tuple[int, ...], Argument] = {}
        self.positions: list[dict[int, int]] = [{} for _ in traces]
        self.nodes: list[Node] = []
        self.outermost = self.nodes  # what the branches around the present one lie in
        self.branching = Branching()
        self.coincidence = False
        self.doubts: list[Doubt] = []

    def graph(self, input_count: int, parameters: Sequence[tuple[str, torch.Tensor]]) -> Graph:
        entries = self._enter()
        for value, (name, tensor) in zip(entries[input_count:], parameters, strict=True):
            value.name, value.data = name, tensor
            self.scripts.parameters[id(tensor)] = value
        if self.traces[0].holder is not None:
            self._bind([trace.holder or 0 for trace in self.traces], None)
        if len({len(trace.records) for trace in self.traces}) == 1:
            for row in zip(*(trace.records for trace in self.traces), strict=True):
                self._read(row)
        else:
            self._report_parting()
        self._check_outputs()
        outputs = [self._output(numbers) for numbers in zip(*(trace.outputs for trace in self.traces), strict=True)]
        block = Block(entries[:input_count], self.nodes, outputs)
        graph = Graph(block, entries[input_count:], captures=len(self.traces), coincidence=self.coincidence)
        graph.doubts = [*self.doubts, *self.scripts.points.doubts]
        return graph

    def _enter(self) -> list[Value]:
        types = zip(*(trace.input_types for trace in self.traces), strict=True)
        entries = [Value(self._tensor_type(kinds)) for kinds in types]
        for numbers, value in zip(zip(*(trace.inputs for trace in self.traces), strict=True), entries, strict=True):
            self._bind(numbers, value)
        return entries

    def _bind(self, numbers: Sequence[int], argument: Argument) -> None:
        """Give the value with these numbers in the traces its place in the common graph."""
        self.env[numbers[0]] = argument
        if len(numbers) == 1:
            return  # nothing to be compared with
        place = len(self.positions[0])
        for positions, number in zip(self.positions, numbers, strict=True):
            positions[number] = place

    def _read(self, row: tuple[Record, ...]) -> None:
        self._check_alike(row)
        first = row[0]
        given = [self._argument(first, numbers) for numbers in zip(*[record.inputs for record in row], strict=True)]
        if first.kind in PACKS:
            return self._bind_all(row, [given])
        if first.kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            return self._unpack(row, given[0])
        if first.kind == "prim::NumToTensor":
            return self._number_to_tensor(row, given[0])
        if first.kind == PYTHON_OP:
            return self._function(row, given)
        if first.kind == "prim::GetAttr":
            return self._bind_all(row, [self.scripts.module(int(first.constant.rpartition("_")[2]))])
        if first.kind in CALLS:
            return self._bind_all(row, [self.scripts.call(first, given, self.nodes)])
        if first.kind in MARKS:
            traced = self._new_values(row)
            self.nodes, results = self.branching.read(first, self.nodes, given, traced)
            return self._bind_all(row, results)
        if first.kind in CONVERSIONS and not isinstance(given[0], Value):
            return self._bind_all(row, [given[0]])
        self._operator(row, given)
        return None

    def _check_alike(self, row: tuple[Record, ...]) -> None:
        if len(row) == 1:
            return
        first = row[0]
        wiring = [self.positions[0].get(number) for number in first.inputs]
        for index, (positions, record) in enumerate(zip(self.positions[1:], row[1:], strict=True), start=1):
            if record.kind != first.kind or record.overload != first.overload:
                self._report_parting()
            if [positions.get(number) for number in record.inputs] != wiring:
                self._report_rewiring(row, index)
            if len(record.outputs) != len(first.outputs):
                self._report_parting()

    def _check_outputs(self) -> None:
        returned = [[at.get(n) for n in trace.outputs] for at, trace in zip(self.positions, self.traces, strict=True)]
        if any(places != returned[0] for places in returned[1:]):
            raise DynamicAxisError(
                "the model returns other tensors, or in another order, at another size of its dynamic axes: a "
                "condition on a size decides what it returns. Return the same at every size, or leave the axis static."
            )

    def _bind_all(self, row: tuple[Record, ...], arguments: Sequence[Argument]) -> None:
        columns = zip(*[record.outputs for record in row], strict=True)
        for numbers, argument in zip(columns, arguments, strict=True):
            self._bind(numbers, argument)

    def _argument(self, record: Record | None, numbers: tuple[int, ...]) -> Argument:
        """What is in one place of an operator's arguments, which has these numbers in the traces."""
        found = self.env.get(numbers[0], UNKNOWN)
        if found is UNKNOWN:
            found = self.constants.get(numbers, UNKNOWN)
        if found is UNKNOWN:
            contents = [trace.constants[number] for trace, number in zip(self.traces, numbers, strict=True)]
            found = self.constants[numbers] = self._constant(contents, record)
        return found

    def _constant(self, contents: Sequence[Any], record: Record | None) -> Argument:
        """A constant that an operator is given, or that the model returns."""
        first = contents[0]
        if not all(_same(first, other) for other in contents[1:]):
            if all(type(content) is list and len(content) == len(first) for content in contents):
                return [self._constant(column, record) for column in zip(*contents, strict=True)]
            origin = NOWHERE if record is None else record.origin
            if all(type(content) in (int, float) for content in contents):
                return self._baked_number(origin, contents)
            value = self._made(origin, contents) if isinstance(first, torch.Tensor) else None
            return value or Varying(tuple(contents), origin["source"])
        if isinstance(first, torch.Tensor):
            value = Value(TensorType(first.dtype, tuple(first.shape)), data=first)
            if first.dim() == 0 and first.dtype in INTEGERS:
                self._know(value, (int(first),) * len(contents))
            return value
        return first

    def _made(self, origin: Origin, tensors: Sequence[torch.Tensor]) -> Value | None:
        def node(op: str, overload: str, inputs: dict[str, Argument], output: Value) -> Node:
            made = Node(op, inputs, [output], overload=overload, **origin)
            self.outermost.append(made)
            return made

        return made(tensors, Making(lambda numbers: self._baked_number(origin, numbers), node))

    def _baked_number(self, origin: Origin, numbers: Sequence[int | float]) -> Value:
        """A number that Python computed from a size: it follows the sizes, but nobody knows how it was computed."""
        value = Value(ScalarType(int if all(type(number) is int for number in numbers) else float))
        node = Node(BAKED, {"at": tuple(numbers)}, [value], **origin)
        self.outermost.append(node)  # it may be used after the branch that is being read
        self._know(value, tuple(numbers))
        return value

    def _unpack(self, row: tuple[Record, ...], packed: Argument) -> None:
        if isinstance(packed, Node):
            packed.outputs = self._new_values(row)
            for output in packed.outputs:
                output.node = packed
            packed = packed.outputs
        if isinstance(packed, Value):
            packed = self._unpack_beside(row, packed)
        self._bind_all(row, packed)

    def _unpack_beside(self, row: tuple[Record, ...], packed: Value) -> list[Value]:
        """The elements of a list that a node gives beside other results, in its place among them."""
        node = packed.node
        assert node is not None
        elements = self._new_values(row)
        place = next(place for place, output in enumerate(node.outputs) if output is packed)
        node.outputs[place : place + 1] = elements
        for element in elements:
            element.node = node
        return elements

    def _number_to_tensor(self, row: tuple[Record, ...], number: Argument) -> None:
        if isinstance(number, Value):
            node = self._node(row[0], {"a": number}, [Value(TensorType(torch.int64, ()))])
            node.outputs[0].type = TensorType(row[0].types[0][0], ())
            self._know(node.outputs[0], self.numbers.get(number))
            self._bind_all(row, node.outputs)
        elif isinstance(number, Varying):
            self._bind_all(row, [number])
        else:
            tensor = torch.tensor(number)
            value = Value(TensorType(tensor.dtype, ()), data=tensor)
            self._know(value, (number,) * len(row))
            self._bind_all(row, [value])

    def _function(self, row: tuple[Record, ...], given: Sequence[Argument]) -> None:
        first = row[0]

        def follow(numbers: Sequence[int | float]) -> Argument:
            return self._baked_number(first.origin, numbers)

        inputs = common_call([record.constant for record in row], given, first.source, follow)
        outputs = self._new_values(row)
        self._bind_all(row, self._node(first, inputs, outputs).outputs)

    def _operator(self, row: tuple[Record, ...], given: Sequence[Argument]) -> None:
        first = row[0]
        schema = schema_of(first.kind, first.overload)
        inputs = bound(schema, given)
        if first.types == ("ListType",):
            if first.kind == "aten::size":
                return self._bind_all(row, [self._all_sizes(first, inputs["self"])])
            node = self._node(first, inputs, [])
            node.returns_list = True
            return self._bind_all(row, [node])
        outputs = self._new_values(row)
        if first.kind == "aten::size":
            return self._bind_all(row, [self._size(first, inputs["self"], inputs["dim"])])
        node = Node(first.kind, inputs, outputs, overload=first.overload)
        numbers = self._evaluate(node)
        if len(row) > 1:
            self.doubts += [Doubt(*pair, first.source) for pair in ordered_sizes(node, numbers)]
        if self._may_turn(node, numbers):
            numbers = None
        if numbers is not None and numbers.count(numbers[0]) == len(numbers):
            varies = any(isinstance(value.size, Dim) for value in node.values())
            self.coincidence = self.coincidence or (varies and node.op in MAY_COINCIDE)
            return self._bind_all(row, [self._known_constant(outputs[0], numbers)])
        origin = first.origin
        node.scope, node.source = origin["scope"], origin["source"]
        self.nodes.append(node)
        self._know(outputs[0] if outputs else None, numbers)
        self._bind_all(row, outputs)
        return None

    def _may_turn(self, node: Node, numbers: tuple[Any, ...] | None) -> bool:
        """Whether sizes that were not traced decide what a node gives: it compares sizes that vary, or divides them by
        more than any of them was."""
        if node.op in COMPARISONS:
            return any(isinstance(value.size, Dim) for value in node.values())
        return node.op in REMAINDERS and numbers is not None and numbers == self.numbers.get(node.values()[0])

    def _size(self, record: Record, tensor: Value, dim: int) -> Argument:
        """One size of a tensor: a number if it is the same in every trace, else a value."""
        if not isinstance(dim, int):
            raise DynamicAxisError(
                f"{record.source or 'the model'}: the model asks for the size of another axis at another size"
            )
        found = tensor.shape[dim]
        if isinstance(found, int):
            return found
        inputs = {"self": tensor, "dim": dim % len(tensor.shape)}
        value = Value(ScalarType(int))
        node = Node("aten::size", inputs, [value], overload="int", **record.origin)
        self.nodes.append(node)
        self._know(value, found.at)
        return value

    def _all_sizes(self, record: Record, tensor: Value) -> list[Argument]:
        return [self._size(record, tensor, dim) for dim in range(len(tensor.shape))]

    def _evaluate(self, node: Node) -> tuple[Any, ...] | None:
        """What the node yields in each trace, if it computes a number from sizes and constants alone."""
        if len(node.outputs) != 1 or not _is_number(node.outputs[0]):
            return None
        if node.op == "aten::numel" and isinstance(node.inputs["self"], Value):
            return sizes_at(product(node.inputs["self"].shape), len(self.traces))
        given = list(node.values())
        if not given or any(value not in self.numbers for value in given):
            return None
        results = []
        for capture in range(len(self.traces)):
            arguments = {name: self._at(argument, capture) for name, argument in node.inputs.items()}
            with contextlib.suppress(RuntimeError, TypeError):
                result = evaluate(node, arguments)[0]
                results.append(result.item() if isinstance(result, torch.Tensor) else result)
        return tuple(results) if len(results) == len(self.traces) else None

    def _at(self, argument: Argument, capture: int) -> Any:
        if isinstance(argument, Value):
            number = self.numbers[argument][capture]
            return torch.tensor(number, dtype=argument.dtype) if argument.is_tensor else number
        if isinstance(argument, Varying):
            return argument.at[capture]
        if isinstance(argument, list):
            return [self._at(element, capture) for element in argument]
        return argument

    def _know(self, value: Value | None, numbers: tuple[Any, ...] | None) -> None:
        if value is None or numbers is None:
            return
        self.numbers[value] = numbers
        if all(isinstance(number, int) for number in numbers):
            value.size = size(numbers)

    def _known_constant(self, like: Value, numbers: tuple[Any, ...]) -> Argument:
        if not like.is_tensor:
            return numbers[0]
        value = Value(like.type, data=torch.tensor(numbers[0], dtype=like.dtype))
        self._know(value, numbers)
        return value

    def _node(self, record: Record, inputs: dict[str, Argument], outputs: list[Value]) -> Node:
        node = Node(record.kind, inputs, outputs, overload=record.overload, **record.origin)
        self.nodes.append(node)
        return node

    def _new_values(self, row: tuple[Record, ...]) -> list[Value]:
        return [self._new_value(types) for types in zip(*[record.types for record in row], strict=True)]

    def _new_value(self, types: Sequence[Any]) -> Value:
        if isinstance(types[0], str):
            return Value(ScalarType(SCALAR_KINDS.get(types[0], float)))
        return Value(self._tensor_type(types))

    def _tensor_type(self, types: Sequence[Any]) -> TensorType:
        if len(types) == 1:
            return TensorType(types[0][0] or torch.float32, types[0][1] or ())
        shapes = [shape or () for _, shape in types]
        if len({len(shape) for shape in shapes}) != 1:
            self._report_parting()
        shape: tuple[Size, ...] = tuple(size(column) for column in zip(*shapes, strict=True))
        return TensorType(types[0][0] or torch.float32, shape)

    def _output(self, numbers: tuple[int, ...]) -> Value:
        argument = self._argument(None, numbers)
        if isinstance(argument, Value):
            return argument
        raise DynamicAxisError(f"an output of the model is a constant that differs between sizes: {argument}")

    def _report_rewiring(self, row: tuple[Record, ...], other: int) -> NoReturn:
        raise rewiring(row, self.points, other)

    def _report_parting(self) -> NoReturn:
        raise parting(self.traces, self.points)


def _is_number(value: Value) -> bool:
    return not value.is_tensor or value.shape == ()


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.shape == right.shape and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    return type(left) is type(right) and bool(left == right)


def align(
    traces: Sequence[Trace],
    input_count: int,
    parameters: Sequence[tuple[str, torch.Tensor]],
    points: Sequence[Sizes] = (),
) -> Graph:
    """The graph common to all traces, made at these points; raises `DynamicAxisError` where they part.

    Numbers that only run time knows in scripted code need more captures than there are traces: these come again.
    """
    settled: Settled = {}
    traces = without_unused_parts(traces)
    rows, at = traces, points
    for _ in range(MOST_READINGS):
        try:
            return Aligner(rows, at, settled).graph(input_count, parameters)
        except MorePoints:
            rows = [traces[index % len(traces)] for index in range(LEAST_POINTS)]
            at = [points[index % len(points)] for index in range(LEAST_POINTS)] if points else points
        except OneSize as found:
            found.settle(settled)
    raise CaptureError("the sizes in the scripted code of this model depend on each other in a way that was not found")
