"""Leads the tracer into both branches of torch.cond: each becomes a block of an ``If`` in the graph of the trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from onnxport import compat
from onnxport.capture.direct import Direct
from onnxport.capture.reader import DECIDED, PLACE, Record
from onnxport.capture.refusals import REFUSALS
from onnxport.capture.stacks import users_lines
from onnxport.capture.structure import Structure, flatten
from onnxport.errors import CaptureError

if TYPE_CHECKING:
    from onnxport.capture.frozen import Watch

NUMBERS = (bool, int, float)


class BranchError(RuntimeError):
    """The branch that the data do not take raises on them."""


@dataclass
class Side:
    """A branch in the trace, and what it returns."""

    block: Any
    leaves: list[Any]
    structure: Structure


@dataclass
class Writes:
    """The tensors that a branch writes to, as the trace knew them before; and what they held, if that comes back."""

    undone: bool
    values: dict[int, tuple[torch.Tensor, Any]] = field(default_factory=dict)
    contents: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def before(self, tensor: torch.Tensor) -> None:
        value = compat.traced_value(tensor)
        if id(tensor) not in self.values and value is not None:
            self.values[id(tensor)] = tensor, value
        key = compat.storage_key(tensor)
        if self.undone and key not in self.contents:
            storage: Any = tensor.untyped_storage()
            self.contents[key] = storage, storage.clone()

    def end(self) -> None:
        """What was written to is the tensor that it was before: the graph tells what it holds after the branch."""
        for tensor, value in self.values.values():
            compat.writing.trace_as(tensor, value)
        for storage, content in self.contents.values():
            storage.copy_(content)


class Branches:
    """The calls of torch.cond in one trace. ``is_content`` tells of a tensor that it depends on more than sizes."""

    def __init__(self, watch: Watch, direct: Direct, is_content: Callable[[torch.Tensor], bool]) -> None:
        self._watch = watch
        self._direct = direct
        self._is_content = is_content
        self._writes: list[Writes] = []
        self._used = False
        self.turned = False  # whether what the data do not take is taken instead

    def before_write(self, tensor: torch.Tensor) -> None:
        for writes in self._writes:
            writes.before(tensor)

    def call(self, place: int, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        """The results of the branch that the data take, which the trace has as those of an ``If``.

        The other branch runs first, as if it had not; where it cannot, and the condition follows from sizes alone,
        these decide, as they do without a trace.
        """
        functions = true_fn, false_fn
        if not isinstance(pred, torch.Tensor):
            with self._watch:
                return functions[not pred](*operands)
        with compat.untraced():
            taken = 0 if bool(pred) else 1
        taken = 1 - taken if self.turned and self._is_content(pred) else taken
        node = self.node("prim::If", [self.condition(pred, place)], place)
        blocks = [node.addBlock(), node.addBlock()]
        other = 1 - taken
        try:
            with self.inside(node, blocks[other], undone=True):
                sides = {other: _run(blocks[other], functions[other], operands)}
        except REFUSALS as error:
            if self._is_content(pred):
                raise BranchError(
                    f"torch.cond: both branches run while the model is traced, and the one for a condition that is "
                    f"{bool(taken)} does not take data for which it is {not taken}: {type(error).__name__}: {error}"
                ) from error
            node.i_(DECIDED, 1)
            with self._watch:
                return functions[0 if bool(pred) else 1](*operands)
        with self.inside(node, blocks[taken], undone=False):
            sides[taken] = _run(blocks[taken], functions[taken], operands)
        with compat.untraced():
            self._check(place, sides[0], sides[1])
        results = [self._result(node, sides[taken], sides[other], leaf) for leaf in range(len(sides[0].leaves))]
        return sides[taken].structure.unflatten(results)

    def condition(self, pred: torch.Tensor, place: int) -> Any:
        """What a tensor with one element decides, as a value of the trace."""
        condition = compat.writing.condition(compat.traced_graph(), pred)
        numbers = (condition.output().unique(),)
        stacks = self._watch.stacks
        record = Record("aten::Bool", "Tensor", (None,), numbers, ("BoolType",), None, condition, stacks, place)
        self._direct.records[numbers[0]] = record
        return condition.output()

    def node(self, kind: str, inputs: list[Any], place: int) -> Any:
        """A node that has blocks, and no results yet."""
        graph = compat.traced_graph()
        node = graph.insertNode(graph.create(kind, inputs, 0))
        node.i_(PLACE, place)
        self._used = True
        return node

    @contextlib.contextmanager
    def inside(self, node: Any, block: Any, *, undone: bool) -> Iterator[None]:
        """What is called here is written into a block of the node; where it is ``undone``, it then never happened."""
        writes = Writes(undone)
        self._writes.append(writes)
        drawing = compat.random_state() if undone else contextlib.nullcontext()
        try:
            with compat.writing.into(compat.traced_graph(), block), drawing, self._watch:
                yield
        finally:
            self._writes.pop()
            writes.end()
            _hoist_constants(node, block)

    def _check(self, place: int, first: Side, second: Side) -> None:
        where = next(users_lines(self._watch.stacks.at(place)), "the model")
        if first.structure.names != second.structure.names:
            raise CaptureError(
                f"{where}: the branches of torch.cond return results of another structure: "
                f"{len(first.leaves)} and {len(second.leaves)} values, {list(first.structure.names)} and "
                f"{list(second.structure.names)}"
            )
        for left, right in zip(first.leaves, second.leaves, strict=True):
            if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
                if all(type(leaf) in NUMBERS or isinstance(leaf, torch.Tensor) for leaf in (left, right)):
                    continue
                if left is right or left == right:
                    continue
                raise CaptureError(f"{where}: the branches of torch.cond return {left!r} and {right!r}; give tensors")
            if left.dtype != right.dtype or left.dim() != right.dim():
                raise CaptureError(
                    f"{where}: the branches of torch.cond return tensors that are not alike, of shape "
                    f"{list(left.shape)} and {list(right.shape)}, {left.dtype} and {right.dtype}. Give both the same "
                    "number of dimensions and the same dtype."
                )

    def check_scopes(self, outputs: Sequence[torch.Tensor]) -> None:
        """Refuse a tensor that left its branch otherwise than as a result."""
        if self._used:
            known = self._check_block(compat.traced_graph(), set())
            for output in outputs:
                value = compat.writing.known_value(output)
                self._check_known([value], known, value.node())

    def _check_block(self, block: Any, known: set[int]) -> set[int]:
        known = known | {value.unique() for value in block.inputs()}
        for node in block.nodes():
            for inner in node.blocks():
                self._check_block(inner, known)
            self._check_known(node.inputs(), known, node)
            known.update(value.unique() for value in node.outputs())
        return known

    def _check_known(self, values: Any, known: set[int], node: Any) -> None:
        if not all(value.unique() in known for value in values):
            raise CaptureError(
                f"{next(users_lines(self._direct.lines(node)), 'the model')}: a tensor that was made in a branch of "
                "torch.cond, or in a loop, is used or returned outside of it, where only what it returns is known. "
                "Return it, from both branches."
            )

    def _result(self, node: Any, taken: Side, other: Side, place: int) -> Any:
        """One result of the branch that is taken, after the branch."""
        result, beside = taken.leaves[place], other.leaves[place]
        if not isinstance(result, torch.Tensor) and not isinstance(beside, torch.Tensor) and result == beside:
            return result
        graph = compat.traced_graph()
        for side in (taken, other):
            leaf = side.leaves[place]
            with compat.untraced():
                tensor = leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
            with compat.writing.into(graph, side.block):
                side.block.registerOutput(compat.writing.known_value(tensor))
            _hoist_constants(node, side.block)
            result = tensor if side is taken else result
        compat.writing.set_traced_value(result, node.addOutput())
        return result


def _run(block: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Side:
    leaves, structure = flatten(function(*operands))
    # A branch may return what it is given, or one tensor twice; its results are others.
    return Side(block, [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure)


def _hoist_constants(node: Any, block: Any) -> None:
    """A constant that is made once is used everywhere."""
    for made in list(block.nodes()):
        if made.kind() == "prim::Constant":
            made.moveBefore(node)
