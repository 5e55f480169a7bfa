"""Branches, loops and autograd Functions of a record: the calls between two marks become a block of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.capture.build.building import Building
from onnxport.capture.build.numbers import Numbers
from onnxport.capture.build.python_tensors import PythonTensors
from onnxport.capture.record.calls.autograd_functions import FunctionCall
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import Call, Number, Record, Ref
from onnxport.capture.sizes.points import Varying
from onnxport.capture.sizes.record_points import Refused
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.ir import Argument, Block, Node, PythonCall, ScalarType, SequenceType, TensorType, Type, Value
from onnxport.graph.ranks import unranked_type
from onnxport.graph.sizes import Size, SizeExpr, number_of
from onnxport.graph.sizes.expr import node
from onnxport.graph.sizes.shapes import values

PYTHON_OP = "prim::PythonOp"


@dataclass
class _Open:
    """A block that a mark opened: the nodes around it, the values known before, its arguments, its blocks so far."""

    around: list[Node]
    known: set[int]
    given: Any = None
    first: int = 0
    blocks: list[Block] = field(default_factory=list)


class Blocks:
    """The blocks around the current call. The builder forgets the values of a block when it ends."""

    def __init__(self, builder: Building, numbers: Numbers) -> None:
        self._builder = builder
        self._numbers = numbers
        self._open: list[_Open] = []
        self._ragged: dict[Value, set[int]] = {}  # the axes of which the elements of a list have sizes of their own
        self._readers: dict[Mark, Callable[[Call], None]] = {
            Mark.IF: self._begin_if,
            Mark.ELSE: self._else,
            Mark.END_IF: self._end_if,
            Mark.LOOP: self._begin_loop,
            Mark.END_LOOP: self._end_loop,
            Mark.FUNCTION: self._begin_function,
        }

    def read(self, call: Call) -> None:
        self._readers[call.op](call)

    def _begin(self, given: Any, first: int = 0) -> None:
        builder = self._builder
        self._open.append(_Open(builder.nodes, set(builder.values), given, first))
        builder.nodes = []

    def _close_block(self, inputs: Sequence[Value], outputs: list[Value]) -> Block:
        """Make a block of the nodes since the last mark; values outside do not refer to those inside."""
        builder, opened = self._builder, self._open[-1]
        block = Block(list(inputs), builder.nodes, outputs)
        opened.blocks.append(block)
        inner = {*inputs, *(output for node in block.all_nodes() for output in node.outputs)}
        builder.forget(inner, opened.known)
        builder.nodes = []
        return block

    # Branches

    def _begin_if(self, call: Call) -> None:
        condition, first = call.args
        self._begin(self._condition(condition, call), first)

    def _condition(self, given: Any, call: Call) -> Argument:
        """A tensor with one element, or a number, as a truth value."""
        builder = self._builder
        if isinstance(given, Number):
            # Not evaluated at the points: all of them may take the same branch, and the graph has both.
            return builder.number_value(node(given.op, *map(builder.resolve, given.operands)), call)
        if not isinstance(given, Ref):
            return builder.argument(given, call)
        tensor = builder.value(given)
        if tensor.data is not None and tensor not in builder.parameters.values():
            return bool(tensor.data)
        truth = Value(ScalarType(bool))
        read = Node("aten::Bool", {"a": tensor}, [truth], overload="Tensor", scope=call.scope, source=call.source)
        builder.nodes.append(read)
        return truth

    def _else(self, call: Call) -> None:
        self._close_block([], [self._builder.value(ref) for ref in call.args[0]])

    def _end_if(self, call: Call) -> None:
        self._close_block([], [self._builder.value(ref) for ref in call.args[0]])
        builder, opened = self._builder, self._open.pop()
        builder.nodes = opened.around
        # The block of the branch that was taken comes second.
        blocks = opened.blocks if opened.first == 0 else opened.blocks[::-1]
        if not isinstance(opened.given, Value):
            taken = blocks[0 if opened.given else 1]
            builder.nodes.extend(taken.nodes)
            for ref, value in zip(call.results, taken.outputs, strict=True):
                builder.know(ref, value)
            return
        types = [self._common(call, i, *pair) for i, pair in enumerate(zip(*(b.outputs for b in blocks), strict=True))]
        inputs = {"condition": opened.given}
        branch = Node("prim::If", inputs, (), scope=call.scope, source=call.source, blocks=blocks)
        builder.finish(branch, types, call.results)

    def _common(self, call: Call, index: int, left: Value, right: Value) -> Type:
        """The common type of the results of two branches: a size that differs is only known at run time."""
        unranked = unranked_type(left.type, right.type)
        if unranked is not None:
            return unranked
        points = self._builder.points
        pairs = enumerate(zip(left.shape, right.shape, strict=True))
        key = "branch", id(call), index
        return TensorType(left.dtype, tuple(a if a == b else points.count_of((*key, axis)) for axis, (a, b) in pairs))

    # Loops

    def _begin_loop(self, call: Call) -> None:
        builder = self._builder
        goes_on, firsts, *counted = call.args
        carried = [builder.value(ref) for ref in firsts]
        index = Value(ScalarType(int))
        limit = self._count(index, call, *counted) if counted else None
        if "index" in call.kwargs:
            self._give_index(call.kwargs["index"], index, [1] * builder.points.count)
        condition = goes_on if counted else self._flag(goes_on, call)
        most = call.kwargs.get("most", limit)
        self._begin((condition, carried, limit, builder.number_value(most, call), call))
        entries = [Value(self._varied(call, *one)) for one in zip(call.results, carried, firsts, strict=True)]
        for ref, entry in zip(call.results, entries, strict=True):
            builder.know(ref, entry)
            builder.contents.is_unknown(entry)
        self._open[-1].blocks.append(Block([index, *entries]))

    def _varied(self, begin: Call, entry: Ref, carried: Value, ref: Ref) -> Type:
        """The type of a carried value: the sizes of axes that vary between iterations are only known at run time."""
        points, seen = self._builder.points, self._builder.record.types[ref.number][1]
        free = {axis for number, axis in points.varying if number == entry.number}
        if not free:
            return carried.type
        count_of = {axis: points.count_of(("carried", id(begin), ref, axis), seen[axis]) for axis in free}
        return TensorType(carried.dtype, tuple(count_of.get(axis, size) for axis, size in enumerate(carried.shape)))

    def _flag(self, goes_on: Any, call: Call) -> Value:
        condition = self._condition(goes_on, call)
        return condition if isinstance(condition, Value) else Value(ScalarType(bool), data=torch.tensor(condition))

    def _count(self, index: Value, call: Call, iterations: Any, number: Number) -> Any:
        """The number of iterations of a loop. The index of the iteration gets values that differ in each loop."""
        builder = self._builder
        limit = builder.expression(iterations, call)
        counts = values(limit, builder.points.count)
        self._give_index(number, index, counts)
        # At a point without iterations the operators of the body need not accept the sizes. A count that only follows
        # from runs leaves out iterations that stand beside the loop, and which are not made there either.
        too_few = Refused(call.source, "a loop", "it has fewer iterations than the graph has beside it")
        for point, count in enumerate(counts):
            if count <= 0:
                is_valid = count == 0 or isinstance(iterations, Number)
                builder.points.dead.setdefault(point, index if is_valid else too_few)
        return limit

    def _give_index(self, number: Number, index: Value, counts: Sequence[int]) -> None:
        """Give the index of an iteration values that differ in each loop, below the iterations at each point."""
        points = self._builder.points
        for step in range(1, len(counts) + 1):
            at = tuple(point * step % max(count, 1) for point, count in enumerate(counts))
            index.size = number_of(index, at)
            if not self._numbers.is_carried(index.size):
                break
        points.numbers[index] = at
        self._numbers.give(number, index.size, index)

    def _end_loop(self, call: Call) -> None:
        builder = self._builder
        goes_on, given, *collected = call.args
        condition = self._flag(goes_on, call)
        results = [builder.value(ref) for ref in given]
        entries = self._open[-1].blocks.pop().inputs
        begins, carried, limit, iterations, begin = self._open[-1].given
        self._check_carried(begin, entries[1:], results, call)
        last = [self._varied(begin, *one) for one in zip(begin.results, carried, call.results, strict=False)]
        lists = [self._collect(builder.value(ref), entries, call) for ref in (collected[0] if collected else ())]
        dead = builder.points.dead
        for point in [point for point, reason in dead.items() if reason is entries[0]]:
            del dead[point]
        counter = [self._counter(call)] if "count" in call.kwargs else []
        further = [*lists, *counter]
        entries = [*entries, *(entry for _, entry, _ in further)]
        block = self._close_block(entries, [condition, *results, *(grown for _, _, grown in further)])
        builder.nodes = self._open.pop().around
        carried = [*carried, *(empty for empty, _, _ in further)]
        inputs = {"limit": iterations, "condition": begins, "carried": carried}
        loop = Node("prim::Loop", inputs, (), scope=call.scope, source=call.source, blocks=[block])
        counts = [call.kwargs["count"]] if counter else []
        builder.finish(loop, [*last, *(empty.type for empty, _, _ in further)], [*call.results, *counts])
        for output, (_, _, grown) in zip(loop.outputs[len(results) :], lists, strict=False):
            self._numbers.lengths[output] = limit
            self._ragged[output] = self._ragged.pop(grown)

    def _counter(self, call: Call) -> tuple[Value, Value, Value]:
        """How many iterations a loop had: before the loop, before an iteration, and after it."""
        first = Value(TensorType(torch.int64, ()), data=torch.tensor(0))
        entry, grown = (Value(TensorType(torch.int64, ())) for _ in range(2))
        self._builder.contents.is_unknown(entry)
        inputs: dict[str, Argument] = {"self": entry, "other": 1, "alpha": 1}
        add = Node("aten::add", inputs, [grown], overload="Scalar", scope=call.scope, source=call.source)
        self._builder.nodes.append(add)
        return first, entry, grown

    def _check_carried(self, begin: Call, entries: Sequence[Value], results: Sequence[Value], call: Call) -> None:
        """Check that an iteration keeps the shapes of what is carried, at points with iterations, but for axes that are
        known to vary."""
        points = self._builder.points
        alive = [point for point in range(points.count) if point not in points.dead]

        def at_points(size: Size) -> list[int]:
            column = values(size, points.count)
            return [column[point] for point in alive]

        varying = {
            (ref.number, axis)
            for ref, entry, result in zip(begin.results, entries, results, strict=True)
            for axis, sizes in enumerate(zip(entry.shape, result.shape, strict=True))
            if at_points(sizes[0]) != at_points(sizes[1]) and (ref.number, axis) not in points.varying
        }
        if varying and begin.kwargs:
            raise Varying(varying)
        for entry, result in zip(entries, results, strict=True) if varying else ():
            if entry.shape != result.shape:
                raise CaptureError(
                    f"{call.source or 'the model'}: an iteration of this loop turns a tensor of shape {entry.shape} "
                    f"into one of shape {result.shape}. Keep its shape and dtype the same in every iteration."
                )

    def _collect(self, element: Value, entries: Sequence[Value], call: Call) -> tuple[Value, Value, Value]:
        """A list with an element per iteration: before the loop, before an iteration, and after it.

        A size that differs between iterations is only known at run time.
        """
        builder = self._builder
        inner = {*entries, *(output for node in Block([], builder.nodes, []).all_nodes() for output in node.outputs)}
        ragged = {axis for axis, size in enumerate(element.shape) if self._numbers.is_read_from(size, inner)}
        shape = tuple(
            builder.points.count_of(("round", id(call), element, axis), values(size, 1)[0]) if axis in ragged else size
            for axis, size in enumerate(element.shape)
        )
        empty, entry, grown = (Value(SequenceType(TensorType(element.dtype, shape))) for _ in range(3))
        self._ragged[grown] = ragged
        inputs: dict[str, Argument] = {"sequence": entry, "tensor": element, "index": None}
        insert = Node("onnxport::sequence_insert", inputs, [grown], scope=call.scope, source=call.source)
        builder.nodes.append(insert)
        self._open[-1].around.append(insert.like("onnxport::sequence", {"tensors": []}, [empty]))
        return empty, entry, grown

    def join(self, op: str, inputs: dict[str, Argument], call: Call) -> None:
        """The tensors from all iterations as one tensor, along one of their axes or a new one; others may stand before
        and behind them."""
        builder, is_new = self._builder, op == "aten::stack"
        parts = inputs["tensors"] if isinstance(inputs["tensors"], list) else [inputs["tensors"]]
        place = next(place for place, part in enumerate(parts) if isinstance(part.type, SequenceType))
        sequence, others = parts[place], [*parts[:place], *parts[place + 1 :]]
        element = sequence.type.element
        dim = inputs["dim"] % (len(element.shape) + is_new)
        count, size = self._numbers.lengths[sequence], 1 if is_new else element.shape[dim]
        if count is None or (isinstance(size, SizeExpr) and builder.points.follows_data(size)):
            length: Size = builder.points.count_of(
                ("joined", id(call)), builder.record.types[call.results[0].number][1][dim]
            )
        else:
            length = count * size + sum(1 if is_new else other.shape[dim] for other in others)
        shape = (*element.shape[:dim], length, *element.shape[dim + (not is_new) :])
        for index, other in enumerate(others):
            grown, position = Value(sequence.type), index if index < place else None
            given: dict[str, Argument] = {"sequence": sequence, "tensor": other, "index": position}
            node = Node("onnxport::sequence_insert", given, [grown], scope=call.scope, source=call.source)
            builder.nodes.append(node)
            sequence = grown
        name = f"onnxport::{op.removeprefix('aten::')}_sequence"
        node = Node(name, {"tensors": sequence, "dim": dim}, (), scope=call.scope, source=call.source)
        builder.finish(node, [TensorType(element.dtype, shape)], call.results)

    def join_numbers(self, call: Call, tensors: PythonTensors) -> None:
        """The numbers from all iterations, each of which is a tensor, and others, as one tensor."""
        builder = self._builder
        numbers, _, dtype = call.args
        parts = [
            builder.value(number)
            if isinstance(number, Ref)
            else tensors.scalar(builder.argument(number, call), dtype, call)
            for number in numbers
        ]
        self.join("aten::stack", {"tensors": parts, "dim": 0}, call)

    def take(self, call: Call) -> None:
        """An item of a list that a loop made."""
        builder = self._builder
        sequence, index = (builder.argument(given, call) for given in call.args)
        assert isinstance(sequence, Value) and isinstance(sequence.type, SequenceType)
        element, (ref,) = sequence.type.element, call.results
        seen = builder.record.types[ref.number][1]
        shape = tuple(
            builder.points.count_of(("item", ref.number, axis), seen[axis]) if axis in self._ragged[sequence] else size
            for axis, size in enumerate(element.shape)
        )
        self._check_index(index, self._numbers.lengths[sequence], call)
        inputs: dict[str, Argument] = {"sequence": sequence, "index": index}
        node = Node("onnxport::sequence_at", inputs, (), scope=call.scope, source=call.source)
        builder.finish(node, [TensorType(element.dtype, shape)], call.results)

    def _check_index(self, index: Argument, length: Any, call: Call) -> None:
        """At a point with too few items the graph is not valid."""
        points = self._builder.points
        at = points.numbers[index] if isinstance(index, Value) else (index,) * points.count
        for point, (number, count) in enumerate(zip(at, values(length, points.count), strict=True)):
            if not 0 <= number < count:
                points.dead.setdefault(point, Refused(call.source, "a list", "it has fewer items"))

    # Autograd Functions

    def _begin_function(self, call: Call) -> None:
        self._begin(None)

    def end_function(self, call: Call) -> None:
        """The call of an autograd Function; of its forward only the types of the results are kept."""
        builder, function = self._builder, call.op
        assert isinstance(function, FunctionCall)
        *given, inner = call.args
        results = [builder.value(ref) for ref in inner]
        self._close_block([], [])
        builder.nodes = self._open.pop().around
        convention = "".join("d" if isinstance(argument, Ref) else "c" for argument in given)
        python_call = PythonCall(function.function, function.arguments, convention, function.tensors, function.shared)
        inputs: dict[str, Argument] = {"call": python_call}
        for index, argument in enumerate(given):
            if isinstance(argument, dict):
                self._check_constant(argument, function, call)
            elif _is_computed(argument):
                inputs[str(index)] = builder.argument(argument, call)
        python = Node(PYTHON_OP, inputs, (), scope=call.scope, source=call.source)
        builder.finish(python, [result.tensor_type for result in results], call.results)

    def _check_constant(self, argument: Any, function: FunctionCall, call: Call) -> None:
        """Refuse numbers that follow from sizes in a dict argument: it is a constant of the call."""
        if isinstance(argument, (dict, list, tuple)):
            for part in argument.values() if isinstance(argument, dict) else argument:
                self._check_constant(part, function, call)
        elif isinstance(self._builder.resolve(argument), SizeExpr):
            raise DynamicAxisError(
                f"{call.source or 'the model'}: a dict in the arguments of {function.function.__name__}.apply has a "
                "number that follows from a dynamic axis, and would be a constant of the file. Pass the number as an "
                "argument of its own, or leave the axis static."
            )


def _is_computed(argument: Any) -> bool:
    """Whether an argument is or contains a value of the graph."""
    if isinstance(argument, (list, tuple)):
        return any(map(_is_computed, argument))
    return type(argument).__module__ == Ref.__module__


def not_made_yet(record: Record, ref: Ref) -> CaptureError:
    """The error for the use of a tensor that is inside a block and not a result of it, or is computed later."""
    made = next((call for call in record.calls if ref in call.results), None)
    where = made.source if made and made.source else "the model"
    if any(isinstance(call.op, Mark) for call in record.calls):
        return CaptureError(
            f"{where}: a tensor that is made here, in a branch of torch.cond, in a loop or in an autograd Function, is "
            "used or returned outside of it, where only what it returns is known. Return it, from both branches."
        )
    return DynamicAxisError(
        f"{where}: at some sizes the model takes another path, on which it needs the size of the tensor that is made "
        "here before this line. Write this without a condition on sizes, or give the axis a range on one side of it."
    )
