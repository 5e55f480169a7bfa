"""Settings of `quant.init`: what each of them does to the file, and what is refused."""

from __future__ import annotations

import re

import onnx
import pytest
import torch
from onnx import TensorProto
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport import quant
from tests.quant.models import Blocks, kernels, ops, run, run_as_written, stored_types, trained


def calibrated(model: nn.Module, x: torch.Tensor, **settings) -> nn.Module:
    quant.init(model.eval(), **settings)
    with quant.calibration(model), torch.no_grad():
        model(x)
    return model


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"skip": 5}, "skip must be names and types of modules, not 5"),
        ({"skip": [int]}, "skip: the model has no module <class 'int'>"),
        ({"parts": {"gate": {"weight_bits": 9}}}, "parts['gate']: weight_bits must be 2 to 8, not 9"),
        ({"parts": {"gate": None}}, "parts['gate'] must be a mapping of settings"),
        ({"parts": ["gate"]}, "parts must be a mapping"),
        ({"config": {"weight_bit": 4}}, "config: 'weight_bit' is no setting; did you mean weight_bits"),
        ({"config": {1: 2, "a": 3}}, "config: 1 is no setting"),
        ({"config": {"weight_bits": "8"}}, "weight_bits must be 2 to 8, not '8'"),
        ({"config": {"skip": "nope"}}, "skip: the model has no module 'nope'"),
        ({"config": 3}, "config must be a mapping, not 3"),
        ({"observer": ["minmax"]}, "observer must be one of"),
        ({"activation_bits": 16.0}, "activation_bits must be"),
        ({"group": "a"}, "group must be a number"),
        ({"power_of_two": True, "observer": "learned"}, "power_of_two"),
        ({"target": "tensorrt", "weight_bits": 5}, "weight_bits: TensorRT"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(wrong, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        quant.init(Blocks(), **wrong)


@pytest.mark.parametrize(("content", "named"), [("a: [1\n", "is not YAML"), ("- 1\n", "config must be a mapping")])
def test_files_that_are_no_configuration(content, named, tmp_path):
    (tmp_path / "quant.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        quant.init(Blocks(), config=tmp_path / "quant.yaml")


def test_a_configuration_has_the_keys_of_the_call(tmp_path):
    x = torch.randn(2, 2, 9, 9)
    model = quant.init(Blocks(), config={"observer": "learned", "example": x, "weight_bits": 6}, weight_bits=4)
    assert model.quantizers.named()["gate.weight"].grid.high == 7
    assert "quantizers.gate/weight.scale" in dict(model.named_parameters())


def test_what_is_no_float_model():
    with pytest.raises(ValueError, match="must be a torch"):
        quant.init(lambda x: x)
    with pytest.raises(ValueError, match="script"):
        quant.init(nn.Sequential(torch.jit.script(nn.Linear(2, 2))))
    with pytest.raises(ValueError, match="activations must be positive"):
        quant.constrain(Blocks(), activations="8")


def test_a_model_is_initialised_once_as_a_part_and_as_a_whole(tmp_path):
    x = torch.randn(2, 2, 9, 9)
    model = calibrated(nn.Sequential(Blocks(), nn.ReLU()), x)
    for twice in (model, model[0], nn.Sequential(model)):
        with pytest.raises(ValueError, match="already"):
            quant.init(twice)
    with pytest.raises(onnxport.ExportError, match=r"0 is a part of a quantized model"):
        onnxport.export(model[0], x, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
    outer = nn.Sequential(nn.Identity(), model).eval()  # the quantized model may itself be a part
    assert onnxport.export(outer, x, tmp_path / "m.onnx").verification.passed
    assert "QLinearConv" in kernels(tmp_path / "m.onnx")


def test_an_example_that_does_not_fit_leaves_the_model_as_it_was():
    model, keys = Blocks(), list(Blocks().state_dict())
    with pytest.raises(RuntimeError):
        quant.init(model, example=torch.randn(1, 5, 9, 9))
    assert list(model.state_dict()) == keys
    assert quant.init(model, example=torch.randn(1, 2, 9, 9)).quantizers.named()


def test_a_report_needs_data():
    model, x = quant.init(Blocks().eval()), torch.randn(2, 2, 9, 9)
    model(x)
    with pytest.raises(ValueError, match=r"quant\.calibration"):
        quant.report(model, x)


def test_percentile_leaves_out_what_is_rare():
    x = torch.randn(2, 2, 9, 9).clamp(-1, 1)
    x[0, 0, 0, 0] = 50.0
    scales = {
        observer: calibrated(nn.Conv2d(2, 3, 3), x, observer=observer).quantizers.named()["input"].scale
        for observer in ("minmax", "percentile")
    }
    long = torch.randn(1, 2, 40, 40).clamp(-1, 1)
    long[0, 0, 0, 0] = 50.0
    rare = calibrated(nn.Conv2d(2, 3, 3), long, observer="percentile").quantizers.named()["input"].scale
    assert scales["minmax"] > 0.19 and rare < 0.01  # one in a thousand: none of 324 elements, three of 3,200
    assert torch.equal(scales["percentile"], scales["minmax"])


def test_powers_of_two():
    model = calibrated(Blocks(), torch.randn(2, 2, 9, 9), power_of_two=True, symmetric=True)
    for quantizer in model.quantizers.named().values():
        assert torch.equal(quantizer.scale.log2(), quantizer.scale.log2().round()) and not quantizer.zero_point.any()


@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt"])
def test_biases(target, tmp_path):
    """Integers by default, floats for TensorRT."""
    model = trained(quant.init(Blocks(), target=target), 4, 2, 9, 9)
    onnxport.export(model, torch.randn(2, 2, 9, 9), tmp_path / "m.onnx")
    biases = {node.input[2] for node in onnx.load(tmp_path / "m.onnx").graph.node if node.op_type in ("Conv", "Gemm")}
    types = {tensor.name: tensor.data_type for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert len(biases) == 4 and ({TensorProto.FLOAT} == {types.get(name) for name in biases}) == (target == "tensorrt")
    assert (TensorProto.INT32 in types.values()) == (target == "onnxruntime")


@pytest.mark.parametrize(("opset", "stored"), [(17, False), (21, True)])
def test_activations_of_sixteen_bits(opset, stored, tmp_path):
    """Integers from opset 21, arithmetic before; the layers compute in float."""
    torch.manual_seed(0)
    x = torch.randn(4, 2, 9, 9)
    model = calibrated(Blocks(), x, activation_bits=16)
    program = onnxport.export(model, x, tmp_path / "m.onnx", opset_version=opset)
    assert program.verification.passed and stored_types(tmp_path / "m.onnx") == {TensorProto.INT8}
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert (TensorProto.UINT16 in {tensor.data_type for tensor in graph.initializer}) == stored
    assert "QLinearConv" not in kernels(tmp_path / "m.onnx")
    x = torch.randn(4, 2, 9, 9)
    torch.testing.assert_close(run_as_written(tmp_path / "m.onnx", x), model(x), rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, tmp_path):
    """Their matrices are integers in the file, and the operator computes in float."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(6, 5, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    torch.manual_seed(0)
    model = calibrated(Recurrent(), torch.randn(2, 7, 6))
    axes = {"x": {0: "n", 1: "t"}}
    onnxport.export(model, torch.randn(2, 7, 6), tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes)
    matrices = [tensor for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer if 5 in tensor.dims[1:]]
    assert matrices and {tensor.data_type for tensor in matrices} == {TensorProto.INT8}
    assert kind.__name__ in kernels(tmp_path / "m.onnx")
    x = torch.randn(3, 4, 6)
    torch.testing.assert_close(run(tmp_path / "m.onnx", x)[0], model(x), rtol=0, atol=1e-5)


# Scales of groups


class Products(nn.Module):
    """Products with parameters whose rows are inputs, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(64, 96)), nn.Parameter(torch.randn(96, 128))
        self.bias, self.head = nn.Parameter(torch.randn(128)), nn.Linear(128, 5, bias=False)

    def forward(self, x):
        return self.head(F.relu(torch.addmm(self.bias, F.relu6(x @ self.first), self.second)))


@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_groups_of_weights_run_packed(per_channel, bits, tmp_path):
    torch.manual_seed(0)
    x, path = torch.randn(4, 64), tmp_path / "m.onnx"
    model = calibrated(Products(), x, weight_bits=bits, activation_bits=None, group=32, per_channel=per_channel)
    axes = {"x": {0: "n"}}
    onnxport.export(model, x, path, opset_version=21, input_names=["x"], dynamic_axes=axes)
    assert kernels(path).count("MatMulNBits") == 3, kernels(path)
    sizes = {tuple(scale.shape) for name, scale in model.quantizers.state_dict().items() if name.endswith("scale")}
    assert sizes == {(96 * 2,), (128 * 3,), (5 * 4,)}
    x = torch.randn(9, 64)
    with torch.no_grad():
        torch.testing.assert_close(run_as_written(path, x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("shape", [(4, 64), (2, 3, 64)])
def test_groups_of_weights_and_activations(shape, opset, bits, tmp_path):
    """ONNX Runtime takes blocks of bytes for channels where both factors are quantized."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96, bias=False), nn.ReLU(), nn.Linear(96, 4, bias=False))
    x, path = torch.randn(shape), tmp_path / "m.onnx"
    model = calibrated(model, x, weight_bits=bits, group=32)
    program = onnxport.export(model, x, path, opset_version=opset, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert program.verification.passed
    assert stored_types(path) & {TensorProto.INT8, TensorProto.INT4}
    x = torch.randn(5, *shape[1:])
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(run_as_written(path, x), expected, rtol=0, atol=0.03 * float(expected.abs().max()))


def test_a_group_that_does_not_divide_a_layer_is_an_error():
    model, x = nn.Sequential(nn.Linear(64, 10), nn.Linear(10, 3)), torch.randn(2, 64)
    with pytest.raises(ValueError, match=r"group: 1\.weight has 10 weights .*32"):
        calibrated(model, x, group=32)
    quant.remove(model)
    names = calibrated(model, x, group=32, parts={"1": {"group": None}}).quantizers.named()
    assert names["0.weight"].grid.group == 32 and names["1.weight"].grid.group is None


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.Hardtanh], ids=lambda kind: kind.__name__)
def test_clamps_behind_packed_products(activation, tmp_path):
    """As Relu and Clip they would keep ONNX Runtime from running the product packed."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), activation(), nn.Linear(64, 8)), torch.randn(4, 64)
    model = calibrated(model, x, weight_bits=4, activation_bits=None, group=16)
    onnxport.export(model, x, tmp_path / "m.onnx", opset_version=21)
    assert kernels(tmp_path / "m.onnx").count("MatMulNBits") == 2
    assert not {"Relu", "Clip"} & set(ops(tmp_path / "m.onnx"))
    x = 9 * torch.randn(4, 64)
    with torch.no_grad():
        torch.testing.assert_close(run_as_written(tmp_path / "m.onnx", x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_activations_of_half_precision_are_refused_and_weights_are_not(dtype, tmp_path):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)).to(dtype).eval()
    with pytest.raises(ValueError, match=rf"0\.weight is {dtype}.*model\.float\(\)"):
        quant.init(model)
    assert not hasattr(model, "quantizers")

    x = torch.randn(2, 64, dtype=dtype)
    onnxport.export(calibrated(model, x, activation_bits=None), (x,), tmp_path / "m.onnx", opset_version=21)
    assert ops(tmp_path / "m.onnx").count("DequantizeLinear") == 2


def test_a_part_of_half_precision_may_be_left_out():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2).half())
    quant.init(model, skip=["1"])
    assert hasattr(model, "quantizers")
