"""Arithmetic on two tensors or a tensor and a number."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, INTEGERS, NUMBERS, PRECISE, B, Case, F, I, X, table

BFLOATS = (*FLOATS, torch.bfloat16)
WITH_BFLOATS = (*NUMBERS, torch.bfloat16)
SIGNED = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8)


def special(shape: tuple[int, ...]) -> torch.Tensor:
    """NaN, infinities, zeros and numbers around them."""
    content = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1.5, 3.0])
    return content[torch.arange(torch.Size(shape).numel()) % len(content)].reshape(shape)


def special_turned(shape: tuple[int, ...]) -> torch.Tensor:
    return special(shape).flatten().roll(3).reshape(shape)


def divisors(shape: tuple[int, ...]) -> torch.Tensor:
    content = torch.tensor([3.0, -3.0, 2.0, -1.0, 5.0])
    return content[torch.arange(torch.Size(shape).numel()) % len(content)].reshape(shape)


def integers(shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()) * 5 % 23 - 11).reshape(shape)


def integer_divisors(shape: tuple[int, ...]) -> torch.Tensor:
    return divisors(shape).long()


def tenths(shape: tuple[int, ...]) -> torch.Tensor:
    """Numbers whose quotient by 0.1 is whole but for rounding."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape) * 0.1 - 0.7


PAIR = [F("n", "c"), F("n", "c")]
LARGE = [F("n", 9, low=-1e6, high=1e6), F("n", 9, low=0.1, high=2)]
WIDE = [F("n", "c", low=-9, high=9), X("n", "c", make=divisors)]
WHOLE = [X("n", "c", make=integers), X("n", "c", make=integer_divisors)]

ADDITION = [
    Case("add", torch.add, PAIR, dtypes=(*ALL, torch.bfloat16), graph=["Add"]),
    Case("add_broadcast", torch.add, [F("n", 1, "c"), F(3, 1)], dtypes=NUMBERS, graph=["Add"]),
    Case("add_number", lambda x: x + 2, [F("n", 3)], dtypes=ALL, graph=["Add"]),
    Case("add_float_number", lambda x: x + 2.5, [F("n", 3)], dtypes=ALL),
    Case("add_alpha", lambda x, y: torch.add(x, y, alpha=3), PAIR, dtypes=NUMBERS, graph=["Mul", "Add"]),
    Case("add_minus", lambda x, y: torch.add(x, y, alpha=-1), PAIR, dtypes=SIGNED, graph=["Sub"]),
    Case("add_out_of_range", lambda x: x + 300, [F("n", 3)], dtypes=(torch.uint8, torch.int8)),
    Case("add_zero_dim", torch.add, [F("n", 3), F()], dtypes=NUMBERS),
    Case("add_mixed", torch.add, [I("n", 3), F(3)], dtypes=FLOATS),
    Case("sub", torch.sub, PAIR, dtypes=WITH_BFLOATS, graph=["Sub"]),
    Case("subtract", torch.subtract, PAIR, dtypes=NUMBERS),
    Case("sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), PAIR, dtypes=NUMBERS),
    Case("rsub", lambda x: 1 - x, [F("n", 3)], dtypes=NUMBERS, graph=["Sub"]),
    Case("rsub_tensor", lambda x, y: torch.rsub(x, y, alpha=2), PAIR, dtypes=NUMBERS),
    Case("mul", torch.mul, PAIR, dtypes=(*ALL, torch.bfloat16), graph=["Mul"]),
    Case("mul_number", lambda x: x * 2.5, [F("n", 3)], dtypes=ALL, graph=["Mul"]),
    Case("multiply", torch.multiply, PAIR, dtypes=NUMBERS),
    Case("square", torch.square, [F("n", 3)], dtypes=ALL, graph=["Mul"]),
    Case("in_place", lambda x, y: x.add_(y, alpha=2).mul_(3).sub_(1), PAIR, dtypes=NUMBERS),
]

DIVISION = [
    Case("div", torch.div, WIDE, dtypes=BFLOATS, graph=["Div"]),
    Case("div_integers", torch.div, WHOLE, dtypes=(), base=torch.int64, graph=["Cast", "Cast", "Div"]),
    Case("div_number", lambda x: x / 3, [F("n", 3)], dtypes=ALL),
    Case("true_divide", torch.true_divide, WIDE),
    Case("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), WIDE, dtypes=BFLOATS),
    Case("div_trunc_integers", lambda x, y: torch.div(x, y, rounding_mode="trunc"), WHOLE, dtypes=(), graph=["Div"]),
    Case(
        "div_trunc_number",
        lambda x: torch.div(x, 2, rounding_mode="trunc"),
        [F("n", 3, low=-9, high=9)],
        dtypes=NUMBERS,
    ),
    Case("div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), WIDE, since=9, dtypes=BFLOATS),
    Case(
        "div_floor_integers",
        lambda x, y: torch.div(x, y, rounding_mode="floor"),
        WHOLE,
        dtypes=(),
        graph=[
            "Equal",
            "Neg",
            "Where",
            "Where",
            "Div",
            "Mul",
            "Sub",
            "Less",
            "Less",
            "Xor",
            "Equal",
            "Not",
            "And",
            "Cast",
            "Sub",
        ],
    ),
    Case("floor_divide_number", lambda x: x // 3, [F("n", 3, low=-9, high=9)], since=9, dtypes=WITH_BFLOATS),
    Case("floor_divide_two", lambda x: x // 2, [F("n", 3, low=-9, high=9)], dtypes=NUMBERS, graph=["Div", "Floor"]),
    Case("floor_divide_negative", lambda x: x // -3, [F("n", 3, low=-9, high=9)], since=9, dtypes=SIGNED),
    Case("floor_divide_tenth", lambda x: x // 0.1, [X("n", 9, make=tenths)], since=9, dtypes=(torch.float64,)),
    Case("floor_divide_zero", lambda x, y: x // y, [X(4, 8, make=special), X(4, 8, make=special_turned)], since=9),
    Case(
        "floor_divide_lowest", lambda x: x // 3, [X(4, make=lambda s: torch.full(s, -128, dtype=torch.int8))], dtypes=()
    ),
    Case("rfloordiv", lambda x: 7 // x, [X("n", 5, make=divisors)], since=9),
    Case("remainder", torch.remainder, WIDE, since=9, dtypes=BFLOATS),
    Case("remainder_integers", torch.remainder, WHOLE, dtypes=(), graph=["Equal", "Where", "Mod"]),
    Case("remainder_number", lambda x: x % 3, [F("n", 3, low=-9, high=9)], since=9, dtypes=NUMBERS),
    Case("remainder_negative", lambda x: x % -3, [F("n", 3, low=-9, high=9)], since=9, dtypes=SIGNED),
    Case("remainder_two", lambda x: x % 2, [F("n", 3, low=-9, high=9)], dtypes=NUMBERS),
    Case("rremainder", lambda x: 7 % x, [X("n", 5, make=divisors)], since=9),
    Case("remainder_special", torch.remainder, [X(4, 8, make=special), X(4, 8, make=special_turned)], since=9),
    Case("remainder_large", torch.remainder, LARGE, since=9, dtypes=PRECISE, tolerance=1e-2),
    Case("floor_divide_large", torch.floor_divide, LARGE, since=9, dtypes=PRECISE, tolerance=1e-3),
    Case("fmod", torch.fmod, WIDE, since=9, dtypes=BFLOATS, graph=["Mod"]),
    Case("fmod_integers", torch.fmod, WHOLE, dtypes=(), graph=["Equal", "Where", "Div", "Mul", "Sub"]),
    Case("fmod_number", lambda x: torch.fmod(x, 2.5), [F("n", 3, low=-9, high=9)]),
]

POWERS = [
    Case("pow", torch.pow, [F("n", "c", low=0.5, high=3), F("n", "c")], graph=["Pow"], tolerance=4),
    Case("pow_integers", torch.pow, [X("n", 3, make=integers), I("n", 3, low=0, high=9)], dtypes=()),
    Case("pow_negative", torch.pow, [I("n", 9, low=-2, high=3), I("n", 9, low=-3, high=3)], dtypes=()),
    Case("pow_two", lambda x: x**2, [F("n", 3)], dtypes=WITH_BFLOATS, graph=["Pow"]),
    Case("pow_three", lambda x: x**3, [F("n", 3)], dtypes=NUMBERS),
    Case("pow_large", lambda x: x**39, [X("n", 3, make=integers)], dtypes=()),
    Case("pow_zero", lambda x: x**0, [X("n", 3, make=integers)], dtypes=()),
    Case("pow_half", lambda x: x**0.5, [F("n", 3, low=0, high=4)], dtypes=ALL, graph=["Sqrt"]),
    Case("pow_minus_half", lambda x: x**-0.5, [F("n", 3, low=1, high=4)], graph=["Sqrt", "Div"]),
    Case("pow_minus_one", lambda x: x**-1.0, [F("n", 3, low=1, high=4)], graph=["Reciprocal"]),
    Case("pow_float", lambda x: x**1.7, [F("n", 3, low=1, high=4)], dtypes=NUMBERS),
    Case("rpow", lambda x: 2**x, [F("n", 3, low=0, high=4)], dtypes=NUMBERS, tolerance=4),
    Case("float_power", lambda x: torch.float_power(x, 3), [F("n", 3, low=1, high=4)], dtypes=NUMBERS),
    Case("float_power_tensor", torch.float_power, [F("n", 3, low=1, high=4), F("n", 3)], dtypes=FLOATS),
    Case("ldexp", torch.ldexp, [F("n", 3), I("n", 3)]),
]

EXTREMA = [
    Case("maximum", torch.maximum, PAIR, dtypes=(*ALL, torch.bfloat16), graph=["Max"]),
    Case("minimum", torch.minimum, PAIR, dtypes=ALL, graph=["Min"]),
    Case("maximum_broadcast", torch.maximum, [F("n", 1, "c"), F(3, 1)], since=8, dtypes=NUMBERS),
    Case("maximum_integers", torch.maximum, [I("n", 3), I("n", 3)], since=9, dtypes=()),
    Case("maximum_special", torch.maximum, [X(4, 8, make=special), X(4, 8, make=special_turned)]),
    Case("minimum_special", torch.minimum, [X(4, 8, make=special), X(4, 8, make=special_turned)]),
    Case("max_other", torch.max, PAIR, dtypes=ALL, graph=["Max"]),
    Case("min_other", torch.min, PAIR, dtypes=ALL, graph=["Min"]),
    Case("fmax", torch.fmax, [X(4, 8, make=special), X(4, 8, make=special_turned)], since=9),
    Case("fmin", torch.fmin, [X("n", 8, make=special), X("n", 8, make=special_turned)], since=9),
    Case("fmax_integers", torch.fmax, [I("n", 3), I("n", 3)], since=9, dtypes=()),
    Case("clamp", lambda x: x.clamp(-1, 1), [F("n", 3)], dtypes=SIGNED, graph=["Clip"]),
    Case("clamp_special", lambda x: x.clamp(-1, 1), [X("n", 8, make=special)], dtypes=(*FLOATS, torch.bfloat16)),
    Case("clamp_crossed", lambda x: x.clamp(1, -1), [X("n", 8, make=special)]),
    Case("clamp_low", lambda x: x.clamp(min=0), [X("n", 8, make=special)], graph=["Max"]),
    Case("clamp_high", lambda x: x.clamp(max=0.5), [X("n", 8, make=special)], graph=["Min"]),
    Case("clamp_integers", lambda x: x.clamp(1, 2), [F("n", 3)], dtypes=NUMBERS),
    Case("clamp_integers_old", lambda x: x.clamp(1, 2), [I("n", 3)], since=9, dtypes=()),
    Case("clamp_promoted", lambda x: x.clamp(min=0.5), [F("n", 3)], dtypes=INTEGERS),
    Case(
        "clamp_tensors", torch.clamp, [F("n", 3), F("n", 3, low=-1, high=0), F("n", 3, low=0, high=1)], dtypes=NUMBERS
    ),
    Case("clamp_tensor_low", lambda x, y: x.clamp(min=y), [F("n", 3), F()], since=8),
    Case("clip", lambda x: torch.clip(x, -1, 1), [F("n", 3)]),
    Case("clamp_min", lambda x: torch.clamp_min(x, 0.5), [F("n", 3)]),
    Case("clamp_max", torch.clamp_max, PAIR),
]

OTHERS = [
    Case("angle", torch.angle, [F("n", 3)], since=9, dtypes=ALL),
    Case(
        "addcmul",
        lambda x, y, z: torch.addcmul(x, y, z, value=2),
        [*PAIR, F("n", "c")],
        dtypes=NUMBERS,
        graph=["Mul", "Mul", "Add"],
    ),
    Case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), [*PAIR, F("n", "c", low=1, high=2)]),
    Case("lerp", lambda x, y: torch.lerp(x, y, 0.3), PAIR, graph=["Sub", "Mul", "Add"]),
    Case("lerp_tensor", torch.lerp, [*PAIR, F("n", "c", low=0, high=1)]),
    Case("hypot", torch.hypot, PAIR, dtypes=BFLOATS),
    Case("atan2", torch.atan2, PAIR, since=9),
    Case("atan2_bools", torch.atan2, [B("n", 8), B("n", 8)], since=9, dtypes=()),
    Case("atan2_bool_and_float", torch.atan2, [B("n", 8), F("n", 8)], since=9),
    Case(
        "atan2_axes",
        torch.atan2,
        [F(3, 1, low=-1, high=1), X(4, make=lambda s: torch.tensor([0.0, -1, 1, 2]))],
        since=9,
    ),
    Case("atan2_zero", lambda x: torch.atan2(x, x), [X(3, make=lambda s: torch.tensor([0.0, -1, 1]))], since=9),
    Case("copysign", torch.copysign, PAIR, since=9),
    Case("copysign_zeros", torch.copysign, [F(8), X(8, make=lambda s: torch.tensor([0.0, -0.0] * 4))], since=9),
    Case("copysign_number", lambda x: torch.copysign(x, -2.0), [F("n", 3)], dtypes=NUMBERS),
    Case("logaddexp", torch.logaddexp, PAIR, since=9),
    Case("logaddexp_special", torch.logaddexp, [X(8, 8, make=special), X(8, 8, make=special_turned)], since=9),
    Case("logaddexp2", torch.logaddexp2, PAIR, since=9),
    Case("xlogy", torch.xlogy, [X("n", 8, make=special), X("n", 8, make=special_turned)], since=9),
    Case("xlogy_number", lambda x: torch.xlogy(2, x), [F("n", 3, low=1, high=3)], since=9, dtypes=NUMBERS),
    Case("xlog1py", torch.special.xlog1py, [F("n", 3), F("n", 3, low=0, high=2)], since=9),
    Case("heaviside", torch.heaviside, [X("n", 8, make=special), F(8)], since=9),
]

SIZES = [
    Case("size_half", lambda x: x + x.shape[0] // 2, [F("n", 3)]),
    Case("size_sum", lambda x, y: (x.shape[0] + y.shape[1] * 2 - 1) * torch.ones(2), [F("n", 3), F(2, "c")]),
    Case("size_modulo", lambda x: x * (x.shape[0] % 3), [F("n", 3)]),
    Case("size_below_zero", lambda x: x * ((x.shape[0] - 7) // 2), [F("n", 3)]),
    Case("size_root", lambda x: x * x.shape[0] ** -0.5, [F("n", 3)], dtypes=(torch.float16,)),
]

test_addition = table(ADDITION)
test_division = table(DIVISION)
test_powers = table(POWERS)
test_extrema = table(EXTREMA)
test_others = table(OTHERS)
test_sizes = table(SIZES)
