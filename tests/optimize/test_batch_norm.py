from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from onnxport.optimize import FoldBatchNorm, FuseGemm, optimize
from tests.optimize.harness import Array, check, ops, parse

NORM = "BatchNormalization <epsilon = 0.01> (h, gamma, beta, mean, var)"


def weights(channels: int, dtype: type = np.float32, **shapes: tuple[int, ...]) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    arrays = {name: generator.standard_normal(channels).astype(dtype) for name in ("gamma", "beta", "mean")}
    arrays["var"] = (generator.random(channels) + 0.5).astype(dtype)
    return arrays | {name: generator.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


LAYERS = {
    "conv": ("Conv(x, w, b)", {"w": (6, 4, 3, 3), "b": (6,)}),
    "conv without bias": ("Conv <pads = [1, 1, 1, 1]> (x, w)", {"w": (6, 4, 3, 3)}),
    "conv in groups": ("Conv <group = 2> (x, w)", {"w": (6, 2, 3, 3)}),
    "transposed conv": ("ConvTranspose <strides = [2, 2]> (x, w, b)", {"w": (4, 6, 3, 3), "b": (6,)}),
    "transposed conv in groups": ("ConvTranspose <group = 2> (x, w)", {"w": (4, 3, 3, 3)}),
}


@pytest.mark.parametrize("opset", [7, 9, 14, 20])
@pytest.mark.parametrize(("layer", "shapes"), LAYERS.values(), ids=LAYERS.keys())
def test_convolutions(layer: str, shapes: dict[str, tuple[int, ...]], opset: int) -> None:
    text = f"g (float[n, 4, 5, 5] x) => (y) {{ h = {layer} y = {NORM} }}"
    model = parse(text, opset=opset, weights=weights(6, **shapes))
    assert len(check(model, FoldBatchNorm(), exact=False)) == 1


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        ("Gemm(x, w, b)", {"w": (4, 6), "b": (6,)}),
        ("Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, b)", {"w": (6, 4), "b": (1, 6)}),
        ("Gemm(x, w)", {"w": (4, 6)}),
        ("Gemm(x, w, b)", {"w": (4, 6), "b": (1,)}),
        ("MatMul(x, w)", {"w": (4, 6)}),
    ],
)
def test_matrices(layer: str, shapes: dict[str, tuple[int, ...]]) -> None:
    model = parse(f"g (float[n, 4] x) => (y) {{ h = {layer} y = {NORM} }}", weights=weights(6, **shapes))
    assert check(model, FoldBatchNorm(), exact=False) == ["Gemm"]


KEPT = {
    "read elsewhere": "h = Conv(x, w) a = BatchNormalization(h, gamma, beta, mean, var) y = Add(a, h)",
    "weight shared": "h = Conv(x, w) a = BatchNormalization(h, gamma, beta, mean, var) k = Conv(x, w) y = Add(a, k)",
    "norm first": "h = Abs(x) a = BatchNormalization(h, beta4, beta4, beta4, beta4) y = Conv(a, w)",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT.keys())
def test_kept(body: str) -> None:
    arrays = weights(6, w=(6, 4, 3, 3)) | {"beta4": np.ones(4, np.float32)}
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ {body} }}", weights=arrays)
    before = ops(model)
    assert check(model, FoldBatchNorm()) == before


def test_training_mode_stays() -> None:
    text = f"g (float[n, 4, 5, 5] x) => (y) {{ h = Conv(x, w) y, m, v = {NORM} }}"
    model = parse(text.replace("epsilon", "training_mode = 1, epsilon"), weights=weights(6, w=(6, 4, 3, 3)))
    assert check(model, FoldBatchNorm()) == ["Conv", "BatchNormalization"]
    optimize(model, training=True)
    assert ops(model) == ["Conv", "BatchNormalization"]


def test_batches_of_matrices_stay() -> None:
    model = parse(f"g (float[n, 6, 4] x) => (y) {{ h = MatMul(x, w) y = {NORM} }}", weights=weights(6, w=(4, 6)))
    assert check(model, FoldBatchNorm()) == ["MatMul", "BatchNormalization"]


def test_overridable_weight_stays() -> None:
    arrays = weights(6, w=(6, 4, 3, 3))
    model = parse(
        f"g (float[n, 4, 5, 5] x, float[6, 4, 3, 3] w) => (y) {{ h = Conv(x, w) y = {NORM} }}", weights=arrays
    )
    assert check(model, FoldBatchNorm()) == ["Conv", "BatchNormalization"]


def test_overflow_stays() -> None:
    arrays = weights(6, np.float16, w=(6, 4, 3, 3))
    arrays["gamma"][:] = 60000
    model = parse(f"g (float16[n, 4, 5, 5] x) => (y) {{ h = Conv(x, w) y = {NORM} }}", weights=arrays)
    FoldBatchNorm()(model)
    assert ops(model) == ["Conv", "BatchNormalization"]


def test_half_precision() -> None:
    model = parse(
        f"g (float16[n, 4, 5, 5] x) => (y) {{ h = Conv(x, w) y = {NORM} }}",
        weights=weights(6, np.float16, w=(6, 4, 1, 1)),
    )
    FoldBatchNorm()(model)
    assert ops(model) == ["Conv"]
    assert {value.dtype for value in model.graph.initializers.values() if value.uses()} == {ir.DataType.FLOAT16}


def test_names_and_parameters_stay() -> None:
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ h = Conv(x, w) y = {NORM} }}", weights=weights(6, w=(6, 4, 3, 3)))
    parameter = torch.nn.Parameter(torch.randn(6, 4, 3, 3))
    original = parameter.detach().clone()
    weight = model.graph.initializers["w"]
    weight.const_value = ir.tensor_adapters.TorchTensor(parameter)
    weight.name = "stem.conv.weight"
    check(model, FoldBatchNorm(), exact=False)
    (conv,) = model.graph
    assert [value.name for value in conv.inputs if value] == ["x", "stem.conv.weight", "stem.conv.bias"]
    assert torch.equal(parameter, original)


def test_linear_layer_is_joined_first() -> None:
    text = f"g (float[n, 4] x) => (y) {{ t = Transpose(w) m = MatMul(x, t) h = Add(m, b) y = {NORM} }}"
    model = parse(text, weights=weights(6, w=(6, 4), b=(6,)))
    assert check(model, FuseGemm(), FoldBatchNorm(), exact=False) == ["Gemm"]


CHANNELWISE = {
    "scale": "y = Mul(h, c)",
    "scale first": "y = Mul(c, h)",
    "shift": "y = Add(h, c)",
    "scale of everything": "y = Mul(h, one)",
    "all of them": f"n1 = {NORM} m = Mul(n1, c) y = Add(c, m)",
}
C = np.linspace(-1, 2, 6, dtype=np.float32).reshape(6, 1, 1)


@pytest.mark.parametrize("body", CHANNELWISE.values(), ids=CHANNELWISE.keys())
@pytest.mark.parametrize(("layer", "shapes"), LAYERS.values(), ids=LAYERS.keys())
def test_what_scales_and_shifts_channels(layer: str, shapes: dict[str, tuple[int, ...]], body: str) -> None:
    arrays = weights(6, **shapes) | {"c": C, "one": np.array([[[0.5]]], np.float32)}
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ h = {layer} {body} }}", weights=arrays)
    assert len(check(model, FoldBatchNorm(), exact=False)) == 1


@pytest.mark.parametrize(
    ("body", "c"),
    [
        ("y = Mul(h, c)", C.reshape(6)[:3]),  # along the width
        ("y = Mul(h, c)", C[:3].reshape(3, 1)),  # along the height
        ("y = Mul(h, c)", C.reshape(6, 1, 1, 1, 1)),  # of more dimensions than the value
        ("y = Mul(h, c)", np.ones((1, 1, 3, 3), np.float32)),
        ("y = Mul(h, h)", C),
        ("m = Mul(h, c) y = Sub(m, h)", C),
        ("s = ReduceMax(x) y = Mul(h, s)", C),
    ],
)
def test_what_is_not_for_each_channel_stays(body: str, c: Array) -> None:
    arrays = weights(6, w=(6, 4, 3, 3)) | {"c": c}
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ h = Conv(x, w) {body} }}", weights=arrays)
    before = ops(model)
    FoldBatchNorm()(model)
    assert ops(model) == before


def test_a_scale_in_half_precision_stays() -> None:
    arrays = weights(6, np.float16, w=(6, 4, 3, 3)) | {"c": C.astype(np.float16)}
    model = parse("g (float16[n, 4, 5, 5] x) => (y) { h = Conv(x, w) y = Mul(h, c) }", weights=arrays)
    FoldBatchNorm()(model)
    assert ops(model) == ["Conv", "Mul"]
