"""The conditions that runs of a model asked, in their order: they tell which run a point is like.

Python decides the same as long as every condition had the same outcome. So a run holds wherever all of its conditions
turn out as they did in it, and two runs part at the first condition that they answer differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from onnxport.capture.record.record import Condition
from onnxport.graph.ir import Source
from onnxport.graph.sizes import Operand, SizeExpr, leaves_of, substitute
from onnxport.graph.sizes.canonical import form_of


@dataclass(frozen=True, eq=False)
class Step:
    """A condition, by its number in the run, with what it compares; ``expression`` is a bool if it never turns."""

    index: int
    condition: Condition
    left: Any
    right: Any
    expression: Any

    @property
    def place(self) -> tuple[Source | None, str]:
        return self.condition.source, self.condition.op

    def over(self, axes: Mapping[str, SizeExpr]) -> Step:
        """The condition over these sizes of axes, if it follows from axes."""
        if not follows_axes(self.expression, axes):
            return self
        left, right, expression = (renamed(part, axes) for part in (self.left, self.right, self.expression))
        return replace(self, left=left, right=right, expression=expression)


Path: TypeAlias = "Sequence[Step]"


@dataclass(frozen=True)
class Split:
    """Where the paths of some sides part: the condition as each of them has it, and what is on both sides of it."""

    steps: Mapping[int, Step]
    true: Tree
    false: Tree


# Sides that no condition tells apart, or a condition that does.
Tree: TypeAlias = "Split | tuple[int, ...]"


def tree_of(paths: Mapping[int, Path], depth: int = 0) -> Tree:
    """The paths of some sides, the same up to a depth. Where they ask different things, nothing tells them apart."""
    for place in range(depth, min(map(len, paths.values()))):
        steps = {side: path[place] for side, path in paths.items()}
        first = next(iter(steps.values()))
        if any(step.place != first.place for step in steps.values()):
            break
        parts = [
            {side: paths[side] for side, step in steps.items() if step.condition.outcome is outcome}
            for outcome in (True, False)
        ]
        if all(parts):
            true, false = (tree_of(part, place + 1) for part in parts)
            return Split(steps, true, false)
    return tuple(paths)


def splits(tree: Tree) -> Iterator[Split]:
    """Where paths part, the first conditions first."""
    if isinstance(tree, Split):
        yield tree
        yield from splits(tree.true)
        yield from splits(tree.false)


def follows_axes(expression: Any, labels: Mapping[str, Any]) -> bool:
    """Whether an expression is one of these axes and nothing else."""
    return isinstance(expression, SizeExpr) and all(
        leaf.op == "axis" and leaf.operands[0] in labels for leaf in leaves_of(expression)
    )


def renamed(expression: Operand, axes: Mapping[str, SizeExpr]) -> Operand:
    """An expression over the same axes with other values."""
    return substitute(expression, {leaf: axes[leaf.operands[0]] for leaf in leaves_of(expression)})


def is_same(left: Any, right: Any) -> bool:
    """Whether two numbers are the same for all sizes, as far as their forms tell."""
    if isinstance(left, SizeExpr) and isinstance(right, SizeExpr):
        return left.kind is right.kind and form_of(left).key == form_of(right).key
    return type(left) is type(right) and not isinstance(left, SizeExpr) and bool(left == right)
