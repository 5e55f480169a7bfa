"""Numbers that Python computed from sizes: which expressions of the axes they are.

Where the source shows how such a number is computed, an expression has to agree with that at sizes that were not
traced, too. Where it does not, the expressions that fit are told apart by further traces.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from onnxport.capture.rules import Rule
from onnxport.capture.sizes import FAR, Axis, Grids, Sizes, far_sizes, shapes_at
from onnxport.graph.dims import Dim, Size, size
from onnxport.graph.ir import BAKED, Graph, Node
from onnxport.graph.solve import (
    Kind,
    Scaled,
    accepted,
    evaluate,
    fitting,
    fitting_of,
    is_close,
    simplest_kind,
    solve_float,
)

Shapes: TypeAlias = list[list[int]]

# Points that make a fit more than a coincidence: one for a size itself besides two, and one more for anything else.
POINTS_FOR_A_SIZE = 3
POINTS = 4
# How many expressions that fit are told apart.
MOST_FITS = 12
# The sizes at which they are compared, and how many of those points are offered.
COMPARED_UP_TO = 72
OFFERED = 3
# How many of the last captures an expression has to be right in that it was not made from.
FORETOLD = (1, 2)
# How far apart neighbouring sizes may be, from the smallest on.
SMALLEST = 2
WIDEST = 4


def baked_nodes(graph: Graph) -> list[Node]:
    """The nodes that stand for numbers which Python computed."""
    return [node for node in graph.block.nodes if node.op == BAKED]


@dataclass
class Numbers:
    """What is known of the numbers that Python computes: ``rules`` are those that the source shows."""

    axes: Sequence[Axis]
    tensors: Sequence[torch.Tensor]
    rules: Sequence[Rule]

    def are_shown(self, node: Node, points: Sequence[Sizes]) -> bool:
        """Whether the source shows how a node's numbers, which are of these points, are computed."""
        shapes = [shapes_at(self.tensors, self.axes, point) for point in points]
        wanted = list(zip(shapes, node.inputs["at"], strict=True))
        return any(all(rule(at) == number for at, number in wanted) for rule in self.rules)

    def telling_points(self, graph: Graph, points: Sequence[Sizes], traces: int) -> Iterator[Sizes | None]:
        """Points at which a trace would tell more of the numbers; None stands for any other point.

        ``points`` are those of the captures, in which those of so many traces may be repeated.
        """
        leaves = self._leaves(points)
        for number in dict.fromkeys(_number(node) for node in baked_nodes(graph)):
            yield from self._telling(number, leaves, points, traces)

    def _telling(
        self, number: Size | tuple[float, ...], leaves: Mapping[Dim, str], points: Sequence[Sizes], traces: int
    ) -> Iterator[Sizes | None]:
        whole = number if isinstance(number, Dim) else self._whole(number, leaves)
        if whole is None:
            yield from [None] * (traces < POINTS)
            return
        number = whole
        if number in leaves or (shown := self._shown(number, leaves, points)):
            found = number in leaves or shown != [None]
            yield from [None] * (traces < (POINTS_FOR_A_SIZE if found else POINTS))
        elif traces < POINTS:
            yield None
        else:
            yield from _far(list(leaves.values()), points)
            yield from _between(list(leaves.values()), points)
            yield from _differing(number, leaves, points)[:OFFERED]
            yield from [None] * (not _is_foretold(number, leaves))

    def is_between(self, point: Sizes, points: Sequence[Sizes]) -> bool:
        """Whether a point was offered only because it lies far from these, or because it is a small square."""
        labels = [axis.label for axis in self.axes]
        if point in list(_between(labels, points)):
            return True
        return point in _far(labels, points) and any(Grids.of([p[label] for p in points]) for label in labels)

    def solve(self, graph: Graph, points: Sequence[Sizes], refused: Sequence[Sizes]) -> None:
        """Tell the graph how each number follows from the axes, or that it does not.

        Where several expressions still fit and a trace could tell them apart, none is taken.
        """
        leaves = self._leaves(points)
        for number in dict.fromkeys(_number(node) for node in baked_nodes(graph)):
            if not isinstance(number, Dim):
                if isinstance(number, tuple) and self._is_refuted(number, points, refused):
                    graph.unknown.add(number)
                continue
            if number in leaves:
                continue
            shown = self._shown(number, leaves, points)
            if shown:
                graph.expressions[number] = shown[0]
            elif not _is_foretold(number, leaves) or any(
                point not in refused for point in _differing(number, leaves, points)[:OFFERED]
            ):
                graph.expressions[number] = None
            else:
                fits = fitting(number, list(leaves))
                graph.expressions |= {number: fits[0]} if fits else {}

    def _leaves(self, points: Sequence[Sizes]) -> dict[Dim, str]:
        dims = {axis.label: size(point[axis.label] for point in points) for axis in self.axes}
        return {dim: label for label, dim in dims.items() if isinstance(dim, Dim)}

    def _shown(self, number: Dim, leaves: Mapping[Dim, str], points: Sequence[Sizes]) -> list[Size | None]:
        """The expression for a number that agrees with what the source shows at sizes that were not traced.

        Nothing if the source does not show such a number, None in a list if there is no expression for it.
        """
        shapes = [shapes_at(self.tensors, self.axes, point) for point in points]
        grid = self._grid(leaves, points)
        matched: list[Size | None] = []
        for rule in self.rules:
            if all(rule(at) == wanted for at, wanted in zip(shapes, number.at, strict=True)):
                expected = [(at, rule(there)) for at, there in grid]
                found = accepted(number, list(leaves), _agreeing(expected))
                if found is not None:
                    return [found]
                matched = [None]
        return matched

    def _grid(self, leaves: Mapping[Dim, str], points: Sequence[Sizes]) -> list[tuple[dict[Dim, int], Shapes]]:
        """Points that were not traced: the axes' sizes there, and the shapes of the inputs."""
        return [
            ({dim: point[label] for dim, label in leaves.items()}, shapes_at(self.tensors, self.axes, point))
            for point in _around(points, list(leaves.values()))
            if all(axis.takes(point[axis.label]) for axis in self.axes)
        ]

    def _whole(self, number: Size | tuple[float, ...], leaves: Mapping[Dim, str]) -> Dim | None:
        """A float that is an integer each time, and no other simple function of a size, as that integer."""
        found = solve_float(number, list(leaves)) if isinstance(number, tuple) else None
        base = None if found is None or found != Scaled(1.0, "Identity", found.base) else found.base
        return base if isinstance(base, Dim) else None

    def _is_refuted(self, numbers: tuple[float, ...], points: Sequence[Sizes], refused: Sequence[Sizes]) -> bool:
        """Whether the source shows how a float is computed, and what fits it does not agree with that elsewhere; or
        whether several expressions fit, and a trace could tell them apart."""
        leaves = self._leaves(points)
        found = solve_float(numbers, list(leaves))
        shapes = [shapes_at(self.tensors, self.axes, point) for point in points]
        matching = [
            rule for rule in self.rules if all(rule(at) == number for at, number in zip(shapes, numbers, strict=True))
        ]
        if found is None or not matching:
            whole = self._whole(numbers, leaves)
            return whole is not None and any(p not in refused for p in _differing(whole, leaves, points)[:OFFERED])
        grid = self._grid(leaves, points)
        return not any(all(is_close(found.at(at), rule(there)) for at, there in grid) for rule in matching)


def _agreeing(expected: Sequence[tuple[Mapping[Dim, int], float | None]]) -> Callable[[Size], bool]:
    return lambda fit: all(evaluate(fit, at) == wanted for at, wanted in expected)


def _number(node: Node) -> Size | tuple[float, ...]:
    found = node.outputs[0].size
    return tuple(node.inputs["at"]) if found is None else found


def _around(points: Sequence[Sizes], labels: Sequence[str]) -> Iterator[Sizes]:
    """Points near the smallest one, with one axis moved."""
    base = min(points, key=lambda point: math.prod(point.values()))
    for step, label in itertools.product(range(1, COMPARED_UP_TO), labels):
        for length in (base[label] + step, base[label] - step):
            if length >= 1:
                yield {**base, label: length}


def _differing(number: Dim, leaves: Mapping[Dim, str], points: Sequence[Sizes]) -> list[Sizes]:
    """Points at which other expressions that fit a number do not agree with the first, where most of them do not."""
    fits = fitting(number, list(leaves), MOST_FITS)
    if len(fits) < 2:
        return [] if fits else _extremes(list(leaves.values()), points)
    found: list[tuple[int, Sizes]] = []
    for point in _around(points, list(leaves.values())):
        at = {dim: point[name] for dim, name in leaves.items()}
        results = [evaluate(fit, at) for fit in fits]
        if point not in points and any(result != results[0] for result in results):
            found.append((results.count(results[0]), point))
    found.sort(key=lambda candidate: candidate[0])
    return [point for _, point in found]


def _is_foretold(number: Dim, leaves: Mapping[Dim, str]) -> bool:
    """Whether what fits the number without its last captures is right in those: what fits so much by chance is not.

    Of the kind that fits all of them: the last may be those that refute a simpler one. Where too few captures are left
    to tell, it is taken to be.
    """
    kind = simplest_kind(number, list(leaves))
    if kind is None:
        return True  # it may follow from other sizes than the axes
    return all(_fits_last(number, leaves, last, kind) for last in FORETOLD if len(number.at) - last >= POINTS)


def _fits_last(number: Dim, leaves: Mapping[Dim, str], last: int, kind: Kind) -> bool:
    before = size(number.at[:-last])
    bases = {earlier: dim for dim in leaves if isinstance(earlier := size(dim.at[:-last]), Dim)}
    if not isinstance(before, Dim) or len(bases) < len(leaves):
        return True
    fits = fitting_of(kind, before, list(bases))
    places = range(len(number.at) - last, len(number.at))
    at = [{earlier: dim.at[place] for earlier, dim in bases.items()} for place in places]
    return bool(fits) and [evaluate(fits[0], there) for there in at] == list(number.at[-last:])


def _far(labels: Sequence[str], points: Sequence[Sizes]) -> list[Sizes]:
    """A point far beyond those tried: what grows like a root or a logarithm looks straight from nearby."""
    base = min(points, key=lambda point: math.prod(point.values()))
    reached = {label: [point[label] for point in points] for label in labels}
    near = [label for label, at in reached.items() if max(at) < FAR * min(at)]
    near.sort(key=lambda label: Grids.of(reached[label]) is None)  # a side grows like a root
    return [{**base, label: far} for label in near[:1] for far in far_sizes(reached[label])]


def _between(labels: Sequence[str], points: Sequence[Sizes]) -> Iterator[Sizes]:
    """Points in the wide gaps between those tried, and below them: what fits by chance fits where it was made to."""
    base = min(points, key=lambda point: math.prod(point.values()))
    for label in labels:
        reached = sorted({SMALLEST, *(point[label] for point in points)})
        for low, high in itertools.pairwise(reached):
            if high > WIDEST * low:
                yield {**base, label: math.isqrt(low * high)}


def _extremes(labels: Sequence[str], points: Sequence[Sizes]) -> list[Sizes]:
    """Points just beyond those tried: a number that is bounded shows by being the same twice."""
    if len(points) > POINTS + len(labels):
        return []
    found = []
    for label in labels:
        lowest, highest = (pick(points, key=lambda point: point[label]) for pick in (min, max))
        found += [{**highest, label: highest[label] + 1}, {**lowest, label: lowest[label] + 1}]
    return [point for point in found if point not in points]
