"""Evaluation of an expression at many points at once, with numpy, exactly as Python computes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxport.graph.sizes.expr import SizeExpr, in_order
from onnxport.graph.sizes.numeric import COMPARISONS, Kind, compute

# Limits above which integers are computed one by one, and above which floats are not exact integers.
LARGEST, LARGEST_FLOAT = 2**62, 2**52
DTYPES: dict[Kind, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


def values_over(expression: SizeExpr, sizes: Mapping[str, Any]) -> Any:
    """An expression of axes at these sizes, which are arrays that broadcast."""
    made: dict[int, Any] = {}
    for part in in_order(expression):
        if part.is_leaf:
            made[id(part)] = sizes[part.operands[0]]
        else:
            arrays = [made[id(of)] if isinstance(of, SizeExpr) else np.asarray(of) for of in part.operands]
            made[id(part)] = _applied(part.op, part.kind, arrays)
    return made[id(expression)]


def _applied(op: str, kind: Kind, arrays: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        rule = RULES.get(op)
        if rule is not None and all(array.dtype != object for array in arrays):
            found = rule(*(array * 1 if array.dtype == bool and op not in LOGIC else array for array in arrays))
            if found is not None:
                return found.astype(DTYPES[kind])
        one_by_one = np.frompyfunc(lambda *numbers: compute(op, kind, *numbers), len(arrays), 1)
        found = np.asarray(one_by_one(*(array.astype(object) for array in arrays)), object)
    return found.astype(DTYPES[kind]) if kind is not int or _is_below(found, LARGEST) else found


def _is_below(array: Any, limit: int) -> bool:
    return not array.size or bool(-limit < array.min() and array.max() < limit)


def _limited(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for integers with a result that is roughly below the limit."""

    def rule(left: Any, right: Any) -> Any:
        if left.dtype.kind == right.dtype.kind == "i":
            return compute(left, right) if _is_below(compute(left * 1.0, right * 1.0), LARGEST) else None
        return compute(left, right)

    return rule


def _of_integers(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: compute(*arrays) if all(array.dtype.kind in "ib" for array in arrays) else None


def _of_small(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for floats, and for integers that floats represent exactly."""
    return lambda *arrays: compute(*arrays) if all(map(_is_exact, arrays)) else None


def _is_exact(array: Any) -> bool:
    return bool(array.dtype.kind != "i" or _is_below(array, LARGEST_FLOAT))


def _rounded(compute: Callable[[Any], Any]) -> Callable[..., Any]:
    def rule(of: Any) -> Any:
        if of.dtype.kind == "i":
            return of
        whole = compute(of)
        return whole.astype(np.int64) if np.isfinite(whole).all() and _is_below(whole, LARGEST) else None

    return lambda *arrays: rule(*arrays) if len(arrays) == 1 else None


RULES: dict[str, Callable[..., Any]] = {
    **{op: _limited(getattr(operator, op)) for op in ("add", "sub", "mul")},
    **{op: _of_integers(getattr(operator, op)) for op in ("floordiv", "mod", "neg")},
    **{op: _of_integers(getattr(np, f"bitwise_{op}")) for op in ("and", "or", "xor")},
    **{op: _of_small(compute) for op, compute in COMPARISONS.items()},
    "min": _of_integers(np.minimum),
    "max": _of_integers(np.maximum),
    "abs": np.abs,
    "truediv": _of_small(np.true_divide),
    "float": _of_small(lambda of: of * 1.0),
    "sqrt": _of_small(np.sqrt),
    "isqrt": _of_small(lambda of: np.floor(np.sqrt(np.maximum(of, 0)))),
    "bit_length": _of_small(lambda of: np.frexp(np.abs(of) * 1.0)[1]),
    **{op: _rounded(getattr(np, op)) for op in ("ceil", "floor", "trunc")},
    "round": _rounded(np.rint),
    "not": lambda of: of == 0,
    "where": lambda condition, left, right: np.where(condition != 0, left, right),
}
LOGIC = frozenset({"and", "or", "xor", "not", "where"})
