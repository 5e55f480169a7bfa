"""Two graphs that part at a condition: what both do before it and after it stands once, the rest in an If.

Nodes match from the beginning as long as they compute the same, and from the end as long as they do the same to what
came out of the If: the values that they need of it are its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch

from onnxport.graph.branches.lifted import Lifted, copied
from onnxport.graph.interpret import mutates
from onnxport.graph.ir import Argument, Block, Node, Source, TensorType, Value, map_values
from onnxport.graph.ranks import unranked_type
from onnxport.graph.sizes import Size, SizeExpr, exact
from onnxport.graph.sizes.canonical import form_of

# A condition on sizes, or a tensor of the graphs that holds it.
Condition: TypeAlias = "SizeExpr | Value"


class CannotMerge(Exception):
    """Two graphs, or parts of them, that cannot be one."""


def joined(condition: Condition, true: Lifted, false: Lifted, source: Source | None, *, unranked: bool) -> Lifted:
    """One graph that does what the first does where the condition holds, and else what the second does.

    With ``unranked`` an output may have another number of dimensions in each.
    """
    return _Join(condition, true, false, source, unranked).run()


class _Join:
    def __init__(
        self, condition: Condition, true: Lifted, false: Lifted, source: Source | None, unranked: bool
    ) -> None:
        self._condition = condition
        self._unranked = unranked
        self._true, self._false = true, false
        self._source = source
        self._same: dict[Value, Value] = {}  # values of the second graph that are values of the first

    def run(self) -> Lifted:
        start = self._prefix()
        tail = self._alike_at_end(start)
        while True:
            suffix = _Suffix(self._condition, self._same, self._true, self._false, tail, self._unranked)
            failed = suffix.run()
            if failed is None:
                break
            tail -= failed + 1
            if tail < 0:
                raise CannotMerge
        first = self._true.nodes[start : len(self._true.nodes) - tail]
        second = self._false.nodes[start : len(self._false.nodes) - tail]
        before = self._true.nodes[:start]
        if not first and not second and not suffix.results:
            return Lifted([*before, *suffix.nodes], suffix.outputs)
        if isinstance(self._condition, Value) and not any(self._condition in node.outputs for node in before):
            raise CannotMerge
        second = [_with(node, self._same) for node in second]
        pairs = list(suffix.results)
        blocks = [_block(first, [a for a, _ in pairs]), _block(second, [self._same.get(b, b) for _, b in pairs])]
        results = list(suffix.results.values())
        branch = Node("prim::If", {"condition": self._condition}, results, source=self._source, blocks=blocks)
        return Lifted([*before, branch, *suffix.nodes], suffix.outputs)

    def _prefix(self) -> int:
        """How many nodes compute the same from the beginning."""
        for count, (node, other) in enumerate(zip(self._true.nodes, self._false.nodes, strict=False)):
            if not _computes_same(node, other, self._same):
                return count
        return min(len(self._true.nodes), len(self._false.nodes))

    def _alike_at_end(self, start: int) -> int:
        """How many nodes at the end may match."""
        most = min(len(self._true.nodes), len(self._false.nodes)) - start
        for count in range(most):
            node, other = self._true.nodes[-1 - count], self._false.nodes[-1 - count]
            if not _is_alike(node, other) or mutates(Block([], [node], [])):
                return count
        return most


class _Suffix:
    """The nodes behind an If, ``results`` of which are pairs of values of the two graphs."""

    def __init__(
        self, condition: Condition, same: Mapping[Value, Value], true: Lifted, false: Lifted, count: int, unranked: bool
    ) -> None:
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.results: dict[tuple[Value, Value], Value] = {}
        self._condition = condition
        self._unranked = unranked
        self._same = dict(same)
        self._made: dict[Value, Value] = {}  # values of the first graph behind the If
        self._true, self._false = true, false
        self._tails = [lifted.nodes[len(lifted.nodes) - count :] for lifted in (true, false)]
        self._inside = [_results(tail) for tail in self._tails]

    def run(self) -> int | None:
        """None where all of it matches, else the index of the last node that does not."""
        for index, (node, other) in enumerate(zip(*self._tails, strict=True)):
            try:
                self.nodes.append(self._node(node, other))
            except CannotMerge:
                return index
        if len(self._true.outputs) != len(self._false.outputs):
            raise CannotMerge
        for left, right in zip(self._true.outputs, self._false.outputs, strict=True):
            made_at = self._made_at(left, right)
            if made_at is not None:
                return made_at
            self.outputs.append(self._output(left, right))
        return None

    def _made_at(self, left: Value, right: Value) -> int | None:
        """The index of the node that makes an output which has another number of dimensions in each graph."""
        if self._same.get(right) is left or not self._is_unranked(left, right):
            return None
        pairs = enumerate(zip(*self._tails, strict=True))
        return next((i for i, (a, b) in pairs if left in _results([a]) or right in _results([b])), None)

    def _is_unranked(self, left: Value, right: Value) -> bool:
        return self._unranked and unranked_type(left.type, right.type) is not None

    def _output(self, left: Value, right: Value) -> Value:
        """An output of the graph, which may have another number of dimensions in each branch."""
        unranked = unranked_type(left.type, right.type) if self._unranked else None
        if unranked is None or self._same.get(right) is left:
            return self._value(left, right)
        return self.results.setdefault((left, right), Value(unranked))

    def _node(self, node: Node, other: Node) -> Node:
        if not _is_alike(node, other):
            raise CannotMerge
        inputs = {name: self._argument(argument, other.inputs[name]) for name, argument in node.inputs.items()}
        blocks = [self._block(*pair) for pair in zip(node.blocks, other.blocks, strict=True)]
        outputs = [self._new(*pair) for pair in zip(node.outputs, other.outputs, strict=True)]
        return copied(node, inputs, outputs, blocks)

    def _block(self, block: Block, other: Block) -> Block:
        if len(block.nodes) != len(other.nodes) or len(block.inputs) != len(other.inputs):
            raise CannotMerge
        self._inside[0] |= _results(block.nodes)
        self._inside[1] |= _results(other.nodes)
        inputs = [self._new(*pair) for pair in zip(block.inputs, other.inputs, strict=True)]
        nodes = [self._node(*pair) for pair in zip(block.nodes, other.nodes, strict=True)]
        return Block(inputs, nodes, [self._value(*pair) for pair in zip(block.outputs, other.outputs, strict=True)])

    def _argument(self, left: Argument, right: Argument) -> Argument:
        if isinstance(left, Value) and isinstance(right, Value):
            return self._value(left, right)
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            if len(left) != len(right):
                raise CannotMerge
            return type(left)(self._argument(a, b) for a, b in zip(left, right, strict=True))
        if isinstance(left, SizeExpr) or isinstance(right, SizeExpr):
            if not all(isinstance(part, (SizeExpr, int, float)) for part in (left, right)):
                raise CannotMerge
            return self._size(left, right)
        if not _is_equal(left, right):
            raise CannotMerge
        return left

    def _value(self, left: Value, right: Value) -> Value:
        if self._same.get(right, right) is left or _is_same_constant(left, right):
            return self._made.get(left, left)
        if left in self._inside[0] or right in self._inside[1] or not (left.is_tensor and right.is_tensor):
            raise CannotMerge
        if (left, right) not in self.results:
            self.results[left, right] = Value(self._type(left, right))
        return self.results[left, right]

    def _new(self, left: Value, right: Value) -> Value:
        if left.is_tensor != right.is_tensor or (not left.is_tensor and left.type != right.type):
            raise CannotMerge
        size = None if left.size is None or right.size is None else self._size(left.size, right.size)
        made = Value(self._type(left, right) if left.is_tensor else left.type, name=left.name, size=size)
        self._same[right] = left
        self._made[left] = made
        return made

    def _type(self, left: Value, right: Value) -> TensorType:
        if left.dtype != right.dtype or len(left.shape) != len(right.shape):
            raise CannotMerge
        pairs = zip(left.shape, right.shape, strict=True)
        return TensorType(left.dtype, tuple(cast("Size", self._size(a, b)) for a, b in pairs))

    def _size(self, left: Any, right: Any) -> Any:
        if _is_same_size(left, right):
            return left
        if not isinstance(self._condition, SizeExpr):
            raise CannotMerge
        return exact("where", self._condition, left, right)


def _is_alike(node: Node, other: Node) -> bool:
    """Whether two nodes stand for the same line of the model, whatever they are given."""
    return (
        (node.op, node.overload, node.source, node.scope) == (other.op, other.overload, other.source, other.scope)
        and node.inputs.keys() == other.inputs.keys()
        and (len(node.outputs), len(node.blocks)) == (len(other.outputs), len(other.blocks))
    )


def _computes_same(node: Node, other: Node, same: dict[Value, Value]) -> bool:
    """Whether two nodes compute the same; what they yield is the same then."""
    if not _is_alike(node, other):
        return False
    found = dict(same)
    pairs = ((argument, other.inputs[name]) for name, argument in node.inputs.items())
    if not all(_is_same_argument(left, right, found) for left, right in pairs):
        return False
    for block, beside in zip(node.blocks, other.blocks, strict=True):
        if len(block.nodes) != len(beside.nodes) or len(block.inputs) != len(beside.inputs):
            return False
        found.update(zip(beside.inputs, block.inputs, strict=True))
        if not all(_computes_same(*pair, found) for pair in zip(block.nodes, beside.nodes, strict=True)):
            return False
        if not _is_same_argument(block.outputs, beside.outputs, found):
            return False
    found.update(zip(other.outputs, node.outputs, strict=True))
    same.update(found)
    return True


def _is_same_argument(left: Argument, right: Argument, same: Mapping[Value, Value]) -> bool:
    if isinstance(left, Value) and isinstance(right, Value):
        return same.get(right, right) is left or _is_same_constant(left, right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_is_same_argument(a, b, same) for a, b in zip(left, right, strict=True))
    return _is_same_size(left, right) if isinstance(left, SizeExpr) else _is_equal(left, right)


def _is_same_constant(left: Value, right: Value) -> bool:
    a, b = left.data, right.data
    if a is None or b is None:
        return False
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a, b)))


def _is_same_size(left: Any, right: Any) -> bool:
    if isinstance(left, SizeExpr) and isinstance(right, SizeExpr):
        return left.kind is right.kind and form_of(left).key == form_of(right).key
    return _is_equal(left, right)


def _is_equal(left: Any, right: Any) -> bool:
    if left is right:
        return True
    plain = not any(isinstance(part, (SizeExpr, Value, torch.Tensor)) for part in (left, right))
    return plain and type(left) is type(right) and bool(left == right or (left != left and right != right))


def _results(nodes: Sequence[Node]) -> set[Value]:
    return {output for node in Block([], list(nodes), []).all_nodes() for output in node.outputs}


def _with(node: Node, values: Mapping[Value, Value]) -> Node:
    """A node that reads other values."""

    def value(of: Value) -> Value:
        return values.get(of, of)

    inputs = {name: map_values(argument, value) for name, argument in node.inputs.items()}
    blocks = [
        Block(block.inputs, [_with(inner, values) for inner in block.nodes], list(map(value, block.outputs)))
        for block in node.blocks
    ]
    return copied(node, inputs, node.outputs, blocks)


def _block(nodes: list[Node], outputs: Sequence[Value]) -> Block:
    """A branch. What it does not make itself, or gives twice, it gives as a copy."""
    made = {output for node in nodes for output in node.outputs}
    given: list[Value] = []
    for output in outputs:
        if output in made and output not in given:
            given.append(output)
            continue
        copy = Value(output.type)
        nodes = [*nodes, Node("aten::clone", {"self": output, "memory_format": None}, [copy])]
        given.append(copy)
    return Block([], nodes, given)
