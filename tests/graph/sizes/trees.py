"""Random size expressions: nested tuples of an operator's name and its operands, and what Python makes of them."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from onnxport.graph.sizes.expr import Operand, SizeExpr, axis, node, number_of

# ("add", left, right), the name of a leaf, or a number.
Tree: TypeAlias = Any

# Sizes are not negative; the number ``k`` may be.
POINTS = [
    {"n": 7, "m": 12, "k": -3},
    {"n": 8, "m": 5, "k": 4},
    {"n": 1, "m": 3, "k": 0},
    {"n": 33, "m": 1, "k": -17},
    {"n": 250, "m": 64, "k": 90},
    {"n": 1009, "m": 2, "k": -1},
    {"n": 4096, "m": 777, "k": 100},
    {"n": 2, "m": 3001, "k": -64},
]


def leaves(points: Sequence[Mapping[str, int]] = POINTS) -> dict[str, SizeExpr]:
    """The leaves of random trees: two axes and a number."""
    at = {name: tuple(point[name] for point in points) for name in points[0]}
    return {"n": axis("n", at["n"]), "m": axis("m", at["m"]), "k": number_of("k", at["k"])}


PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "truediv": operator.truediv, "neg": operator.neg, "abs": abs, "min": min, "max": max, "pow": operator.pow,
    "ceil": math.ceil, "floor": math.floor, "trunc": math.trunc, "round": round, "isqrt": math.isqrt, "float": float,
    "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp, "sin": math.sin,
    "cos": math.cos, "bit_length": lambda x: x.bit_length(), "lshift": operator.lshift, "rshift": operator.rshift,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "not": operator.not_,
    "where": lambda condition, left, right: left if condition else right,
}  # fmt: skip


class Unwanted(Exception):
    """Python raises here, or a number is too large for a size."""


def in_python(tree: Tree, point: Mapping[str, Any], largest: float = 2**40) -> Any:
    """What Python computes."""
    if isinstance(tree, str):
        return point[tree]
    if not isinstance(tree, tuple):
        return tree
    operands = [in_python(part, point, largest) for part in tree[1:]]
    try:
        result = PYTHON[tree[0]](*operands)
    except (ArithmeticError, ValueError) as error:
        raise Unwanted from error
    if isinstance(result, complex) or not math.isfinite(result) or abs(result) > largest:
        raise Unwanted
    return result


def expression(tree: Tree, of: Mapping[str, SizeExpr], make: Callable[..., Operand] = node) -> Operand:
    if isinstance(tree, str):
        return of[tree]
    return make(tree[0], *(expression(part, of, make) for part in tree[1:])) if isinstance(tree, tuple) else tree


def either(ops: Sequence[str], *operands: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.sampled_from(ops), *operands)


SMALL = st.integers(-9, 9)
POSITIVE = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 32])
integers: st.SearchStrategy[Tree] = st.deferred(lambda: LEAVES | _integers)
floats: st.SearchStrategy[Tree] = st.deferred(lambda: _floats)
bools: st.SearchStrategy[Tree] = st.deferred(lambda: _bools)
LEAVES = st.sampled_from(["n", "m", "k"]) | SMALL
_integers = st.one_of(
    either(["add", "sub", "mul", "min", "max"], integers, integers),
    either(["floordiv", "mod"], integers, POSITIVE | SMALL),
    either(["floordiv", "mod", "and", "or", "xor"], integers, integers),
    either(["neg", "abs", "isqrt", "bit_length"], integers),
    either(["lshift", "rshift"], integers, st.integers(0, 6)),
    either(["pow"], integers, st.integers(0, 3)),
    either(["ceil", "floor", "trunc", "round"], floats),
    either(["ceil", "floor", "trunc", "round"], st.tuples(st.just("truediv"), integers, POSITIVE)),
    either(["where"], bools, integers, integers),
)
_floats = st.one_of(
    either(["truediv"], integers, integers),
    either(["mul", "truediv"], integers, st.sampled_from([0.5, 1.5, 2.0, 0.3, 1.1, -0.25, 3.0])),
    either(["add", "sub", "mul"], floats, floats | integers),
    either(["float", "sqrt", "sin", "cos", "log2"], integers),
    either(["pow"], integers, st.just(0.5)),
    either(["neg", "abs"], floats),
    either(["min", "max", "floordiv", "mod"], floats, st.sampled_from([0.5, 3.0, 7.25])),
    either(["where"], bools, floats, floats),
)
_bools = st.one_of(
    either(["lt", "le", "gt", "ge", "eq", "ne"], integers, integers),
    either(["lt", "le", "gt", "ge"], floats, integers),
    either(["and", "or", "xor"], bools, bools),
    either(["not"], bools),
)
points = st.fixed_dictionaries({"n": st.integers(0, 5000), "m": st.integers(0, 5000), "k": st.integers(-5000, 5000)})


# What is drawn for each kind of operand: operators and the kinds of their operands; numbers are drawn from lists.
CONSTANTS = {
    "constant": [-9, -3, -1, 0, 1, 2, 3, 5, 8],
    "divisor": [1, 2, 3, 4, 7, 8, 16, 32, -2, -5],
    "count": [0, 1, 2, 5],
    "small": [0, 1, 2, 3],
    "half": [0.5],
    "float constant": [0.5, 1.5, 2.0, 0.3, 1.1, -0.25, 3.0],
}
PRODUCTIONS: dict[str, list[tuple[list[str], tuple[str, ...]]]] = {
    "int": [
        (["add", "sub", "mul", "min", "max"], ("int", "int")),
        (["floordiv", "mod"], ("int", "divisor")),
        (["floordiv", "mod", "and", "or", "xor"], ("int", "int")),
        (["neg", "abs", "isqrt", "bit_length"], ("int",)),
        (["lshift", "rshift"], ("int", "count")),
        (["pow"], ("int", "small")),
        (["ceil", "floor", "trunc", "round"], ("float",)),
        (["where"], ("bool", "int", "int")),
    ],
    "float": [
        (["truediv"], ("int", "divisor")),
        (["truediv"], ("int", "int")),
        (["mul", "truediv", "floordiv", "mod"], ("int", "float constant")),
        (["add", "sub", "mul", "min", "max"], ("float", "float")),
        (["float", "sqrt", "sin", "cos", "log2"], ("int",)),
        (["pow"], ("int", "half")),
        (["neg", "abs"], ("float",)),
        (["where"], ("bool", "float", "float")),
    ],
    "bool": [
        (["lt", "le", "gt", "ge", "eq", "ne"], ("int", "int")),
        (["lt", "le", "gt", "ge"], ("float", "int")),
        (["and", "or", "xor"], ("bool", "bool")),
        (["not"], ("bool",)),
    ],
}


def random_tree(draw: random.Random, kind: str, depth: int) -> Tree:
    """A tree of at most this depth: quicker to come by than the strategies above."""
    if kind in CONSTANTS:
        return draw.choice(CONSTANTS[kind])
    if kind == "int" and (depth <= 0 or draw.random() < 0.15):
        return draw.choice(["n", "m", "k", "n", "m", "k", draw.choice(CONSTANTS["constant"])])
    if kind == "float" and depth <= 0:
        return draw.choice(CONSTANTS["float constant"])
    ops, kinds = draw.choice(PRODUCTIONS[kind])
    return (draw.choice(ops), *(random_tree(draw, operand, depth - 1) for operand in kinds))
