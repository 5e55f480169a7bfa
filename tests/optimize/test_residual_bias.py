from __future__ import annotations

import collections
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import OptionError
from onnxport.optimize import AddBiasLast
from tests.optimize.harness import check, parse

generator = np.random.default_rng(0)
WEIGHTS = {name: generator.standard_normal(6).astype(np.float32) for name in ("scale", "shift", "bias")}


def norm(sums: str, inputs: str = "float[2, n, 6] x, float[2, n, 6] r", outputs: str = "") -> tuple[list[str], str]:
    """The operators behind the pass, and what the norm's sum adds last."""
    text = f"g ({inputs}) => (float[2, n, 6] y{outputs}) {{ {sums}  y = LayerNormalization(s, scale, shift) }}"
    model = parse(text, weights=WEIGHTS, opset=17)
    found = check(model, AddBiasLast(), exact=False)
    produced = next(node for node in model.graph if node.outputs[0].name == "s")
    return found, " ".join(str(value.name) for value in produced.inputs if value is not None)


@pytest.mark.parametrize("inner", ["Add(x, bias)", "Add(bias, x)"])
@pytest.mark.parametrize("outer", ["Add(t, r)", "Add(r, t)"])
def test_the_bias_comes_last(inner: str, outer: str) -> None:
    operators, last = norm(f"t = {inner}  s = {outer}")
    assert operators == ["Add", "Add", "LayerNormalization"]
    assert last.split()[1] == "bias"


@pytest.mark.parametrize(
    ("sums", "inputs", "outputs"),
    [
        ("t = Add(x, bias)  s = Add(t, r)", "float[2, n, 6] x, float[2, 1, 6] r", ""),
        ("t = Add(x, bias)  s = Add(t, r)", "float[2, n, 6] x, float[2, n, 6] r", ", float[2, n, 6] t"),
        ("t = Add(x, bias)  s = Add(t, r)", "float[2, n, 6] x, float[2, n, 6] r", ", float[2, n, 6] s"),
        ("s = Add(x, r)", "float[2, n, 6] x, float[2, n, 6] r", ""),
    ],
    ids=["another-shape", "sum-is-read", "total-is-read", "no-bias"],
)
def test_what_stays(sums: str, inputs: str, outputs: str) -> None:
    _, last = norm(sums, inputs, outputs)
    assert "bias" not in last


class PostNorm(nn.Module):
    """Two layers of an encoder with the norm behind the residual, as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        for norm in self.norms:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(x + layer(torch.relu(x)))
        return x


def optimized(data: bytes, folder: pathlib.Path) -> collections.Counter[str]:
    """The operators that ONNX Runtime makes of a file."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return collections.Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_runtime_keeps_its_faster_norm(dynamic: bool, tmp_path: pathlib.Path) -> None:
    model, x = PostNorm().eval(), torch.randn(2, 5, 16)
    axes = {"x": {0: "batch", 1: "tokens"}} if dynamic else None
    program = onnxport.export(model, x, input_names=["x"], dynamic_axes=axes, opset_version=20)
    found = optimized(program.model_proto.SerializeToString(), tmp_path)
    assert found["SkipLayerNormalization"] == 0 and found["LayerNormalization"] == 2
    other = torch.randn(3, 9, 16) if dynamic else torch.randn(2, 5, 16)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (result,) = session.run(None, {"x": other.numpy()})
    expected = model(other).detach().numpy()
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_the_pass_can_be_left_out(tmp_path: pathlib.Path) -> None:
    model, x = PostNorm().eval(), torch.randn(2, 5, 16)
    program = onnxport.export(model, x, skip_passes=["AddBiasLast"])
    assert optimized(program.model_proto.SerializeToString(), tmp_path)["SkipLayerNormalization"] == 2


def test_a_pass_that_is_needed_cannot() -> None:
    with pytest.raises(
        OptionError, match="'MergeChains' is no pass that can be left out; these can: AddBiasLast, ConvolveRows, Leave"
    ):
        onnxport.export(nn.ReLU(), torch.randn(2), skip_passes=["MergeChains"])
