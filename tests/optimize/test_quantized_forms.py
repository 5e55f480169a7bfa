"""The form of quantized models: integer weights, scales that take over norms, quantizers around movement."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from onnxport.optimize import DropZeroBiases, FoldBatchNorm, MoveQuantizers, StoreIntegers
from tests.optimize.harness import Array, check, ops, parse, random_inputs, run


def of(model: ir.Model, name: str) -> Array:
    tensor = model.graph.initializers[name].const_value
    assert tensor is not None
    return np.asarray(tensor.numpy())


def quantized(seed: int = 0, low: int = -127) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {
        "w": generator.integers(low, 128, (6, 4, 3, 3)).astype(np.int8),
        "s": (generator.random(6) + 0.1).astype(np.float32),
        "gamma": (generator.random(6) + 0.5).astype(np.float32),
        "beta": generator.standard_normal(6).astype(np.float32),
        "mean": generator.standard_normal(6).astype(np.float32),
        "var": (generator.random(6) + 0.5).astype(np.float32),
    }


NORM = "BatchNormalization(h, gamma, beta, mean, var)"
LAYER = f"f = DequantizeLinear <axis = 0> (w, s) h = Conv(x, f) y = {NORM}"


def test_a_weight_is_stored_as_torch_rounds_it() -> None:
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((16, 999)).astype(np.float32)
    scale = (np.abs(weight).max(1) / 127).astype(np.float32)
    text = "g (float[n, 999] x) => (y) { q = QuantizeLinear <axis = 0> (w, s, z) c = Clip(q, low, high)"
    text += " f = DequantizeLinear <axis = 0> (c, s, z) y = Gemm <transB = 1> (x, f) }"
    bounds = {"low": np.array(-127, np.int8), "high": np.array(127, np.int8)}
    model = parse(text, weights={"w": weight, "s": scale, "z": np.zeros(16, np.int8), **bounds})
    assert StoreIntegers()(model).modified and ops(model) == ["DequantizeLinear", "Gemm"]
    zeros = torch.zeros(16, dtype=torch.int32)
    fake = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(weight), torch.from_numpy(scale), zeros, 0, -127, 127
    )
    stored = of(model, "w")
    assert stored.dtype == np.int8 and not any(
        v.dtype == ir.DataType.FLOAT and len(v.shape or ()) > 1 for v in model.graph.initializers.values()
    )
    assert np.array_equal(stored * scale[:, None], fake.numpy())


@pytest.mark.parametrize(("opset", "kind"), [(20, ir.DataType.INT8), (21, ir.DataType.INT4)])
def test_four_bits_are_stored_in_four(opset: int, kind: ir.DataType) -> None:
    text = "g (float[n, 8] x) => (y) { q = QuantizeLinear(w, s, z) c = Clip(q, low, high)"
    text += " f = DequantizeLinear(c, s, z) y = MatMul(x, f) }"
    arrays = {"low": np.array(-7, np.int8), "high": np.array(7, np.int8), "z": np.array(0, np.int8)}
    weight = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    model = parse(text, opset=opset, weights={"w": weight, "s": np.array(0.2, np.float32), **arrays})
    assert check(model, StoreIntegers(), exact=False) == ["DequantizeLinear", "MatMul"]
    assert model.graph.initializers["w"].dtype == kind


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("lowest", [False, True])
def test_a_norm_goes_into_the_scale(negative: bool, lowest: bool) -> None:
    arrays = quantized()
    arrays["gamma"][2] *= -1 if negative else 1
    arrays["gamma"][3] = 0
    arrays["w"][2, 0, 0, 0] = -128 if lowest else -127
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ {LAYER} }}", weights=arrays)
    before = of(model, "w")
    left = check(model, FoldBatchNorm(), exact=False)
    if negative and lowest:
        assert "BatchNormalization" in left
        return
    assert left == ["DequantizeLinear", "Conv"]
    after = of(model, "w")
    assert np.array_equal(after[[0, 1, 4, 5]], before[[0, 1, 4, 5]]) and not after[3].any()
    assert np.array_equal(after[2], -before[2] if negative else before[2])


def test_a_bias_in_integers_stays_one() -> None:
    arrays = quantized() | {"b": np.arange(-3, 3, dtype=np.int32) * 1000, "t": np.full(6, 1e-5, np.float32)}
    body = LAYER.replace("Conv(x, f)", "Conv(x, f, d)").replace("h =", "d = DequantizeLinear <axis = 0> (b, t) h =", 1)
    model = parse(f"g (float[n, 4, 5, 5] x) => (y) {{ {body} }}", weights=arrays)
    assert check(model, FoldBatchNorm(), exact=False).count("DequantizeLinear") == 2
    conv = next(node for node in model.graph if node.op_type == "Conv")
    assert conv.inputs[2].producer().inputs[0].dtype == ir.DataType.INT32  # type: ignore[union-attr]


def test_what_divides_each_channel_goes_into_the_weights() -> None:
    arrays = {"w": quantized()["w"].astype(np.float32), "d": quantized()["gamma"].reshape(1, 6, 1, 1)}
    assert check(
        parse("g (float[n, 4, 5, 5] x) => (y) { h = Conv(x, w) y = Div(h, d) }", weights=arrays),
        FoldBatchNorm(),
        exact=False,
    ) == ["Conv"]
    kept = parse("g (float[n, 4, 5, 5] x) => (y) { h = Conv(x, w) y = Div(d, h) }", weights=arrays)
    assert check(kept, FoldBatchNorm(), exact=False) == ["Conv", "Div"]


def test_a_bias_of_zeros_goes() -> None:
    arrays = quantized() | {"b": np.zeros(6, np.int32), "t": np.full(6, 1e-5, np.float32)}
    body = "f = DequantizeLinear <axis = 0> (w, s) d = DequantizeLinear <axis = 0> (b, t) y = Conv(x, f, d)"
    assert check(parse(f"g (float[n, 4, 5, 5] x) => (y) {{ {body} }}", weights=arrays), DropZeroBiases()) == [
        "DequantizeLinear",
        "Conv",
    ]


BYTES = {"s": np.array(0.1, np.float32), "z": np.array(7, np.uint8), "shape": np.array([0, -1], np.int64)}
MOVED = {
    "pool and flatten": "p = MaxPool <kernel_shape = [2, 2]> (x) h = Flatten(p)",
    "reshape": "h = Reshape(x, shape)",
    "transpose": "t = Transpose <perm = [0, 2, 3, 1]> (x) h = Flatten(t)",
}


@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED.keys())
def test_quantizers_are_around_movement(body: str) -> None:
    there_and_back = "q = QuantizeLinear({}, s, z) {} = DequantizeLinear(q, s, z)"
    text = f"g (float[n, 4, 6, 6] x) => (y) {{ {body} {there_and_back.format('h', 'f')} y = Abs(f) }}"
    left = check(parse(text, weights=BYTES), MoveQuantizers())
    assert left[0] == "QuantizeLinear" and left[-2:] == ["DequantizeLinear", "Abs"]
    text = f"g (float[n, 4, 6, 6] i) => (y) {{ {there_and_back.format('i', 'x')} {body} y = Abs(h) }}"
    left = check(parse(text, weights=BYTES), MoveQuantizers())
    assert left[0] == "QuantizeLinear" and left[-2:] == ["DequantizeLinear", "Abs"]


def test_quantizers_stay_where_floats_are_read_too() -> None:
    text = "g (float[n, 4, 6, 6] x) => (y) { h = Flatten(x) q = QuantizeLinear(h, s, z)"
    text += " f = DequantizeLinear(q, s, z) y = Add(f, h) }"
    assert check(parse(text, weights=BYTES), MoveQuantizers())[0] == "Flatten"


def test_there_and_back_is_nothing() -> None:
    text = "g (float[n, 4] x) => (y) { a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)"
    text += " c = QuantizeLinear(b, s, z) y = DequantizeLinear(c, s, z) }"
    assert check(parse(text, weights=BYTES), MoveQuantizers()) == ["QuantizeLinear", "DequantizeLinear"]


def test_a_transposed_weight_keeps_its_scales() -> None:
    arrays = {"w": quantized()["w"].reshape(6, -1), "s": quantized()["s"]}
    text = "g (float[n, m, 36] x) => (y) { f = DequantizeLinear <axis = 0> (w, s) t = Transpose(f) y = MatMul(x, t) }"
    model = parse(text, weights=arrays)
    inputs = random_inputs(model)
    before = run(model, inputs)
    MoveQuantizers()(model)
    assert ops(model) == ["Transpose", "DequantizeLinear", "MatMul"]
    np.testing.assert_allclose(run(model, inputs)[0], before[0], rtol=1e-5)
