"""Size expressions as ONNX nodes: ONNX Runtime computes what Python computes, at every opset."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxport.graph.ir import Block, Graph
from onnxport.graph.sizes import SizeExpr, apply, compare, where
from onnxport.graph.sizes.expr import node
from onnxport.lower import sizes
from onnxport.lower.builder import Builder, Context
from onnxport.lower.value import Value
from tests.graph.sizes.trees import POINTS, Tree, Unwanted, expression, in_python, leaves, random_tree

OPSETS = (7, 9, 10, 13, 20, 26)
AT_OPSETS = pytest.mark.parametrize("opset", OPSETS)
LEAVES = leaves()
N, M, K = LEAVES["n"], LEAVES["m"], LEAVES["k"]
LARGEST = 2**48


class Emitted:
    """A model with expressions as outputs, over two tensors that have the sizes ``n`` and ``m`` and a number ``k``."""

    def __init__(self, exprs: Sequence[Any], opset: int) -> None:
        self.builder = Builder(Context(Graph(Block(), []), opset), lambda value: value)
        g = self.builder
        inputs = {name: self._input(name, leaf) for name, leaf in LEAVES.items()}
        g.context.numbers = {LEAVES[name].operands[0]: value for name, value in inputs.items()}
        outputs = [g.op("Identity", sizes.scalar(g, expr)).ir for expr in exprs]
        graph = ir.Graph(
            [value.ir for value in inputs.values() if value.ir is not None],
            [value for value in outputs if value is not None],
            nodes=g.nodes,
            initializers=list(g.context.initializers.values()),
            opset_imports={"": opset},
            name="sizes",
        )
        model = ir.serde.serialize_model(ir.Model(graph, ir_version=10 if opset < 26 else 13))
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def _input(self, name: str, leaf: SizeExpr) -> Value:
        g = self.builder
        value = Value(ir.Value(name=name), torch.float32, (leaf,))
        if leaf is K:
            return g.typed(Value(value.ir, torch.int64, ()), torch.int64, ())
        g.typed(value, torch.float32, (leaf,))
        g.carry(value)
        return value

    @property
    def operators(self) -> list[str]:
        return [each.op_type for each in self.builder.nodes if each.op_type not in ("Identity", "Shape", "Gather")]

    def __call__(self, point: Mapping[str, int]) -> list[Any]:
        given = {name: np.zeros(point[name], np.float32) for name in ("n", "m")}
        return [result[()] for result in self._session.run(None, {**given, "k": np.array(point["k"])})]


def check(trees: Sequence[Tree], opset: int, points: Sequence[Mapping[str, int]], make: Any = node) -> int:
    """Compare all trees at all points at which Python computes them; how many comparisons that were."""
    emitted = Emitted([expression(tree, LEAVES, make) for tree in trees], opset)
    compared = 0
    for point in points:
        for tree, found in zip(trees, emitted(point), strict=True):
            wanted = in_python(tree, point, LARGEST)
            compared += 1
            if isinstance(wanted, float):
                assert math.isclose(found, wanted, rel_tol=1e-14, abs_tol=1e-14), (tree, point)
            else:
                assert found == wanted, (tree, point, found, wanted)
    return compared


def computable(tree: Tree, points: Sequence[Mapping[str, int]]) -> bool:
    try:
        return all(in_python(tree, point, LARGEST) is not None for point in points)
    except Unwanted:
        return False


OTHER_POINTS = [{"n": 3, "m": 1, "k": 2}, {"n": 100, "m": 31, "k": -5}, {"n": 17, "m": 1024, "k": 63}]


@AT_OPSETS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_trees(opset: int, seed: int) -> None:
    draw = random.Random(seed)
    trees = [random_tree(draw, draw.choice(["int", "int", "float", "bool"]), 4) for _ in range(40)]
    points = [*POINTS, *OTHER_POINTS]
    # Below opset 10 there is no remainder of floats: theirs is not Python's to the last bit, nor what is rounded to.
    wanted = [tree for tree in trees if computable(tree, points) and (opset >= 10 or not _divides_floats(tree))]
    check(wanted, opset, points)


def _divides_floats(tree: Tree) -> bool:
    if not isinstance(tree, tuple):
        return False
    own = tree[0] in ("floordiv", "mod") and any(isinstance(operand, float) for operand in tree[1:])
    return own or any(map(_divides_floats, tree[1:]))


EVERY_OPERATOR: list[Tree] = [
    ("add", "n", "k"), ("sub", "k", "n"), ("mul", "n", "k"), ("neg", "k"), ("abs", "k"),
    ("floordiv", "n", 7), ("floordiv", "k", 7), ("floordiv", "k", -7), ("floordiv", "k", "m"), ("floordiv", "n", "m"),
    ("mod", "n", 7), ("mod", "k", 7), ("mod", "k", -7), ("mod", "k", "m"),
    ("truediv", "n", "m"), ("truediv", "k", 3), ("min", "n", "k"), ("max", "n", "k"), ("min", ("float", "n"), 7.5),
    ("pow", "n", 2), ("pow", 2, ("mod", "n", 30)), ("pow", "n", 0.5), ("pow", "n", -0.25), ("pow", "k", 3),
    ("pow", "n", ("mod", "m", 3)), ("pow", 10000.0, ("truediv", ("mod", "n", 64), 64)),
    ("ceil", ("mul", "n", 0.3)), ("floor", ("mul", "k", 0.3)), ("trunc", ("mul", "k", 0.3)),
    ("round", ("mul", "k", 0.3)), ("round", ("truediv", "k", 2)), ("round", ("truediv", "n", 2)),
    ("round", ("mul", "n", 0.3), 1), ("round", "k", -1),
    ("round", "n", 2), ("isqrt", "n"), ("isqrt", ("mul", "k", "k")), ("float", "k"), ("sqrt", "n"), ("log", "n"),
    ("log2", "n"), ("log10", "n"), ("exp", ("truediv", "k", 10)), ("sin", "n"), ("cos", "k"),
    ("bit_length", "n"), ("bit_length", "k"), ("lshift", "k", 3), ("lshift", 1, ("mod", "n", 20)), ("rshift", "k", 3),
    ("rshift", "n", ("mod", "m", 5)), ("and", "n", "m"), ("and", "k", "m"), ("or", "k", "m"), ("xor", "k", "n"),
    ("lt", "n", "m"), ("le", "n", "k"), ("gt", "n", "m"), ("ge", "k", "m"), ("eq", "n", 7), ("ne", ("mod", "n", 3), 1),
    ("lt", ("mul", "n", 0.3), "m"), ("eq", ("truediv", "n", 2), ("mul", "n", 0.5)), ("not", ("lt", "n", "m")),
    ("not", "k"), ("and", ("lt", "n", "m"), ("lt", "k", 5)), ("or", ("lt", "n", "m"), ("lt", "k", 5)),
    ("xor", ("lt", "n", "m"), ("lt", "k", 5)), ("add", ("lt", "n", "m"), "n"), ("where", ("gt", "n", 40), "m", "k"),
    ("where", ("gt", "n", 40), ("truediv", "m", 3), 0.5), ("where", ("gt", "n", 40), ("lt", "m", 9), ("lt", "k", 0)),
]  # fmt: skip


@AT_OPSETS
def test_every_operator(opset: int) -> None:
    assert check(EVERY_OPERATOR, opset, [*POINTS, *OTHER_POINTS]) == len(EVERY_OPERATOR) * 11


@AT_OPSETS
def test_logarithms_are_exact_where_they_are_rounded(opset: int) -> None:
    trees = [
        ("ceil", ("log2", "n")), ("floor", ("log2", "n")), ("bit_length", "n"),
        ("ceil", ("log10", "n")), ("floor", ("log10", "n")), ("isqrt", "n"), ("ceil", ("sqrt", "n")),
    ]  # fmt: skip
    check(trees, opset, [{"n": n, "m": 1, "k": 0} for n in range(1, 5001)])


@AT_OPSETS
def test_large_numbers(opset: int) -> None:
    trees: list[Tree] = [("bit_length", "k"), ("isqrt", "k"), ("floor", ("log2", "k")), ("and", "k", 0xFFFF_FFFF_0000)]
    trees += [("floordiv", "k", 3), ("mod", "k", 1000), ("ceil", ("truediv", "k", 7)), ("xor", "k", -1)]
    draw = random.Random(0)
    numbers = [
        *(draw.randrange(1, 1 << draw.randrange(1, 48)) for _ in range(200)),
        *((1 << bit) - 1 for bit in range(1, 48)),
    ]
    check(trees, opset, [{"n": 1, "m": 1, "k": number} for number in (*numbers, *((1 << bit) for bit in range(48)))])


@pytest.mark.parametrize(
    "expr, operators",
    [
        (N // 2, ["Div"]),
        ((N + 1) // 2, ["Add", "Div"]),
        ((N - 3) // 2 + 1, ["Add", "Div", "Sub"]),  # (n + 1)//2 - 1
        (((N + 1) // 2 + 1) // 2, ["Add", "Div"]),
        (K // 2, ["Mod", "Sub", "Div"]),
        (math.ceil(N / 3), ["Add", "Div"]),
        (math.trunc(N * 0.5), ["Div"]),
        (math.trunc(N**0.5), ["Cast", "Sqrt", "Cast"]),
        (N * M - N, ["Mul", "Sub"]),
        ((N + M) * (N + 1), ["Add", "Add", "Mul"]),  # not multiplied out
        (where(compare("gt", N, 400), 400, N), ["Min"]),
        (apply("max", N + 1, 0), ["Add"]),
    ],
)
def test_as_few_nodes_as_can_be(expr: Any, operators: list[str]) -> None:
    assert Emitted([expr], 20).operators == operators


@AT_OPSETS
def test_what_the_runtime_would_fuse(opset: int) -> None:
    """ONNX Runtime makes (1 / y) * z into z / y, whatever the type."""
    trees: list[Tree] = [("mul", ("floordiv", 1, "n"), "m"), ("mod", 1, "n"), ("mul", ("floordiv", 1, "k"), "m")]
    trees += [("mul", ("truediv", 1, "n"), "n"), ("floor", ("mul", ("truediv", 1, "n"), "n"))]
    check(trees, opset, [{"n": n, "m": 5, "k": k} for n in range(1, 120) for k in (-1, -2, 1, 2)])


def test_parts_that_are_read_are_not_computed() -> None:
    emitted = Emitted([M * 2], 20)
    g = emitted.builder
    half = N // 2 + 1
    value = g.typed(Value(ir.Value(name="half"), torch.float32, (half,)), torch.float32, (half,))
    g.carry(value)
    g.nodes.clear()
    sizes.scalar(g, half * 3)
    assert [each.op_type for each in g.nodes] == ["Shape", "Gather", "Mul"]


def test_a_divisor_that_is_not_wanted_may_be_zero() -> None:
    expr = where(compare("gt", K, 0), N // K, N % (K + 5))
    emitted = Emitted([expr], 20)
    assert [emitted({"n": 17, "m": 1, "k": k})[0] for k in (3, 0, -2)] == [5, 17 % 5, 17 % 3]


def test_a_number_that_does_not_fit() -> None:
    with pytest.raises(sizes.UnknownSize, match="64 bits"):
        Emitted([N * 2**70], 20)


def test_long_chains_and_shared_parts() -> None:
    x: Any = N
    for _ in range(1500):
        x = ((x * M) % 1001 + K) // 2
    emitted = Emitted([x], 20)
    point = {"n": 9, "m": 4, "k": 3}
    wanted = point["n"]
    for _ in range(1500):
        wanted = ((wanted * 4) % 1001 + 3) // 2
    assert emitted(point)[0] == wanted
    y: Any = N // 2
    for _ in range(40):
        y = (y + y) % 1001
    assert len(Emitted([y], 20).operators) < 90


def test_twenty_thousand_operations() -> None:
    """As many nodes are made without overflowing the stack; they are not run."""
    x: Any = N
    for count in range(10_000):
        x = (x * M + count) % 1001
    g = Builder(Context(Graph(Block(), []), 20), lambda value: value)
    for name, leaf in (("n", N), ("m", M)):
        g.carry(g.typed(Value(ir.Value(name=name), torch.float32, (leaf,)), torch.float32, (leaf,)))
    sizes.scalar(g, x)
    assert len(g.nodes) >= 20_000
