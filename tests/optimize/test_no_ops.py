from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnxport.optimize import RemoveNoOps
from tests.optimize.harness import check, ops, parse, random_inputs

F32 = np.float32

REMOVED = {
    "identity": "y = Identity(h)",
    "concat of one": "y = Concat <axis = 1> (h)",
    "sum of one": "y = Sum(h)",
    "cast": "y = Cast <to = 1> (h)",
    "transpose": "y = Transpose <perm = [0, 1, 2]> (h)",
    "reshape": "s = Constant <value = int64[3] {0, 3, -1}> () y = Reshape(h, s)",
    "reshape static": "s = Constant <value = int64[3] {2, 3, 4}> () y = Reshape(h, s)",
    "expand": "s = Constant <value = int64[3] {1, 3, 1}> () y = Expand(h, s)",
    "expand lower rank": "s = Constant <value = int64[1] {4}> () y = Expand(h, s)",
    "tile": "s = Constant <value = int64[3] {1, 1, 1}> () y = Tile(h, s)",
    "slice": """s = Constant <value = int64[1] {0}> () e = Constant <value = int64[1] {9223372036854775807}> ()
        a = Constant <value = int64[1] {2}> () y = Slice(h, s, e, a)""",
    "slice static": """s = Constant <value = int64[2] {0, 0}> () e = Constant <value = int64[2] {4, 7}> ()
        a = Constant <value = int64[2] {-1, 1}> () y = Slice(h, s, e, a)""",
    "pad": "p = Constant <value = int64[6] {0, 0, 0, 0, 0, 0}> () y = Pad(h, p)",
    "dropout": "y = Dropout(h)",
    "dropout with mask": "r = Constant <value_float = 0.5> () y, m = Dropout(h, r)",
    "mul": "c = Constant <value_float = 1.0> () y = Mul(h, c)",
    "mul left": "c = Constant <value = float[1] {1.0}> () y = Mul(c, h)",
    "div": "c = Constant <value_float = 1.0> () y = Div(h, c)",
    "pow": "c = Constant <value_float = 1.0> () y = Pow(h, c)",
    "sub": "c = Constant <value_float = 0.0> () y = Sub(h, c)",
    "add negative zero": "c = Constant <value_float = -0.0> () y = Add(h, c)",
    "where": "c = Constant <value = bool[1, 1] {1}> () z = Neg(h) y = Where(c, h, z)",
}

KEPT = {
    "concat": "y = Concat <axis = 1> (h, h)",
    "cast": "y = Cast <to = 11> (h)",
    "transpose": "y = Transpose <perm = [0, 2, 1]> (h)",
    "reshape": "s = Constant <value = int64[3] {0, 4, 3}> () y = Reshape(h, s)",
    "expand": "s = Constant <value = int64[4] {1, 1, 1, 1}> () y = Expand(h, s)",
    "slice": """s = Constant <value = int64[1] {0}> () e = Constant <value = int64[1] {3}> ()
        a = Constant <value = int64[1] {2}> () y = Slice(h, s, e, a)""",
    "reverse": """s = Constant <value = int64[1] {-1}> () e = Constant <value = int64[1] {-9223372036854775807}> ()
        a = Constant <value = int64[1] {2}> () t = Constant <value = int64[1] {-1}> () y = Slice(h, s, e, a, t)""",
    "pad": "p = Constant <value = int64[6] {0, 0, 0, 0, 0, 1}> () y = Pad(h, p)",
    "mul of higher rank": "c = Constant <value = float[1, 1, 1, 1] {1.0}> () y = Mul(h, c)",
    "mul by two": "c = Constant <value_float = 2.0> () y = Mul(h, c)",
    "one divided": "c = Constant <value_float = 1.0> () y = Div(c, h)",
    "add zero": "c = Constant <value_float = 0.0> () y = Add(h, c)",
    "sub negative zero": "c = Constant <value_float = -0.0> () y = Sub(h, c)",
    "where mixed": "c = Constant <value = bool[4] {1, 0, 1, 1}> () z = Neg(h) y = Where(c, h, z)",
}


def model_of(body: str, opset: int = 20) -> ir.Model:
    return parse(f"g (float[2, 3, 4] x) => (y) {{ h = Abs(x) {body} }}", opset=opset)


@pytest.mark.parametrize("body", REMOVED.values(), ids=REMOVED.keys())
def test_removed(body: str) -> None:
    assert [op for op in check(model_of(body), RemoveNoOps()) if op not in ("Constant", "Neg")] == ["Abs"]


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT.keys())
def test_kept(body: str) -> None:
    model = model_of(body)
    before = ops(model)
    assert check(model, RemoveNoOps()) == before


@pytest.mark.parametrize(
    "body",
    [
        "y = Slice <starts = [0], ends = [9], axes = [1]> (h)",
        "y = Pad <pads = [0, 0, 0, 0, 0, 0]> (h)",
        "y = Dropout(h)",
    ],
)
def test_attributes_of_old_opsets(body: str) -> None:
    assert check(model_of(body, opset=7), RemoveNoOps()) == ["Abs"]


def test_integers_add_zero() -> None:
    model = parse("g (int64[2] x) => (int64[2] y) { c = Constant <value = int64 {0}> () h = Neg(x) y = Add(c, h) }")
    assert check(model, RemoveNoOps()) == ["Neg"]


def test_unknown_dimensions_are_not_equal() -> None:
    text = "g (float[a, b] x, int64[2] s) => (float[c, d] y) { h = Abs(x) y = Reshape(h, s) }"
    model = parse(text, infer=False)
    inputs = {"x": np.ones((2, 6), F32), "s": np.array([3, 4])}
    assert check(model, RemoveNoOps(), inputs=inputs) == ["Abs", "Reshape"]


def test_output_that_is_an_input_keeps_its_identity() -> None:
    model = parse("g (float[2] x) => (float[2] y) { c = Constant <value_float = 1.0> () y = Mul(x, c) }")
    assert check(model, RemoveNoOps()) == ["Identity"]


def test_two_outputs_of_one_value_stay_two() -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Abs(x) z = Identity(y) }")
    assert check(model, RemoveNoOps()) == ["Abs", "Identity"]
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { h = Abs(x) y = Identity(h) z = Identity(h) }")
    assert check(model, RemoveNoOps()) == ["Abs", "Identity"]


def test_initializer_that_a_caller_may_override_is_no_constant() -> None:
    model = parse("g (float[2] x, float one = {1.0}) => (float[2] y) { y = Mul(x, one) }")
    assert check(model, RemoveNoOps()) == ["Mul"]


def test_training_keeps_dropout_and_parameters() -> None:
    text = "g (float[2] x) => (float[2] y) <float scale = {1.0}> { h = Mul(x, scale) y = Dropout(h) }"
    model = parse(text)
    assert check(model, RemoveNoOps(training=True)) == ["Mul", "Dropout"]
    assert check(parse(text), RemoveNoOps()) == ["Identity"]


def test_dropout_in_training_mode_stays() -> None:
    model = model_of("""r = Constant <value_float = 0.5> () t = Constant <value = bool {1}> () y = Dropout(h, r, t)""")
    RemoveNoOps()(model)
    assert "Dropout" in ops(model)


def test_identity_of_an_outer_value_in_a_branch_stays() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        h = Abs(x)
        y = If (c) <then_branch = t () => (float[2] a) { a = Identity(h) },
                    else_branch = e () => (float[2] b) { n = Neg(h) b = Identity(n) }>
    }"""
    model = parse(text)
    for flag in (True, False):
        inputs = random_inputs(model) | {"c": np.array(flag)}
        assert check(parse(text), RemoveNoOps(), inputs=inputs) == ["Abs", "If"]
    RemoveNoOps()(model)
    branches = [ops(graph) for graph in model.graph.subgraphs()]
    assert sorted(branches) == [["Identity"], ["Neg"]]


SUMS = {
    "matmul": ("MatMul(x, w)", True),
    "gemm": ("Gemm(x, w)", True),
    "moved": ("t = MatMul(x, w) u = Transpose(t) s = Reshape(u, shape)", True),
    "divided": ("t = MatMul(x, w) s = Div(t, half)", True),
    "divided by a negative number": ("t = MatMul(x, w) s = Div(t, minus)", False),
    "divided by a variable": ("t = MatMul(x, w) s = Div(t, x)", False),
    "negated": ("t = MatMul(x, w) s = Neg(t)", False),
    "rounded": ("t = MatMul(x, w) s = Round(t)", False),
    "no sum": ("Relu(x)", False),
}


@pytest.mark.parametrize(("body", "goes"), SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("addition", ["Add(s, zero)", "Add(zero, s)"])
def test_zero_is_added_to_a_sum_of_products(body: str, goes: bool, addition: str) -> None:
    body = body if "s = " in body else f"s = {body}"
    constants = "shape = Constant <value_ints = [2, 2]> () " + " ".join(
        f"{name} = Constant <value_float = {number}> ()"
        for name, number in {"zero": 0.0, "half": 0.5, "minus": -0.5}.items()
    )
    model = parse(f"g (float[2, 2] x, float[2, 2] w) => (y) {{ {constants} {body} z = {addition} y = Sigmoid(z) }}")
    assert ("Add" not in check(model, RemoveNoOps())) == goes
