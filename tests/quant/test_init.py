"""A float model that is quantized in one line, trained or calibrated, and exported."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from onnx import TensorProto
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport import quant
from tests.quant.models import FLOAT_KERNELS, Blocks, kernels, ops, run, stored_types, trained


def agrees(model: nn.Module, path: Path, x: torch.Tensor) -> None:
    """The file gives what the model gives, but for a few roundings that fall the other way."""
    with torch.no_grad():
        expected = model(x)
    (actual,) = run(path, x)
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert (actual - expected).abs().max() <= 0.03 * expected.abs().max()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"symmetric": True},
        {"per_channel": False},
        {"power_of_two": True},
        {"observer": "percentile"},
        {"weight_bits": 4},
        {"target": "tensorrt"},
        {"activation_bits": None},
    ],
    ids=str,
)
def test_every_setting_trains_and_is_exported(settings, tmp_path):
    model = trained(quant.init(Blocks(), **settings), 4, 2, 9, 9)
    path = tmp_path / "m.onnx"
    program = onnxport.export(model, torch.randn(2, 2, 9, 9), path, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    assert program.verification.passed
    assert stored_types(path) == {TensorProto.INT8} and "BatchNormalization" not in ops(path)
    agrees(model, path, torch.randn(3, 2, 9, 9))


def test_integer_kernels_run(tmp_path):
    model = trained(quant.init(Blocks()), 4, 2, 9, 9)
    onnxport.export(model, torch.randn(2, 2, 9, 9), tmp_path / "m.onnx")
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and found.count("QLinearConv") == 3
    assert {"QLinearAdd", "QLinearMul", "QLinearConcat"} <= set(found), found


class Standardized(nn.Conv2d):
    """A convolution whose weight is computed from its parameter in several steps, more than one of which reads it."""

    def forward(self, x):
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, w, self.bias)


@pytest.mark.parametrize("layer", [nn.Conv2d, Standardized])
@pytest.mark.parametrize("channels", [7, 300, 2100])
def test_wide_layers_are_integers_too(layer, channels, tmp_path):
    """The norm of a wide layer is computed from more than what may be added to a file otherwise."""
    torch.manual_seed(0)
    model = nn.Sequential(layer(3, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), layer(channels, 4, 1))
    model.append(nn.Flatten()).append(nn.Linear(100, 3))
    model = trained(quant.init(model), 4, 3, 5, 5, steps=1)
    assert onnxport.export(model, torch.randn(2, 3, 5, 5), tmp_path / "m.onnx").verification.passed
    assert stored_types(tmp_path / "m.onnx") == {TensorProto.INT8}
    found = kernels(tmp_path / "m.onnx")
    assert not FLOAT_KERNELS & set(found) and found.count("QLinearConv") == 2 and "QGemm" in found, found


def test_tensorrt_gets_no_zero_points_and_float_biases(tmp_path):
    model = trained(quant.init(Blocks(), target="tensorrt"), 4, 2, 9, 9)
    onnxport.export(model, torch.randn(2, 2, 9, 9), tmp_path / "m.onnx")
    found = quant.tensors(tmp_path / "m.onnx", torch.randn(2, 2, 9, 9))
    assert all(not tensor.zero_point.any() and tensor.integers.dtype == "int8" for tensor in found.values())


def test_learned_scales_are_parameters_that_move(tmp_path):
    x = torch.randn(4, 2, 9, 9)
    model = quant.init(Blocks().train(), observer="learned", example=x)
    before = {name: p.clone() for name, p in model.named_parameters() if name.endswith(".scale")}
    trained(model, 4, 2, 9, 9, rate=1e-4)
    after = dict(model.named_parameters())
    assert before and any(not torch.equal(after[name], old) for name, old in before.items())
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    agrees(model, tmp_path / "m.onnx", x)


def test_one_quantizer_rounds_a_tensor_and_learns_only_where_it_should():
    model = quant.init(Blocks())
    model.eval()(torch.randn(1, 2, 9, 9))
    names = set(model.quantizers.named())
    assert {"stem.0.input", "left.0.input", "add.0", "mul.1", "cat.0", "head.input", "head.weight"} <= names
    assert "gate.input" not in names and "add.1" not in names  # the tensors that left.0 reads
    assert not any(quantizer.has_data for quantizer in model.quantizers.named().values())
    with quant.calibration(model):
        model(torch.randn(1, 2, 9, 9))
    first = model.quantizers.named()["stem.0.input"].scale.clone()
    model(100 * torch.randn(1, 2, 9, 9))
    assert torch.equal(model.quantizers.named()["stem.0.input"].scale, first)
    model.train()(100 * torch.randn(4, 2, 9, 9))
    assert model.quantizers.named()["stem.0.input"].scale > first


def test_copies_pickles_and_checkpoints(tmp_path):
    x = torch.randn(2, 2, 9, 9)
    model = trained(quant.init(Blocks()), 4, 2, 9, 9)
    expected = model(x)
    content = io.BytesIO()
    torch.save(model, content)
    content.seek(0)
    loaded = torch.load(content, weights_only=False)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert torch.equal(twin(x), expected)
        twin.train()(50 * x)
    assert torch.equal(model(x), expected)
    model.load_state_dict(Blocks().state_dict())  # a float checkpoint has nothing for quantizers
    fresh = quant.init(Blocks()).eval()
    fresh.load_state_dict(trained(quant.init(Blocks()), 4, 2, 9, 9).state_dict())
    assert onnxport.export(fresh, x, tmp_path / "m.onnx").verification.passed


def test_remove_gives_the_float_model_back():
    model, x = Blocks().eval(), torch.randn(2, 2, 9, 9)
    expected, keys = model(x), list(model.state_dict())
    quant.init(model)
    with quant.calibration(model):
        assert not torch.equal(model(x), expected)
    assert quant.remove(model) is model and torch.equal(model(x), expected) and list(model.state_dict()) == keys
    quant.init(model)


def test_settings_by_part_by_type_and_from_files(tmp_path):
    config = tmp_path / "quant.yaml"
    config.write_text("weight_bits: 4\nskip: [head]\nparts:\n  gate: {weight_bits: 8}\n", encoding="utf-8")
    for given in (config, str(config), {"weight_bits": 4, "skip": ["head"], "parts": {"gate": {"weight_bits": 8}}}):
        model = trained(quant.init(Blocks(), config=given), 4, 2, 9, 9, steps=1)
        grids = {name: quantizer.grid for name, quantizer in model.quantizers.named().items()}
        assert grids["stem.0.weight"].high == 7 and grids["gate.weight"].high == 127 and "head.weight" not in grids
    model = trained(quant.init(Blocks(), skip=[nn.Conv2d]), 4, 2, 9, 9, steps=1)
    assert {name for name in model.quantizers.named() if name.endswith("weight")} == {"head.weight"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"observer": "best"}, "observer"),
        ({"observer": "learned"}, "example"),
        ({"target": "npu"}, "target"),
        ({"group": 1}, "group"),
        ({"per_channel": 1}, "per_channel"),
        ({"parts": {"gate": {"bits": 4}}}, "bits"),
        ({"config": {"weights": 4}}, "weights"),
        ({"activation_bits": True}, "activation_bits"),
        ({"skip": ["stem.9"]}, "stem.9"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_named(wrong, named):
    with pytest.raises(ValueError, match=named):
        quant.init(Blocks(), **wrong)
    with pytest.raises(ValueError, match=r"quant\.init"):
        quant.report(Blocks(), torch.randn(1, 2, 9, 9))


def test_an_error_in_the_model_leaves_nothing_behind():
    model = quant.init(Blocks())
    with pytest.raises(RuntimeError):
        model(torch.randn(1, 5, 9, 9))
    a = torch.randn(3)
    assert torch.equal(a + a, 2 * a) and not model.quantizers.named().get("add.0")
    model(torch.randn(2, 2, 9, 9))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(20, 6), nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, ids):
        return self.out(self.lstm(self.embedding(ids))[0])


def test_embeddings_and_recurrent_layers_store_integers(tmp_path):
    model = quant.init(Recurrent().eval())
    ids = torch.randint(0, 20, (2, 7))
    with quant.calibration(model), torch.no_grad():
        model(ids)
    onnxport.export(model, ids, tmp_path / "m.onnx", input_names=["ids"], dynamic_axes={"ids": {1: "t"}})
    agrees(model, tmp_path / "m.onnx", torch.randint(0, 20, (2, 4)))
    assert {"embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0"} <= set(model.quantizers.named())


def test_attention_is_quantized_inside(tmp_path):
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()
    quant.init(model)
    x = torch.randn(2, 5, 16)
    with quant.calibration(model), torch.no_grad():
        model(x)
    assert {"self_attn.input", "linear1.input", "linear2.weight"} <= set(model.quantizers.named())
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    found = kernels(tmp_path / "m.onnx")
    assert found.count("QGemm") == 4 and not {"Gemm", "MatMul"} & set(found), found


def test_constrained_training_then_quantization():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv1d(2, 4, 3), nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(F.relu(self.conv(x)).mean(2))

    model, x = Net(), torch.randn(3, 2, 8)
    with torch.no_grad():
        model.conv.weight[0, 0, 0] = 100.0
    quant.constrain(model, activations=0.5)
    assert model.conv(x).abs().max() <= 0.5 and model.conv.weight.max() < 100
    with pytest.raises(ValueError, match="already"):
        quant.constrain(model)
    clamped = model.conv.weight.detach().clone()
    assert torch.equal(quant.init(model).conv.weight, clamped)
    with pytest.raises(ValueError, match="weight_factor"):
        quant.constrain(Net(), weight_factor=-1.0)


def test_the_report_names_the_layer_that_loses_most():
    model = quant.init(Blocks().eval(), parts={"gate": {"weight_bits": 2}})
    x = torch.randn(4, 2, 9, 9)
    with quant.calibration(model):
        model(x)
    before = model(x)
    losses = quant.report(model, x)
    assert losses[0].layer == "gate" and losses[0].loss > 2 * losses[1].loss > 0
    assert torch.equal(model(x), before)


def test_the_integers_of_a_file_are_those_of_the_model(tmp_path):
    model = trained(quant.init(Blocks()), 4, 2, 9, 9)
    x = torch.randn(2, 2, 9, 9)
    onnxport.export(model, x, tmp_path / "m.onnx", input_names=["x"])
    quantizer = model.quantizers.named()["stem.0.input"]
    expected = torch.quantize_per_tensor(x, float(quantizer.scale), int(quantizer.zero_point), torch.quint8).int_repr()
    for given in (x, (x,), {"x": x.numpy()}):
        found = quant.tensors(tmp_path / "m.onnx", given)
        first = next(tensor for tensor in found.values() if tensor.integers.shape == x.shape)
        assert torch.equal(torch.from_numpy(first.integers), expected)
        assert first.scale == quantizer.scale.numpy() and first.axis is None
    with pytest.raises(ValueError, match="x"):
        quant.tensors((tmp_path / "m.onnx").read_bytes(), {})


def test_it_is_loaded_when_it_is_asked_for_and_needs_neither_torch_ao_nor_torchao():
    code = (
        "import sys, torch, onnxport; assert 'onnxport.quant' not in sys.modules; before = set(sys.modules);"
        "onnxport.quant.init; new = set(sys.modules) - before;"
        "assert not [name for name in new if name.startswith(('torch.ao', 'torchao'))], new"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Weights(nn.Module):
    """Layers whose weights are computed in steps that runtimes round otherwise than torch."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(96, 96) for _ in range(6))
        self.gain = nn.Parameter(torch.rand(96) + 0.5)

    def forward(self, x):
        for layer in self.layers:
            weight = F.batch_norm(layer.weight[None], None, None, self.gain, training=True)[0] / 10
            x = F.relu(F.linear(x, weight, layer.bias))
        return x


@pytest.mark.parametrize("seed", range(3))
def test_computed_weights_are_rounded_as_torch_rounds_them(seed, tmp_path):
    torch.manual_seed(seed)
    model, x = quant.init(Weights().eval()), torch.randn(8, 96)
    with quant.calibration(model), torch.no_grad():
        model(x)
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    assert stored_types(tmp_path / "m.onnx") == {TensorProto.INT8}


def test_a_run_asks_the_same_quantizers_each_time():
    """Quantizers replace their tensors while they learn: what follows in memory is something else."""
    model, x = quant.init(Blocks().eval()), torch.randn(2, 2, 9, 9)
    asked: list[list[str]] = []
    with quant.calibration(model), torch.no_grad():
        model(x)
        for name, quantizer in model.quantizers.named().items():
            quantizer.register_forward_hook(lambda *_, name=name: asked[-1].append(name))
        for _ in range(30):
            asked.append([])
            model(torch.randn(2, 2, 9, 9))
    assert len(asked[0]) == len(set(asked[0])) > 8 and all(names == asked[0] for names in asked)
    assert set(model.quantizers.named()) == set(asked[0])


class AddedProducts(nn.Module):
    """Linear layers as GPT-2 has them: torch.addmm with weights whose rows are inputs."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(12, 20)), nn.Parameter(torch.randn(20))
        self.head = nn.Parameter(torch.randn(20, 5))

    def forward(self, x):
        x = F.relu(torch.addmm(self.bias, x, self.weight))
        return torch.addmm(x[:, :5], x, self.head, alpha=0.5)


def test_products_that_something_is_added_to(tmp_path):
    torch.manual_seed(0)
    model, x = quant.init(AddedProducts().eval()), torch.randn(6, 12)
    with quant.calibration(model), torch.no_grad():
        model(x)
    assert set(model.quantizers.named()) == {"input", "weight", "input_1", "head"}
    assert onnxport.export(model, x, tmp_path / "m.onnx").verification.passed
    assert stored_types(tmp_path / "m.onnx") == {TensorProto.INT8}
    assert "QGemm" in kernels(tmp_path / "m.onnx")
    agrees(model, tmp_path / "m.onnx", torch.randn(6, 12))
