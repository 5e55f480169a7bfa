"""Whether an operator accepts its arguments, as a condition on their sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxport.graph.ir import Node
from onnxport.graph.shapes.requirements import Requirements
from onnxport.graph.shapes.result_shapes import result_shapes
from onnxport.graph.sizes import Operand, Size, exact


def accepts(node: Node, points: int) -> Operand | None:
    """The condition under which the sizes of a node's arguments meet its shape function's requirements; None if it has
    no shape function."""
    require = _Conditions(points)
    try:
        shapes = result_shapes(node, require)
    except (LookupError, TypeError, ValueError):  # the operator accepts these arguments at no size
        return None
    return None if shapes is None else require.all()


class _Conditions(Requirements):
    """Collects requirements as expressions, whether they hold at the points or not."""

    def __init__(self, points: int, premise: Operand = True, found: list[Operand] | None = None) -> None:
        super().__init__(points, lambda point, reason: None)
        self._premise = premise
        self._found: list[Operand] = [] if found is None else found

    def where(self, condition: Callable[..., bool], *sizes: Size) -> Requirements:
        return _Conditions(self.points, exact("and", self._premise, _outcome(condition, sizes)), self._found)

    def hold(self, test: Callable[..., bool], reason: str, *sizes: Size) -> None:
        outcome = _outcome(test, sizes)
        self._found.append(outcome if self._premise is True else exact("or", exact("not", self._premise), outcome))

    def hold_form(self, test: Callable[..., bool], reason: str, *sizes: Size) -> None:
        pass

    def all(self) -> Operand:
        found: Operand = True
        for condition in self._found:
            found = condition if found is True else exact("and", found, condition)
        return found


class _Undecided(Exception):
    """A test needs the outcome of a comparison."""

    def __init__(self, comparison: Operand) -> None:
        super().__init__(comparison)
        self.comparison = comparison


def _outcome(test: Callable[..., Any], sizes: tuple[Size, ...], *decided: bool) -> Operand:
    """The result of a test on sizes, as an expression: each comparison in it is followed with both outcomes."""
    answers = iter(decided)
    try:
        found = test(*(_Compared(size, answers) for size in sizes))
    except _Undecided as open_:
        if not isinstance(open_.comparison, (bool, int, float)):
            if_true, if_false = (_outcome(test, sizes, *decided, outcome) for outcome in (True, False))
            return _either(open_.comparison, if_true, if_false)
        return _outcome(test, sizes, *decided, bool(open_.comparison))
    return found.number if isinstance(found, _Compared) else bool(found)


def _either(condition: Operand, if_true: Operand, if_false: Operand) -> Operand:
    return exact("or", exact("and", condition, if_true), exact("and", exact("not", condition), if_false))


class _Compared:
    """A number in a test, which records comparisons."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, number: Any, answers: Any) -> None:
        self.number = number
        self._answers = answers

    def _applied(self, op: str, *operands: Any) -> _Compared:
        numbers = [operand.number if isinstance(operand, _Compared) else operand for operand in operands]
        return _Compared(exact(op, *numbers), self._answers)

    def __bool__(self) -> bool:
        for answer in self._answers:
            return bool(answer)
        raise _Undecided(self.number)

    def __eq__(self, other: object) -> Any:
        return self._applied("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._applied("ne", self, other)

    def __lt__(self, other: object) -> Any:
        return self._applied("lt", self, other)

    def __le__(self, other: object) -> Any:
        return self._applied("le", self, other)

    def __gt__(self, other: object) -> Any:
        return self._applied("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return self._applied("ge", self, other)

    def __add__(self, other: object) -> Any:
        return self._applied("add", self, other)

    def __sub__(self, other: object) -> Any:
        return self._applied("sub", self, other)

    def __mul__(self, other: object) -> Any:
        return self._applied("mul", self, other)

    def __mod__(self, other: object) -> Any:
        return self._applied("mod", self, other)

    def __neg__(self) -> Any:
        return self._applied("neg", self)
