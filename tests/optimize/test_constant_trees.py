from __future__ import annotations

import re

import numpy as np
import pytest

from onnxport.optimize import FoldConstantTrees, RemoveDeadCode
from onnxport.optimize.passes import constant_trees
from tests.optimize.harness import check, ops, parse

GENERATOR = np.random.default_rng(0)
WEIGHTS = {
    "w": GENERATOR.standard_normal((40, 40)).astype(np.float32),
    "a": GENERATOR.standard_normal((40, 2)).astype(np.float32),
    "b": GENERATOR.standard_normal((2, 40)).astype(np.float32),
}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = MatMul(a, b)  u = Add(w, t)  y = MatMul(x, u)", ["MatMul"]),
        ("t = Transpose(w)  s = Tanh(t)  u = Add(w, s)  y = MatMul(x, u)", ["MatMul"]),
        ("t = MatMul(a, b)  y = MatMul(x, t)", ["MatMul", "MatMul"]),
        ("t = Tanh(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, w)", ["Tanh", "Add", "MatMul", "MatMul"]),
        ("t = Tanh(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, t)", ["Tanh", "Add", "MatMul", "MatMul"]),
    ],
    ids=["low-rank", "diamond", "grows", "weight-is-read", "step-is-read"],
)
def test_steps_are_taken_together_where_the_file_does_not_grow(
    body: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constant_trees, "ALLOWANCE_BYTES", 0)
    used = {name: WEIGHTS[name] for name in re.findall(r"\w+", body) if name in WEIGHTS}
    model = parse(f"g (float[n, 40] x) => (float[n, 40] y) {{ {body} }}", weights=used)
    assert check(model, FoldConstantTrees(), RemoveDeadCode(), exact=False) == left


def test_parameters_that_are_trained_stay() -> None:
    body = "t = MatMul(a, b)  u = Add(w, t)  y = MatMul(x, u)"
    model = parse(f"g (float[n, 40] x) => (float[n, 40] y) {{ {body} }}", weights=WEIGHTS)
    FoldConstantTrees(training=True)(model)
    assert ops(model) == ["MatMul", "Add", "MatMul"]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = MatMul(a, b)  y = MatMul(x, t)", ["MatMul"]),
        ("t = Abs(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, t)", ["MatMul", "MatMul"]),
        ("t = Abs(w)  u = Add(t, w)  v = MatMul(x, u)  y = MatMul(v, w)", ["Abs", "Add", "MatMul", "MatMul"]),
    ],
    ids=["product", "two-results", "no-copy-of-a-weight"],
)
def test_the_file_may_grow_a_little(body: str, left: list[str]) -> None:
    used = {name: WEIGHTS[name] for name in re.findall(r"\w+", body) if name in WEIGHTS}
    model = parse(f"g (float[n, 40] x) => (float[n, 40] y) {{ {body} }}", weights=used)
    assert check(model, FoldConstantTrees(), RemoveDeadCode(), exact=False) == left


def test_the_allowance_is_for_all_results_together() -> None:
    rows = [f"t{i} = Expand(c, shape)  y{i} = Add(x, t{i})" for i in range(4)]
    outputs = ", ".join(f"float[25000] y{i}" for i in range(4))
    body = "shape = Constant<value_ints = [25000]>()  " + "  ".join(rows)
    model = parse(f"g (float[25000] x) => ({outputs}) {{ {body} }}", weights={"c": np.ones(1, np.float32)})
    assert check(model, FoldConstantTrees(), RemoveDeadCode()).count("Expand") == 2
