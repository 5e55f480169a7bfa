"""Builds the captured graph of a record, with every size as an expression of the dynamic axes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.build.attempts import acceptance
from onnxport.capture.build.blocks import Blocks, not_made_yet
from onnxport.capture.build.choices import Chooser, Sides, Turned
from onnxport.capture.build.contents import Contents, is_dynamic
from onnxport.capture.build.decisions import Step, follows_axes
from onnxport.capture.build.numbers import Numbers
from onnxport.capture.build.python_tensors import PythonTensors, dtype_of
from onnxport.capture.build.scripts import ScriptReader
from onnxport.capture.build.seeds import seeded_node
from onnxport.capture.record.calls.autograd_functions import FunctionCall
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.calls.script_calls import ScriptCall
from onnxport.capture.record.record import TENSOR_OF, Call, Choice, Loss, Number, Read, Record, Ref, leaves
from onnxport.capture.record.tensors.parts import ITEM
from onnxport.capture.sizes.guesses import OneSize
from onnxport.capture.sizes.points import depends_on_data
from onnxport.capture.sizes.record_points import RecordPoints, example_types
from onnxport.graph.functionalize.views import kept_axis, squeezed_sizes
from onnxport.graph.interpret import writes
from onnxport.graph.ir import (
    Argument,
    Block,
    Graph,
    Node,
    ScalarType,
    SequenceType,
    TensorType,
    Type,
    Value,
    schema_of,
)
from onnxport.graph.sizes import Operand, Shape, SizeExpr, exact, leaves_of
from onnxport.graph.sizes.expr import AXIS
from onnxport.graph.sizes.shapes import values

# The method that would make a plain number of a tensor, for each way in which Python drops an expression.
LOST_AS = {
    "int": "__int__",
    "float": "__float__",
    "index": "__index__",
    "len": "__len__",
    "text": "__format__",
    "numpy": "__array__",
}


@dataclass
class Built:
    """The graph of a record.

    ``path`` has its conditions, ``losses`` the dynamic numbers with a dropped expression, and ``frozen`` the reads of
    content that the graph does not follow.
    """

    graph: Graph
    path: list[Step]
    losses: list[tuple[Loss, Any]]
    frozen: list[tuple[Read, bool]]
    warnings: list[str]


class GraphBuilder:
    """One walk over a record. ``shapes`` are those of the inputs; ``parameters`` names the weights among constants."""

    def __init__(
        self,
        record: Record,
        shapes: Sequence[Shape],
        parameters: Mapping[int, tuple[str, torch.Tensor]],
        points: RecordPoints,
        sides: Sides | None = None,
    ) -> None:
        self.record = record
        self.points = points
        self.nodes: list[Node] = []
        self.values: dict[int, Argument] = {}
        self.parameters: dict[int, Value] = {}
        self._path: list[Step] = []  # the conditions so far
        self._parameters = parameters
        self.numbers = Numbers(self)
        self.tensors = PythonTensors(self)
        self._next_read = self._next_loss = 0
        self._dropped: list[tuple[Loss, Any]] = []  # numbers so far with a dropped expression
        self._sides = sides or Sides()
        self.frozen: list[tuple[Read, bool]] = []
        self._warnings: list[str] = []
        dtypes = [record.types[ref.number][0] for ref in record.inputs]
        self.inputs = [Value(TensorType(dtype, shape)) for dtype, shape in zip(dtypes, shapes, strict=True)]
        leaves = [leaf for shape in shapes for size in shape for leaf in leaves_of(size)]
        self._axes = {leaf.operands[0]: leaf for leaf in leaves if leaf.op == AXIS}
        self.contents = Contents(self.inputs, points)
        for ref, value in zip(record.inputs, self.inputs, strict=True):
            self.know(ref, value)
        for number, (name, tensor) in parameters.items():
            value = Value(TensorType(tensor.dtype, tuple(tensor.shape)), name=name, data=tensor)
            self.values[number] = self.parameters[number] = value
        self._blocks = Blocks(self, self.numbers)
        self._scripts = ScriptReader(self, {id(parameters[n][1]): value for n, value in self.parameters.items()})

    def build(self) -> Built:
        self.points.dead.update(self._sides.open or {})
        for index, call in enumerate(self.record.calls):
            self._check_conditions(index)
            self._call(call)
        self._check_conditions(len(self.record.calls))
        outputs = [self._output(leaf) for leaf in self.record.outputs]
        block = Block(self.inputs, self.nodes, outputs)
        graph = Graph(block, list(self.parameters.values()), captures=self.points.count)
        dropped = [(loss, expression) for loss, expression in self._dropped if isinstance(expression, SizeExpr)]
        self.frozen += [self._frozen_loss(loss) for loss, expression in dropped if self.points.follows_data(expression)]
        by_size = [pair for pair in dropped if not self.points.follows_data(pair[1])]
        self.frozen += self._unrolled()
        return Built(graph, self._path, by_size, self.frozen, list(dict.fromkeys(self._warnings)))

    def _unrolled(self) -> list[tuple[Read, bool]]:
        """Lists of parts with a data-dependent length: the graph has as many parts as the run."""
        reported = {read.source for read, _ in self.frozen if read.how == "parts"}
        found = [(node.source, count) for node, count in self.points.unrolled.items() if node.source not in reported]
        return [(Read("parts", Ref(-1), count, source, False, 0, {}), True) for source, count in found]

    def _check_conditions(self, index: int) -> None:
        """Mark the points as dead at which a condition before this call has another outcome."""
        conditions, reads = self.record.conditions, self.record.reads
        while len(self._path) < len(conditions) and conditions[len(self._path)].after <= index:
            condition = conditions[len(self._path)]
            left, right = self.resolve(condition.left), self.resolve(condition.right)
            step = Step(len(self._path), condition, left, right, exact(condition.op, left, right))
            self._path.append(step)
            if isinstance(step.expression, SizeExpr):
                self._check_condition(step)
        for loss in itertools.takewhile(lambda loss: loss.after <= index, self.record.losses[self._next_loss :]):
            self._dropped.append((loss, self.resolve(loss.number)))
            self._next_loss += 1
        while self._next_read < len(reads) and reads[self._next_read].after <= index:
            self._check_read(reads[self._next_read])
            self._next_read += 1

    def _check_condition(self, step: Step) -> None:
        if self.points.follows_data(step.expression):
            self._check_data(step)
            return
        by_paths = self._sides.open is not None and follows_axes(step.expression, self._axes)
        if not by_paths:
            self._kill(Turned(step.condition, step.index), step.expression.at, step.condition.outcome)

    def _check_data(self, step: Step) -> None:
        """A condition on a data-dependent number. If it requires two numbers to be equal, they become one."""
        condition = step.condition
        where = condition.source, condition.by_torch, condition.after, condition.names
        drawn = self._are_drawn(condition.left, condition.right)
        read = Read("compare", Ref(-1), condition.outcome, *where, drawn)
        if condition.op == "eq" and condition.outcome:
            try:
                self.points.unify(step.left, step.right)
            except OneSize as found:
                found.frozen = read
                raise
        self.frozen.append((read, True))

    def _check_read(self, read: Read) -> None:
        """What Python read of a tensor that follows from sizes is a condition on them; else it is frozen."""
        value = self.value(read.of)
        depends = self.contents.depends_on_inputs(value)
        known = None if depends else self.contents.at_points(value)
        if known is not None:
            outcomes = [_as_read(content, read.value) for content in known]
            self._kill(Turned(read), outcomes, outcomes[0])
        self.frozen.append((replace(read, drawn=self.contents.is_drawn(value)), depends))

    def _are_drawn(self, *numbers: Any) -> bool:
        """Whether numbers that were read from tensors are random ones."""
        read = [ref for leaf in leaves(*numbers) for ref in leaf.operands if isinstance(ref, Ref)]
        return bool(read) and all(self.contents.is_drawn(self.value(ref)) for ref in read)

    def _frozen_loss(self, loss: Loss) -> tuple[Read, bool]:
        """A number read from data that became a plain one."""
        how, drawn = LOST_AS.get(loss.how, loss.how), self._are_drawn(loss.number)
        index = loss.source, loss.by_torch, loss.after, loss.names
        return Read(how, Ref(-1), loss.number.value, *index, drawn), True

    def _kill(self, turned: Turned, outcomes: Sequence[Any], outcome: Any) -> None:
        for point, found in enumerate(outcomes):
            if found != outcome:
                self.points.dead.setdefault(point, turned)

    # Calls

    def _call(self, call: Call) -> None:
        if call.op == TENSOR_OF:
            numbers, shape, dtype = call.args
            if isinstance(numbers, Choice):
                made: Any = self._chosen(numbers, call)
            elif any(isinstance(number, Ref) for number in numbers):
                return self._blocks.join_numbers(call, self.tensors)
            else:
                made = self.tensors.of_numbers([self.argument(number, call) for number in numbers], shape, dtype, call)
            return self.know(call.results[0], made)
        if isinstance(call.op, Mark):
            return self._blocks.read(call)
        if call.op == ITEM:
            return self._blocks.take(call)
        if isinstance(call.op, FunctionCall):
            return self._blocks.end_function(call)
        if isinstance(call.op, ScriptCall):
            return self._scripts.read(call)
        schema = call.op._schema
        op, overload = schema.name, schema.overload_name
        inputs = self.bound(call)
        if _has_list(inputs.get("tensors")):
            return self._blocks.join(op, inputs, call)
        node = Node(op, inputs, (), overload=overload, scope=call.scope, source=call.source)
        node.returns_list = call.returns_list
        if op in ("aten::squeeze", "aten::squeeze_"):
            self._keep_axes(node)
        types = self._types(node, call)
        drawn = {ref.number for ref in call.results if ref is not None} & self.record.drawn.keys()
        if drawn & self.record.seeded:
            node = seeded_node(node, types, self._seeded(call), self.contents.depends_on_inputs)
        self.finish(node, types, call.results)
        if drawn - self.record.seeded:
            self.contents.is_random(node)
        return None

    def attempted(self, number: Number) -> Operand:
        """Whether an operator accepts its arguments."""
        op, structure, source, *leaves = number.operands
        args, kwargs = compat.tree_unflatten(leaves, structure)
        inputs = self.bound(Call(op, args, kwargs, [], source, ""))
        name, overload = op._schema.name, op._schema.overload_name
        found = acceptance(Node(name, inputs, (), overload=overload, source=source), number.value, self.points)
        if found is None:
            self.frozen.append((Read("raise", Ref(-1), name, source, False, 0, {}), True))
        return bool(number.value) if found is None else found

    def _seeded(self, call: Call) -> list[Value]:
        """The random numbers of a call, which are constants."""
        drawn = [self.record.drawn[ref.number].content for ref in call.results]
        return [Value(TensorType(tensor.dtype, tuple(tensor.shape)), data=tensor) for tensor in drawn]

    def _keep_axes(self, node: Node) -> None:
        """Name the axes that a squeeze drops if sizes decide on them: what it drops at others is another path."""
        sizes = squeezed_sizes(node)
        dynamic = [size for size in sizes.values() if isinstance(size, SizeExpr)]
        if any(map(self.points.follows_data, dynamic)):
            self._warnings.append(kept_axis(node.source))
        if dynamic:
            node.overload = "dims"
            node.inputs["dim"] = [axis for axis, size in sizes.items() if values(size, 1)[0] == 1]

    def finish(self, node: Node, types: Sequence[Type], results: Sequence[Ref | None]) -> None:
        node.outputs = [Value(type) for type in types]
        for output in node.outputs:
            output.node = node
        self.nodes.append(node)
        if writes(node):
            self.contents.note_write(node)
        for ref, output in zip(results, node.outputs, strict=True):
            if ref is not None:
                self.know(ref, output)

    def know(self, ref: Ref, value: Value) -> None:
        self.values[ref.number] = value
        if value.is_tensor:
            self.numbers.carry(value)

    def bound(self, call: Call) -> dict[str, Argument]:
        """The arguments by the names of the schema, defaults included."""
        schema = schema_of(call.op._schema.name, call.op._schema.overload_name)
        assert schema is not None, call.op
        inputs: dict[str, Argument] = {}
        for index, parameter in enumerate(schema.parameters):
            if index < len(call.args):
                inputs[parameter.name] = self.argument(call.args[index], call)
            elif parameter.name in call.kwargs:
                inputs[parameter.name] = self.argument(call.kwargs[parameter.name], call)
            else:
                inputs[parameter.name] = parameter.default
        return inputs

    def argument(self, recorded: Any, call: Call) -> Argument:
        if isinstance(recorded, Ref):
            return self.value(recorded)
        if isinstance(recorded, Number):
            return self.number_value(self.resolve(recorded), call)
        if isinstance(recorded, Choice):
            return self._chosen(recorded, call)
        if isinstance(recorded, (list, tuple)):
            return [self.argument(element, call) for element in recorded]
        return recorded

    def _chosen(self, choice: Choice, call: Call) -> Argument:
        """A number, or a tensor that Python filled, for all paths."""
        chooser, options = self._chooser(), choice.options
        if any(isinstance(option, torch.Tensor) for option in options.values()):
            return self.tensors.chosen(options, lambda numbers: chooser.choose(numbers, call), call)
        return self.number_value(self.expression(choice, call), call)

    def expression(self, number: Any, call: Call) -> Any:
        """A number of the record, which may differ between paths."""
        if not isinstance(number, Choice):
            return self.resolve(number)
        resolved = {side: self.resolve(option) for side, option in number.options.items()}
        return self._chooser().choose(resolved, call)

    def _chooser(self) -> Chooser:
        dropped = [expression for _, expression in self._dropped]
        dropped += [size for value in self.inputs for size in value.shape]
        asked = {step.index: step.expression for step in self._path}
        return Chooser(self._sides, asked, self._axes, dropped)

    def value(self, ref: Ref) -> Value:
        found = self.values.get(ref.number)
        if found is None:
            tensor = self.record.constants.get(ref.number)
            if tensor is None:
                raise not_made_yet(self.record, ref)
            found = self.values[ref.number] = Value(TensorType(tensor.dtype, tuple(tensor.shape)), data=tensor.detach())
        assert isinstance(found, Value)
        return found

    # Types

    def _types(self, node: Node, call: Call) -> list[TensorType]:
        if depends_on_data(node):
            return self.points.counted(node, example_types(self.record.types, call.results))
        seen = example_types(self.record.types, call.results)
        return self.points.result_types(node, seen) if any(map(is_dynamic, node.values())) else seen

    # Numbers

    def resolve(self, number: Any) -> Any:
        """A number of the run as an expression over the graph's values, or a plain number."""
        return self.numbers.resolve(number)

    def number_value(self, expression: Any, call: Call) -> Argument:
        """An expression as an argument of a node."""
        return self.numbers.value(expression, call)

    def forget(self, inner: set[Value], known: set[int]) -> None:
        """Forget the values of a block and their sizes when it ends, except those known before."""
        for number in self.values.keys() - known - self.record.constants.keys():
            del self.values[number]
        self._dropped = [
            (loss, number) for loss, number in self._dropped if not self.numbers.is_read_from(number, inner)
        ]
        self.numbers.forget(inner)

    def _output(self, leaf: Any) -> Value:
        if isinstance(leaf, Ref):
            return self.value(leaf)
        call = Call(None, (), {}, [], None, "")
        number = self.argument(leaf, call)
        if not isinstance(number, Value):
            tensor = torch.tensor(number)
            return Value(TensorType(tensor.dtype, ()), data=tensor)
        if number.is_tensor:
            return number
        dtype = torch.float32 if number.type == ScalarType(float) else dtype_of(number)
        return self.tensors.scalar(number, dtype, call)


def _has_list(tensors: Any) -> bool:
    """Whether there is a list with a tensor for each iteration of a loop among tensors."""
    parts = tensors if isinstance(tensors, list) else [tensors]
    return any(isinstance(part, Value) and isinstance(part.type, SequenceType) for part in parts)


def _as_read(content: Any, value: Any) -> Any:
    """A content in the form in which Python read it."""
    if isinstance(content, torch.Tensor) and isinstance(value, (bool, int, float)):
        return type(value)(content.item()) if content.numel() == 1 else value
    return content.tolist() if isinstance(content, torch.Tensor) else content
