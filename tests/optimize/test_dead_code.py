from __future__ import annotations

import numpy as np

from onnxport.optimize import RemoveDeadCode
from tests.optimize.harness import check, ops, parse, random_inputs


def test_unused_nodes_and_initializers() -> None:
    weights = {"v": np.ones(2, np.float32), "w": np.ones(2, np.float32)}
    model = parse("g (float[2] x) => (float[2] y) { a = Sin(x) b = Add(a, v) y = Mul(x, w) }", weights=weights)
    assert check(model, RemoveDeadCode()) == ["Mul"]
    assert list(model.graph.initializers) == ["w"]


def test_unused_input_stays() -> None:
    model = parse("g (float[2] x, float[2] v) => (float[2] y) { y = Sin(x) }", weights={"v": np.ones(2, np.float32)})
    assert check(model, RemoveDeadCode()) == ["Sin"]
    assert list(model.graph.initializers) == ["v"]


def test_optional_outputs() -> None:
    model = parse("g (float[1, 1, 4, 4] x) => (y) { y, i = MaxPool <kernel_shape = [2, 2]> (x) }")
    check(model, RemoveDeadCode())
    assert len(model.graph[0].outputs) == 1
    model = parse("g (float[4] x) => (y) { a, y = Split <num_outputs = 2> (x) }")
    check(model, RemoveDeadCode())
    assert len(model.graph[0].outputs) == 2


def test_what_only_a_removed_subgraph_read() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        h = Sin(x)
        d = If (c) <then_branch = t () => (float[2] a) { a = Neg(h) },
                    else_branch = e () => (float[2] b) { b = Abs(h) }>
        y = Cos(x)
    }"""
    model = parse(text)
    assert check(model, RemoveDeadCode(), inputs=random_inputs(model)) == ["Cos"]


def test_inside_of_subgraphs() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        h = Sin(x)
        y = If (c) <then_branch = t () => (float[2] a) <float[1] w = {1}> { k = Mul(h, w) a = Neg(x) },
                    else_branch = e () => (float[2] b) { b = Abs(x) }>
    }"""
    model = parse(text)
    assert check(model, RemoveDeadCode(), inputs=random_inputs(model)) == ["If"]
    then_branch, _ = model.graph.subgraphs()
    assert ops(then_branch) == ["Neg"]
    assert not then_branch.initializers
