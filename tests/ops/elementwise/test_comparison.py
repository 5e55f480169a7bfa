"""Comparisons and logic."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, NUMBERS, B, Case, F, I, X, table

WITH_BFLOATS = (*ALL, torch.bfloat16)


def special(shape: tuple[int, ...]) -> torch.Tensor:
    content = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 2.0])
    return content[torch.arange(torch.Size(shape).numel()) % len(content)].reshape(shape)


def special_spread(shape: tuple[int, ...]) -> torch.Tensor:
    """In 8 x 8, each special number meets each other one."""
    return special((8, 8)).T.contiguous()


SPECIAL_PAIR = [X(8, 8, make=special), X(8, 8, make=special_spread)]
WHOLE = [F("n", 5, low=0, high=2), F("n", 5, low=0, high=2)]

COMPARISONS = [
    Case("eq", torch.eq, WHOLE, dtypes=WITH_BFLOATS, graph=["Equal"]),
    Case("eq_special", torch.eq, SPECIAL_PAIR),
    Case("eq_number", lambda x: x == 1, [F("n", 5, low=0, high=2)], dtypes=ALL),
    Case("eq_integers", lambda x, y: x == y, [I("n", 5), I("n", 5)], dtypes=()),
    Case("eq_float_number", lambda x: x == 0.5, [I("n", 5)], dtypes=()),
    Case("eq_out_of_range", lambda x: x == 257, [F("n", 5, low=0, high=2)], dtypes=(torch.uint8, torch.int8)),
    Case("ne", torch.ne, SPECIAL_PAIR, graph=["Equal", "Not"]),
    Case("ne_number", lambda x: x != 1, [F("n", 5, low=0, high=2)], dtypes=ALL),
    Case("not_equal", torch.not_equal, WHOLE, dtypes=ALL),
    Case("lt", torch.lt, WHOLE, dtypes=WITH_BFLOATS, graph=["Less"]),
    Case("lt_special", torch.lt, SPECIAL_PAIR),
    Case("lt_integers", lambda x, y: x < y, [I("n", 5), I(5)], dtypes=()),
    Case("lt_mixed", lambda x, y: x < y, [I("n", 5), F(5)]),
    Case("gt", torch.gt, WHOLE, dtypes=ALL, graph=["Greater"]),
    Case("gt_special", torch.gt, SPECIAL_PAIR),
    Case("le", torch.le, WHOLE, dtypes=WITH_BFLOATS, graph=["LessOrEqual"]),
    Case("le_special", torch.le, SPECIAL_PAIR),
    Case("le_integers", lambda x, y: x <= y, [I("n", 5), I("n", 5)], dtypes=()),
    Case("ge", torch.ge, WHOLE, dtypes=ALL, graph=["GreaterOrEqual"]),
    Case("ge_special", torch.ge, SPECIAL_PAIR),
    Case("ge_number", lambda x: x >= 1, [F("n", 5, low=0, high=2)], dtypes=ALL),
    Case("size", lambda x: x > x.shape[0], [F("n", 5, low=0, high=4)]),
]

LOGIC = [
    Case("logical_and", torch.logical_and, WHOLE, dtypes=ALL),
    Case("logical_or", torch.logical_or, [B("n", 5), B("n", 5)], dtypes=(), graph=["Or"]),
    Case("logical_xor", torch.logical_xor, WHOLE, dtypes=ALL),
    Case("logical_not", torch.logical_not, [F("n", 5, low=0, high=2)], dtypes=ALL),
    Case("logical_not_bool", torch.logical_not, [B("n", 5)], dtypes=(), graph=["Not"]),
]

KINDS = [
    Case("isnan", torch.isnan, [X("n", 8, make=special)], dtypes=(*FLOATS, torch.bfloat16), graph=["IsNaN"]),
    Case("isnan_integers", torch.isnan, [I("n", 5)], dtypes=()),
    Case("isinf", torch.isinf, [X("n", 8, make=special)], dtypes=(*FLOATS, torch.bfloat16), graph=["IsInf"]),
    Case(
        "isfinite", torch.isfinite, [X("n", 8, make=special)], dtypes=(*FLOATS, torch.bfloat16), graph=["Abs", "Less"]
    ),
    Case("isfinite_integers", torch.isfinite, [I("n", 5)], dtypes=()),
    Case("isreal", torch.isreal, [F("n", 5)], dtypes=ALL),
    Case("isposinf", torch.isposinf, [X("n", 8, make=special)]),
    Case("isneginf", torch.isneginf, [X("n", 8, make=special)]),
    Case(
        "sign",
        torch.sign,
        [F("n", 5, low=-1, high=1)],
        dtypes=(*FLOATS, torch.int64, torch.int8, torch.bool),
        graph=["IsNaN", "Sign", "Where"],
    ),
    Case("sign_special", torch.sign, [X("n", 8, make=special)]),
    Case("sign_integers", torch.sign, [I("n", 5, low=-2)], dtypes=(), base=torch.int64),
    Case("sgn", torch.sgn, [F("n", 5)]),
    Case("signbit", torch.signbit, [X("n", 7, make=lambda s: special((*s[:-1], 8))[..., 1:])]),
    Case("signbit_integers", torch.signbit, [I("n", 5, low=-2)], dtypes=()),
]

CLOSENESS = [
    Case("isclose", lambda x, y: torch.isclose(x, y, rtol=0.5), SPECIAL_PAIR),
    Case("isclose_nan", lambda x, y: torch.isclose(x, y, equal_nan=True), SPECIAL_PAIR),
    Case("isclose_exact", lambda x, y: torch.isclose(x, y, rtol=0, atol=0), SPECIAL_PAIR),
    Case("isclose_integers", lambda x, y: torch.isclose(x, y, atol=1), [I("n", 5), I("n", 5)], dtypes=()),
    Case("isin", torch.isin, [F("n", 5, low=0, high=4), F(2, 2, low=0, high=4)], dtypes=NUMBERS),
    Case("isin_number", lambda x: torch.isin(x, 2), [I("n", 5)], dtypes=()),
    Case("isin_invert", lambda x, y: torch.isin(x, y, invert=True), [I("n", 5), I("t")], dtypes=()),
]

test_comparisons = table(COMPARISONS)
test_logic = table(LOGIC)
test_kinds = table(KINDS)
test_closeness = table(CLOSENESS)
