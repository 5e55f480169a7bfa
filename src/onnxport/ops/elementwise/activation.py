"""Activations of torch.nn."""

from __future__ import annotations

import math

import torch

from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Value
from onnxport.ops.creation.random import uniform_like
from onnxport.ops.elementwise.bounds import bounded
from onnxport.ops.elementwise.unary import error_function

SQRT_2 = math.sqrt(2.0)
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def available(g: Builder, op: str, dtype: torch.dtype) -> bool:
    """Whether ONNX has the operator at the target opset; for float64, which is never narrowed, also the runtime."""
    return g.runs(op, torch.float64 if dtype == torch.float64 else torch.float32)


def widened(g: Builder, x: Value) -> Value:
    """The value in the dtype that torch computes in: float32 for 16-bit floats."""
    return g.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _unary(op: str) -> Converter:
    def convert(g: Builder, self: Value) -> Value:
        return g.op(op, g.cast(self, g.outputs[0].dtype))

    return convert


UNARY = entries(_unary, {"aten::sigmoid": "Sigmoid", "aten::special_expit": "Sigmoid", "aten::tanh": "Tanh"})


@converter("aten::relu")
def relu(g: Builder, self: Value) -> Value:
    """aten::relu(Tensor self) -> Tensor"""
    if self.dtype == torch.uint8:
        return self
    return bounded(g, self, 0, None) if self.dtype == torch.int64 else g.op("Relu", self)


@converter("aten::relu6")
def relu6(g: Builder, self: Value) -> Value:
    """aten::relu6(Tensor self) -> Tensor"""
    return bounded(g, self, 0, 6)


@converter("aten::hardtanh")
def hardtanh(g: Builder, self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    """aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    return bounded(g, self, min_val, max_val)


@converter("aten::elu")
def elu(g: Builder, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    if input_scale == 1 and available(g, "Elu", self.dtype):
        return _scaled(g, g.op("Elu", self, alpha=float(alpha)), scale)
    x = widened(g, self)
    exponent = g.op("Exp", _scaled(g, emit.clip(g, x, None, 0.0), input_scale))
    negative = _scaled(g, g.op("Sub", exponent, 1.0), alpha * scale)
    return g.op("Add", _scaled(g, g.op("Relu", x), scale), negative)


@converter("aten::selu")
def selu(g: Builder, self: Value) -> Value:
    """aten::selu(Tensor self) -> Tensor"""
    return g.op("Selu", self) if available(g, "Selu", self.dtype) else elu(g, self, SELU_ALPHA, SELU_SCALE)


@converter("aten::celu")
def celu(g: Builder, self: Value, alpha: float = 1.0) -> Value:
    """aten::celu(Tensor self, Scalar alpha=1.) -> Tensor"""
    if alpha != 1 and available(g, "Celu", self.dtype):
        return g.op("Celu", self, alpha=float(alpha))
    return elu(g, self, alpha, 1, 1 / alpha)


@converter("aten::gelu")
def gelu(g: Builder, self: Value, approximate: str = "none") -> Value:
    """aten::gelu(Tensor self, *, str approximate="none") -> Tensor"""
    # The runtime has no kernel for Gelu in float64: it expands it with Erf.
    if available(g, "Gelu", self.dtype) and (approximate == "tanh" or available(g, "Erf", self.dtype)):
        return g.op("Gelu", self, approximate=approximate if approximate != "none" else None)
    x = widened(g, self)
    if approximate == "tanh":
        cubic = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), 0.044715)
        inner = g.op("Tanh", g.op("Mul", g.op("Add", x, cubic), math.sqrt(2 / math.pi)))
    else:
        scaled = g.op("Div", x, SQRT_2)
        inner = error_function(g, scaled) if x.dtype == torch.float64 else g.op("Erf", scaled)
    return g.op("Mul", g.op("Mul", x, g.op("Add", inner, 1.0)), 0.5)


@converter("aten::silu")
def silu(g: Builder, self: Value) -> Value:
    """aten::silu(Tensor self) -> Tensor"""
    # ONNX has Swish from opset 24; ONNX Runtime 1.31 runs it at opset 24 only.
    x = widened(g, self)
    return g.op("Mul", x, g.op("Sigmoid", x))


@converter("aten::mish")
def mish(g: Builder, self: Value) -> Value:
    """aten::mish(Tensor self) -> Tensor"""
    # The runtime has no kernels for Mish and HardSwish: it expands them with Softplus and HardSigmoid.
    if available(g, "Mish", self.dtype) and available(g, "Softplus", self.dtype):
        return g.op("Mish", self)
    x = widened(g, self)
    return g.op("Mul", x, g.op("Tanh", log_of_one_plus_exp(g, x)))


@converter("aten::hardsigmoid")
def hardsigmoid(g: Builder, self: Value) -> Value:
    """aten::hardsigmoid(Tensor self) -> Tensor"""
    if available(g, "HardSigmoid", self.dtype):
        return g.op("HardSigmoid", self, alpha=1 / 6, beta=0.5)
    return g.op("Div", emit.clip(g, g.op("Add", self, 3.0), 0.0, 6.0), 6.0)


@converter("aten::hardswish")
def hardswish(g: Builder, self: Value) -> Value:
    """aten::hardswish(Tensor self) -> Tensor"""
    if available(g, "HardSwish", self.dtype) and available(g, "HardSigmoid", self.dtype):
        return g.op("HardSwish", self)
    x = widened(g, self)
    return g.op("Mul", x, hardsigmoid(g, x))


@converter("aten::hardshrink")
def hardshrink(g: Builder, self: Value, lambd: float = 0.5) -> Value:
    """aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    # ONNX's Shrink turns NaN into 0.
    return g.op("Where", emit.less_or_equal(g, g.op("Abs", self), lambd), g.constant(0, self.dtype), self)


@converter("aten::softshrink")
def softshrink(g: Builder, self: Value, lambd: float = 0.5) -> Value:
    """aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    x = widened(g, self)
    return g.op("Sub", x, emit.clip(g, x, -lambd, lambd))


@converter("aten::softplus")
def softplus(g: Builder, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    """aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    x = self if beta == 1 else widened(g, self)
    scaled = _scaled(g, x, beta)
    curve = log_of_one_plus_exp(g, scaled)
    curve = curve if beta == 1 else g.op("Div", curve, beta)
    # Above the threshold torch returns x. Softplus differs there by at most exp(-threshold).
    if math.exp(-threshold) < torch.finfo(self.dtype).eps * threshold:
        return curve
    return g.op("Where", g.op("Greater", scaled, threshold), x, curve)


def log_of_one_plus_exp(g: Builder, x: Value) -> Value:
    """Softplus without a threshold."""
    if available(g, "Softplus", x.dtype):
        return g.op("Softplus", x)
    tail = g.op("Log", g.op("Add", g.op("Exp", g.op("Neg", g.op("Abs", x))), 1.0))
    return g.op("Add", g.op("Relu", x), tail)


@converter("aten::log_sigmoid")
def log_sigmoid(g: Builder, self: Value) -> Value:
    """aten::log_sigmoid(Tensor self) -> Tensor"""
    x = widened(g, self)
    return g.op("Neg", log_of_one_plus_exp(g, g.op("Neg", x)))


@converter("aten::log_sigmoid_forward")
def log_sigmoid_forward(g: Builder, self: Value) -> tuple[Value, Value]:
    """aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return log_sigmoid(g, self), g.op("Exp", g.op("Neg", g.op("Abs", self)))


@converter("aten::leaky_relu")
def leaky_relu(g: Builder, self: Value, negative_slope: float = 0.01) -> Value:
    """aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if available(g, "LeakyRelu", self.dtype):
        return g.op("LeakyRelu", self, alpha=float(negative_slope))
    return g.op("Where", g.op("Greater", self, 0.0), self, g.op("Mul", self, float(negative_slope)))


@converter("aten::prelu")
def prelu(g: Builder, self: Value, weight: Value) -> Value:
    """aten::prelu(Tensor self, Tensor weight) -> Tensor"""
    if weight.shape in ((), (1,)):
        return prelu_kernel(g, self, emit.reshape(g, weight, []) if self.rank == 0 else weight)
    return prelu_kernel(g, self, emit.unsqueeze(g, weight, range(1, self.rank - 1)))


@converter("aten::_prelu_kernel")
def prelu_kernel(g: Builder, self: Value, weight: Value) -> Value:
    """aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    if available(g, "PRelu", self.dtype):
        return g.op("PRelu", self, weight)
    return g.op("Where", g.op("Greater", self, 0.0), self, g.op("Mul", self, weight))


@converter("aten::rrelu")
def rrelu(
    g: Builder,
    self: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> Value:
    """aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.333, bool training=False, Generator? generator=None) -> Tensor"""  # noqa: E501
    if training:
        return prelu_kernel(g, self, uniform_like(g, self, lower, upper))
    return leaky_relu(g, self, (lower + upper) / 2)


@converter("aten::rrelu_with_noise_functional")
def rrelu_with_noise(
    g: Builder,
    self: Value,
    noise: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> tuple[Value, Value]:
    """aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.333, bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)"""  # noqa: E501
    if not training:
        return leaky_relu(g, self, (lower + upper) / 2), noise
    drawn = uniform_like(g, self, lower, upper)
    slope = g.op("Where", emit.less_or_equal(g, self, 0.0), drawn, g.constant(1.0, self.dtype))
    return g.op("Mul", self, slope), slope


@converter("aten::threshold")
def threshold_(g: Builder, self: Value, threshold: float, value: float) -> Value:
    """aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    if threshold == value:
        return relu(g, self) if value == 0 else bounded(g, self, value, None)
    if g.opset < 9 and self.is_float and math.isfinite(value):
        above = g.cast(g.op("Greater", self, threshold), self.dtype)
        kept = g.op(
            "Mul", emit.clip(g, self, threshold, None), above
        )  # avoids an infinity in the branch that is not used
        return g.op("Add", kept, g.op("Mul", g.op("Add", g.op("Neg", above), 1.0), value))
    return g.op("Where", emit.less_or_equal(g, self, threshold), g.constant(value, self.dtype), self)


@converter("aten::glu")
def glu(g: Builder, self: Value, dim: int = -1) -> Value:
    """aten::glu(Tensor self, int dim=-1) -> Tensor"""
    first, second = emit.split_evenly(g, self, 2, dim % self.rank)
    return g.op("Mul", first, g.op("Sigmoid", second))


def _softmax(op: str) -> Converter:
    def convert(g: Builder, self: Value, dim: int, dtype: object = None, half_to_float: bool = False) -> Value:
        source = g.cast(self, g.outputs[0].dtype)
        if self.rank == 0:
            return emit.squeeze(g, emit.softmax(g, emit.unsqueeze(g, source, [0]), 0, op), [0])
        return emit.softmax(g, source, dim, op)

    return convert


SOFTMAX = entries(
    _softmax,
    {
        "aten::softmax": "Softmax",
        "aten::_softmax": "Softmax",
        "aten::special_softmax": "Softmax",
        "aten::log_softmax": "LogSoftmax",
        "aten::_log_softmax": "LogSoftmax",
        "aten::special_log_softmax": "LogSoftmax",
    },
)


def _scaled(g: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else g.op("Mul", x, float(factor))
