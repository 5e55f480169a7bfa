"""The text of size expressions, alone and as the names of dimensions in exported files."""

from __future__ import annotations

import math
import random
from typing import Any

import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import onnxport
from onnxport.graph.sizes import SizeExpr, apply, axis, compare, number_of, where
from onnxport.graph.sizes.expr import larger, root, smaller
from onnxport.graph.sizes.text import LONGEST, text
from tests.graph.sizes.trees import Unwanted, expression, in_python, leaves, random_tree

H, W = axis("h", (8, 17, 401, 1000)), axis("w", (10, 25, 3, 77))
BATCH, PAST, SEQUENCE = (axis(name, at) for name, at in (("batch", (1, 3)), ("past", (4, 9)), ("sequence", (7, 3))))


def name(leaf: SizeExpr) -> str | None:
    return leaf.operands[0] if leaf.op in ("axis", "number_of") else None


@pytest.mark.parametrize(
    "expr, wanted",
    [
        (H * 2, "2*h"),
        (H + 1, "h + 1"),
        (H * W, "h*w"),
        (H + W - 3, "h + w - 3"),
        (5 - H, "5 - h"),
        (-(H // 2), "-(h//2)"),
        ((H + 2 - 3) // 2 + 1, "(h + 1)//2"),
        (((H + 1) // 2 + 1) // 2, "(h + 3)//4"),
        (H // 2 + 1, "h//2 + 1"),
        (H // 2 * 2, "2*(h//2)"),
        (((H + 1) // 4) * ((W + 1) // 4) * 4, "4*((h + 1)//4)*((w + 1)//4)"),
        ((H * W * 6) // (W * 3), "2*h"),
        (H % 4, "h % 4"),
        ((H + 1) % 4 * 2, "2*((h + 1) % 4)"),
        ((-H) % 8, "(-h) % 8"),
        (larger(H, W + 1), "max(h, w + 1)"),
        (smaller(H, 400) * 2, "2*min(h, 400)"),
        (root(H + 1), "isqrt(h + 1)"),
        (PAST + SEQUENCE, "past + sequence"),
        (SEQUENCE * BATCH, "batch*sequence"),
        (math.ceil(H / 3.3), "ceil(h/3.3)"),
        (math.ceil(H / 3.0), "(h + 2)//3"),
        (round(H * 0.3 + 1), "round(h*0.3 + 1)"),
        (where(compare("gt", H, 400), 400, H), "min(h, 400)"),
        (where(compare("gt", H, 400), W, H), "w if h > 400 else h"),
        (where(compare("lt", H, 400), W, H + 1) * 2, "2*(w if h < 400 else h + 1)"),
        (where(compare("eq", H % 2, 0), H // 2, H), "h//2 if h % 2 == 0 else h"),
        (apply("and", compare("gt", H, 9), compare("ne", W, 3)), "h > 9 and w != 3"),
        (apply("not", compare("lt", H, W)), "h + 1 > w"),
        (apply("bit_length", H) - 1, "bit_length(h) - 1"),
        (2**H, "2**h"),
        (H | 6, "6 | h"),
        (H + SizeExpr((3, 4, 9, 1)), None),
        (H + W + H * W + H * H + W * W + H * H * H + 1, None),
        (7, "7"),
    ],
)
def test_texts(expr: Any, wanted: str | None) -> None:
    assert text(expr, name) == wanted


def test_names_that_are_expressions() -> None:
    names = {H: "2*half", W: "a + b"}.get
    assert text(H + 1, names) == "2*half + 1"
    assert text(H * 3, names) == "3*(2*half)"
    assert text(H - W, names) == "2*half - (a + b)"


PYTHON_NAMES = {
    **{
        function: getattr(math, function)
        for function in ("ceil", "floor", "trunc", "isqrt", "sqrt", "sin", "cos", "log2")
    },
    "bit_length": lambda number: int(number).bit_length(),
}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_a_text_is_the_python_of_its_expression(seed: int) -> None:
    draw = random.Random(seed)
    points = [{"n": draw.randrange(300), "m": draw.randrange(300), "k": draw.randrange(-99, 99)} for _ in range(5)]
    for _ in range(30):
        tree = random_tree(draw, draw.choice(["int", "int", "float", "bool"]), 4)
        written = text(expression(tree, leaves()), name)
        for point in points if written is not None else ():
            try:
                wanted = in_python(tree, point)
            except Unwanted:
                continue
            assert eval(str(written), PYTHON_NAMES, dict(point)) == wanted, (tree, written)


def test_long_chains_have_no_text() -> None:
    x: Any = H
    for count in range(10_000):
        x = (x * W + count) % 1001
    assert text(x, name) is None
    y = number_of("y" * LONGEST, H.at)
    assert text(y + 1, name) is None


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize(("skipped", "batch"), [((), 0), (("LeaveSizesOpen",), "batch")])
def test_every_value_of_a_file_has_named_dimensions(skipped: tuple[str, ...], batch: str | int) -> None:
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.Flatten(2)]
    model = nn.Sequential(*layers).eval()
    program = onnxport.export(
        model, torch.randn(1, 3, 32, 48), input_names=["x"],
        dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}}, skip_passes=skipped,
    )  # fmt: skip
    graph = program.model_proto.graph
    found = {value.name.rpartition("/")[2]: dims(value) for value in (*graph.value_info, *graph.output)}
    assert found["Conv"] == [batch, 8, "(height + 1)//2", "(width + 1)//2"]
    assert found["MaxPool"] == [batch, 8, "(height + 1)//4", "(width + 1)//4"]
    assert found["Resize"] == [batch, 8, "2*((height + 1)//4)", "2*((width + 1)//4)"]
    assert found["output"] == ["batch", 8, "4*((height + 1)//4)*((width + 1)//4)"]


def test_the_names_are_true_at_other_sizes() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, t, c = x.shape
        padded = torch.cat([x.new_zeros(b, 1, c), x, x], 1)
        return x.reshape(b * t, c), padded, padded[:, 1:-1], x[:, ::3], x.mean(1).repeat(int(t), 1)

    program = onnxport.export(
        model, torch.randn(2, 6, 8), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "seq"}}
    )
    outputs = [dims(value) for value in program.model_proto.graph.output]
    assert outputs[0] == ["batch*seq", 8]
    assert outputs[1] == ["batch", "2*seq + 1", 8]
    for batch, seq in ((1, 1), (3, 10), (4, 5)):
        results = program(torch.randn(batch, seq, 8))
        for names, result in zip(outputs, results, strict=True):
            sizes = [eval(str(each), {"batch": batch, "seq": seq}) for each in names]
            assert sizes == list(result.shape)
