"""Numbers that only run time knows, as they are guessed at each evaluation point.

Guesses are drawn apart, so that sizes which are unrelated differ somewhere. Where an operator refuses them because two
sizes must be equal, they are drawn as one and the program is read again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from onnxport.graph.ir import NUMBER, Argument, ScalarType, Value
from onnxport.graph.sizes import Operand, SizeExpr, values

# With fewer points than this, unrelated guesses may agree at all of them.
LEAST_POINTS = 6
# Sizes at the last point, where bounds that a program cuts at are exceeded.
LARGE = 4000
FLOAT_GUESSES = (1.1, 9.9)


class MorePoints(Exception):
    """The program has numbers that only run time knows, and there are too few points to tell them apart."""


# What readings found of sizes: the sites of guesses, or sizes that follow from guesses, and what each is to be.
Settled: TypeAlias = "dict[int | tuple[int, ...], tuple[int, ...]]"


class OneSize(Exception):
    """Two sizes must be equal: ``size`` is to be ``at``. Where it is a guess, ``site`` tells which."""

    def __init__(self, site: int | None, size: tuple[int, ...], at: tuple[int, ...]) -> None:
        super().__init__(site, size, at)
        self.key = size if site is None else site
        self.size = size
        self.at = at
        self.frozen: Any = None  # what was read of data that says so, which the next reading does not see any more
        self.is_guess = False  # whether it still is one, which only data tells

    def settle(self, settled: Settled) -> None:
        """Note it, also for what was found to have the same size before."""
        for key, at in list(settled.items()):
            if at == self.size:
                settled[key] = self.at
        settled[self.key] = self.at
        if self.is_guess:
            settled[self.at] = self.at


class Seen(Exception):
    """A guess is known at the first point, which is a run: this number."""

    def __init__(self, site: int, number: int) -> None:
        super().__init__(site, number)
        self.site = site
        self.number = number


class Guesses:
    """The guesses of one reading. ``settled`` is what earlier readings found, ``large`` the least guess at the last
    point.

    ``alike`` has, for each point, the first one with the same sizes of the dynamic axes: there only guesses differ.
    """

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), large: int = LARGE) -> None:
        self.count = count
        self._large = large
        self._settled = settled
        self._alike = alike or range(count)
        self.sites = 0
        self._floats = 0
        self._guessed: dict[tuple[int, ...], int] = {}
        self.chosen: Mapping[int, Mapping[int, int]] = {}  # by points: what guesses are there, by their sites
        # What numbers of the program are at the points, and how those that are no sizes follow from sizes.
        self.numbers: dict[Value, tuple[Any, ...]] = {}
        self.expressions: dict[Value, Operand] = {}

    def guess(self, least: int = 2) -> SizeExpr:
        """A number that only run time knows."""
        if self.count < LEAST_POINTS:
            raise MorePoints
        site, self.sites = self.sites, self.sites + 1
        at = self._settled.get(site)
        if at is None:
            draw = random.Random(site)
            drawn = (draw.randrange(least, 10) for _ in range(self.count - 1))
            at = self._guessed_at(site, (*drawn, self._large + draw.randrange(self._large // 4)))
        return SizeExpr(at)

    def _guessed_at(self, site: int, drawn: Sequence[int]) -> tuple[int, ...]:
        """A guess, which is what was drawn but at points for which it was chosen."""
        at = tuple(self.chosen.get(point, {}).get(site, number) for point, number in enumerate(drawn))
        self._guessed[at] = site
        return at

    def site_of(self, leaf: SizeExpr) -> int | None:
        """Which guess a number is."""
        return self._guessed.get(leaf.at) if leaf.kind is int else None

    def rewind(self, start: int, found: OneSize) -> bool:
        """Forget the guesses from ``start`` on and note what was found; False where it concerns what lies before."""
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
        """Numbers that no size is: where a shape follows from them, it differs between the points."""
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
        """A number as an expression of sizes; None for one that follows from something else."""
        if not isinstance(argument, Value):
            return argument if isinstance(argument, (int, float)) else None
        if argument.size is not None:
            return argument.size
        if argument.node is not None and argument.node.op == NUMBER:
            found: Operand = argument.node.inputs["expression"]
            return found
        return self.expressions.get(argument)
