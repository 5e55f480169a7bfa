from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from onnxport.optimize import FoldConstants, RemoveDeadCode
from tests.optimize.harness import check, ops, parse

GENERATOR = np.random.default_rng(0)
WEIGHTS = {
    "m": GENERATOR.standard_normal((2, 3)).astype(np.float32),
    "k": GENERATOR.standard_normal((3, 2)).astype(np.float32),
    "v": np.array([-1.5, 0.5, 2.5], np.float32),
    "i": np.array([-7, 7, 8], np.int64),
    "j": np.array([2, -2, 3], np.int64),
    "axis": np.array([1], np.int64),
    "one": np.array([1], np.int64),
    "two": np.array([2], np.int64),
    "shape": np.array([3, -1], np.int64),
    "pairs": np.array([2, 3], np.int64),
    "zero": np.array(0, np.int64),
    "nine": np.array(9, np.int64),
    "step": np.array(2, np.int64),
    "flag": np.array([True, False, True]),
    "columns": np.array([[0, 1, -1], [1, 0, 0]], np.int64),
    "places": np.array([[0, 1], [1, -1], [-2, 0]], np.int64),
    "row": np.array([[-1]], np.int64),
    "last": np.array([[-1]], np.int64),
    "other_row": np.array([[7.0, 8.0, 9.0]], np.float32),
    "far": np.array([-200.0, 0.0, 200.0], np.float32),
}

# Expressions of constants; the whole of each is folded.
FOLDED = [
    *(f"{op}(v)" for op in ("Abs", "Ceil", "Exp", "Floor", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Tanh")),
    *(f"{op}(i, j)" for op in ("Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "Greater", "Max", "Min")),
    *(f"{op}(m, v)" for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Less", "GreaterOrEqual")),
    *(f"{op}(v)" for op in ("Atan", "Cosh", "Sinh", "Tan")),
    "Gemm(m, k)",
    "Gemm <alpha = 0.5, beta = 2.0, transA = 1> (m, m, v)",
    "Gemm <transB = 1> (m, m)",
    "ReduceL1(m, axis)",
    "Mod <fmod = 1> (i, j)",
    "IsNaN(v)",
    "Not(flag)",
    "And(flag, flag)",
    "Reciprocal(v)",
    "Cast <to = 7> (v)",
    "Cast <to = 3> (v)",
    "Cast <to = 5> (v)",
    "Cast <to = 10> (v)",
    "Cast <to = 9> (i)",
    "Clip(v, c, c)",
    "Concat <axis = 0> (m, m)",
    "Expand(v, pairs)",
    "Flatten <axis = 0> (m)",
    "Gather(i, zero)",
    "Gather <axis = 1> (m, axis)",
    "GatherElements <axis = 1> (m, columns)",
    "GatherElements (m, columns)",
    "GatherND (m, places)",
    "GatherND (m, row)",
    "ScatterND (m, places, v)",
    "ScatterND (m, row, other_row)",
    "ScatterND (i, last, one)",
    "CumSum (i, zero)",
    "CumSum (m, axis)",
    "Softplus(v)",
    "Softplus(far)",
    "MatMul(m, k)",
    "Range(zero, nine, step)",
    *(f"{op}(m)" for op in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceSumSquare")),
    "ReduceSum <keepdims = 0> (m, axis)",
    "Reshape(m, shape)",
    "Shape(m)",
    "Shape <start = -1> (m)",
    "Size(m)",
    "Slice(m, one, two, axis)",
    "Tile(v, two)",
    "Transpose(m)",
    "Trilu(m)",
    "Unsqueeze(v, axis)",
    "Where(flag, i, j)",
    "ConstantOfShape <value = int64[1] {5}> (pairs)",
]


@pytest.mark.parametrize("expression", FOLDED)
def test_expression(expression: str) -> None:
    text = f"g (float[1] x) => (y) {{ c = Constant <value_float = 0.75> () h = {expression} y = Identity(h) }}"
    model = parse(text, weights=WEIGHTS)
    assert check(model, FoldConstants(), RemoveDeadCode(), exact=False) == ["Identity"]


@pytest.mark.parametrize(
    "body",
    [
        "y = RandomNormal <shape = [2]> ()",
        "a = RandomNormalLike(v) y = Neg(a)",
        "s = Constant <value = int64[1] {10000}> () a = Expand(v1, s) y = Mul(a, x)",
        "s = Constant <value = int64[1] {10000}> () a = ConstantOfShape(s) y = Mul(a, x)",
        "y = Div(i, i)",
        "y = ScatterND(v, twice, two)",
        "a = Cast <to = 3> (large) y = Cast <to = 1> (a)",
    ],
)
def test_kept(body: str) -> None:
    arrays = {"v": WEIGHTS["v"], "v1": np.ones(1, np.float32), "i": np.zeros(2, np.int64)}
    arrays |= {"large": np.array([200.0], np.float32)}
    arrays |= {"twice": np.array([[1], [-2]]), "two": np.array([1.0, 2.0], np.float32)}
    model = parse(f"g (float[1] x) => (y) {{ {body} }}", weights=arrays)
    before = ops(model)
    FoldConstants()(model)
    assert ops(model) == before


def test_static_dimensions() -> None:
    text = """g (float[n, 3, 4] x) => (y) {
        s = Shape(x) one = Constant <value = int64[1] {1}> () end = Constant <value = int64[1] {9}> ()
        a = Gather(s, one) b = Slice(s, one, end) y = Concat <axis = 0> (a, b, s)
    }"""
    assert check(parse(text), FoldConstants(), RemoveDeadCode()) == ["Shape", "Concat"]


def test_chain_through_subgraph() -> None:
    text = """g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { n = Neg(v) a = Add(x, n) },
                    else_branch = e () => (float[3] b) { b = Neg(v) }>
    }"""
    for flag in (True, False):
        model = parse(text, weights={"v": WEIGHTS["v"]})
        check(model, FoldConstants(), inputs={"c": np.array(flag), "x": WEIGHTS["v"]})
        assert [ops(graph) for graph in model.graph.subgraphs()] == [["Add"], ["Identity"]]


def test_overridable_initializer_is_no_constant() -> None:
    model = parse(
        "g (float[1] x, float[3] v) => (float[3] y) { h = Neg(v) y = Mul(x, h) }", weights={"v": WEIGHTS["v"]}
    )
    assert check(model, FoldConstants()) == ["Neg", "Mul"]


def weighted(body: str, size: int = 64) -> ir.Model:
    weight = GENERATOR.standard_normal((size, size)).astype(np.float32)
    return parse(f"g (float[n, 2, {size}] x) => (y) {{ {body} }}", weights={"w": weight})


def test_weight_keeps_its_name_and_memory() -> None:
    model = weighted("t = Transpose(w) y = MatMul(x, t)")
    parameter = torch.nn.Linear(64, 64).weight
    weight = model.graph.initializers["w"]
    weight.const_value = ir.tensor_adapters.TorchTensor(parameter)
    weight.name = "fc.weight"
    assert check(model, FoldConstants(), exact=False) == ["MatMul"]
    (folded,) = model.graph.initializers.values()
    assert folded.name == "fc.weight"
    assert folded.const_value is not None
    assert folded.const_value.numpy().__array_interface__["data"][0] == parameter.data_ptr()
    assert folded.const_value.tobytes() == parameter.detach().numpy().T.tobytes()


def test_shared_weight_is_not_copied() -> None:
    assert check(weighted("t = Transpose(w) a = MatMul(x, t) y = MatMul(a, w)"), FoldConstants()) == [
        "Transpose",
        "MatMul",
        "MatMul",
    ]
    small = weighted("t = Transpose(w) a = MatMul(x, t) y = MatMul(a, w)", size=8)
    assert check(small, FoldConstants(), exact=False) == ["MatMul", "MatMul"]


def test_training_folds_no_parameter() -> None:
    text = """g (float[n, 4] x) => (y) {
        h = Neg(w) s = Shape(w) o = Constant <value = int64[1] {-1}> () t = Concat <axis = 0> (o, s)
        a = Reshape(x, t) y = Mul(a, h)
    }"""
    model = parse(text, weights={"w": np.ones((2, 2), np.float32)})
    assert check(model, FoldConstants(training=True), RemoveDeadCode()) == ["Neg", "Reshape", "Mul"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision(dtype: str) -> None:
    number = {"bfloat16": 16, "float16": 10}[dtype]
    text = f"""g ({dtype}[1] x) => (float[1, 1] y) {{
        c = Cast <to = {number}> (m) s = Mul(c, c) r = ReduceSumSquare(s) z = Cast <to = 1> (r) y = Identity(z)
    }}"""
    model = parse(text, weights={"m": WEIGHTS["m"]})
    FoldConstants()(model)
    assert ops(model) == ["Identity"]
    (value,) = (value for value in model.graph.initializers.values() if value.uses())
    assert value.const_value is not None
    expected = np.sum(WEIGHTS["m"].astype(np.float64) ** 4)
    np.testing.assert_allclose(value.const_value.numpy(), [[expected]], rtol=2e-2)


@pytest.mark.parametrize(
    "body",
    [
        "a = Slice <starts = [0], ends = [1], axes = [1]> (m)",
        "a = ReduceSum <axes = [1]> (m)",
        "a = Clip <min = 0.0> (m)",
        "b = Unsqueeze <axes = [0]> (m) a = Squeeze <axes = [0]> (b)",
    ],
)
def test_attributes_of_old_opsets(body: str) -> None:
    model = parse(f"g (float[1] x) => (y) {{ {body} y = Mul(x, a) }}", opset=8, weights={"m": WEIGHTS["m"]})
    assert check(model, FoldConstants()) == ["Mul"]


@pytest.mark.parametrize("exponents", [[0, 1, 2], [0, 1, -1]])
def test_powers_of_integers_are_exact(exponents: list[int]) -> None:
    """As in torch, and unlike in runtimes, which compute them as floats. Of negative exponents nothing is made."""
    weights = {"p": np.array(1000000007, np.int64), "e": np.array(exponents, np.int64)}
    model = parse("g (int64[3] x) => (y) { a = Pow (p, e) y = Mul(x, a) }", weights=weights)
    FoldConstants()(model)
    if min(exponents) < 0:
        assert ops(model) == ["Pow", "Mul"]
        return
    assert ops(model) == ["Mul"]
    (value,) = (value for value in model.graph.initializers.values() if value.uses())
    assert value.const_value is not None
    assert value.const_value.numpy().tolist() == [1, 1000000007, 1000000007**2]
