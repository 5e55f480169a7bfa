from __future__ import annotations

import onnx_ir as ir
import pytest
import torch

from onnxport.optimize import ShareConstants, ShareWeights
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


def left(model: ir.Model) -> list[str]:
    check(model, ShareWeights())
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
    assert left(model_with(first, second)) == ["v"]


@pytest.mark.parametrize(("first", "second"), SEPARATE.values(), ids=SEPARATE.keys())
def test_separate_memory(first: ir.TensorProtocol, second: ir.TensorProtocol) -> None:
    assert left(model_with(first, second)) == ["v", "w"]


def test_inputs_and_outputs_are_left_alone() -> None:
    shared = TORCH(torch.ones(2))
    model = model_with(shared, shared)
    model.graph.inputs.append(model.graph.initializers["v"])
    assert left(model) == ["v", "w"]


def test_meta_tensors() -> None:
    model = model_with(TORCH(torch.empty(3, device="meta")), TORCH(torch.empty(3, device="meta")))
    assert not ShareWeights()(model).modified


def with_axes(first: ir.TensorProtocol, second: ir.TensorProtocol) -> list[str]:
    """The initializers that are left of these two."""
    tensors = {"first": first, "second": second}
    text = "g (float[n] x) => (y) { a = Unsqueeze(x, first) b = Unsqueeze(x, second) y = Mul(a, b) }"
    model = parse(text, weights={name: tensor.numpy() for name, tensor in tensors.items()})
    for name, tensor in tensors.items():
        tensor.name = name
        model.graph.initializers[name].const_value = tensor
    check(model, ShareConstants())
    return list(model.graph.initializers)


def test_equal_axes_are_one() -> None:
    assert with_axes(ir.tensor([0, 2]), ir.tensor([0, 2])) == ["first"]


@pytest.mark.parametrize(
    "other", [ir.tensor([0, 1]), ir.tensor([0]), TORCH(torch.tensor([0, 2]))], ids=["content", "length", "torch"]
)
def test_other_integers_are_not(other: ir.TensorProtocol) -> None:
    assert with_axes(ir.tensor([0, 2]), other) == ["first", "second"]
