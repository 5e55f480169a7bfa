"""Axes that were given without a name may turn out equal: tied together as far as the model needs it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onnxport.capture.sizes import Axis

Group = list[Axis]
Takes = Callable[[list[Axis]], bool]

# Of more axes that are tied together none is split off.
MOST_SPLIT = 5


def candidates(axes: list[Axis], takes: Takes) -> Iterator[list[Axis]]:
    """The axes as they are given, then with those tied together that are equal in the example.

    ``takes`` tells whether the model takes other sizes of given axes.
    """
    yield axes
    yield _tied(_alike(axes, lambda axis: (axis.size, axis.places[0][1])))
    yield _loosest(axes, takes)


def _loosest(axes: Sequence[Axis], takes: Takes) -> list[Axis]:
    """Axes tied wherever they stand, to named ones as well, but none that the model takes apart."""
    pending, tied = _alike(axes, lambda axis: axis.size, to_named=True), list[Group]()
    if not takes(_tied(pending)):
        return _tied(pending)
    while pending:
        group = pending.pop()
        halves = ((part, [axis for axis in group if axis not in part]) for part in _parts(group[1:]))
        split = next((pair for pair in halves if takes(_tied([*tied, *pending, *pair]))), None)
        if split is None:
            tied.append(group)
        else:
            pending += split
    places = {axis.label: place for place, axis in enumerate(axes)}
    return sorted(_tied(tied), key=lambda axis: places[axis.label])


def _alike(axes: Sequence[Axis], key: Callable[[Axis], object], *, to_named: bool = False) -> list[Group]:
    """The axes in groups: those with a name each in one of its own, the others by a key."""
    named = [[axis] for axis in axes if axis.named]
    groups: dict[object, Group] = {key(group[0]): group for group in reversed(named)} if to_named else {}
    order = {id(group): group for group in named}
    for axis in axes:
        if not axis.named:
            group = groups.setdefault(key(axis), [])
            group.append(axis)
            order[id(group)] = group
    return list(order.values())


def _tied(groups: Sequence[Group]) -> list[Axis]:
    """One axis for each group."""
    return [replace(group[0], places=tuple(p for axis in group for p in axis.places)) for group in groups]


def _parts(axes: Sequence[Axis]) -> Iterator[Group]:
    """What could be split off: each of a few axes, then each two of them, and so on."""
    counts = range(1, len(axes) + 1) if len(axes) <= MOST_SPLIT else ()
    return map(list, itertools.chain.from_iterable(itertools.combinations(axes, count) for count in counts))
