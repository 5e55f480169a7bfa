"""Guesses at each evaluation point for numbers that are only known at run time.

Each guess is drawn on its own, so that unrelated sizes differ at some point. Where an operator refuses guesses because
two sizes must be equal, they become one guess and the program is read again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from onnxport.graph.ir import NUMBER, Argument, ScalarType, Value
from onnxport.graph.sizes import Operand, SizeExpr, values

# With fewer points than this, unrelated guesses may agree at all of them.
LEAST_POINTS = 6
# The least guess at the last point, so that it exceeds the bounds of slices.
LARGE = 4000
FLOAT_GUESSES = (1.1, 9.9)


class MorePoints(Exception):
    """The program has numbers that are only known at run time, and too few points to tell them apart."""


# What earlier readings found: the values of guesses by their site, and of sizes that follow from guesses.
Settled: TypeAlias = "dict[int | tuple[int, ...], tuple[int, ...]]"


class Varying(Exception):
    """Axes of values that a loop carries, by the numbers of these in its body, whose sizes its iterations change."""

    def __init__(self, axes: set[tuple[int, int]]) -> None:
        super().__init__(axes)
        self.axes = axes


class OneSize(Exception):
    """Two sizes must be equal: ``size`` has to be ``at``. ``site`` identifies the guess if it is one."""

    def __init__(self, site: int | None, size: tuple[int, ...], at: tuple[int, ...]) -> None:
        super().__init__(site, size, at)
        self.key = size if site is None else site
        self.size = size
        self.at = at
        self.frozen: Any = None  # the frozen value that showed it, which the next reading no longer sees
        self.is_guess = False  # whether ``at`` is data-dependent, too

    def settle(self, settled: Settled) -> None:
        """Note it, also for what was found to be equal to ``size`` before."""
        for key, at in list(settled.items()):
            if at == self.size:
                settled[key] = self.at
        settled[self.key] = self.at
        if self.is_guess:
            settled[self.at] = self.at


class Seen(Exception):
    """The number of a guess at the first point, which is a run of the model."""

    def __init__(self, site: int, number: int) -> None:
        super().__init__(site, number)
        self.site = site
        self.number = number


class Guesses:
    """The guesses of one reading.

    ``settled`` is what earlier readings found, ``large`` the least guess at the last point. ``alike`` has for each
    point the first one with the same sizes of the dynamic axes: between these only guesses differ.
    """

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), large: int = LARGE) -> None:
        self.count = count
        self._large = large
        self._settled = settled
        self._alike = alike or range(count)
        self.sites = 0
        self._floats = 0
        self._guessed: dict[tuple[int, ...], int] = {}
        self.chosen: Mapping[int, Mapping[int, int]] = {}  # guesses that are given for a point, by their sites
        # Numbers of the program at the points, and the expressions of those that are not sizes.
        self.numbers: dict[Value, tuple[Any, ...]] = {}
        self.expressions: dict[Value, Operand] = {}

    def guess(self, least: int = 2) -> SizeExpr:
        """A new guess for a number that is only known at run time."""

        def draw(random_numbers: random.Random) -> tuple[int, ...]:
            drawn = (random_numbers.randrange(least, 10) for _ in range(self.count - 1))
            return (*drawn, self._large + random_numbers.randrange(self._large // 4))

        return self._new_guess(draw)

    def _new_guess(self, draw: Callable[[random.Random], tuple[int, ...]]) -> SizeExpr:
        """A guess at the next site: what earlier readings found for it, else numbers that are drawn for each point."""
        if self.count < LEAST_POINTS:
            raise MorePoints
        site, self.sites = self.sites, self.sites + 1
        at = self._settled.get(site)
        return SizeExpr(self._guessed_at(site, draw(random.Random(site))) if at is None else at)

    def _guessed_at(self, site: int, drawn: Sequence[int]) -> tuple[int, ...]:
        """Note a guess: the numbers drawn, except at points for which one was chosen."""
        at = tuple(self.chosen.get(point, {}).get(site, number) for point, number in enumerate(drawn))
        self._guessed[at] = site
        return at

    def site_of(self, leaf: SizeExpr) -> int | None:
        """The site of a guess; None for other numbers."""
        return self._guessed.get(leaf.at) if leaf.kind is int else None

    def rewind(self, start: int, found: OneSize) -> bool:
        """Forget the guesses from ``start`` on and note what was found; False if that concerns earlier guesses."""
        alike = [key for key, at in self._settled.items() if at == found.size]
        if found.key in self._settled or any(isinstance(key, int) and key < start for key in (found.key, *alike)):
            return False
        found.settle(self._settled)
        self._guessed = {at: site for at, site in self._guessed.items() if site < start}
        self.sites = start
        return True

    def number(self, value: Value) -> tuple[Any, ...]:
        """A scalar at each point."""
        known = self.numbers.get(value)
        if known is not None:
            return known
        if value.size is not None:
            return values(value.size, self.count)
        assert isinstance(value.type, ScalarType), value
        self.numbers[value] = self._drawn(value.type.kind)
        return self.numbers[value]

    def _drawn(self, kind: type) -> tuple[Any, ...]:
        """Numbers that are not sizes: a shape that follows from them differs between the points."""
        if kind is int:
            return (2,) * self.count
        if self.count < LEAST_POINTS:
            raise MorePoints
        if kind is bool:
            return tuple(point % 2 == 1 for point in range(self.count))
        self._floats += 1
        draw = random.Random(-self._floats)
        return tuple(draw.uniform(*FLOAT_GUESSES) for _ in range(self.count))

    def expression(self, argument: Argument) -> Operand | None:
        """A number as a size expression; None for one that has none."""
        if not isinstance(argument, Value):
            return argument if isinstance(argument, (int, float)) else None
        if argument.size is not None:
            return argument.size
        if argument.node is not None and argument.node.op == NUMBER:
            found: Operand = argument.node.inputs["expression"]
            return found
        return self.expressions.get(argument)
