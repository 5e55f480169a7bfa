"""Networks that move channels between branches, quantized by each source, with every axis but the channels dynamic."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport import quant
from tests.quant.models import FLOAT_KERNELS, kernels, run_as_written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.ao.quantization as ao
    from torch.ao.quantization import quantize_fx

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
AXES = {"x": {0: "n", 2: "h", 3: "w"}}


class Shuffle(nn.Module):
    """Two branches, of which one begins with a norm behind a layer whose sizes are read, and a channel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.right, self.last = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x):  # torch.jit.script does not take annotations of what FX traced
        x = torch.cat([F.relu(self.norm(self.left(x))), F.relu(self.right(x))], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        x, rest = x.chunk(2, 1)
        return (F.relu(self.last(x)) + rest).mean((2, 3))


def floats() -> nn.Module:
    torch.manual_seed(0)
    model = Shuffle().train()
    model(torch.randn(8, 3, 16, 16))
    return model.eval()


def by_fx(x: torch.Tensor, *, reference: bool = False) -> nn.Module:
    model = quantize_fx.prepare_fx(floats(), ao.get_default_qconfig_mapping("x86"), (x,))
    model(torch.randn(4, *x.shape[1:]))
    return (quantize_fx.convert_to_reference_fx if reference else quantize_fx.convert_fx)(model)


def by_onnxport(x: torch.Tensor) -> nn.Module:
    model = quant.init(floats())
    with quant.calibration(model):
        model(torch.randn(4, *x.shape[1:]))
    return model


def exported(model: nn.Module, x: torch.Tensor) -> nn.Module:
    """A program of torch.export as a module, which asks for sizes by operator."""
    n, h, w = (torch.export.Dim(name, min=1, max=64) for name in "nhw")
    return torch.export.export(model, (x,), dynamic_shapes=({0: n, 2: 2 * h, 3: 2 * w},)).module()


def by_pt2e(x: torch.Tensor) -> nn.Module:
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    model = pt2e.prepare_pt2e(exported(floats(), x), quantizer)
    model(torch.randn(4, *x.shape[1:]))
    pytest.importorskip("torchao.quantization.pt2e").move_exported_model_to_eval(model)
    return pt2e.convert_pt2e(model)


SOURCES = {
    "floats": lambda x: exported(floats(), x),
    "fx": by_fx,
    "fx reference": lambda x: by_fx(x, reference=True),
    "fx traced": lambda x: torch.jit.trace(by_fx(x), x),
    "fx scripted": lambda x: torch.jit.script(by_fx(x)),
    "onnxport": by_onnxport,
    "pt2e": by_pt2e,
}


@pytest.mark.parametrize("source", SOURCES)
def test_dynamic_batch_and_resolution(source: str, tmp_path: Path) -> None:
    x, path = torch.randn(2, 3, 16, 16), tmp_path / "m.onnx"
    model = SOURCES[source](x)
    with torch.no_grad():
        program = onnxport.export(model, x, path, input_names=["x"], dynamic_axes=AXES)
        assert program.verification.passed
        for size in ((1, 24, 16), (5, 16, 40), (3, 64, 32)):
            x = torch.randn(size[0], 3, *size[1:])
            expected, actual = model(x), run_as_written(path, x)
            assert actual.shape == expected.shape and actual.dtype == expected.dtype
            assert (actual - expected).abs().max() <= 0.03 * expected.abs().max()
    found = kernels(path)
    assert "BatchNormalization" not in found
    if source not in ("floats", "pt2e"):  # the quantizer of PT2E leaves the results of these layers in float
        assert found.count("QLinearConv") == 3 and not FLOAT_KERNELS & set(found), found
