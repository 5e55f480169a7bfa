"""Layers and activations of torch.ao on quantized tensors, each on data other than the example's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.nn.quantized as layers
from torch import Tensor, nn
from torch.nn import functional

import onnxport

pytestmark = pytest.mark.filterwarnings("ignore")


def quantized(*shape: int, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(torch.randn(shape), 0.05, 120 if dtype is torch.quint8 else -5, dtype)


def norm(name: str, *args: int) -> Callable[[Tensor], Tensor]:
    made = getattr(nn, name)(*args, **({"affine": True} if name == "InstanceNorm1d" else {}))
    for parameter in made.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    made.scale, made.zero_point = torch.tensor(0.04), torch.tensor(100)
    return getattr(layers, name).from_float(_observed(made))


def _observed(module: nn.Module) -> nn.Module:
    class Observer(nn.Module):
        def calculate_qparams(self) -> tuple[Tensor, Tensor]:
            return torch.tensor(0.04), torch.tensor(100)

    module.activation_post_process = Observer()
    return module


def convolution(made: nn.Module, *shape: int) -> nn.Module:
    made.set_weight_bias(torch.quantize_per_tensor(torch.randn(shape), 0.05, 0, torch.qint8), torch.randn(4))
    made.scale = 0.3
    return made


CASES: dict[str, tuple[Callable[[], Callable[[Tensor], Tensor]], tuple[int, ...]]] = {
    "conv1d": (lambda: convolution(layers.Conv1d(3, 4, 3, stride=2, padding=1), 4, 3, 3), (2, 3, 9)),
    "conv2d": (lambda: convolution(layers.Conv2d(4, 4, 3, dilation=2, groups=2), 4, 2, 3, 3), (2, 4, 9, 8)),
    "conv3d": (lambda: convolution(layers.Conv3d(2, 4, 2), 4, 2, 2, 2, 2), (1, 2, 4, 5, 4)),
    "layer_norm": (lambda: norm("LayerNorm", 6), (2, 3, 6)),
    "group_norm": (lambda: norm("GroupNorm", 2, 4), (2, 4, 6)),
    "instance_norm": (lambda: norm("InstanceNorm1d", 4), (2, 4, 6)),
    "sigmoid": (lambda: torch.sigmoid, (20, 60)),
    "tanh": (lambda: torch.tanh, (20, 60)),
    "hardsigmoid": (lambda: functional.hardsigmoid, (20, 60)),
    "sigmoid with a scale": (lambda: layers.Sigmoid(0.01, 3), (20, 60)),
    "hardswish": (lambda: layers.Hardswish(0.03, 20), (20, 60)),
    "leaky_relu": (lambda: layers.LeakyReLU(0.03, 20, 0.2), (20, 60)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_on_a_quantized_tensor(name: str) -> None:
    make, shape = CASES[name]
    model = make()
    program = onnxport.export(model, quantized(*shape))
    for _ in range(3):
        x = quantized(*shape)
        expected = model(x)
        result = program(x)
        assert result.dtype == torch.float32 and result.shape == expected.shape
        # Torch computes in integers: a step more or less where the sum is close to the middle between two.
        steps = (result - expected.dequantize()).abs() / expected.q_scale()
        assert steps.max() < 1.01 and (steps > 0.5).float().mean() < 0.05


def test_activations_of_signed_integers() -> None:
    for function in (torch.sigmoid, torch.tanh):
        program = onnxport.export(function, quantized(3, 5, dtype=torch.qint8))
        x = quantized(3, 5, dtype=torch.qint8)
        assert (program(x) - function(x).dequantize()).abs().max() <= 1.01 / 128


def test_a_quantized_example_of_a_script() -> None:
    """Its result is quantized, too: the output of the file has the values."""
    scripted = torch.jit.script(nn.ReLU())
    example = quantized(2, 3)
    program = onnxport.export(scripted, example)
    torch.testing.assert_close(program(example), nn.ReLU()(example).dequantize())
