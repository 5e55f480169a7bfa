from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxport.optimize import optimize, pipeline
from tests.optimize.harness import check, ops, parse

UNARY = [
    "Identity({0})",
    "Neg({0})",
    "Relu({0})",
    "Abs({0})",
    "Transpose <perm = [1, 0]> ({0})",
    "Cast <to = 1> ({0})",
    "Dropout({0})",
    "Mul({0}, one)",
    "Mul({0}, half)",
    "Add({0}, zero)",
    "Sub({0}, zero)",
    "MatMul({0}, square)",
    "Add({0}, bias)",
    "Reshape({0}, shape)",
    "Flatten({0})",
    "Pad({0}, none)",
    "Concat <axis = 0> ({0})",
]
BINARY = ["Add({0}, {1})", "Sub({0}, {1})", "Mul({0}, {1})", "MatMul({0}, {1})", "Where(yes, {0}, {1})"]
WEIGHTS = {
    "one": np.ones((), np.float32),
    "half": np.array([0.5], np.float32),
    "zero": np.zeros((), np.float32),
    "square": np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32) / 3,
    "bias": np.arange(3, dtype=np.float32) / 4,
    "shape": np.array([-1, 3]),
    "none": np.zeros(4, np.int64),
    "yes": np.array([[True]]),
}


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """Bodies of graphs over 3x3 matrices, with some constants among the leaves and one to three outputs."""
    values = ["x", "square"]
    lines = []
    for index in range(draw(st.integers(1, 12))):
        template = draw(st.sampled_from(UNARY + BINARY))
        name = f"n{index}"
        # Recent values are read more often, so that chains arise.
        operands = [draw(st.sampled_from(values[-3:] + values)) for _ in range(2)]
        lines.append(f"{name} = {template.format(*operands)}")
        values.append(name)
    count = draw(st.integers(1, min(3, len(lines))))
    outputs = ", ".join(f"float[3, 3] n{len(lines) - 1 - index}" for index in range(count))
    return f"g (float[3, 3] x) => ({outputs}) {{ {' '.join(lines)} }}"


@settings(max_examples=60, deadline=None)
@given(text=graphs(), training=st.booleans(), opset=st.sampled_from([13, 20]))
def test_random_graphs(text: str, training: bool, opset: int) -> None:
    model = parse(text, opset=opset, weights=WEIGHTS)
    check(model, pipeline(training=training), exact=False)
    left = ops(model)
    optimize(model, training=training)
    assert ops(model) == left


def test_classifier() -> None:
    text = """g (float[n, 4, 6, 6] x) => (y) {
        c = Conv(x, w) i = Identity(c) d = Dropout(i) b = BatchNormalization(d, v, v, v, v) r = Relu(b) q = Relu(r)
        s = Shape(r) n = Gather(s, zero) u = Unsqueeze(n, axes) t = Concat <axis = 0> (u, rest)
        f = Reshape(q, t) m = Transpose(k) p = MatMul(f, m) y = Add(p, z)
    }"""
    generator = np.random.default_rng(0)
    weights = {
        "w": generator.standard_normal((5, 4, 3, 3)).astype(np.float32),
        "v": generator.random(5).astype(np.float32),
        "k": generator.standard_normal((7, 80)).astype(np.float32),
        "z": generator.standard_normal(7).astype(np.float32),
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
    }
    model = parse(text, weights=weights)
    left = check(model, pipeline(), exact=False)
    assert left == ["Conv", "Relu", "Reshape", "Gemm"]
    assert sorted(model.graph.initializers) == ["f_shape", "k", "w", "w.bias", "z"]


def test_folding_can_be_turned_off() -> None:
    text = "g (float[3] x) => (float[3] y) { h = Neg(v) y = Add(x, h) }"
    model = parse(text, weights={"v": np.ones(3, np.float32)})
    assert check(model, pipeline(fold_constants=False)) == ["Neg", "Add"]
    assert check(model, pipeline()) == ["Add"]


@pytest.mark.parametrize("opset", range(7, 27))
def test_every_opset(opset: int) -> None:
    axes = "<axes = [0]> (x)" if opset < 13 else "(x, first)"
    text = f"""g (float[2, 3] x) => (y) {{
        u = Unsqueeze {axes} t = Transpose <perm = [0, 2, 1]> (u) r = Transpose <perm = [0, 2, 1]> (t)
        f = Reshape(r, shape) m = MatMul(f, w) y = Add(m, b)
    }}"""
    weights = {
        "w": np.ones((3, 2), np.float32),
        "b": np.ones(2, np.float32),
        "shape": np.array([2, 3]),
        "first": np.array([0]),
    }
    assert check(parse(text, opset=opset, weights=weights), pipeline(), exact=False) == ["Gemm"]


def chain(length: int) -> ir.Model:
    """A model as large as those of transformers: products, norms, biases, reshapes with constants of their own."""
    value = ir.Value(name="x", shape=ir.Shape(["n", 16]), type=ir.TensorType(ir.DataType.FLOAT))
    graph = ir.Graph([value], [], nodes=[], opset_imports={"": 20}, name="g")

    def constant(name: str, array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(array, name=name)
        stored = ir.Value(name=name, const_value=tensor, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype))
        graph.register_initializer(stored)
        return stored

    generator = np.random.default_rng(0)
    for index in range(length):
        operands = [
            ("Add", lambda i: constant(f"bias{i}", generator.random(16).astype(np.float32))),
            ("Mul", lambda i: constant(f"scale{i}", generator.random(16).astype(np.float32))),
            ("MatMul", lambda i: constant(f"weight{i}", generator.random((16, 16)).astype(np.float32))),
            ("Reshape", lambda i: constant(f"shape{i}", np.array([-1, 16]))),
        ][index % 4]
        node = ir.node(operands[0], [value, operands[1](index)], name=f"n{index}")
        graph.append(node)
        value = node.outputs[0]
        value.type = ir.TensorType(ir.DataType.FLOAT)
        value.shape = ir.Shape(["n", 16])
    graph.outputs.append(value)
    return ir.Model(graph, ir_version=10)


def test_two_thousand_nodes_lose_those_that_change_nothing_and_merge_pairs() -> None:
    model = chain(2000)
    optimize(model)
    # 500 Reshapes go; each of the 499 Adds that follow a MatMul becomes part of a Gemm, the first follows nothing.
    assert len(ops(model)) == 2000 - 500 - 499 and set(ops(model)) == {"Add", "Mul", "Gemm", "MatMul"}
