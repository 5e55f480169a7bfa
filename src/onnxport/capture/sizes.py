"""Which other sizes of the dynamic axes a model is traced at, and the example's tensors at those sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from onnxport.capture.draw import in_order_of
from onnxport.errors import OptionError
from onnxport.graph.solve import MOST_TOKENS

# Axis label to size: one point at which the model is run.
Sizes = dict[str, int]
# An input and one of its dimensions, and how the size there follows from the axis's, as 2 * n does from n.
Place = tuple[int, int]
Form = Callable[[int], int]
# From this size on another trace is made at a smaller one.
COSTLY = 32
SMALL_ATTEMPTS = 4
# With more elements than these, and many times the example's, no trace is made.
MOST_ELEMENTS = 2**24
# How many times larger a size is that lies far from others.
FAR = 8
# How many sizes of a range are looked at.
MOST_TRIED = 1000
# How often networks that halve their input do so.
HALVINGS = 5


@dataclass(frozen=True)
class Axis:
    """All dimensions of inputs that carry one label: they change together.

    An ``optional`` one is static if the model does not take other sizes. At the places in ``plus`` the sizes of other
    axes are added.
    """

    label: str
    places: tuple[Place, ...]
    size: int
    named: bool
    low: int = 1
    high: int | None = None
    forms: Mapping[Place, Form] = field(default_factory=dict)
    optional: bool = False
    plus: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    promised: bool = False  # declared with a range, which the model has to take
    aliases: Mapping[Place, str] = field(default_factory=dict)  # the names that places had before they were related

    def length(self, place: Place, point: Mapping[str, int]) -> int:
        """The size of one of its places at a point."""
        size = point[self.label]
        own = self.forms[place](size) if place in self.forms else size
        return own + sum(point[label] for label in self.plus.get(place, ()))

    def takes(self, size: int) -> bool:
        """Whether a size lies in the range that the user gave."""
        return self.low <= size and (self.high is None or size <= self.high)

    @property
    def leads(self) -> bool:
        """Whether it is the first dimension wherever it stands, as a batch is."""
        return all(dim == 0 for _, dim in self.places)


def find_axes(
    declared: Sequence[Mapping[int, str]], named: Sequence[bool], tensors: Sequence[torch.Tensor]
) -> list[Axis]:
    """The axes declared on the inputs: per input, dimension to label."""
    places: dict[str, list[tuple[int, int]]] = {}
    by_name: dict[str, bool] = {}
    for index, (dims, is_named) in enumerate(zip(declared, named, strict=True)):
        for dim, label in dims.items():
            places.setdefault(label, []).append((index, dim))
            by_name[label] = is_named
    axes = []
    for label, where in places.items():
        lengths = {tensors[index].shape[dim] for index, dim in where}
        if len(lengths) > 1:
            raise OptionError(
                f"dynamic_axes: {label!r} is the name of axes that have the sizes {sorted(lengths)} in the example; "
                "axes of one name are equal"
            )
        axes.append(Axis(label, tuple(where), lengths.pop(), by_name[label]))
    return axes


def shapes_at(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Mapping[str, int]) -> list[list[int]]:
    """The shapes of the inputs at a point; an axis that it leaves out is as in the example."""
    shapes = [list(tensor.shape) for tensor in tensors]
    whole = {**example_sizes(axes), **point}
    for axis in axes:
        for place in axis.places:
            shapes[place[0]][place[1]] = axis.length(place, whole)
    return shapes


def form_name(label: str, form: Form) -> str:
    """``2*n + 1`` of the function that gives it."""
    offset, factor = form(0), form(1) - form(0)
    product = label if factor == 1 else f"{factor}*{label}"
    return f"{product} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else product


def example_sizes(axes: Sequence[Axis]) -> Sizes:
    return {axis.label: axis.size for axis in axes}


def traces_example(axes: Sequence[Axis]) -> bool:
    """An example with size 1 on a dynamic axis is not traced: broadcasting over that 1 would be baked in."""
    return all(axis.size > 1 for axis in axes)


def points_needed(axes: Sequence[Axis]) -> int:
    """How many points beside the example: a second axis needs one more to be told from products and sums."""
    if not axes:
        return 0
    return 2 if len(axes) > 1 or not traces_example(axes) else 1


def attempts(axes: Sequence[Axis], taken: Sequence[Sizes], tensors: Sequence[torch.Tensor]) -> Iterator[Sizes]:
    """Points to try for the next trace, the most telling first; for models that refuse some sizes, tamer ones follow.

    Batch-like axes may usually be anything; the others often must keep a multiple (strides, patches, windows).
    Sizes lie far apart, unless so many axes make the inputs huge.
    """
    static = frozenset(length for tensor in tensors for length in tensor.shape)
    example = example_sizes(axes)
    others = sum(point != example for point in taken)
    for lead, rest in (
        (None, None),
        (_far, _multiple),
        (_far, _smaller_multiple),
        (_double, _double),
        (_multiple, _multiple),
        (_far, _square(_smaller_multiple)),
        (_far, _square(_near)),
        *((_small(skipped), _small(skipped)) for skipped in range(SMALL_ATTEMPTS)),
    ):
        known = static | {size for point in (*taken, example) for size in point.values()}
        rules = [(lead if axis.leads else rest) or _telling(others, place) for place, axis in enumerate(axes)]
        used, point = set(known), Sizes()
        for axis, rule in zip(axes, rules, strict=True):
            before = [other[axis.label] for other in taken if axis.label in other]
            candidates = _apart(_apart(rule(axis.size), list(point.values()), 3), before, 6)
            point[axis.label] = _fresh(axis, candidates, used)
            used.add(point[axis.label])
        # In turns from the first axis and from the last, lest they go in step.
        yield point if _is_bearable(point, axes, tensors) else _small_point(axes[:: -1 if others % 2 else 1], known)


def _is_bearable(point: Sizes, axes: Sequence[Axis], tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the inputs have no more elements than a trace can be made with."""
    elements = sum(map(math.prod, shapes_at(tensors, axes, point)))
    return elements <= max(MOST_ELEMENTS, 16 * sum(tensor.numel() for tensor in tensors))


def _small_point(axes: Sequence[Axis], known: frozenset[int]) -> Sizes:
    """The smallest sizes that nothing else has."""
    used, point = set(known), Sizes()
    for axis in axes:
        point[axis.label] = _fresh(axis, iter(range(2, 10_000)), used)
        used.add(point[axis.label])
    return point


def check_points(axes: Sequence[Axis], traced: Sequence[Sizes]) -> list[Sizes]:
    """Two points or more, other than the example, at which to check: those traced, and one that was not."""
    example = example_sizes(axes)
    points = [point for point in traced if point != example]
    if points:
        seen = [(axis, [point[axis.label] for point in (example, *points)]) for axis in axes]
        unseen = {axis.label: _unseen(axis, sizes) for axis, sizes in seen}
        squares = {a.label: square for a, sizes in seen if (square := _unseen_square(a, sizes)) is not None}
        points += [unseen, {**unseen, **squares}] if squares else [unseen]
    return points


def _unseen_square(axis: Axis, seen: Sequence[int]) -> int | None:
    """Where all that were seen are squares, another one: the model may take no others."""
    grids = Grids.of(seen)
    square = None if grids is None else grids.size(_unseen(replace(axis, low=1, high=None), grids.sides))
    return square if square is not None and axis.takes(square) else None


def _unseen(axis: Axis, seen: Sequence[int]) -> int:
    """A size between the first two on the grid that they all share, for models that need multiples; else one beyond.

    Of those between, one that is odd after as many halvings as possible after which none of the seen is: what a model
    does with a half that is odd shows nowhere else.
    """
    step = math.gcd(*seen)
    low, high = sorted(seen[:2])
    middle = low + (high - low) // (2 * step) * step
    between = [middle, *range(low + step, high, step)[:MOST_TRIED]]
    fitting: list[int] = [size for size in between if size not in seen and axis.takes(size)]
    if fitting:
        return max(fitting, key=lambda size: _new_halves(size, seen))
    return max(seen) + step if axis.takes(max(seen) + step) else _fresh(axis, iter(()), set(seen))


def _new_halves(size: int, seen: Sequence[int]) -> int:
    """After how many halvings, rounded down or up, the size is odd or even as none of the seen sizes is."""
    levels = [(up, level) for up in (0, 1) for level in range(HALVINGS) if size >> level > 1]
    return sum((size - up) >> level & 1 not in {(other - up) >> level & 1 for other in seen} for up, level in levels)


def resize(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], sizes: Sizes) -> list[torch.Tensor]:
    """The example's tensors with each axis at its new size: content repeated or cut, so that it stays in its range."""
    result = list(tensors)
    for axis in axes:
        for index, dim in axis.places:
            old, new = result[index].shape[dim], axis.length((index, dim), sizes)
            if old == 0:
                shape = list(result[index].shape)
                shape[dim] = new
                result[index] = result[index].new_zeros(shape)
            elif old != new:
                repeated = result[index].index_select(dim, torch.arange(new) % old)
                result[index] = in_order_of(tensors[index], repeated)
    return result


def _telling(others: int, place: int) -> Callable[[int], Iterator[int]]:
    """The rule for an axis at the next point after so many others. Neighbours move by different rules: two axes that go
    in step look like functions of each other."""
    return (_far, _near)[(others + place) % 2] if others < 2 else _further(others + 1 + place % 2)


def _far(size: int) -> Iterator[int]:
    """About twice the size, or half of one at which a pass is costly, and odd where it is even: far enough that a part
    of it is another number, too, and that a condition on its parity shows."""
    start = size // 2 if size >= COSTLY else 2 * size
    start += start % 2 == size % 2
    return (start + 2 * step for step in range(10_000))


def _near(size: int) -> Iterator[int]:
    start = size - size // 4 if size >= COSTLY else max(size, 1)
    return (start + step for step in range(1, 10_000))


def _further(factor: int) -> Callable[[int], Iterator[int]]:
    """Several times the size, or a part of one at which a pass is costly."""

    def candidates(size: int) -> Iterator[int]:
        start = max(size // factor, 2) if size >= COSTLY else factor * max(size, 1) + 1
        return (start + step for step in range(10_000))

    return candidates


def _multiple(size: int) -> Iterator[int]:
    step = _power_of_two(size)
    return (size + step * count for count in range(1, 10_000))


def _smaller_multiple(size: int) -> Iterator[int]:
    step = _power_of_two(size)
    yield from (smaller for smaller in range(size - step, 1, -step))
    yield from _multiple(size)


def _double(size: int) -> Iterator[int]:
    yield from (size // 2, size // 4) if size >= COSTLY else ()
    yield from (max(size, 1) * factor for factor in range(2, 10_000))


def _square(rule: Callable[[int], Iterator[int]]) -> Callable[[int], Iterator[int]]:
    """For models that compute the side of a square grid: of a size that is a square, but for a few tokens, other
    squares, whose sides follow a rule."""

    def candidates(size: int) -> Iterator[int]:
        grids = Grids.of([size])
        return rule(size) if grids is None else map(grids.size, rule(grids.sides[0]))

    return candidates


@dataclass(frozen=True)
class Grids:
    """Sizes that are all squares, with the same few tokens beside them."""

    sides: tuple[int, ...]
    tokens: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Grids | None:
        for tokens in range(MOST_TOKENS + 1):
            sides = tuple(math.isqrt(max(size - tokens, 0)) for size in sizes)
            grids = cls(sides, tokens)
            if min(sides) > 1 and list(map(grids.size, sides)) == list(sizes):
                return grids
        return None

    def size(self, side: int) -> int:
        return side * side + self.tokens


def far_sizes(sizes: Sequence[int]) -> list[int]:
    """One many times those; where all of them are squares, the smallest squares before a large one."""
    grids = Grids.of(sizes)
    if grids is None:
        return [FAR * max(sizes)]
    return list(map(grids.size, (2, 3, 4, math.ceil(math.sqrt(FAR)) * max(grids.sides))))


def _small(skipped: int) -> Callable[[int], Iterator[int]]:
    """For models that take only a few sizes: the small numbers, one after another."""
    return lambda size: iter(range(2 + skipped, 10_000))


def _power_of_two(size: int) -> int:
    return math.gcd(size, 32) if size else 2


def _apart(candidates: Iterator[int], others: Sequence[int], part: int) -> Iterator[int]:
    """Those that differ from other sizes by a part of their own, so that they still do after a network's strides."""
    return (size for size in candidates if all(abs(size - other) >= size // part for other in others))


def _fresh(axis: Axis, candidates: Iterator[int], used: set[int]) -> int:
    """The first candidate that nothing else is and that lies in the axis's range, or another size of that range."""
    found = next((size for size in candidates if size > 1 and size not in used and axis.takes(size)), None)
    if found is not None:
        return found
    in_range = range(axis.low, axis.low + MOST_TRIED if axis.high is None else axis.high + 1)
    sizes = sorted(in_range[:MOST_TRIED], key=lambda size: (size in used, size == axis.size, size < 2))
    return sizes[0]
