from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxport.optimize import ReadWholeAxes, RemoveDeadCode
from tests.optimize.harness import check, parse

# The positions of both axes of x, along the first and the last of four dimensions.
POSITIONS = """
    s = Shape(x) zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
    n = Gather(s, zero) m = Gather(s, one)
    rows = Range(zero, n, one) columns = Range(zero, m, one)
"""
SPREAD = """
    r = Unsqueeze(rows, behind) c = Unsqueeze(columns, before)
    ones = Constant <value = int64[3] {1, 1, 1}> ()
    n1 = Shape <start = 0, end = 1> (x) m1 = Shape <start = 1, end = 2> (x)
    rt = Concat <axis = 0> (ones, m1) ct = Concat <axis = 0> (n1, ones)
    re = Expand(r, rt) ce = Expand(c, ct)
    ri = Unsqueeze(re, last) ci = Unsqueeze(ce, last)
"""
AXES = {
    "behind": np.array([1, 2, 3]),
    "before": np.array([0, 1, 2]),
    "last": np.array([4]),
}
DECLARED = "int64[n] rows, int64[m] columns, int64[n,1,1,m,1] ri, int64[n,1,1,m,1] ci, int64[n,1,1,m,2] index"


def read(body: str, *, result: str = "float[n, 1, 1, m] y", declared: str = DECLARED, rows: str = "n") -> list[str]:
    text = f"g (float[{rows}, m] x) => ({result}) <{declared}> {{ {POSITIONS} {body} }}"
    model = parse(text, weights=AXES, infer=False)
    _declare(model)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return check(model, ReadWholeAxes(), RemoveDeadCode(), inputs={"x": x})


def _declare(model: ir.Model) -> None:
    """The shapes that an export knows, whose dimensions onnx cannot name."""
    shapes = {"r": ["n", 1, 1, 1], "c": [1, 1, 1, "m"], "re": ["n", 1, 1, "m"], "ce": ["n", 1, 1, "m"]}
    for node in model.graph:
        for output in node.outputs:
            if output.name in shapes:
                output.shape = ir.Shape(shapes[output.name])


def test_a_mask_read_at_every_position_is_the_mask() -> None:
    body = SPREAD + "index = Concat <axis = -1> (ri, ci) y = GatherND(x, index)"
    assert read(body) == ["Unsqueeze"]


def test_axes_in_another_order_stay() -> None:
    body = SPREAD + "xt = Transpose(x) index = Concat <axis = -1> (ci, ri) y = GatherND(xt, index)"
    assert "GatherND" in read(body, declared=DECLARED + ", float[m, n] xt")


def test_positions_from_another_start_stay() -> None:
    body = SPREAD.replace("Unsqueeze(rows, behind)", "Unsqueeze(others, behind)")
    body = "less = Sub(n, one) minus = Neg(one) others = Range(less, minus, minus)" + body
    body += "index = Concat <axis = -1> (ri, ci) y = GatherND(x, index)"
    assert "GatherND" in read(body, declared=DECLARED + ", int64[n] others")


def test_positions_of_another_axis_stay() -> None:
    body = SPREAD + "index = Concat <axis = -1> (ri, ci) y = GatherND(x, index)"
    assert "GatherND" in read(body, rows="k")


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_without_other_dimensions_it_goes(opset: int) -> None:
    axes = "<axes = [1]>" if opset < 13 else ""
    given = "" if opset < 13 else ", axis"
    text = f"""g (float[n] x) => (float[n] y) <int64[n] rows, int64[n, 1] index> {{
        s = Shape(x) first = Constant <value = int64[1] {{0}}> () zero = Constant <value = int64 {{0}}> ()
        one = Constant <value = int64 {{1}}> () n1 = Gather(s, zero) rows = Range(zero, n1, one)
        part = Unsqueeze {axes} (rows{given}) index = Concat <axis = -1> (part) h = GatherND(x, index) y = Neg(h)
    }}"""
    model = parse(text, opset=opset, weights={"axis": np.array([1])})
    assert check(model, ReadWholeAxes(), RemoveDeadCode()) == ["Neg"]
