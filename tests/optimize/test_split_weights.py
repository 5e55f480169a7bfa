from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import SplitWeights
from tests.optimize.harness import check, ops, parse

WEIGHT = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
ADD = "y = Add(x, p)  z = Add(x, q)"


@pytest.mark.parametrize(
    ("body", "shape", "opset"),
    [
        (f"s = Constant<value_ints = [3, 3]>()  p, q = Split<axis = 0>(w, s)  {ADD}", (3, 4), 13),
        (f"p, q = Split<axis = -1, split = [2, 2]>(w)  {ADD}", (6, 2), 11),
        (f"p, q = Split<axis = 0, num_outputs = 2>(w)  {ADD}", (3, 4), 18),
        (f"p, q = Split<axis = 1>(w)  {ADD}", (6, 2), 13),
    ],
    ids=["sizes", "attribute", "count", "equal"],
)
def test_a_weight_is_stored_in_its_parts(body: str, shape: tuple[int, int], opset: int) -> None:
    kind = f"float[{shape[0]}, {shape[1]}]"
    model = parse(f"g ({kind} x) => ({kind} y, {kind} z) {{ {body} }}", weights={"w": WEIGHT}, opset=opset)
    assert check(model, SplitWeights())[-2:] == ["Add", "Add"]
    assert "Split" not in ops(model)
    assert {"w.0", "w.1"} <= set(model.graph.initializers)
    part = model.graph.initializers["w.0"].const_value
    assert part is not None and tuple(part.shape) == shape


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"p, q = Split<axis = 0>(w)  {ADD}  v = Mul(w, w)", "float[3, 4] y, float[3, 4] z, float[6, 4] v"),
        ("p, q = Split<axis = 0>(w)  y = Add(x, p)", "float[3, 4] y, float[3, 4] q"),
        (f"p, q = Split<axis = 0>(w, n)  {ADD}", "float[3, 4] y, float[3, 4] z"),
    ],
    ids=["another-reader", "a-graph-output", "sizes-at-run-time"],
)
def test_what_stays(body: str, outputs: str) -> None:
    sizes = ", int64[2] n" if "n)" in body else ""
    model = parse(f"g (float[3, 4] x{sizes}) => ({outputs}) {{ {body} }}", weights={"w": WEIGHT}, opset=13, infer=False)
    inputs = {"x": np.ones((3, 4), np.float32)} | ({"n": np.array([3, 3])} if sizes else {})
    assert "Split" in check(model, SplitWeights(), inputs=inputs)


def test_weights_that_are_trained_stay_whole() -> None:
    body = f"p, q = Split<axis = 0>(w)  {ADD}"
    model = parse(f"g (float[3, 4] x) => (float[3, 4] y, float[3, 4] z) {{ {body} }}", weights={"w": WEIGHT}, opset=13)
    SplitWeights(training=True)(model)
    assert ops(model) == ["Split", "Add", "Add"]
