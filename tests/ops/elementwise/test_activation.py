"""Activations."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as nnf

from tests.ops.harness import FLOATS, INTEGERS, NUMBERS, Case, F, X, table

LOW = (*FLOATS, torch.bfloat16)
ANY = [F("n", "c")]
SINGLE = (torch.float16,)

SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.5, 0.5, 0.1, 0.0, -90.0, 90.0, 3.0, -3.0])


def special(name, call, **settings):
    """A row for infinities, NaN and the places where a function changes its form."""
    return Case(f"{name}_special", call, [X(11, make=lambda shape: SPECIAL)], dynamic=False, **settings)


def gelu_by_definition(x: torch.Tensor) -> torch.Tensor:
    """At -inf this is a product of infinity and zero, NaN, as it is in torch and in ONNX Runtime."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


RECTIFIERS = [
    Case("relu", torch.relu, ANY, dtypes=(*LOW, *INTEGERS), graph=["Relu"]),
    special("relu", torch.relu),
    Case("relu_in_place", lambda x: nnf.relu_(x.clone()), ANY),
    Case("relu6", nnf.relu6, [F("n", "c", low=-8, high=8)], dtypes=LOW, graph=["Clip"]),
    Case("relu6_in_place", lambda x: nnf.relu6(x.clone(), inplace=True), [F("n", "c", low=-8, high=8)]),
    Case("hardtanh", lambda x: nnf.hardtanh(x, -0.5, 1.5), ANY, dtypes=LOW, graph=["Clip"]),
    Case(
        "hardtanh_of_integers", lambda x: nnf.hardtanh(x, -1, 1), ANY, base=torch.int64, dtypes=(torch.int32,), since=9
    ),
    special("hardtanh", nnf.hardtanh),
    Case("leaky_relu", lambda x: nnf.leaky_relu(x, 0.2), ANY, dtypes=LOW, graph=["LeakyRelu"]),
    Case("leaky_relu_negative_slope", lambda x: nnf.leaky_relu(x, -1.5), ANY),
    Case("prelu", nnf.prelu, [F("n", "c"), F(1)], dtypes=LOW, graph=["PRelu"]),
    Case("prelu_scalar", nnf.prelu, [F(), F(1)]),
    Case("prelu_vector", nnf.prelu, [F("n"), F(1)]),
    Case("prelu_channels", nnf.prelu, [F("n", 4, "h", 3), F(4)], dtypes=LOW),
    Case("prelu_features", nnf.prelu, [F("n", 4), F(4)]),
    Case("prelu_module", nn.PReLU(4), [F("n", 4, "h", "w", 2)], graph=["PRelu"]),
    Case("prelu_kernel", torch.ops.aten._prelu_kernel, [F("n", 4, "t"), F(1, 4, 1)]),
    Case("rrelu_eval", lambda x: nnf.rrelu(x, 0.1, 0.4), ANY, graph=["LeakyRelu"]),
    # torch has no rrelu in 16 bits.
    Case(
        "rrelu",
        lambda x: nnf.rrelu(x, 0.1, 0.4, training=True),
        ANY,
        content=False,
        runs_until=21,
        dtypes=(torch.float64,),
    ),
    Case("threshold", lambda x: nnf.threshold(x, 0.1, -3.0), ANY, dtypes=LOW),
    Case(
        "threshold_of_integers",
        lambda x: nnf.threshold(x, 1, -3),
        ANY,
        since=9,
        base=torch.int64,
        dtypes=(torch.int32,),
    ),
    Case("threshold_as_relu", lambda x: nnf.threshold(x, 0.0, 0.0), ANY, graph=["Relu"]),
    Case("threshold_as_maximum", lambda x: nnf.threshold(x, 0.5, 0.5), ANY),
    special("threshold", lambda x: nnf.threshold(x, 0.1, 2.0), since=9),
]

EXPONENTIALS = [
    Case("elu", nnf.elu, ANY, dtypes=LOW, graph=["Elu"]),
    Case("elu_alpha", lambda x: nnf.elu(x, -0.7), ANY),
    Case("elu_scaled", lambda x: torch.ops.aten.elu(x, 0.7, 1.5), ANY, graph=["Elu", "Mul"]),
    Case("elu_input_scaled", lambda x: torch.ops.aten.elu(x, 0.7, 1.5, 0.3), ANY, dtypes=LOW),
    special("elu", nnf.elu),
    Case("selu", nnf.selu, ANY, dtypes=LOW, graph=["Selu"]),
    Case("celu", lambda x: nnf.celu(x, 0.6), ANY, dtypes=LOW, graph=["Celu"]),
    Case("celu_negative", lambda x: nnf.celu(x, -0.6), ANY),
    Case("celu_as_elu", nnf.celu, ANY, graph=["Elu"]),
    Case("sigmoid", torch.sigmoid, ANY, dtypes=(*LOW, *INTEGERS, torch.bool), graph=["Sigmoid"]),
    Case("expit", torch.special.expit, ANY),
    Case("tanh", torch.tanh, ANY, dtypes=(*LOW, *INTEGERS, torch.bool), graph=["Tanh"]),
    Case("log_sigmoid", nnf.logsigmoid, ANY, dtypes=LOW),
    Case("log_sigmoid_forward", torch.ops.aten.log_sigmoid_forward, ANY),
    special("log_sigmoid", nnf.logsigmoid),
    Case("softplus", nnf.softplus, ANY, dtypes=LOW, graph=["Softplus"]),
    Case("softplus_beta", lambda x: nnf.softplus(x, 2.0), [F("n", "c", low=-30, high=30)], dtypes=LOW),
    Case("softplus_threshold", lambda x: nnf.softplus(x, 1.5, 0.5), ANY, since=9, dtypes=LOW),
    special("softplus", nnf.softplus),
    Case("gumbel", lambda x: nnf.gumbel_softmax(x, dim=1), ANY, content=False, runs_until=21),
]

GATES = [
    # ONNX Runtime has no error function in float64.
    Case("gelu", nnf.gelu, ANY, since=9, dtypes=LOW, graph=["Gelu"]),
    Case("gelu_tanh", lambda x: nnf.gelu(x, approximate="tanh"), ANY, dtypes=LOW, graph=["Gelu"]),
    # In float32 torch leaves it to oneDNN, which at +inf gives NaN where it computes with AVX-512 and inf elsewhere.
    special("gelu", nnf.gelu, since=9, dtypes=SINGLE, reference=gelu_by_definition),
    Case("silu", nnf.silu, ANY, dtypes=LOW, graph=["Sigmoid", "Mul"]),
    Case("silu_in_place", lambda x: nnf.silu(x.clone(), inplace=True), ANY),
    Case("mish", nnf.mish, ANY, dtypes=LOW, graph=["Mish"]),
    Case("mish_large", nnf.mish, [F("n", "c", low=-100, high=100)]),
    Case("hardswish", nnf.hardswish, [F("n", "c", low=-5, high=5)], dtypes=LOW, graph=["HardSwish"]),
    Case("hardsigmoid", nnf.hardsigmoid, [F("n", "c", low=-5, high=5)], dtypes=LOW, graph=["HardSigmoid"]),
    Case("glu", lambda x: nnf.glu(x, 1), [F("n", 6, "t")], dtypes=LOW, graph=["Split", "Sigmoid", "Mul"]),
    Case("glu_last", nnf.glu, [F("n", 3, 4)]),
    Case("glu_dynamic", lambda x: nnf.glu(torch.cat([x, x], 1), 1), [F("n", "c")]),
]

SHRINKS = [
    Case("hardshrink", lambda x: nnf.hardshrink(x, 0.7), ANY, dtypes=LOW, since=9),
    special("hardshrink", nnf.hardshrink, since=9),
    Case("softshrink", lambda x: nnf.softshrink(x, 0.7), ANY, dtypes=LOW, graph=["Clip", "Sub"]),
    special("softshrink", nnf.softshrink),
    Case("tanhshrink", nnf.tanhshrink, ANY, dtypes=FLOATS),
    Case("softsign", nnf.softsign, ANY, dtypes=FLOATS),
]

SOFTMAXES = [
    Case("softmax", lambda x: nnf.softmax(x, -1), [F("n", 4, "t")], dtypes=LOW, graph=["Softmax"]),
    Case("softmax_first", lambda x: x.softmax(0), [F("n", 4, "t")]),
    Case("softmax_middle", lambda x: x.softmax(1), [F("n", "c", "t", 2)], graph=["Softmax"]),
    Case("softmax_scalar", lambda x: x.softmax(0), [F()]),
    Case("softmax_dtype", lambda x: x.softmax(1, dtype=torch.float64), [F("n", 4)], dtypes=NUMBERS),
    Case("softmax_of_integers", lambda x: x.softmax(1, dtype=torch.float32), [F("n", 4)], dtypes=INTEGERS),
    Case("softmax_kernel", lambda x: torch.ops.aten._softmax(x, 1, False), [F("n", 4)]),
    Case("log_softmax", lambda x: nnf.log_softmax(x, 1), [F("n", "c", "t")], dtypes=LOW, graph=["LogSoftmax"]),
    Case("log_softmax_scalar", lambda x: x.log_softmax(0), [F()]),
    Case("log_softmax_dtype", lambda x: x.log_softmax(1, dtype=torch.float64), [F("n", 4)], dtypes=NUMBERS),
    Case("log_softmax_kernel", lambda x: torch.ops.aten._log_softmax(x, 1, False), [F("n", 4)]),
    Case("special_softmax", lambda x: torch.special.softmax(x, 0), [F("n", 4)]),
    Case("special_log_softmax", lambda x: torch.special.log_softmax(x, 0), [F("n", 4)]),
    Case("softmin", lambda x: nnf.softmin(x, 1), [F("n", 4, "t")], graph=["Neg", "Softmax"]),
    Case("softmax2d", nn.Softmax2d(), [F("n", 4, "h", 5)]),
]

test_activation = table(RECTIFIERS + EXPONENTIALS + GATES + SHRINKS + SOFTMAXES)
