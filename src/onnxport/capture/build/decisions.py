"""The conditions of runs of a model, in order: they decide which run is valid at a point.

A run is valid at every point at which all of its conditions have the same outcome as in the run. Two runs separate at
the first condition with different outcomes.
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
    """A condition with its index in the run and its operands; ``expression`` is a bool if it has the same outcome at
    all sizes."""

    index: int
    condition: Condition
    left: Any
    right: Any
    expression: Any

    @property
    def place(self) -> tuple[Source | None, str]:
        return self.condition.source, self.condition.op

    def over(self, axes: Mapping[str, SizeExpr]) -> Step:
        """The condition with other values for axes, if it follows from axes."""
        if not follows_axes(self.expression, axes):
            return self
        left, right, expression = (renamed(part, axes) for part in (self.left, self.right, self.expression))
        return replace(self, left=left, right=right, expression=expression)


Path: TypeAlias = "Sequence[Step]"


@dataclass(frozen=True)
class Split:
    """A condition at which paths separate: its step on each path, and the paths of both outcomes."""

    steps: Mapping[int, Step]
    true: Tree
    false: Tree


# Paths that no condition separates, or a condition that does.
Tree: TypeAlias = "Split | tuple[int, ...]"


def tree_of(paths: Mapping[int, Path], depth: int = 0) -> Tree:
    """The tree of paths that agree up to a depth. Paths with different conditions from there on cannot be separated."""
    for index in range(depth, min(map(len, paths.values()))):
        steps = {side: path[index] for side, path in paths.items()}
        first = next(iter(steps.values()))
        if any(step.place != first.place for step in steps.values()):
            break
        parts = [
            {side: paths[side] for side, step in steps.items() if step.condition.outcome is outcome}
            for outcome in (True, False)
        ]
        if all(parts):
            true, false = (tree_of(part, index + 1) for part in parts)
            return Split(steps, true, false)
    return tuple(paths)


def splits(tree: Tree) -> Iterator[Split]:
    """The conditions that separate paths, the first ones first."""
    if isinstance(tree, Split):
        yield tree
        yield from splits(tree.true)
        yield from splits(tree.false)


def follows_axes(expression: Any, labels: Mapping[str, Any]) -> bool:
    """Whether an expression depends on these axes and nothing else."""
    return isinstance(expression, SizeExpr) and all(
        leaf.op == "axis" and leaf.operands[0] in labels for leaf in leaves_of(expression)
    )


def renamed(expression: Operand, axes: Mapping[str, SizeExpr]) -> Operand:
    """An expression over the same axes with other values."""
    return substitute(expression, {leaf: axes[leaf.operands[0]] for leaf in leaves_of(expression)})


def is_same(left: Any, right: Any) -> bool:
    """Whether two numbers are known to be equal for all sizes."""
    if isinstance(left, SizeExpr) and isinstance(right, SizeExpr):
        return left.kind is right.kind and form_of(left).key == form_of(right).key
    return type(left) is type(right) and not isinstance(left, SizeExpr) and bool(left == right)
