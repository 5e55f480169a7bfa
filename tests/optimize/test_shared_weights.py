from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from onnxport.optimize import ShareWeights
from tests.optimize.harness import check, parse


def model_with(first: ir.TensorProtocol, second: ir.TensorProtocol) -> ir.Model:
    shape = ", ".join(map(str, first.shape))
    model = parse(f"g (float[{shape}] x, float[{shape}] v, float[{shape}] w) => (y) {{ a = Mul(x, v) y = Mul(a, w) }}")
    for tensor in (first, second):
        value = model.graph.inputs.pop(1)
        tensor.name = value.name
        value.const_value = tensor
        model.graph.register_initializer(value)
    return model


def left(model: ir.Model, *, by_content: bool) -> list[str]:
    check(model, ShareWeights(by_content=by_content))
    return list(model.graph.initializers)


LARGE = torch.randn(200, 200)
TORCH = ir.tensor_adapters.TorchTensor

TIED = {
    "same tensor": (TORCH(LARGE), TORCH(LARGE)),
    "parameter and its view": (TORCH(torch.nn.Parameter(LARGE)), TORCH(LARGE.view(200, 200))),
    "numpy": (ir.tensor(LARGE.numpy()), ir.tensor(LARGE.numpy())),
}

SEPARATE = {
    "equal": (TORCH(LARGE), TORCH(LARGE.clone())),
    "transposed": (TORCH(LARGE), TORCH(LARGE.T)),
    "part": (TORCH(LARGE[:100]), TORCH(LARGE[100:])),
    "numpy transposed": (ir.tensor(LARGE.numpy()), ir.tensor(LARGE.numpy().T)),
}


@pytest.mark.parametrize(("first", "second"), TIED.values(), ids=TIED.keys())
def test_same_memory(first: ir.TensorProtocol, second: ir.TensorProtocol) -> None:
    assert left(model_with(first, second), by_content=False) == ["v"]


@pytest.mark.parametrize(("first", "second"), SEPARATE.values(), ids=SEPARATE.keys())
@pytest.mark.parametrize("by_content", [False, True])
def test_separate_memory(first: ir.TensorProtocol, second: ir.TensorProtocol, by_content: bool) -> None:
    assert left(model_with(first, second), by_content=by_content) == ["v", "w"]


def test_content_of_small_ones() -> None:
    pair = [ir.tensor(np.arange(6, dtype=np.float32)), TORCH(torch.arange(6.0))]
    assert left(model_with(*pair), by_content=True) == ["v"]
    assert left(model_with(*pair), by_content=False) == ["v", "w"]
    zeros = [TORCH(torch.tensor([0.0])), TORCH(torch.tensor([-0.0]))]
    assert left(model_with(*zeros), by_content=True) == ["v", "w"]


def test_inputs_and_outputs_are_left_alone() -> None:
    weights = {name: np.ones(2, np.float32) for name in ("a", "b", "c")}
    model = parse("g (float[2] x, float[2] a) => (y) { h = Mul(a, b) k = Mul(h, c) y = Mul(k, x) }", weights=weights)
    assert left(model, by_content=True) == ["a", "b"]


def test_meta_tensors() -> None:
    model = model_with(TORCH(torch.empty(3, device="meta")), TORCH(torch.empty(3, device="meta")))
    for by_content in (False, True):
        assert not ShareWeights(by_content=by_content)(model).modified
