from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import DropTruths, RemoveDeadCode
from tests.optimize.harness import Array, check, parse

COUNTED = """
    s = Shape(x) zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
    n = Gather(s, zero) positions = Range(zero, n, one) column = Unsqueeze(positions, axis)
"""
FILLED = "s = Shape(x) ones = ConstantOfShape <value = int64[1] {1}> (s) holds = Cast <to = 9> (ones)"


def given() -> dict[str, Array]:
    x = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
    return {"x": x, "m": np.array([True, False, True])}


def left(body: str, *, result: str = "float[n, n] y") -> list[str]:
    declared = "int64[n] positions, int64[n, 1] column, bool[n, n] both, bool[n, 1] holds_column, bool[n, n] holds"
    text = f"g (float[n, n] x, bool[n] m) => ({result}) <{declared}> {{ {body} }}"
    model = parse(text, weights={"axis": np.array([1]), "nothing": np.array(0.0, np.float32)})
    return check(model, DropTruths(), RemoveDeadCode(), inputs=given())


def test_positions_are_not_negative() -> None:
    body = COUNTED + "holds_column = GreaterOrEqual(column, zero) both = And(holds_column, m)"
    assert left(body + " y = Where(both, x, nothing)") == ["Where"]


def test_ones_are_true() -> None:
    assert left(FILLED + " both = And(m, holds) y = Where(both, x, nothing)") == ["Where"]


@pytest.mark.parametrize(
    "body",
    [
        # They are not all at least 1.
        COUNTED + "holds_column = GreaterOrEqual(column, one) both = And(holds_column, m) y = Where(both, x, nothing)",
        # They fall.
        COUNTED.replace("Range(zero, n, one)", "Range(zero, minus, minus_one)").replace(
            "positions =", "minus_one = Neg(one) minus = Neg(n) positions ="
        )
        + "holds_column = GreaterOrEqual(column, zero) both = And(holds_column, m) y = Where(both, x, nothing)",
        # Nobody else makes the result as large.
        COUNTED + "holds_column = GreaterOrEqual(column, zero) both = And(holds_column, m) y = Cast <to = 1> (both)",
        COUNTED
        + "holds_column = GreaterOrEqual(column, zero) both = And(holds_column, m) y = Where(both, nothing, nothing)",
        FILLED.replace("{1}", "{0}") + " both = And(m, holds) y = Where(both, x, nothing)",
    ],
)
def test_kept(body: str) -> None:
    assert "And" in left(body)


def test_an_output_keeps_its_shape() -> None:
    body = COUNTED + "holds_column = GreaterOrEqual(column, zero) y = And(holds_column, m)"
    assert "And" in left(body, result="bool[n, n] y")


def test_an_operand_of_the_same_shape_is_enough() -> None:
    body = FILLED + " positive = Greater(x, nothing) y = And(positive, holds)"
    assert left(body, result="bool[n, n] y") == ["Greater"]
