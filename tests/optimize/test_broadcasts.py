from __future__ import annotations

import pytest

from onnxport.optimize import DropExpands
from tests.optimize.harness import check, parse

SHAPE = "s = Constant<value_ints = [3, 4]>()"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"g (float[3, 4] x, float[4] v) => (float[3, 4] y) {{ {SHAPE}  e = Expand(v, s)  y = Add(x, e) }}", ["Add"]),
        (f"g (float[3, 1] x, float[4] v) => (float[3, 4] y) {{ {SHAPE}  e = Expand(v, s)  y = Mul(e, x) }}", ["Mul"]),
        (
            f"g (float[1, 4] x, float[4] v) => (float[3, 4] y) {{ {SHAPE}  e = Expand(v, s)  y = Add(x, e) }}",
            ["Expand", "Add"],
        ),
        (
            "g (float[n, 4] x, float[4] v) => (float[n, 4] y) { s = Shape(x)  e = Expand(v, s)  y = Sub(x, e) }",
            ["Sub"],
        ),
        (
            f"g (float[3, 4] x, float[4] v) => (float[3, 4] y, float[3, 4] e) {{ {SHAPE}  e = Expand(v, s)"
            "  y = Add(x, e) }",
            ["Expand", "Add"],
        ),
    ],
    ids=["row", "column", "makes-it-larger", "dynamic", "read-elsewhere"],
)
def test_expand_before_an_operator_that_broadcasts(text: str, left: list[str]) -> None:
    assert [op for op in check(parse(text), DropExpands()) if op != "Constant"] == left
