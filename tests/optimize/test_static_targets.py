from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import UseStaticTargets
from tests.optimize.harness import check, parse

# Declared shape of the result, what it is computed by, and the constant that takes its place.
CASES = {
    "one free dimension": ("[n, 12]", "Reshape", (2, 12), [-1, 12]),
    "copied dimensions": ("[n, k, 2, 2]", "Reshape", (2, 3, 2, 2), [0, 0, 2, 2]),
    "copied and inferred": ("[n, 2, m]", "Reshape", (2, 2, 6), [0, 2, -1]),
    "static": ("[4, 6]", "Reshape", (4, 6), [4, 6]),
    "two unknown": ("[p, q]", "Reshape", (4, 6), None),
    "expanded": ("[5, n, k, 4]", "Expand", (5, 2, 3, 4), [5, 1, 1, 1]),
    "expanded by a free size": ("[m, n, k, 4]", "Expand", (5, 2, 3, 4), None),
}


@pytest.mark.parametrize(("declared", "op_type", "shape", "expected"), CASES.values(), ids=CASES.keys())
def test_target(declared: str, op_type: str, shape: tuple[int, ...], expected: list[int] | None) -> None:
    text = f"g (float[n, k, 4] x, int64[{len(shape)}] s) => (float{declared} y) {{ t = Abs(s) y = {op_type}(x, t) }}"
    inputs = {"x": np.ones((2, 3, 4), np.float32), "s": np.array(shape)}
    model = parse(text)
    left = check(model, UseStaticTargets(), inputs=inputs)
    assert left == ([op_type] if expected else ["Abs", op_type])
    if expected:
        (target,) = model.graph.initializers.values()
        assert target.const_value is not None
        assert target.const_value.numpy().tolist() == expected
