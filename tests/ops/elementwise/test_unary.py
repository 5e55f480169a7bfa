"""Elementary functions of one tensor."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, NUMBERS, Case, F, X, table

BFLOATS = (*FLOATS, torch.bfloat16)
SIGNED = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8)
X3 = [F("n", 3)]
POSITIVE = [F("n", 3, low=0.1, high=4)]
UNIT = [F("n", 3, low=-0.99, high=0.99)]
HALVES = [X("n", 9, make=lambda s: (torch.arange(s[0] * s[1]) / 4 - 2).reshape(s))]


def special(shape: tuple[int, ...]) -> torch.Tensor:
    content = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -2.5, 3.0])
    return content[torch.arange(torch.Size(shape).numel()) % len(content)].reshape(shape)


SPECIAL = [X("n", 8, make=special)]

FUNCTIONS = [
    Case("exp", torch.exp, X3, dtypes=(*ALL, torch.bfloat16), graph=["Exp"]),
    Case("log", torch.log, POSITIVE, dtypes=BFLOATS, graph=["Log"]),
    Case("log_special", torch.log, SPECIAL),
    Case("sqrt", torch.sqrt, POSITIVE, dtypes=(*NUMBERS, torch.bfloat16), graph=["Sqrt"]),
    Case("reciprocal", torch.reciprocal, POSITIVE, graph=["Reciprocal"]),
    Case("sin", torch.sin, X3, dtypes=ALL, graph=["Sin"]),
    Case("cos", torch.cos, X3, dtypes=ALL, graph=["Cos"]),
    Case("tan", torch.tan, [F("n", 3, low=-1, high=1)], dtypes=ALL, graph=["Tan"]),
    Case("asin", torch.asin, UNIT, dtypes=FLOATS, graph=["Asin"]),
    Case("asin_ends", torch.asin, [X(3, make=lambda s: torch.tensor([1.0, -1.0, 2.0]))]),
    Case("arcsin", torch.arcsin, UNIT, dtypes=()),
    Case("acos", torch.acos, UNIT, graph=["Acos"]),
    Case("acos_ends", torch.acos, [X(3, make=lambda s: torch.tensor([1.0, -1.0, 2.0]))]),
    Case("arccos", torch.arccos, UNIT, dtypes=()),
    Case("atan", torch.atan, X3, dtypes=ALL, graph=["Atan"]),
    Case("atan_special", torch.atan, [X("n", 8, make=lambda s: special(s) * 1000)]),
    Case("arctan", torch.arctan, X3, dtypes=()),
    Case("sinh", torch.sinh, X3, dtypes=BFLOATS, graph=["Sinh"]),
    Case("cosh", torch.cosh, X3, graph=["Cosh"]),
    Case("asinh", torch.asinh, [F("n", 3, low=-50, high=50)], since=9, graph=["Asinh"]),
    Case("arcsinh", torch.arcsinh, X3, since=9, dtypes=()),
    Case("acosh", torch.acosh, [F("n", 3, low=1, high=50)], graph=["Acosh"]),
    Case("arccosh", torch.arccosh, [F("n", 3, low=1, high=50)], dtypes=()),
    Case("atanh", torch.atanh, UNIT, graph=["Atanh"]),
    Case("arctanh", torch.arctanh, UNIT, dtypes=()),
    Case("erf", torch.erf, [F("n", 3, low=-4, high=4)], dtypes=(*ALL, torch.bfloat16), graph=["Erf"]),
    Case("erf_special", torch.erf, [X("n", 8, make=special)]),
    Case("special_erf", torch.special.erf, X3, dtypes=()),
]

SAME_DTYPE = [
    Case("abs", torch.abs, X3, dtypes=(*NUMBERS, torch.bfloat16), graph=["Abs"]),
    Case("absolute", torch.absolute, X3, dtypes=()),
    Case("neg", torch.neg, X3, dtypes=NUMBERS, graph=["Neg"]),
    Case("minus", lambda x: -x, X3, dtypes=(*NUMBERS, torch.bfloat16)),
    Case("positive", lambda x: (+x) * 2, X3, dtypes=NUMBERS, graph=["Mul"]),
    Case("ceil", torch.ceil, HALVES, dtypes=(*NUMBERS, torch.bfloat16), graph=["Ceil"]),
    Case("floor", torch.floor, HALVES, dtypes=NUMBERS, graph=["Floor"]),
    Case("round", torch.round, HALVES, dtypes=(*NUMBERS, torch.bfloat16), graph=["Round"]),
    Case("round_decimals", lambda x: torch.round(x, decimals=2), X3, dtypes=(torch.float64,)),
    Case("round_tens", lambda x: torch.round(x, decimals=-1), [F("n", 3, low=-99, high=99)]),
    Case("trunc", torch.trunc, HALVES, dtypes=NUMBERS),
    Case("trunc_special", torch.trunc, SPECIAL),
    Case("fix", torch.fix, HALVES, dtypes=()),
    Case("frac", torch.frac, HALVES, graph=["Mod"]),
    Case("nan_to_num", torch.nan_to_num, SPECIAL, since=9, dtypes=NUMBERS, graph=["Clip", "IsNaN", "Where"]),
    Case("nan_to_num_given", lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), SPECIAL, since=9),
    Case("nan_to_num_high", lambda x: torch.nan_to_num(x, posinf=2.0), SPECIAL, since=9),
]

OTHERS = [
    Case("exp2", torch.exp2, X3, dtypes=NUMBERS, graph=["Pow"]),
    Case("expm1", torch.expm1, X3, dtypes=(*ALL, torch.bfloat16)),
    Case("log1p", torch.log1p, POSITIVE, dtypes=NUMBERS),
    Case("log2", torch.log2, POSITIVE, dtypes=FLOATS),
    Case("log10", torch.log10, POSITIVE, dtypes=BFLOATS),
    Case("rsqrt", torch.rsqrt, POSITIVE, graph=["Sqrt", "Div"]),
    Case("deg2rad", torch.deg2rad, [F("n", 3, low=-180, high=180)], dtypes=(torch.float32, torch.float64, torch.int64)),
    Case("rad2deg", torch.rad2deg, X3, dtypes=NUMBERS),
    Case("logit", torch.logit, [F("n", 3, low=0.1, high=0.9)]),
    Case("logit_eps", lambda x: torch.logit(x, 0.1), X3),
    Case("sinc", torch.sinc, HALVES, since=9),
    Case("erfc", torch.erfc, X3, dtypes=NUMBERS),
    Case("ndtr", torch.special.ndtr, X3),
    Case("entr", torch.special.entr, [X("n", 8, make=special)], since=9),
    Case("erfinv", torch.erfinv, UNIT, since=9),
    Case("erfinv_ends", torch.erfinv, [X(4, make=lambda s: torch.tensor([1.0, -1.0, 2.0, 0.0]))], since=9),
    Case("lgamma", torch.lgamma, [F("n", 3, low=-5, high=9)], since=9, dtypes=(torch.float64,)),
    Case("lgamma_positive", torch.lgamma, [F("n", 3, low=0.1, high=90)], since=9),
    Case("digamma", torch.digamma, [F("n", 3, low=0.1, high=90)], since=9),
    Case("digamma_negative", torch.digamma, [F(3, low=-2.8, high=-2.2)], since=9),
    Case("digamma_poles", torch.digamma, [X(4, make=lambda s: torch.tensor([-2, -1, 0, 1]))], since=9, dtypes=()),
]

test_functions = table(FUNCTIONS)
test_same_dtype = table(SAME_DTYPE)
test_others = table(OTHERS)
