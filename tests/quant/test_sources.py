"""What other libraries quantized: each source is exported, checked, and runs in the kernels that it was made for."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport import quant
from tests.quant.models import FLOAT_KERNELS, kernels, ops, run, run_as_written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.ao.quantization as ao
    from torch.ao.quantization import quantize_fx

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
INPUT = (4, 3, 10, 10)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.a = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 4, 5)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = F.relu(self.a(x) + x)
        return self.fc(F.max_pool2d(x, 5).flatten(1))


def prepared(x, *, qat=False):
    if qat:
        model = quantize_fx.prepare_qat_fx(Net().train(), ao.get_default_qat_qconfig_mapping("x86"), (x,))
    else:
        model = quantize_fx.prepare_fx(Net().eval(), ao.get_default_qconfig_mapping("x86"), (x,))
    for _ in range(3):
        model(torch.randn(*INPUT))
    return model.eval()


def eager(x):
    model = nn.Sequential(
        ao.QuantStub(),
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 5),
        ao.DeQuantStub(),
    ).eval()
    model.qconfig = ao.get_default_qconfig("x86")
    model = ao.prepare(ao.fuse_modules(model, [["1", "2"]]))
    model(x)
    return ao.convert(model)


CONVERTED = {
    "eager": (eager, 1),
    "fx": (lambda x: quantize_fx.convert_fx(prepared(x)), 2),
    "fx after training": (lambda x: quantize_fx.convert_fx(prepared(x, qat=True)), 2),
    "fx reference": (lambda x: quantize_fx.convert_to_reference_fx(prepared(x)), 2),
}


class Pools(nn.Module):
    """Means of quantized tensors, which have the scale that the tensor has."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.fc = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.pool(F.avg_pool2d(F.relu(self.conv(x)), 2)).flatten(1))


def test_pools_of_quantized_tensors(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(*INPUT)
    model = quantize_fx.prepare_fx(Pools().eval(), ao.get_default_qconfig_mapping("x86"), (x,))
    model(x)
    model = quantize_fx.convert_fx(model)
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and "QLinearConv" in found and "QGemm" in found


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="torch was built without it")
def test_kernels_of_torch_that_saturate_are_no_reference(tmp_path, monkeypatch):
    """FBGEMM adds two products in 16 bits where each channel is convolved by itself."""
    monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")
    model = nn.Sequential(ao.QuantStub(), nn.Conv2d(8, 8, 3, padding=1, groups=8), ao.DeQuantStub()).eval()
    model[1].weight.data[:] = torch.tensor([-1.0, -1.0, 0.7, -1.0, 0.5, 0.7, 0.7, 0.3, 0.1]).reshape(3, 3)
    model.qconfig = ao.get_default_qconfig("fbgemm")
    model = ao.prepare(model)
    model(torch.rand(1, 8, 9, 9))
    model = ao.convert(model)
    beyond = 2 * torch.rand(1, 8, 9, 9)
    path = tmp_path / "m.onnx"
    assert onnxport.export(model, beyond, path, input_names=["x"], dynamic_axes={"x": {2: "h"}}).verification.passed
    assert "QLinearConv" in kernels(path)


@pytest.mark.parametrize(("make", "convolutions"), CONVERTED.values(), ids=CONVERTED.keys())
@pytest.mark.parametrize("opset", [13, 20])
def test_torch_ao_converted(make, convolutions, opset, tmp_path):
    torch.manual_seed(0)
    x = torch.randn(*INPUT)
    model = make(x)
    program = onnxport.export(model, x, tmp_path / "m.onnx", opset_version=opset)
    assert program.verification.passed and "checked one by one" in str(program.verification)
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and found.count("QLinearConv") == convolutions, found
    other = torch.randn(*INPUT)
    with torch.no_grad():
        expected = model(other)
    (actual,) = run(tmp_path / "m.onnx", other)
    assert actual.shape == expected.shape and (actual - expected).abs().max() <= 0.03 * expected.abs().max()


def test_torch_ao_prepared_for_training_with_its_observers_on(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(*INPUT)
    model = prepared(x, qat=True)
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    assert "BatchNormalization" not in ops(tmp_path / "m.onnx")
    stored = {tensor.data_type for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer if len(tensor.dims) > 1}
    assert stored == {onnx.TensorProto.INT8}
    assert kernels(tmp_path / "m.onnx").count("QLinearConv") == 2


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_quantization(per_channel, tmp_path):
    torch.manual_seed(0)
    kinds = {nn.Linear: ao.per_channel_dynamic_qconfig if per_channel else ao.default_dynamic_qconfig}
    model = ao.quantize_dynamic(nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 8)).eval(), kinds)
    x = torch.randn(3, 48)
    onnxport.export(model, x, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {0: "n"}})
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and found.count("MatMulInteger") + found.count("MatMulIntegerToFloat") == 2
    other = torch.randn(7, 48) + 1
    torch.testing.assert_close(run(tmp_path / "m.onnx", other)[0], model(other), rtol=0, atol=2e-2)


def quantized(x, scale=0.05, zero=100):
    return torch.quantize_per_tensor(x, scale, zero, torch.quint8)


def test_quantized_tensors_are_float_inputs_and_outputs(tmp_path):
    class Sum(nn.Module):
        def forward(self, a, b):
            return torch.ops.quantized.add(a, b, 0.08, 120), a.dequantize() * 2

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    onnxport.export(Sum(), (quantized(a), quantized(b)), tmp_path / "m.onnx")
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    results = run(tmp_path / "m.onnx", a, b)
    expected = Sum()(quantized(a), quantized(b))
    assert results[0].dtype == torch.float32
    torch.testing.assert_close(results[0], expected[0].dequantize(), rtol=0, atol=1e-6)
    torch.testing.assert_close(results[1], expected[1], rtol=0, atol=1e-6)


def test_scripted_fake_quantize(tmp_path):
    x = torch.randn(3, 5)
    module = ao.FusedMovingAvgObsFakeQuantize().eval()
    module(x)
    module.disable_observer()
    onnxport.export(torch.jit.script(module), x, tmp_path / "m.onnx")
    assert ops(tmp_path / "m.onnx") == ["QuantizeLinear", "DequantizeLinear"]
    torch.testing.assert_close(run(tmp_path / "m.onnx", 2 * x)[0], module(2 * x), rtol=0, atol=1e-6)


def rounded(x):
    scale, zero = torch.tensor([0.05, 0.02, 0.1]), torch.tensor([3, 0, 7], dtype=torch.int32)
    x = torch.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 255)
    x = torch.fake_quantize_per_tensor_affine(x * 2, torch.tensor(0.03), torch.tensor(1, dtype=torch.int32), 0, 255)
    return torch.fake_quantize_per_tensor_affine(x + 1, 0.05, 2, -128, 127)


def test_scripted_functions_that_have_no_kernel_for_meta_tensors(tmp_path):
    """Their sizes are found by runs with content."""
    x = torch.randn(3, 5)
    onnxport.export(torch.jit.script(rounded), x, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {1: "n"}})
    for count in (1, 2, 9):
        x = torch.randn(3, count)
        torch.testing.assert_close(run(tmp_path / "m.onnx", x)[0], rounded(x), rtol=0, atol=1e-6)


def converted_by_ao(x):
    layers = nn.Sequential(ao.QuantStub(), nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    model = nn.Sequential(layers, ao.DeQuantStub()).eval()
    model.qconfig = ao.get_default_qconfig("fbgemm")
    ao.prepare(model, inplace=True)(x)
    return ao.convert(model)


def test_a_converted_model_as_a_script_is_the_same_file(tmp_path):
    """A script's layers are objects of torch's kernels; their sizes come from what they pack."""
    x = torch.randn(1, 2, 5, 5)
    model = converted_by_ao(x)
    for name, given in {"traced": model, "script": torch.jit.script(model)}.items():
        program = onnxport.export(given, x, tmp_path / name, input_names=["x"], dynamic_axes={"x": {0: "n"}})
        assert program.verification.passed
    assert ops(tmp_path / "script") == ops(tmp_path / "traced")
    for count in (1, 3):
        x = torch.randn(count, 2, 5, 5)
        traced, script = (run_as_written(tmp_path / name, x) for name in ("traced", "script"))
        assert script.shape == (count, 3) and torch.equal(traced, script)


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d])
def test_any_size_of_a_quantized_convolution(kind, tmp_path):
    spatial = 1 if kind is nn.Conv1d else 2
    model = nn.Sequential(ao.QuantStub(), kind(4, 6, 3, stride=2, padding=2, groups=2), ao.DeQuantStub()).eval()
    model.qconfig = ao.get_default_qconfig("fbgemm")
    x = torch.randn(2, 4, *(7, 6)[:spatial])
    ao.prepare(model, inplace=True)(x)
    ao.convert(model, inplace=True)
    onnxport.export(model, x, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {0: "n", 2: "w"}})
    (output,) = onnx.load(tmp_path / "m.onnx").graph.output
    assert output.type.tensor_type.shape.dim[2].dim_param == "(w + 1)//2 + 1"
    for count, width in ((1, 1), (3, 8), (2, 31)):
        x = torch.randn(count, 4, *(width, 6)[:spatial])
        actual, expected = run_as_written(tmp_path / "m.onnx", x), model(x)
        assert actual.shape == expected.shape
        steps = ((actual - expected) / model[1].scale).round()
        assert steps.abs().max() <= 1 and steps.count_nonzero() <= 0.05 * steps.numel()  # products on a boundary


def test_quantized_examples_of_a_script(tmp_path):
    class Sum(nn.Module):
        def forward(self, a, b):
            return torch.ops.quantized.add(a, b, 0.08, 120).dequantize()

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    onnxport.export(torch.jit.script(Sum()), (quantized(a), quantized(b)), tmp_path / "m.onnx")
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    expected = Sum()(quantized(a), quantized(b))
    torch.testing.assert_close(run(tmp_path / "m.onnx", a, b)[0], expected, rtol=0, atol=1e-6)


@pytest.fixture
def torchao():
    return pytest.importorskip("torchao.quantization", reason="torchao is in the test extra")


def weight_types(path):
    """The element types of the weights of `linear()`."""
    weights = onnx.load(path).graph.initializer
    return {tensor.data_type for tensor in weights if np.prod(tensor.dims) >= 32 * 256}


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 256), nn.SiLU(), nn.Linear(256, 32)).eval()


def test_torchao_weights_of_blocks(torchao, tmp_path):
    model, x = linear(), torch.randn(3, 128)
    torchao.quantize_(model, torchao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=torchao.PerGroup(64)))
    with torch.no_grad():
        onnxport.export(model, x, tmp_path / "m.onnx", opset_version=21)
    assert kernels(tmp_path / "m.onnx").count("MatMulNBits") == 2
    assert (tmp_path / "m.onnx").stat().st_size < 0.6 * np.prod([128, 256]) + 0.6 * np.prod([256, 32]) + 8000
    with torch.no_grad():
        onnxport.export(model, x, tmp_path / "m.onnx", opset_version=17)  # without blocks: arithmetic
        torch.testing.assert_close(run(tmp_path / "m.onnx", x)[0], model(x), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize(
    "config", ["Int8WeightOnlyConfig", "IntxWeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"]
)
def test_torchao_eight_bits(config, opset, torchao, tmp_path):
    model, x = linear(), torch.randn(3, 128)
    torchao.quantize_(model, getattr(torchao, config)())
    with torch.no_grad():
        assert onnxport.export(model, x, tmp_path / "m.onnx", opset_version=opset).verification.passed
        x = torch.randn(3, 128)
        torch.testing.assert_close(run(tmp_path / "m.onnx", x)[0], model(x), rtol=1e-2, atol=1e-3)
    integers = "Dynamic" in config
    assert ("MatMulInteger" in kernels(tmp_path / "m.onnx")) == integers
    if config != "Int8WeightOnlyConfig":  # which multiplies by the weight's integers, and by the scales afterwards
        assert weight_types(tmp_path / "m.onnx") == {onnx.TensorProto.INT8}


@pytest.fixture
def qat(torchao):
    return pytest.importorskip("torchao.quantization.qat")


QAT = {
    "weights": lambda torchao: torchao.IntxWeightOnlyConfig(),
    "dynamic activations": lambda torchao: torchao.Int8DynamicActivationIntxWeightConfig(),
}


@pytest.mark.parametrize("step", ["prepare", "convert"])
@pytest.mark.parametrize("config", QAT.values(), ids=QAT)
def test_torchao_training(config, step, torchao, qat, tmp_path, request):
    """Linear layers that are trained with rounded weights, before and after they are converted."""
    base, model = config(torchao), linear().train()
    torchao.quantize_(model, qat.QATConfig(base, step="prepare"))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for _ in range(2):
        model(torch.randn(4, 128)).square().mean().backward()
        optimizer.step()
    if step == "convert":
        torchao.quantize_(model.eval(), qat.QATConfig(base, step="convert"))
    model.eval()
    with torch.no_grad():
        found = onnxport.export(model, torch.randn(200, 128), tmp_path / "m.onnx", opset_version=21).verification
        assert found.passed
        x = torch.randn(200, 128)
        actual, expected = run_as_written(tmp_path / "m.onnx", x), model(x)
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    # Each row is quantized by itself. Where an element lies on the boundary of two steps, it depends on the processor
    # which of them it is rounded to, and its row differs by a step: one row in about 180 where that was measured.
    furthest = (actual - expected).abs().amax(1)
    assert (furthest <= 1e-5).float().mean() >= (0.9 if "dynamic" in request.node.name else 1.0)
    assert furthest.max() <= 0.01 * expected.abs().max()
    if step == "convert":
        assert weight_types(tmp_path / "m.onnx") == {onnx.TensorProto.INT8}


def x86_inductor(*, dynamic=False, qat=False):
    module = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    config = module.get_default_x86_inductor_quantization_config(is_dynamic=dynamic, is_qat=qat)
    return module.X86InductorQuantizer().set_global(config)


def arm_inductor(*, dynamic=False, qat=False):
    module = pytest.importorskip("torchao.quantization.pt2e.quantizer.arm_inductor_quantizer")
    config = module.get_default_arm_inductor_quantization_config(is_dynamic=dynamic, is_qat=qat)
    return module.ArmInductorQuantizer().set_global(config)


def xnnpack(*, dynamic=False, qat=False):
    module = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")
    config = module.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic, is_qat=qat)
    return module.XNNPACKQuantizer().set_global(config)


def by_pt2e(model, x, quantizer, *, qat=False):
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    utilities = pytest.importorskip("torchao.quantization.pt2e")
    exported = torch.export.export(model, (x,)).module()
    prepared = (pt2e.prepare_qat_pt2e if qat else pt2e.prepare_pt2e)(exported, quantizer)
    for _ in range(2):
        prepared(torch.randn_like(x))
    utilities.move_exported_model_to_eval(prepared)
    return pt2e.convert_pt2e(prepared)


@pytest.mark.parametrize("kind", ["module", "program"])
@pytest.mark.parametrize("qat", [False, True], ids=["static", "trained"])
@pytest.mark.parametrize("quantizer", [x86_inductor, arm_inductor, xnnpack])
def test_pt2e(quantizer, qat, kind, torchao, tmp_path):
    torch.manual_seed(0)
    x = torch.randn(*INPUT)
    model = by_pt2e(Net().train(qat), x, quantizer(qat=qat), qat=qat)
    with torch.no_grad():
        source = model if kind == "module" else torch.export.export(model, (x,))
        found = onnxport.export(source, (x,), tmp_path / "m.onnx").verification
        assert found.passed and "checked one by one" in str(found)
        x = torch.randn(*INPUT)
        expected, (actual,) = model(x), run(tmp_path / "m.onnx", x)
    assert actual.shape == expected.shape and (actual - expected).abs().max() <= 0.05 * expected.abs().max()
    written = onnx.load(tmp_path / "m.onnx").graph
    readers = {name: node.op_type for node in written.node for name in node.input}
    inputs = [node.input[0] for node in written.node if node.op_type == "Conv"]
    given = {name: node.op_type for node in written.node for name in node.output}
    assert len(inputs) == 2 and all(given[name] == "DequantizeLinear" for name in inputs)
    integers = [tensor for tensor in written.initializer if len(tensor.dims) > 1]
    assert {tensor.data_type for tensor in integers} == {onnx.TensorProto.INT8}
    assert all(readers[tensor.name] == "DequantizeLinear" for tensor in integers)
    # A convolution whose sum with something else is quantized, and not its result, is left in float. So are those of
    # the other quantizers on some processors, whose activations are in int8.
    if quantizer is x86_inductor:
        assert "QLinearConv" in kernels(tmp_path / "m.onnx")


@pytest.mark.parametrize("quantizer", [x86_inductor, xnnpack])
def test_pt2e_dynamic(quantizer, torchao, tmp_path):
    x = torch.randn(3, 128)
    model = by_pt2e(linear(), x, quantizer(dynamic=True))
    with torch.no_grad():
        assert onnxport.export(model, (x,), tmp_path / "m.onnx").verification.passed
        x = torch.randn(3, 128) + 1
        torch.testing.assert_close(run(tmp_path / "m.onnx", x)[0], model(x), rtol=0, atol=2e-2)
    assert weight_types(tmp_path / "m.onnx") == {onnx.TensorProto.INT8}


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("opset", [13, 20])
def test_the_range_of_an_input_that_is_read_when_the_model_runs(dtype, symmetric, opset, tmp_path):
    decomposed = torch.ops.quantized_decomposed
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max

    class Range(nn.Module):
        def forward(self, x):
            choose = decomposed.choose_qparams_symmetric if symmetric else decomposed.choose_qparams
            scale, zero = choose.tensor(x, low, high, 1e-5, dtype)
            integers = decomposed.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
            return scale, zero, decomposed.dequantize_per_tensor.tensor(integers, scale, zero, low, high, dtype)

    path = tmp_path / "m.onnx"
    axes = {"x": {0: "n"}}
    onnxport.export(Range(), torch.randn(3, 5), path, opset_version=opset, input_names=["x"], dynamic_axes=axes)
    torch.manual_seed(0)
    for x in (torch.randn(7, 5) * 3, torch.rand(2, 5) + 1, -torch.rand(4, 5), torch.zeros(1, 5)):
        expected = Range()(x)
        for found, wanted in zip(run(path, x), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_weights_of_groups_of_our_own(tmp_path):
    model, x = quant.init(linear(), weight_bits=4, activation_bits=None, group=32), torch.randn(3, 128)
    with quant.calibration(model), torch.no_grad():
        model(x)
    onnxport.export(model, x, tmp_path / "m.onnx", opset_version=21)
    assert kernels(tmp_path / "m.onnx").count("MatMulNBits") == 2


@pytest.mark.parametrize("channels", [5, 300])
def test_norms_of_layers_prepared_for_training(channels, tmp_path):
    """Around its quantizers torch.ao's ConvBn divides by what it multiplied the weight by, whatever the width."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, 6, 6)
    model = nn.Sequential(nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), nn.Flatten())
    model.append(nn.Linear(16 * channels, 4))
    model = quantize_fx.prepare_qat_fx(model.train(), ao.get_default_qat_qconfig_mapping("x86"), (x,))
    model(x)
    assert onnxport.export(model.eval(), x, tmp_path / "m.onnx").verification.passed
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and "QLinearConv" in found, found
