"""An operator's requirements for the sizes of its arguments, at each evaluation point."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import cast

from onnxport.graph.sizes import Shape, Size, SizeExpr, apply, larger
from onnxport.graph.sizes.numeric import COMPARISONS

# Called with a point at which an operator refuses its arguments, and the reason.
Refuse = Callable[[int, str], None]


class NotKnown(Exception):
    """A shape function does not cover this form of a call."""


class Requirements:
    """Calls ``refuse`` for requirements that do not hold at a point.

    If one does not hold at the first point, which is the recorded run, the function has misread the call. ``guessed``
    says that sizes are data-dependent: at run time they may differ from those at all points.
    """

    def __init__(self, points: int, refuse: Refuse, *, guessed: bool = False) -> None:
        self.points = points
        self._refuse = refuse
        self._guessed = guessed

    def where(self, condition: Callable[..., bool], *sizes: Size) -> Requirements:
        """Requirements only for the points at which sizes meet a condition."""
        holds = [condition(*row) for row in zip(*map(self.at, sizes), strict=True)]
        if all(holds):
            return self

        def refuse(point: int, reason: str) -> None:
            if holds[point]:
                self._refuse(point, reason)

        return Requirements(self.points, refuse, guessed=self._guessed)

    def at(self, size: Size) -> Sequence[int]:
        return size.at if isinstance(size, SizeExpr) else (size,) * self.points

    def ever(self, op: str, left: Size, right: Size) -> bool:
        """Whether a comparison may hold: at a point, or for other values of guessed sizes."""
        if not self._guessed:
            return any(map(COMPARISONS[op], self.at(left), self.at(right)))
        found = apply(op, left, right)
        return isinstance(found, SizeExpr) or bool(found)

    def not_negative(self, size: Size) -> Size:
        """The size, or 0 if it is negative."""
        return larger(size, 0) if self.ever("lt", size, 0) else size

    def hold(self, test: Callable[..., bool], reason: str, *sizes: Size) -> None:
        """Require the sizes to pass a test at each point."""
        if all(type(size) is int for size in sizes):
            if not test(*sizes):
                raise NotKnown
            return
        for point, row in enumerate(zip(*map(self.at, sizes), strict=True)):
            if not test(*row):
                if point == 0:
                    raise NotKnown
                self._refuse(point, f"{reason}: {' and '.join(map(str, row))}")

    def hold_form(self, test: Callable[..., bool], reason: str, *sizes: Size) -> None:
        """Require sizes for which the results have the form of the recorded run; the operator accepts others, too."""
        self.hold(test, reason, *sizes)

    def equal(self, left: Size, right: Size, what: str = "sizes") -> Size:
        if left is not right:
            self.hold(operator.eq, f"{what} have to be equal", left, right)
        return left

    def at_least(self, size: Size, least: Size, what: str = "the size") -> None:
        self.hold(operator.ge, f"{what} must be at least as large", size, least)

    def multiple(self, size: Size, of: Size, what: str = "the size") -> None:
        self.hold(lambda a, b: b != 0 and a % b == 0, f"{what} must be a multiple", size, of)

    def same(self, shapes: Sequence[Sequence[Size]]) -> None:
        """Require equal shapes."""
        first, *others = shapes
        for shape in others:
            if len(shape) != len(first):
                raise NotKnown
            for left, right in zip(first, shape, strict=True):
                self.equal(left, right)

    def not_empty(self, sizes: Sequence[Size], what: str = "the size") -> None:
        for size in sizes:
            self.at_least(size, 1, what)

    def expandable(self, shape: Sequence[Size], to: Sequence[Size]) -> None:
        """Require a shape to broadcast to another one."""
        offset = len(to) - len(shape)
        if offset < 0:
            raise NotKnown
        for axis, size in enumerate(shape):
            wanted = to[offset + axis]
            if size is not wanted and not (type(size) is int and size == 1):
                self.hold(lambda a, b: a in (1, b), "sizes have to be equal, or the first one 1", size, wanted)

    def broadcast(self, *shapes: Shape) -> Shape:
        """The shape that these shapes broadcast to."""
        if not shapes:
            raise NotKnown
        result = max(shapes, key=len)
        for shape in shapes:
            if shape is result or shape == result:
                continue
            offset = len(result) - len(shape)
            sizes = (self.broadcast_size(result[offset + axis], size) for axis, size in enumerate(shape))
            result = (*result[:offset], *sizes)
        return result

    def broadcast_size(self, left: Size, right: Size) -> Size:
        if left is right or (type(right) is int and right == 1):
            return left
        if type(left) is int and left == 1:
            return right
        if left == right:
            return left
        self.hold(lambda a, b: a == b or 1 in (a, b), "sizes have to be equal or 1", left, right)
        found = [a if b == 1 else b for a, b in zip(self.at(left), self.at(right), strict=True)]
        for size in (left, right):
            if list(self.at(size)) == found:
                return size
        return cast("Size", apply("where", apply("eq", right, 1), left, right))
