"""Quantized models are judged part by part: right ones pass, and a wrong quantizer is found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport import compat
from onnxport.optimize import MoveQuantizers
from onnxport.verification.mismatch import Cause
from onnxport.verification.quantized import check, quantizers


class Deep(nn.Module):
    """Layers with quantizers between: one rounding that falls the other way is seen in all that follow."""

    def __init__(self, depth: int = 8, channels: int = 24) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)  # type: ignore[arg-type]
            layer.register_buffer("scale", layer.weight.detach().flatten(1).abs().amax(1) / 127)  # type: ignore[union-attr, operator]
            layer.register_buffer("zero", torch.zeros(channels, dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 128, 0, 255)
        for layer in self.layers:
            weight = torch.fake_quantize_per_channel_affine(layer.weight, layer.scale, layer.zero, 0, -127, 127)
            x = F.relu(F.conv2d(x, weight, layer.bias, padding=1))
            x = torch.fake_quantize_per_tensor_affine(x, 0.04, 0, 0, 127)
        return x.mean((2, 3))


@pytest.fixture
def example() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(2, 24, 20, 20)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(5)
    return Deep().eval()


def initializer(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in proto.graph.initializer if tensor.name == name)


def replaced(
    proto: onnx.ModelProto, node: onnx.NodeProto, place: int, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    content = change(numpy_helper.to_array(initializer(proto, node.input[place])).copy())
    name = f"changed_{node.name}_{place}"
    proto.graph.initializer.append(numpy_helper.from_array(np.asarray(content), name))
    node.input[place] = name


def by_percent(content: np.ndarray) -> np.ndarray:
    return (content * np.float32(1.01)).astype(np.float32)


def quantizer(proto: onnx.ModelProto, index: int) -> onnx.NodeProto:
    return [node for node in proto.graph.node if node.op_type == "QuantizeLinear"][index]


def weight(proto: onnx.ModelProto, index: int) -> onnx.NodeProto:
    stored = {tensor.name for tensor in proto.graph.initializer if len(tensor.dims) > 1}
    return [node for node in proto.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in stored][index]


def back(proto: onnx.ModelProto, index: int) -> onnx.NodeProto:
    """The DequantizeLinear behind a quantizer and its Clip."""
    name = quantizer(proto, index).output[0]
    while True:
        node = next(node for node in proto.graph.node if name in node.input)
        if node.op_type == "DequantizeLinear":
            return node
        name = node.output[0]


def without(proto: onnx.ModelProto, index: int) -> None:
    """A quantizer that is missing."""
    node, last = quantizer(proto, index), back(proto, index)
    for other in proto.graph.node:
        for place, name in enumerate(other.input):
            if name == last.output[0]:
                other.input[place] = node.input[0]
    proto.graph.node.remove(last)


WRONG = {
    "scale": lambda proto: replaced(proto, quantizer(proto, 3), 1, by_percent),
    "scale of the way back": lambda proto: replaced(proto, back(proto, 3), 1, by_percent),
    "zero point": lambda proto: replaced(proto, back(proto, 3), 2, lambda zero: zero + zero.dtype.type(1)),
    "weight scale": lambda proto: replaced(proto, weight(proto, 3), 1, by_percent),
    "weight integer": lambda proto: replaced(proto, weight(proto, 3), 0, lambda integers: np.roll(integers, 1, 2)),
    "missing": lambda proto: without(proto, 3),
}


def test_a_right_model_passes_and_the_report_says_how(model, example, tmp_path: Path) -> None:
    program = onnxport.export(model, example, tmp_path / "m.onnx", dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    found = program.verification
    assert found.passed and len(found.cases) >= 3 and all("9 quantizers" in case.parts for case in found.cases)
    again = onnxport.verify(tmp_path / "m.onnx", model, example)
    assert again.passed and {case.sizes["n"] for case in again.cases} > {2}
    assert "checked one by one" in str(again)


class FourBits(nn.Module):
    """Activations of 4 bits, which are cut where they are floats."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.fake_quantize_per_tensor_affine(torch.tanh(x @ WEIGHT), 0.13, 7, 0, 15)
        return x.sum(1)


WEIGHT = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 4


def test_activations_of_four_bits(tmp_path: Path) -> None:
    x = torch.randn(300, 64)
    found = onnxport.export(FourBits(), x, tmp_path / "m.onnx", opset_version=21).verification
    assert found.passed and "4 quantizers" in str(found)
    proto = onnx.load(tmp_path / "m.onnx")
    replaced(proto, quantizer(proto, 2), 1, by_percent)
    assert not onnxport.verify(proto.SerializeToString(), FourBits(), x).passed


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_quantizer_is_found(change, model, example, tmp_path: Path) -> None:
    onnxport.export(model, example, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    change(proto)
    onnx.save(proto, tmp_path / "wrong.onnx")
    found = onnxport.verify(tmp_path / "wrong.onnx", model, (example,))
    assert not found.passed and "integers of the quantizer" in str(found) and "test_quantized.py" in str(found)


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_an_export_of_a_wrong_quantizer_names_it(change, model, example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same faults in the file that an export checks: each is an error with the quantizer and its line."""
    read = check.read_model

    def spoilt(source: str | bytes) -> onnx.ModelProto:
        proto = read(source)
        change(proto)
        return proto

    monkeypatch.setattr(check, "read_model", spoilt)
    with pytest.raises(
        onnxport.VerificationError, match=r"first quantizer.*|fake_quantize_per_tensor_affine"
    ) as caught:
        onnxport.export(model, example)
    mismatch = caught.value.mismatch
    assert mismatch is not None and mismatch.cause is Cause.QUANTIZER
    assert "fake_quantize_per_tensor_affine" in (mismatch.operator or "")
    assert "test_quantized.py" in (mismatch.location or "")


def test_names_may_be_others(model, example, tmp_path: Path) -> None:
    """The quantizers are matched in order then."""
    onnxport.export(model, example, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    for node in proto.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if "antize" in name or "Clip" in name:
                    names[place] = f"other_{name}"
    assert "checked one by one" in str(onnxport.verify(proto.SerializeToString(), model, example))
    replaced(proto, quantizer(proto, 3), 1, by_percent)
    assert not onnxport.verify(proto.SerializeToString(), model, example).passed


def test_what_cannot_be_matched_is_judged_end_to_end(model, example, tmp_path: Path) -> None:
    onnxport.export(Deep(3).eval(), example, tmp_path / "m.onnx")
    found = onnxport.verify(tmp_path / "m.onnx", model, example)
    assert not found.passed and "end to end" in str(found) and "matched" in str(found)


class Wrong(nn.Module):
    """A quantizer whose translation is broken below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 128, 0, 255)
        return torch.fake_quantize_per_tensor_affine(torch.tanh(3 * x), 0.01, 128, 0, 255).sum(1)


def test_an_export_names_the_quantizer_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(self, model):
        scales = {node.inputs[1] for node in model.graph if node.op_type == "QuantizeLinear"}
        largest = min(scales, key=lambda value: float(value.const_value.numpy()))
        largest.const_value = ir.Tensor(largest.const_value.numpy() * np.float32(1.01), name=largest.name)
        return ir.passes.PassResult(model, modified=True)

    monkeypatch.setattr(MoveQuantizers, "call", spoil)
    with pytest.raises(onnxport.VerificationError) as caught:
        onnxport.export(Wrong(), torch.randn(4, 50))
    mismatch = caught.value.mismatch
    assert mismatch is not None and mismatch.cause is Cause.QUANTIZER
    assert "fake_quantize_per_tensor_affine" in (mismatch.operator or "")
    assert "test_quantized.py" in (mismatch.location or "") and "first quantizer" in str(caught.value)


@pytest.mark.parametrize("saturates", [False, True])
def test_only_integer_kernels_differ(saturates: bool, model, example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without VNNI that is a warning, else an error."""
    judged = check._judged

    calls: list[int] = []

    def count(match, rounding, integers):
        calls.append(1)
        wrong = {name: tensor + 2 for name, tensor in integers.items()}
        return judged(match, rounding, integers if (len(calls) - 1) % 18 < 9 else wrong)

    monkeypatch.setattr(check, "_judged", count)
    monkeypatch.setattr(compat, "integer_kernels_saturate", lambda: saturates)
    if saturates:
        with pytest.warns(onnxport.VerificationWarning, match="VNNI"):
            onnxport.export(model, example)
    else:
        with pytest.raises(onnxport.VerificationError, match="as ONNX Runtime optimises it"):
            onnxport.export(model, example)


class Rounded(torch.autograd.Function):
    """A quantizer of a user, who counts in parts of the largest number and not in steps of a scale."""

    @staticmethod
    def forward(ctx, x, largest):
        return torch.round(x * (127 / largest)).clamp(-128, 127) * (largest / 127)

    @staticmethod
    def symbolic(g, x, largest):
        scale = g.op("Constant", value_t=torch.tensor(largest / 127))
        zero = g.op("Constant", value_t=torch.tensor(0, dtype=torch.int8))
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)


class Floored(Rounded):
    """One whose translation rounds otherwise than it does."""

    @staticmethod
    def forward(ctx, x, largest):
        return torch.floor(x * (127 / largest)).clamp(-128, 127) * (largest / 127)


class OffScale(Rounded):
    """One whose translation has another scale."""

    @staticmethod
    def forward(ctx, x, largest):
        return Rounded.forward(ctx, x, 1.01 * largest)


class DeepOfTheUser(nn.Module):
    def __init__(self, *functions: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.functions = functions
        self.layers = nn.ModuleList(nn.Conv2d(24, 24, 3, padding=1) for _ in functions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for function, layer in zip(self.functions, self.layers, strict=True):
            weight = Rounded.apply(layer.weight, float(layer.weight.detach().abs().max()))
            x = F.conv2d(function.apply(x, 3.0), weight, layer.bias, padding=1)
        return Rounded.apply(x, 2.0)


@pytest.mark.parametrize("seed", range(3))
def test_quantizers_of_the_user_are_checked_one_by_one(seed, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    model, x = DeepOfTheUser(*[Rounded] * 9).eval(), torch.randn(2, 24, 20, 20)
    program = onnxport.export(model, x, tmp_path / "m.onnx")
    assert "10 quantizers checked one by one" in str(program.verification)
    assert onnxport.verify(tmp_path / "m.onnx", model, x).passed
    for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer:
        if len(tensor.dims) == 4:
            weight = dict(model.named_parameters())[tensor.name]
            largest = float(weight.detach().abs().max())
            expected = Rounded.apply(weight, largest).double() / (largest / 127)
            assert np.array_equal(numpy_helper.to_array(tensor), expected.detach().round().numpy())


@pytest.mark.parametrize("wrong", [Floored, OffScale])
def test_a_wrong_quantizer_of_the_user_is_found(wrong) -> None:
    torch.manual_seed(0)
    model = DeepOfTheUser(Rounded, Rounded, wrong, Rounded, Rounded).eval()
    with pytest.raises(onnxport.VerificationError) as caught:
        onnxport.export(model, torch.randn(2, 24, 20, 20))
    mismatch = caught.value.mismatch
    assert mismatch is not None and mismatch.cause is Cause.QUANTIZER
    assert "test_quantized.py" in (mismatch.location or "")


@pytest.mark.parametrize(("factor", "follows"), [(1 + 4e-7, True), (1.01, False)])
def test_a_graph_whose_kernels_round_otherwise_than_those_of_the_model(
    factor, follows, model, example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another layout in memory is another kernel: what follows from last bits is no fault of the capture, more is."""
    step = quantizers.Watching.step
    changed: list[str] = []

    def otherwise(self, node, arguments):
        results = step(self, node, arguments)
        if node.op != "aten::conv2d":
            return results
        changed.append(node.op)
        return [result * factor for result in results]

    monkeypatch.setattr(quantizers.Watching, "step", otherwise)
    if follows:
        assert "9 quantizers checked one by one" in str(onnxport.export(model, example).verification)
    else:
        with pytest.raises(onnxport.VerificationError):
            onnxport.export(model, example)
    assert changed


class WrittenOut(nn.Module):
    """Quantizers of a model's own: division, rounding, bounds, product. The scale of each follows from the tensor."""

    def __init__(self, depth: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(96, 96) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            scale = x.abs().amax(-1, keepdim=True) / 127
            x = torch.round(x / scale).clamp(-127, 127) * scale
            x = F.relu(layer(x)) + x / 2
        return x


@pytest.mark.parametrize("seed", range(2))
def test_quantizers_that_are_written_out(seed, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    model, x = WrittenOut().eval(), torch.randn(300, 96)
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    assert onnxport.verify(tmp_path / "m.onnx", model, x).passed
    proto = onnx.load(tmp_path / "m.onnx")
    rounds = [node for node in proto.graph.node if node.op_type == "Round"]
    step = next(node for node in proto.graph.node if node.output[0] == rounds[4].input[0])
    assert step.op_type == "Div"
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(1.01), "off"))
    wrong = onnx.helper.make_node("Mul", [step.input[1], "off"], ["wrong_scale"])
    proto.graph.node.insert(list(proto.graph.node).index(step), wrong)
    step.input[1] = "wrong_scale"
    found = onnxport.verify(proto.SerializeToString(), model, x)
    assert not found.passed and "integers of the quantizer" in str(found)


class Ties(nn.Module):
    """Numbers in the middle between two integers, which torch rounds after it added the zero point, and again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = torch.quantize_per_tensor(x, 0.125, 57, torch.quint8).dequantize()
        return torch.quantize_per_tensor(F.hardtanh(once, -6, 6), 0.125, 57, torch.quint8).dequantize()


def test_integers_are_those_of_torchs_kernels(tmp_path: Path) -> None:
    x = (torch.arange(-40, 40) + 0.5) * 0.125
    program = onnxport.export(Ties(), x, tmp_path / "m.onnx")
    assert program.verification is not None and program.verification.passed
    assert "2 quantizers checked one by one" in str(program.verification)
