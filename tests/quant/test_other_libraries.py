"""Models that Brevitas, ModelOpt and linger quantized: ``make quant-sources`` installs them and runs these tests.

Where a library is not installed, or cannot be imported with this Python and torch, its tests are skipped with the
reason.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnxport
from tests.quant.models import kernels, ops, run_as_written, stored_types

pytestmark = pytest.mark.filterwarnings("ignore")
INPUT = (2, 3, 8, 8)


def imported(name: str, reason: str = "") -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} cannot be imported: {error}{reason}")


def calls(model: nn.Module) -> nn.Module:
    """What observers see."""
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, *INPUT[1:]))
    return model


# Brevitas


def brevitas_net(bits: int = 8, *, integer_bias: bool) -> nn.Module:
    layers: Any = imported("brevitas.nn")
    quantizers: Any = imported("brevitas.quant")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = {"weight_bit_width": bits, "weight_quant": quantizers.Int8WeightPerChannelFloat}
            bias = quantizers.Int32Bias if integer_bias else None
            self.input = layers.QuantIdentity(return_quant_tensor=True)
            self.conv = layers.QuantConv2d(3, 8, 3, padding=1, bias_quant=bias, return_quant_tensor=True, **weights)
            self.relu = layers.QuantReLU(return_quant_tensor=True)
            self.head = layers.QuantLinear(8 * 16, 5, bias=True, **weights)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.relu(self.conv(self.input(x)))
            return self.head(torch.flatten(F.max_pool2d(x, 2), 1))

    torch.manual_seed(0)
    return calls(Net().train()).eval()


def brevitas_export(monkeypatch: pytest.MonkeyPatch, exporter: str, model: nn.Module, path: Path, **settings: Any):
    """One of Brevitas's exporters, with onnxport's ``export`` in the place of torch's."""
    imported("onnxoptimizer")
    monkeypatch.setattr(torch.onnx, "export", onnxport.export)
    getattr(imported("brevitas.export"), exporter)(
        model, args=torch.randn(INPUT), export_path=str(path), dynamo=False, **settings
    )


@pytest.mark.parametrize("bits", [8, 4])
def test_brevitas_qcdq(bits, monkeypatch, tmp_path) -> None:
    """While exporting, Brevitas's functions stand in for ONNX's and compute nothing: the file is checked later."""
    model, path = brevitas_net(bits, integer_bias=True), tmp_path / "m.onnx"
    brevitas_export(monkeypatch, "export_onnx_qcdq", model, path, opset_version=17, verify=False)
    assert onnxport.verify(path, model, torch.randn(INPUT)).passed
    x = torch.randn(INPUT)
    torch.testing.assert_close(run_as_written(path, x), model(x), rtol=0, atol=1e-5)
    assert "QLinearConv" in kernels(path) and stored_types(path) == {onnx.TensorProto.INT8}


def test_brevitas_checked_as_it_exports(monkeypatch, tmp_path) -> None:
    """What torch runs then is not the model, which the check says."""
    model = brevitas_net(integer_bias=False)
    with pytest.raises(onnxport.VerificationError):
        brevitas_export(monkeypatch, "export_onnx_qcdq", model, tmp_path / "m.onnx", opset_version=17)


@pytest.mark.parametrize("bits", [8, 4])
def test_brevitas_qonnx(bits, monkeypatch, tmp_path) -> None:
    """ONNX Runtime has no operator Quant: the graph is looked at."""
    model, path = brevitas_net(bits, integer_bias=True), tmp_path / "m.onnx"
    brevitas_export(monkeypatch, "export_qonnx", model, path, opset_version=17)
    assert [op for op in ops(path) if op != "Constant"].count("Quant") == 5
    domains = {entry.domain for entry in onnx.load(path).opset_import}
    assert any(domain not in ("", "ai.onnx") for domain in domains)


# ModelOpt


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.hidden, self.head = nn.Linear(8 * 16, 32), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.head(F.relu(self.hidden(torch.flatten(x, 1))))


MODELOPT = {
    # ModelOpt quantizes the inputs of layers: ONNX Runtime has integer kernels where a layer's result is quantized too.
    "INT8_DEFAULT_CFG": 3,
    "INT8_SMOOTHQUANT_CFG": 3,
    "INT8_WEIGHT_ONLY_CFG": 0,
}


@pytest.mark.parametrize("config", MODELOPT)
@pytest.mark.parametrize("opset", [13, 20])
def test_modelopt(config, opset, tmp_path) -> None:
    quantization: Any = imported("modelopt.torch.quantization")
    torch.manual_seed(0)
    model = quantization.quantize(Net().eval(), getattr(quantization, config), calls)
    path = tmp_path / "m.onnx"
    program = onnxport.export(
        model, torch.randn(INPUT), path, opset_version=opset, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    assert program.verification.passed and len(program.verification.cases) >= 3
    x = torch.randn(5, *INPUT[1:])
    with torch.no_grad():
        torch.testing.assert_close(run_as_written(path, x), model(x), rtol=0, atol=1e-5)
    assert stored_types(path) == {onnx.TensorProto.INT8} and "Cast" not in ops(path)
    assert ops(path).count("QuantizeLinear") == MODELOPT[config] and "BatchNormalization" not in ops(path)
    if config == "INT8_DEFAULT_CFG":
        assert "QLinearConv" in kernels(path, int8=True)


# linger


def test_linger(tmp_path) -> None:
    linger: Any = imported("linger", "; pylinger has its kernels compiled for Python 3.6 to 3.8")
    torch.manual_seed(0)
    model = calls(linger.init(Net(), mode=linger.QuantMode.QValue).train()).eval()
    onnxport.export(model, torch.randn(INPUT), tmp_path / "m.onnx", opset_version=12, verify=False)
    assert any("Int" in op for op in ops(tmp_path / "m.onnx"))
