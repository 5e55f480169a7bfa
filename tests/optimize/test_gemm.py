from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import FuseGemm
from tests.optimize.harness import check, parse

WEIGHTS = {
    "w": np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32),
    "b": np.random.default_rng(1).standard_normal(5).astype(np.float32),
}

CASES = {
    "bias": ("h = MatMul(x, w) y = Add(h, b)", ["Gemm"]),
    "bias first": ("h = MatMul(x, w) y = Add(b, h)", ["Gemm"]),
    "transposed weight": (
        "v = Transpose(w) u = Transpose <perm = [1, 0]> (v) h = MatMul(x, u) y = Add(h, b)",
        ["Gemm"],
    ),
    "transposed input": ("t = Transpose(x) h = MatMul(t, x) y = Abs(h)", ["Gemm", "Abs"]),
    "product read twice": ("h = MatMul(x, w) a = Add(h, b) y = Mul(a, h)", ["MatMul", "Add", "Mul"]),
    "full matrix added": ("h = MatMul(x, w) y = Add(h, h)", ["MatMul", "Add"]),
    "gemm without bias": ("h = Gemm <alpha = 0.5> (x, w) y = Add(h, b)", ["Gemm"]),
    "gemm with bias": ("h = Gemm(x, w, b) y = Add(h, b)", ["Gemm", "Add"]),
    "gemm of transposed": ("t = Transpose(w) y = Gemm <transB = 1> (x, t, b)", ["Gemm"]),
}


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES.keys())
def test_matrices(body: str, expected: list[str], opset: int) -> None:
    model = parse(f"g (float[n, 4] x) => (y) {{ {body} }}", opset=opset, weights=WEIGHTS)
    assert check(model, FuseGemm(), exact=False) == expected


def test_before_the_bias_was_optional() -> None:
    text = "g (float[n, 4] x, float[n, 5] z) => (y) { t = Transpose(x) h = MatMul(t, z) y = Add(h, b) }"
    assert check(parse(text, opset=7, weights=WEIGHTS), FuseGemm(), exact=False) == ["Gemm"]
    text = "g (float[n, 4] x) => (y) { t = Transpose(x) y = MatMul(t, x) }"
    assert check(parse(text, opset=7), FuseGemm(), exact=False) == ["Transpose", "MatMul"]


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float16", ["Gemm"]), ("double", ["Gemm"]), ("int32", ["MatMul", "Add"])]
)
def test_types(dtype: str, expected: list[str]) -> None:
    model = parse(f"g ({dtype}[n, 4] x, {dtype}[4, 5] w, {dtype}[5] b) => (y) {{ h = MatMul(x, w) y = Add(h, b) }}")
    assert check(model, FuseGemm(), exact=False) == expected


def test_batches_of_matrices_stay() -> None:
    model = parse("g (float[n, 3, 4] x) => (y) { h = MatMul(x, w) y = Add(h, b) }", weights=WEIGHTS)
    assert check(model, FuseGemm(), exact=False) == ["MatMul", "Add"]


def test_bias_of_unknown_length_stays() -> None:
    model = parse("g (float[n, 4] x, float[k] c) => (y) { h = MatMul(x, w) y = Add(h, c) }", weights=WEIGHTS)
    inputs = {"x": np.ones((2, 4), np.float32), "c": np.ones(5, np.float32)}
    assert check(model, FuseGemm(), exact=False, inputs=inputs) == ["MatMul", "Add"]


def test_names_follow_the_operator() -> None:
    model = parse("g (float[n, 4] x) => (y) { h = MatMul(x, w) a = Add(h, b) y = Abs(a) }", weights=WEIGHTS)
    add = model.graph[1]
    add.name = add.outputs[0].name = "fc/Add_3"
    FuseGemm()(model)
    assert (model.graph[0].name, model.graph[0].outputs[0].name) == ("fc/Gemm", "fc/Gemm")
