"""Quantization, real and as if."""

from __future__ import annotations

import io

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.ao.quantization import FakeQuantize, FusedMovingAvgObsFakeQuantize, MovingAveragePerChannelMinMaxObserver

import onnxport
from tests.ops.harness import Case, F, X, operators, table

LOW = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIGNED, UNSIGNED, NARROW, FOUR_BITS = (-128, 127), (0, 255), (-127, 127), (-8, 7)
RANGES = {"signed": (*SIGNED, 3), "unsigned": (*UNSIGNED, 128), "narrow": (*NARROW, 0), "four_bits": (*FOUR_BITS, -2)}

tensor_affine, channel_affine = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine
aten, decomposed = torch.ops.aten, torch.ops.quantized_decomposed


def wide(*shape: int | str) -> list:
    """Numbers of which some are outside of the range."""
    return [F(*shape, low=-20, high=20)]


def halves(shape: tuple[int, ...]) -> torch.Tensor:
    """Numbers halfway between two steps of 1."""
    return torch.arange(shape[0] * shape[1]).reshape(shape) - 5.5


SCALES = torch.tensor([0.05, 0.1, 0.2, 0.11])
EVEN, UNEVEN = torch.zeros(4, dtype=torch.int32), torch.tensor([0, 3, -5, 7], dtype=torch.int32)
SCALE = X(1, make=lambda shape: torch.tensor([0.1]), dtype=torch.float32)
ZERO = X(1, make=lambda shape: torch.tensor([4], dtype=torch.int32), dtype=torch.int32)

FAKE = [
    case
    for name, (low, high, zero) in RANGES.items()
    for case in [
        Case(
            f"tensor-{name}",
            lambda x, a=low, b=high, z=zero: tensor_affine(x, 0.1, z, a, b),
            wide("n", "c"),
            dtypes=LOW,
        ),
        Case(
            f"parameters-{name}",
            lambda x, a=low, b=high, z=zero: tensor_affine(
                x, torch.tensor(0.1), torch.tensor(z, dtype=torch.int32), a, b
            ),
            wide("n", "c"),
            dtypes=LOW,
        ),
        Case(
            f"run_time_parameters-{name}",
            lambda x, s, z, a=low, b=high: tensor_affine(x, s, z, a, b),
            [*wide("n", "c"), SCALE, ZERO],
            since=8,
            dtypes=LOW,
        ),
        Case(
            f"ties-{name}",
            lambda x, a=low, b=high, z=zero: tensor_affine(x, 1.0, z, a, b),
            [X("n", 7, make=halves)],
            dtypes=LOW,
        ),
        Case(
            f"tensor_mask-{name}",
            lambda x, a=low, b=high, z=zero: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, z, a, b),
            wide("n", "c"),
            since=11,
            dtypes=LOW,
        ),
        Case(
            f"switched-{name}",
            lambda x, s, z, on, a=low, b=high: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                x, s, z, on, a, b
            ),
            [*wide("n", "c"), SCALE, ZERO, X(1, make=lambda shape: torch.ones(shape).long(), dtype=torch.int64)],
            since=11,
            dtypes=LOW,
        ),
    ]
]
FAKE += [
    case
    for name, (low, high) in {"signed": SIGNED, "narrow": NARROW}.items()
    for case in [
        Case(
            f"channel-{name}",
            lambda x, a=low, b=high: channel_affine(x, SCALES, EVEN, 1, a, b),
            wide("n", 4, "t"),
            dtypes=LOW,
        ),
        Case(
            f"channel_zeros-{name}",
            lambda x, a=low, b=high: channel_affine(x, SCALES, UNEVEN, 0, a, b),
            wide(4, "t"),
            since=8,
            dtypes=LOW,
        ),
        Case(
            f"channel_float_zeros-{name}",
            lambda x, a=low, b=high: channel_affine(x, SCALES, UNEVEN * 0.3, 1, a, b),
            wide("n", 4, "t"),
        ),
        Case(
            f"channel_mask-{name}",
            lambda x, a=low, b=high: aten.fake_quantize_per_channel_affine_cachemask(x, SCALES, UNEVEN, 1, a, b),
            wide("n", 4),
            since=11,
            dtypes=LOW,
        ),
    ]
]
LEARNED = X(1, make=lambda shape: torch.tensor([2.6]), dtype=torch.float32)
FAKE += [
    Case(
        f"learned{kind}-{name}",
        call,
        inputs,
        since=8,
        dtypes=(),
    )
    for name, (low, high) in {"signed": SIGNED, "narrow": NARROW}.items()
    for kind, call, inputs in [
        (
            "",
            lambda x, s, z, a=low, b=high: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, a, b, 1.0),
            [*wide("n", "c"), SCALE, LEARNED],
        ),
        (
            "_channels",
            lambda x, a=low, b=high: torch._fake_quantize_learnable_per_channel_affine(
                x, SCALES, UNEVEN * 1.3, 1, a, b, 1.0
            ),
            wide("n", 4),
        ),
    ]
]
PAIR = ["QuantizeLinear", "DequantizeLinear"]
FAKE += [
    Case("graph", lambda x: tensor_affine(x, 0.1, 3, *SIGNED), wide("n", "c"), graph=PAIR),
    Case("graph_channel", lambda x: channel_affine(x, SCALES, UNEVEN, 1, *SIGNED), wide("n", 4), since=8, graph=PAIR),
    Case(
        "graph_narrow",
        lambda x: tensor_affine(x, 0.1, 3, *NARROW),
        wide("n", "c"),
        graph=["QuantizeLinear", "Clip", "DequantizeLinear"],
    ),
]

HALF = (torch.float32, torch.float16, torch.bfloat16)
TYPES = {
    "int8": (torch.int8, -128, 127), "uint8": (torch.uint8, 0, 255), "narrow": (torch.int8, -127, 127),
    "four_bits": (torch.uint8, 0, 15), "int16": (torch.int16, -(2**15), 2**15 - 1),
}  # fmt: skip


def to_and_from(x, scale, zero, low, high, dtype):
    steps = decomposed.quantize_per_tensor(x, scale, zero, low, high, dtype)
    return steps, decomposed.dequantize_per_tensor(steps, scale, zero, low, high, dtype)


def to_and_from_channels(x, zeros, axis, low, high, dtype):
    steps = decomposed.quantize_per_channel(x, SCALES, zeros, axis, low, high, dtype)
    return steps, decomposed.dequantize_per_channel(steps, SCALES, zeros, axis, low, high, dtype)


REAL = [
    case
    for name, (dtype, low, high) in TYPES.items()
    for case in [
        Case(f"number-{name}", lambda x, r=(low, high, dtype): to_and_from(x, 0.1, 3, *r), wide("n", "c"), dtypes=HALF),
        Case(
            f"parameters-{name}",
            lambda x, r=(low, high, dtype): to_and_from(x, torch.tensor(0.1), torch.tensor(3), *r),
            wide("n", "c"),
            dtypes=HALF,
        ),
        Case(
            f"channels-{name}",
            lambda x, r=(low, high, dtype): to_and_from_channels(x, UNEVEN.abs(), 1, *r),
            wide("n", 4, "t"),
            since=8,
            dtypes=HALF,
        ),
        Case(
            f"even-{name}",
            lambda x, r=(low, high, dtype): to_and_from_channels(x, EVEN, 0, *r),
            wide(4, "t"),
            dtypes=HALF,
        ),
    ]
]
REAL += [
    Case(
        "no_zeros",
        lambda x: decomposed.dequantize_per_channel(x.to(torch.int8), SCALES, None, 1, -128, 127, torch.int8),
        wide("n", 4),
    ),
    Case(
        "to_half",
        lambda x: decomposed.dequantize_per_tensor(
            x.to(torch.int8), 0.1, 3, -128, 127, torch.int8, out_dtype=torch.float16
        ),
        wide("n", 4),
    ),
    Case("zero_outside", lambda x: to_and_from(x, 0.1, 200, -128, 127, torch.int8), wide("n", 4), dtypes=HALF),
    Case("graph", lambda x: to_and_from(x, 0.1, 3, -128, 127, torch.int8)[1], wide("n", 4), dtypes=HALF, graph=PAIR),
]

test_fake = table(FAKE)
test_quantized = table(REAL)


def observed(kind, x, **settings):
    """A module whose observer has seen something and is off now."""
    module = kind(**settings)
    module(x)
    module.disable_observer()
    return module.eval()


def nodes(model, *inputs, opset=20):
    target = io.BytesIO()
    onnxport.export(model, inputs, target, opset_version=opset)
    return operators(target.getvalue())


@pytest.mark.parametrize("opset", [10, 13, 20])
@pytest.mark.parametrize("kind", [FakeQuantize, FusedMovingAvgObsFakeQuantize])
def test_modules(kind, opset):
    x = torch.randn(3, 4)
    assert nodes(observed(kind, x), x, opset=opset) == PAIR


def test_module_by_channel():
    x = torch.randn(3, 4)
    settings = {"observer": MovingAveragePerChannelMinMaxObserver, "quant_min": -128, "quant_max": 127}
    module = observed(FusedMovingAvgObsFakeQuantize, x, dtype=torch.qint8, ch_axis=0, **settings)
    assert nodes(module, x) == PAIR


def test_module_that_is_off():
    x = torch.randn(3, 4)
    module = observed(FusedMovingAvgObsFakeQuantize, x)
    module.disable_fake_quant()
    assert nodes(module, x) == ["Identity"]


@pytest.mark.parametrize(
    ("kind", "scripted"),
    [(FakeQuantize, False), (FusedMovingAvgObsFakeQuantize, False), (FusedMovingAvgObsFakeQuantize, True)],
)
def test_an_observer_that_is_on_is_frozen(kind, scripted):
    x = torch.randn(3, 4)
    module = kind().eval()
    module(x)
    before = {name: content.clone() for name, content in module.state_dict().items()}
    if scripted:
        module = torch.jit.script(module)
    other = 50 * torch.randn(3, 4)
    assert nodes(module, other) == PAIR
    assert all(torch.equal(content, before[name]) for name, content in module.state_dict().items())
    assert bool(module.observer_enabled)
