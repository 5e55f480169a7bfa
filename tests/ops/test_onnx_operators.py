"""Operators of ONNX that a model calls by ``torch.onnx.ops``."""

from __future__ import annotations

import io
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor

import onnxport

X = torch.randn(2, 3)


def export(model: Any, *args: Tensor, **options: Any) -> tuple[onnxport.Program, onnx.ModelProto]:
    target = io.BytesIO()
    program = onnxport.export(model, args, target, **options)
    return program, onnx.load_from_string(target.getvalue())


def test_an_operator_of_another_domain() -> None:
    def model(x: Tensor) -> Tensor:
        made: Tensor = torch.onnx.ops.symbolic(
            "my.domain::Spread",
            (x, None, x + 1),
            {"by": 2.5, "axes": [0, 1], "mode": "near", "names": ["a", "b"], "scales": [1.0, 2.0], "exact": True},
            dtype=torch.float16,
            shape=(x.shape[0], 7),
            version=3,
        )
        return made.relu()

    _, file = export(model, X, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    _, node, relu = file.graph.node
    assert (node.domain, node.op_type, relu.op_type) == ("my.domain", "Spread", "Relu")
    assert [bool(name) for name in node.input] == [True, False, True]
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert found.pop("mode") == b"near" and found.pop("names") == [b"a", b"b"]
    assert found == {"by": 2.5, "axes": [0, 1], "scales": [1.0, 2.0], "exact": 1}
    assert {entry.domain: entry.version for entry in file.opset_import}["my.domain"] == 3
    output = file.graph.output[0].type.tensor_type
    assert output.elem_type == onnx.TensorProto.FLOAT16
    assert [dim.dim_param or dim.dim_value for dim in output.shape.dim] == ["n", 7]


def test_an_operator_with_several_results() -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        many = torch.onnx.ops.symbolic_multi_out
        first, second = many("my::Two", (x,), dtypes=(x.dtype, torch.int64), shapes=(x.shape, [4]), version=1)
        return second + 1, first

    program, file = export(model, X)
    assert [node.op_type for node in file.graph.node] == ["Two", "Add"]
    assert [o.type.tensor_type.elem_type for o in file.graph.output] == [onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
    assert not program.verification.passed


def test_an_operator_of_onnx_itself_is_run_but_not_compared() -> None:
    def model(x: Tensor) -> Tensor:
        made: Tensor = torch.onnx.ops.symbolic("Mish", (x,), dtype=x.dtype, shape=x.shape)
        return made

    program, _ = export(model, X)
    assert "zeros" in (program.verification.skipped or "")
    torch.testing.assert_close(program(X), torch.nn.functional.mish(X))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> Tensor:
    made: Tensor = torch.onnx.ops.rotary_embedding(x, cos, sin, positions)
    return made


def test_rotary_embedding() -> None:
    args = torch.randn(1, 4, 8, 16), torch.randn(50, 8), torch.randn(50, 8), torch.arange(8)[None]
    program, file = export(rotated, *args, opset_version=23)
    assert [node.op_type for node in file.graph.node] == ["RotaryEmbedding"] and program.verification.passed
    with pytest.raises(onnxport.UnsupportedOpsetError, match="opset_version=23"):
        export(rotated, *args)


@pytest.mark.parametrize("count", [1, 3, 4])
@pytest.mark.parametrize("has_past", [False, True])
def test_attention(count: int, has_past: bool) -> None:
    def model(*args: Tensor) -> tuple[Tensor, ...]:
        past = (None, *args[3:]) if has_past else ()
        return tuple(torch.onnx.ops.attention(*args[:3], *past, scale=0.3, is_causal=not has_past)[:count])

    heads = [torch.randn(2, 2, 4, 8) for _ in range(3)]
    past = [torch.randn(2, 2, 3, 8) for _ in range(2)] if has_past else []
    program, file = export(model, *heads, *past, opset_version=23)
    (node,) = file.graph.node
    assert (node.op_type, len(node.output)) == ("Attention", max(count, 3) if has_past else count)
    assert program.verification.passed
