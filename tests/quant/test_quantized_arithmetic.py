"""Functions of quantized tensors, each on data other than the example's, in both dtypes of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.nn.quantized as layers
from torch import Tensor, nn
from torch.nn import functional as F

import onnxport
from tests.quant.models import ops

pytestmark = pytest.mark.filterwarnings("ignore")
Q = torch.ops.quantized
DTYPES = {torch.quint8: (100, 37), torch.qint8: (-5, 11)}


def quantized(dtype: torch.dtype, scale: float = 0.05, second: bool = False) -> Tensor:
    return torch.quantize_per_tensor(torch.randn(2, 4, 8, 8) * 2, scale, DTYPES[dtype][second], dtype)


class Functional(nn.Module):
    """The operators of QFunctional, whose results have its scale."""

    def __init__(self, call: Callable[[layers.QFunctional, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.call, self.functional = call, layers.QFunctional()
        self.functional.scale, self.functional.zero_point = 0.137, 40

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(self.functional, a, b)


def norm(x: Tensor, relu: bool) -> Tensor:
    ones = torch.ones(4)
    function = Q.batch_norm2d_relu if relu else Q.batch_norm2d
    return function(x, ones * 1.3, ones * 0.1, ones * 0.2, ones * 0.9, 1e-5, 0.037, 40)


FUNCTIONAL = {
    "add": lambda f, a, b: f.add(a, b),
    "add_relu": lambda f, a, b: f.add_relu(a, b),
    "mul": lambda f, a, b: f.mul(a, b),
    "cat": lambda f, a, b: f.cat([a, b], 1),
    "matmul": lambda f, a, b: f.matmul(a, b),
    "add_scalar": lambda f, a, b: f.add_scalar(a, 2.513),
    "add_scalar, of which the zero point leaves the range": lambda f, a, b: f.add_scalar(a, -20.0),
    "mul_scalar": lambda f, a, b: f.mul_scalar(a, 2.5),
    "mul_scalar, negative": lambda f, a, b: f.mul_scalar(a, -1.5),
    "mul_scalar, zero": lambda f, a, b: f.mul_scalar(a, 0.0),
}
ONE = {
    "add_scalar_relu": lambda x: Q.add_scalar_relu(x, 0.5),
    "mul_scalar_relu": lambda x: Q.mul_scalar_relu(x, -0.5),
    "a scalar's scale behind": lambda x: F.avg_pool2d(Q.mul_scalar(x, -2.3), 3),
    "a tensor as the number": lambda x: Q.add_scalar(x, torch.tensor(0.5)),
    "cat_relu": lambda x: Q.cat_relu([x, x], 1, 0.037, 40),
    "cat without a scale": lambda x: Q.cat([x, x[:, :2]], 1, None, None),
    "batch_norm": lambda x: norm(x, False),
    "batch_norm_relu": lambda x: norm(x, True),
    "elu": lambda x: Q.elu(x, 0.037, 40, 0.5),
    "celu": lambda x: Q.celu(x, 0.037, 40, 0.7),
    "softmax": lambda x: Q.softmax(x, 1, 1 / 256, 0),
    "relu6": Q.relu6,
    "relu in place": lambda x: F.relu_(x.clone()),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.7),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "bilinear": lambda x: F.interpolate(x, scale_factor=3, mode="bilinear"),
    "torch.cat": lambda x: torch.cat([x, x.flip(1)], 1),
    "the second of two chunks": lambda x: F.avg_pool2d(x.chunk(2, 1)[1], 3),
    "rows": lambda x: x.unbind(1)[2],
    "integers": lambda x: x.int_repr().float(),
    "comparison": lambda x: (x > 0.3).float(),
    "numbers of the quantizer": lambda x: x.dequantize() * x.q_scale() + x.q_zero_point(),
}


def check(function: Callable[..., Tensor], example: tuple[Tensor, ...], *others: tuple[Tensor, ...]) -> None:
    program = onnxport.export(function, example)
    for inputs in others:
        expected, result = function(*inputs), program(*inputs)
        step = expected.q_scale() if expected.is_quantized else 1.0
        floats = expected.dequantize() if expected.is_quantized else expected
        assert result.dtype == torch.float32 and result.shape == floats.shape
        # Torch computes in integers: a step more or less where the number is halfway between two.
        steps = (result - floats).abs() / step
        assert steps.max() < 1.01 and (steps > 0.5).float().mean() < 0.02


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    if name == "add_scalar, of which the zero point leaves the range":
        assert Q.add_scalar(quantized(dtype), -20.0).q_scale() != 0.05
    inputs = [(quantized(dtype), quantized(dtype, 0.03, second=True)) for _ in range(3)]
    check(Functional(FUNCTIONAL[name]).eval(), *inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_function_of_one_tensor(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    check(ONE[name], *[(quantized(dtype),) for _ in range(3)])


def test_a_quantized_buffer() -> None:
    """A constant of the model is stored in integers."""

    class Prelu(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slope", torch.quantize_per_tensor(torch.tensor([0.2]), 0.01, 3, torch.quint8))

        def forward(self, x: Tensor) -> Tensor:
            return Q.prelu(x, self.slope, 0.037, 40)

    torch.manual_seed(0)
    check(Prelu(), *[(quantized(torch.quint8),) for _ in range(3)])


def test_float_functional_of_a_prepared_model_converted(tmp_path) -> None:
    """torch.ao turns FloatFunctional into QFunctional."""
    ao = torch.ao.quantization

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant, self.functional = ao.QuantStub(), ao.DeQuantStub(), layers.FloatFunctional()

        def forward(self, x: Tensor) -> Tensor:
            x = self.quant(x)
            return self.dequant(self.functional.add_scalar(self.functional.mul_scalar(x, 0.7), 0.5))

    torch.manual_seed(0)
    model = Sum().eval()
    model.qconfig = ao.get_default_qconfig("x86")
    prepared = ao.prepare(model)
    prepared(torch.randn(3, 5))
    model = ao.convert(prepared)
    program = onnxport.export(model, torch.randn(3, 5), tmp_path / "m.onnx")
    # The integers stay: each of the two changes the scale or the zero point.
    assert ops(tmp_path / "m.onnx") == ["QuantizeLinear", "DequantizeLinear"]
    x = torch.randn(3, 5)
    torch.testing.assert_close(program(x), model(x), rtol=0, atol=1e-6)


TRANSPOSED = {
    "1d": (layers.ConvTranspose1d, (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (2, 3, 9)),
    "2d": (layers.ConvTranspose2d, (3, 4, 3), {"stride": 2}, (2, 3, 6, 7)),
    "2d, groups": (layers.ConvTranspose2d, (4, 6, 3), {"groups": 2, "dilation": 2, "padding": 1}, (2, 4, 6, 7)),
    "3d": (layers.ConvTranspose3d, (3, 2, 2), {"stride": 2}, (1, 3, 3, 4, 3)),
}


@pytest.fixture
def engine():
    """Sets the engine that weights are packed for."""
    before = torch.backends.quantized.engine
    yield lambda name: setattr(torch.backends.quantized, "engine", name)
    torch.backends.quantized.engine = before


def transposed(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    kind, (given, made, kernel), settings, shape = TRANSPOSED[name]
    layer = kind(given, made, kernel, **settings)
    weight = torch.randn(given, made // settings.get("groups", 1), *[kernel] * (len(shape) - 2))
    layer.set_weight_bias(torch.quantize_per_tensor(weight, 0.03, 0, torch.qint8), torch.randn(made))
    layer.scale, layer.zero_point = 0.137, 120
    return layer, shape


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str, engine) -> None:
    engine("fbgemm")
    torch.manual_seed(0)
    layer, shape = transposed(name)
    inputs = [(torch.quantize_per_tensor(torch.randn(shape), 0.05, 100, torch.quint8),) for _ in range(3)]
    check(layer, *inputs)


@pytest.mark.skipif("onednn" not in torch.backends.quantized.supported_engines, reason="torch is built without oneDNN")
def test_onednn_computes_transposed_convolutions_wrongly_and_the_check_says_so(engine) -> None:
    """With other numbers of channels before and behind, torch's kernel gives something else than the convolution."""
    engine("onednn")
    torch.manual_seed(0)
    layer, shape = transposed("2d")
    x = torch.quantize_per_tensor(torch.randn(shape), 0.05, 100, torch.quint8)
    weight, bias = layer._weight_bias()
    floats = F.conv_transpose2d(x.dequantize(), weight.dequantize(), bias, stride=2)
    if (layer(x).dequantize() - floats).abs().max() < 0.2:
        pytest.skip("this torch computes it right")
    with pytest.raises(onnxport.VerificationError, match="conv_transpose2d"):
        onnxport.export(layer, x)
