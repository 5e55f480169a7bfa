from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import MergeCommonSubexpressions
from tests.optimize.harness import check, ops, parse

CASES = {
    "same inputs": ("a = Sin(x) b = Sin(x) y = Add(a, b)", ["Sin", "Add"]),
    "chains": ("a = Sin(x) b = Sin(x) c = Neg(a) d = Neg(b) y = Add(c, d)", ["Sin", "Neg", "Add"]),
    "other order of inputs": ("a = Sub(x, z) b = Sub(z, x) y = Add(a, b)", ["Sub", "Sub", "Add"]),
    "same attributes": (
        "a = LeakyRelu <alpha = 0.5> (x) b = LeakyRelu <alpha = 0.5> (x) y = Add(a, b)",
        ["LeakyRelu", "Add"],
    ),
    "other attributes": (
        "a = LeakyRelu <alpha = 0.5> (x) b = LeakyRelu <alpha = 0.25> (x) y = Add(a, b)",
        ["LeakyRelu", "LeakyRelu", "Add"],
    ),
    "attribute missing": (
        "a = LeakyRelu <alpha = 0.5> (x) b = LeakyRelu(x) y = Add(a, b)",
        ["LeakyRelu", "LeakyRelu", "Add"],
    ),
    "same constants": (
        "a = Constant <value = float[2] {1, 2}> () b = Constant <value = float[2] {1, 2}> () y = Add(a, b)",
        ["Constant", "Add"],
    ),
    "other constants": (
        "a = Constant <value = float[2] {1, 2}> () b = Constant <value = float[1, 2] {1, 2}> () y = Add(a, b)",
        ["Constant", "Constant", "Add"],
    ),
    "signed zeros": (
        "a = Constant <value_float = 0.0> () b = Constant <value_float = -0.0> () y = Add(a, b)",
        ["Constant", "Constant", "Add"],
    ),
    "several outputs": (
        "a, b = Split <axis = 0, num_outputs = 2> (x) c, d = Split <axis = 0, num_outputs = 2> (x) y = Sum(a, b, c, d)",
        ["Split", "Sum"],
    ),
}


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES.keys())
def test_merged(body: str, expected: list[str]) -> None:
    model = parse(f"g (float[2] x, float[2] z) => (y) {{ {body} }}")
    assert check(model, MergeCommonSubexpressions()) == expected


@pytest.mark.parametrize(
    "draw",
    [
        "RandomNormal <shape = [2]> ()",
        "RandomUniform <shape = [2]> ()",
        "RandomNormalLike(x)",
        "RandomUniformLike(x)",
        "Bernoulli(x)",
        "Dropout(x, ratio, training)",
        "Multinomial <sample_size = 2> (probabilities)",
    ],
)
def test_random_operators_are_never_merged(draw: str) -> None:
    text = f"""g (float[2] x, float[1, 2] probabilities, float ratio, bool training) => (y) {{
        a = {draw} b = {draw} c = Cast <to = 1> (a) d = Cast <to = 1> (b) y = Add(c, d)
    }}"""
    model = parse(text, infer=False)
    before = ops(model)
    MergeCommonSubexpressions()(model)
    assert ops(model) == before


def test_other_domains_are_left_alone() -> None:
    model = parse(
        "g (float[2] x) => (float[2] y) { a = custom.Noise(x) b = custom.Noise(x) y = Add(a, b) }", infer=False
    )
    MergeCommonSubexpressions()(model)
    assert ops(model) == ["Noise", "Noise", "Add"]


def test_outputs_stay_distinct() -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Sin(x) z = Sin(x) }")
    assert check(model, MergeCommonSubexpressions()) == ["Sin", "Identity"]
    model = parse("g (float[2] x) => (float[2] y, float[2] z) { a = Sin(x) y = Sin(x) z = Neg(a) }")
    assert check(model, MergeCommonSubexpressions()) == ["Sin", "Neg"]
    text = "g (float[2] x) => (float[1] a, float[1] c) { a, b = Split(x, s) c, d = Split(x, s) }"
    model = parse(text, weights={"s": np.array([1, 1])})
    assert check(model, MergeCommonSubexpressions()) == ["Split", "Split"]


@pytest.mark.parametrize("flag", [True, False])
def test_subgraphs_use_outer_values_but_not_each_other(flag: bool) -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        h = Sin(x)
        b = If (c) <then_branch = t () => (float[2] a) { p = Sin(x) q = Cos(x) a = Add(p, q) },
                    else_branch = e () => (float[2] b) { b = Cos(x) }>
        k = Cos(x)
        y = Sum(b, k, h)
    }"""
    model = parse(text)
    inputs = {"c": np.array(flag), "x": np.ones(2, np.float32)}
    assert check(model, MergeCommonSubexpressions(), inputs=inputs) == ["Sin", "If", "Cos", "Sum"]
    assert [ops(graph) for graph in model.graph.subgraphs()] == [["Cos", "Add"], ["Cos"]]
