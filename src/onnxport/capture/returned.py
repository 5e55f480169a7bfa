"""Integers that a model returns beside its tensors: Python may have computed them from sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxport.errors import ExportError
from onnxport.graph.dims import Dim
from onnxport.graph.dims import size as size_of
from onnxport.graph.solve import evaluate, solve


class ReturnedNumber:
    """What such a number was wherever the model ran: at the points that were traced, and at those that were checked."""

    def __init__(self, numbers: Sequence[int], points: Sequence[Mapping[str, int]]) -> None:
        self.seen = [(dict(point), number) for point, number in zip(points, numbers, strict=True)]

    def note(self, sizes: Mapping[str, int], number: Any) -> None:
        """What it is at one more point."""
        if type(number) is int:
            self.seen.append((dict(sizes), number))

    def at(self, sizes: Mapping[str, int]) -> int:
        """What it is at some sizes of the dynamic axes: as seen, or as an expression that fits all that was seen."""
        for point, number in self.seen:
            if point == sizes:
                return number
        numbers = size_of(number for _, number in self.seen)
        if not isinstance(numbers, Dim):
            return numbers
        dims = {label: size_of(point[label] for point, _ in self.seen) for label in sizes}
        leaves = {dim: sizes[label] for label, dim in dims.items() if isinstance(dim, Dim)}
        found = solve(numbers, list(leaves))
        result = None if found is None else evaluate(found, leaves)
        if result is None:
            shown = "; ".join(f"{number} at {point}" for point, number in self.seen)
            raise ExportError(
                f"the model returns a number that Python computed from sizes ({shown}), and how it follows from them "
                f"is not known at {dict(sizes)}: return a tensor, or leave it out"
            )
        return result


def common_leaf(leaves: Sequence[Any], points: Sequence[Mapping[str, int]]) -> Any:
    """What a model returned in one place in each trace, where that is no tensor."""
    traced = list(zip(leaves, points, strict=False))
    if len(traced) > 1 and all(type(leaf) is int for leaf in leaves):
        return ReturnedNumber([leaf for leaf, _ in traced], [point for _, point in traced])
    return leaves[0]
