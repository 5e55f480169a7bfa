"""Sizes as expressions: trees of operators over the sizes of axes and values, with their values at some points.

``apply("floordiv", height, 2)`` and ``height // 2`` make one. A number that is the same at every point is a plain
Python number, never an expression.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast, overload

from onnxport.graph.sizes.numeric import Kind, Number, compute, compute_all, kind_of
from onnxport.graph.sizes.post_order import post_order

# The kinds of leaves. Their operands are the axis or the value that they are read from.
UNKNOWN, AXIS, SIZE_OF, NUMBER_OF = "Unknown", "axis", "size_of", "number_of"
LEAVES = frozenset({UNKNOWN, AXIS, SIZE_OF, NUMBER_OF})


class SizeExpr:
    """A size, or a number computed from sizes: the operator ``op`` and its ``operands``.

    ``at`` is its value at each of the evaluation points: ints, or floats or bools where ``kind`` says so. Two
    expressions are equal if they are of one kind and have equal values at every point.
    """

    __slots__ = ("_hash", "at", "bounds", "form", "kind", "op", "operands")
    at: tuple[int, ...]
    op: str
    operands: tuple[Any, ...]
    kind: Kind
    # The canonical form and the bounds, once they are computed.
    form: Any
    bounds: Any
    _hash: int

    def __init__(self, at: Sequence[Number]) -> None:
        """A number of unknown origin."""
        _fill(self, UNKNOWN, (), _common_kind(at), tuple(at))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a size expression does not change: {name} cannot be set")

    @property
    def is_leaf(self) -> bool:
        return self.op in LEAVES

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, SizeExpr) and other.at == self.at and other.kind is self.kind

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"SizeExpr{self.at}"

    def __copy__(self) -> SizeExpr:
        return self

    def __deepcopy__(self, memo: object) -> SizeExpr:
        return self

    def __reduce__(self) -> tuple[Callable[..., SizeExpr], tuple[Any, ...]]:
        return _made, (self.op, self.operands, self.kind, self.at)

    # Arithmetic: ints give an int or a size, other operands any number.

    @overload
    def __add__(self, other: Size) -> Size: ...
    @overload
    def __add__(self, other: Operand) -> Operand: ...
    def __add__(self, other: Operand) -> Operand:
        return apply("add", self, other) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __sub__(self, other: Size) -> Size: ...
    @overload
    def __sub__(self, other: Operand) -> Operand: ...
    def __sub__(self, other: Operand) -> Operand:
        return apply("sub", self, other) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __mul__(self, other: Size) -> Size: ...
    @overload
    def __mul__(self, other: Operand) -> Operand: ...
    def __mul__(self, other: Operand) -> Operand:
        return apply("mul", self, other) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __floordiv__(self, other: Size) -> Size: ...
    @overload
    def __floordiv__(self, other: Operand) -> Operand: ...
    def __floordiv__(self, other: Operand) -> Operand:
        return apply("floordiv", self, other) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __mod__(self, other: Size) -> Size: ...
    @overload
    def __mod__(self, other: Operand) -> Operand: ...
    def __mod__(self, other: Operand) -> Operand:
        return apply("mod", self, other) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __radd__(self, other: int) -> Size: ...
    @overload
    def __radd__(self, other: float) -> Operand: ...
    def __radd__(self, other: Number) -> Operand:
        return apply("add", other, self) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __rsub__(self, other: int) -> Size: ...
    @overload
    def __rsub__(self, other: float) -> Operand: ...
    def __rsub__(self, other: Number) -> Operand:
        return apply("sub", other, self) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __rmul__(self, other: int) -> Size: ...
    @overload
    def __rmul__(self, other: float) -> Operand: ...
    def __rmul__(self, other: Number) -> Operand:
        return apply("mul", other, self) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __rfloordiv__(self, other: int) -> Size: ...
    @overload
    def __rfloordiv__(self, other: float) -> Operand: ...
    def __rfloordiv__(self, other: Number) -> Operand:
        return apply("floordiv", other, self) if isinstance(other, OPERANDS) else NotImplemented

    @overload
    def __rmod__(self, other: int) -> Size: ...
    @overload
    def __rmod__(self, other: float) -> Operand: ...
    def __rmod__(self, other: Number) -> Operand:
        return apply("mod", other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __truediv__(self, other: Operand) -> Operand:
        return apply("truediv", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rtruediv__(self, other: Number) -> Operand:
        return apply("truediv", other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __pow__(self, other: Operand) -> Operand:
        return apply("pow", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rpow__(self, other: Number) -> Operand:
        return apply("pow", other, self) if isinstance(other, OPERANDS) else NotImplemented

    def __lshift__(self, other: Operand) -> Operand:
        return apply("lshift", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __rshift__(self, other: Operand) -> Operand:
        return apply("rshift", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __and__(self, other: Operand) -> Operand:
        return apply("and", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __or__(self, other: Operand) -> Operand:
        return apply("or", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __xor__(self, other: Operand) -> Operand:
        return apply("xor", self, other) if isinstance(other, OPERANDS) else NotImplemented

    def __neg__(self) -> Size:
        return cast("Size", apply("neg", self))

    def __abs__(self) -> Operand:
        return apply("abs", self)

    def __ceil__(self) -> Operand:
        return apply("ceil", self)

    def __floor__(self) -> Operand:
        return apply("floor", self)

    def __trunc__(self) -> Operand:
        return apply("trunc", self)

    def __round__(self, digits: int | None = None) -> Operand:
        return apply("round", self) if digits is None else apply("round", self, digits)


OPERANDS = (SizeExpr, int, float)
Size: TypeAlias = "int | SizeExpr"
Shape: TypeAlias = "tuple[Size, ...]"
# Operands and results of operators: expressions or plain numbers.
Operand: TypeAlias = "SizeExpr | int | float"

_set_at = SizeExpr.__dict__["at"].__set__
_set_op = SizeExpr.__dict__["op"].__set__
_set_operands = SizeExpr.__dict__["operands"].__set__
_set_kind = SizeExpr.__dict__["kind"].__set__
_set_hash = SizeExpr.__dict__["_hash"].__set__
set_form = SizeExpr.__dict__["form"].__set__
set_bounds = SizeExpr.__dict__["bounds"].__set__


def _fill(expr: SizeExpr, op: str, operands: tuple[Any, ...], kind: Kind, at: tuple[Number, ...]) -> None:
    if kind is float:
        at = tuple([math.nan if number != number else number for number in at])
    _set_at(expr, at)
    _set_op(expr, op)
    _set_operands(expr, operands)
    _set_kind(expr, kind)
    _set_hash(expr, hash((kind, at)))
    set_form(expr, None)
    set_bounds(expr, None)


def _made(op: str, operands: tuple[Any, ...], kind: Kind, at: tuple[Number, ...]) -> SizeExpr:
    expr = SizeExpr.__new__(SizeExpr)
    _fill(expr, op, operands, kind, at)
    return expr


def _common_kind(at: Iterable[Number]) -> Kind:
    kinds = set(map(type, at))
    return bool if kinds == {bool} else float if float in kinds else int


# Leaves


def axis(label: str, at: Sequence[int]) -> SizeExpr:
    """The size of a dynamic axis."""
    return _made(AXIS, (label,), int, tuple(at))


def size_of(value: Hashable, axis: int, at: Sequence[int]) -> SizeExpr:
    """A size that is read at run time from a tensor."""
    return _made(SIZE_OF, (value, axis), int, tuple(at))


def number_of(value: Hashable, at: Sequence[Number]) -> SizeExpr:
    """A number, int or float, that is only known at run time."""
    return _made(NUMBER_OF, (value,), _common_kind(at), tuple(at))


# Operators


def apply(op: str, *operands: Operand) -> Operand:
    """The result of an operator by its name: a number only if it is the same for all sizes."""
    if len(operands) == 2:
        unchanged = _unchanged(op, *operands)
        if unchanged is not None:
            return unchanged
    if op == "where" and not isinstance(operands[0], SizeExpr):
        return operands[1] if operands[0] else operands[2]
    expr = node(op, *operands)
    if not isinstance(expr, SizeExpr):
        return expr
    first = expr.at[0]
    if expr.at.count(first) != len(expr.at):
        return expr
    from onnxport.graph.sizes.canonical import canonical  # noqa: PLC0415 forms are made of expressions

    found = canonical(expr)
    return expr if isinstance(found, SizeExpr) else found


def node(op: str, *operands: Operand) -> Operand:
    """The expression of an operator, even if it is the same at every point; a number if all operands are."""
    kinds = [operand.kind if isinstance(operand, SizeExpr) else type(operand) for operand in operands]
    if op == "log" and len(operands) == 2:
        return node("truediv", node("log", operands[0]), node("log", operands[1]))
    exponent = operands[-1].at[0] if isinstance(operands[-1], SizeExpr) else operands[-1]
    kind = kind_of(op, kinds, exponent)
    if not any(isinstance(operand, SizeExpr) for operand in operands):
        return compute(op, kind, *operands)
    columns = [operand.at if isinstance(operand, SizeExpr) else itertools.repeat(operand) for operand in operands]
    return _made(op, operands, kind, compute_all(op, kind, columns))


def _unchanged(op: str, left: Operand, right: Operand) -> Operand | None:
    """The operand that an operator on integers returns unchanged, as in x + 0; else None."""
    if type(right) is int and isinstance(left, SizeExpr) and left.kind is int:
        neutral = right == 0 if op in ("add", "sub") else right == 1 and op in ("mul", "floordiv")
        return left if neutral else None
    if type(left) is int and isinstance(right, SizeExpr) and right.kind is int:
        return right if (op == "add" and left == 0) or (op == "mul" and left == 1) else None
    return None


def compare(op: str, left: Operand, right: Operand) -> Operand:
    """``lt``, ``le``, ``gt``, ``ge``, ``eq`` or ``ne``: a bool, or an expression of kind bool."""
    return apply(op, left, right)


def where(condition: Operand, left: Operand, right: Operand) -> Operand:
    """A choice between two sizes by a condition."""
    return apply("where", condition, left, right)


def smaller(left: Size, right: Size) -> Size:
    return cast("Size", apply("min", left, right))


def larger(left: Size, right: Size) -> Size:
    return cast("Size", apply("max", left, right))


def root(of: Size) -> Size:
    """The square root, rounded down."""
    return cast("Size", apply("isqrt", of))


# Walks


def parts(expr: Operand) -> Sequence[SizeExpr]:
    """The operands that are expressions."""
    if not isinstance(expr, SizeExpr) or expr.is_leaf:
        return ()
    return [operand for operand in expr.operands if isinstance(operand, SizeExpr)]


def in_order(root: Operand, parts: Callable[[SizeExpr], Sequence[SizeExpr]] = parts) -> Iterator[SizeExpr]:
    """Every expression of a tree once, operands first."""
    return post_order(root, parts) if isinstance(root, SizeExpr) else iter(())


def leaves_of(expr: Operand) -> list[SizeExpr]:
    """The leaves of an expression, each once."""
    return list(dict.fromkeys(part for part in in_order(expr) if part.is_leaf))


def structure(expr: Operand) -> tuple[Hashable, ...]:
    """The operators and leaves of an expression, without its values at the points."""
    positions: dict[int, int] = {}
    found: list[Hashable] = []
    for part in in_order(expr):
        parts = part.operands if part.is_leaf else [(type(of), positions.get(id(of), of)) for of in part.operands]
        positions[id(part)] = len(found)
        found.append((part.op, *parts))
    return tuple(found)


def evaluate(expr: Operand, leaves: Mapping[SizeExpr, Number]) -> Number | None:
    """The value of an expression for these values of its leaves; None if one is missing."""
    if not isinstance(expr, SizeExpr):
        return expr
    known: dict[int, Number] = {}
    for part in in_order(expr):
        if part.is_leaf:
            if part not in leaves:
                return None
            known[id(part)] = leaves[part]
        else:
            numbers = [known[id(of)] if isinstance(of, SizeExpr) else of for of in part.operands]
            known[id(part)] = compute(part.op, part.kind, *numbers)
    return known[id(expr)]


def restricted(expr: SizeExpr, points: Sequence[int], made: dict[int, SizeExpr]) -> SizeExpr:
    """The expression with its values at some points only; ``made`` caches parts that were restricted before."""
    for part in in_order(expr):
        if id(part) not in made:
            operands = tuple([made[id(of)] if isinstance(of, SizeExpr) else of for of in part.operands])
            made[id(part)] = _made(part.op, operands, part.kind, tuple([part.at[point] for point in points]))
    return made[id(expr)]


def substitute(expr: Operand, mapping: Mapping[SizeExpr, Operand]) -> Operand:
    """The expression with some of its leaves replaced."""
    if not isinstance(expr, SizeExpr):
        return expr
    made: dict[int, Operand] = {}
    for part in in_order(expr):
        if part.is_leaf:
            made[id(part)] = mapping.get(part, part)
        else:
            operands = [made[id(of)] if isinstance(of, SizeExpr) else of for of in part.operands]
            same = all(new is old for new, old in zip(operands, part.operands, strict=True))
            made[id(part)] = part if same else apply(part.op, *operands)
    return made[id(expr)]
