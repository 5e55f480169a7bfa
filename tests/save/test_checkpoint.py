"""Weights in safetensors files: what the model's file refers to, what it holds, and what is refused."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

import onnxport

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64"}


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 48)
        self.norm = nn.BatchNorm1d(48)
        self.second = nn.Linear(48, 24, bias=False)
        self.register_buffer("scale", torch.full((24,), 2.0))

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.norm(self.first(x).transpose(-1, -2)).transpose(-1, -2)
        return self.second(torch.relu(hidden)) * self.scale


def save(tensors: Mapping[str, torch.Tensor], path: Path, padding: int = 0) -> None:
    """A safetensors file; ``padding`` bytes of its header move the data."""
    entries, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else b"\0" * 8
        entries[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8 + padding)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def models() -> tuple[Small, Small]:
    """A model, and the same on the meta device."""
    torch.manual_seed(0)
    model = Small().eval()
    with torch.device("meta"):
        return model, Small().eval()


def run(path: Any, x: torch.Tensor) -> torch.Tensor:
    session = ort.InferenceSession(path if isinstance(path, bytes) else str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


def external(path: Path) -> dict[str, str]:
    """The large initializers of a model and the file that each of them is in; empty for its own."""
    found = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        told = {entry.key: entry.value for entry in tensor.external_data}
        if told or len(tensor.raw_data) > 1024:
            found[tensor.name] = told.get("location", "")
    return found


def export(model: nn.Module, target: Any, **options: Any) -> onnxport.Program:
    axes = {"x": {0: "n", 1: "length"}}
    return onnxport.export(model, torch.randn(2, 5, 24), target, input_names=["x"], dynamic_axes=axes, **options)


def assert_same(model: nn.Module, path: Any) -> None:
    for size in ((2, 5), (1, 1), (4, 3)):
        x = torch.randn(*size, 24)
        torch.testing.assert_close(run(path, x), model(x), rtol=1e-4, atol=1e-5)


def test_buffers_and_rows_of_three_dimensions(tmp_path: Path) -> None:
    model, empty = models()
    save(model.state_dict(), tmp_path / "w.safetensors")
    program = export(empty, tmp_path / "m.onnx", weights=tmp_path / "w.safetensors")
    assert program.verification.passed
    assert external(tmp_path / "m.onnx") == dict.fromkeys(("first.weight", "second.weight"), "w.safetensors")
    assert_same(model, tmp_path / "m.onnx")


def test_several_files_with_an_index_in_a_folder_below(tmp_path: Path) -> None:
    model, empty = models()
    state, folder = model.state_dict(), tmp_path / "weights"
    folder.mkdir()
    parts = {"a.safetensors": ["first.weight"], "b.safetensors": [name for name in state if name != "first.weight"]}
    for file, names in parts.items():
        save({name: state[name] for name in names}, folder / file)
    index = {"weight_map": {name: file for file, names in parts.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    export(empty, tmp_path / "m.onnx", weights=folder)
    found = external(tmp_path / "m.onnx")
    assert found == {"first.weight": "weights/a.safetensors", "second.weight": "weights/b.safetensors"}
    assert_same(model, tmp_path / "m.onnx")
    (folder / "b.safetensors").unlink()
    with pytest.raises(onnxport.ExportError, match=r"b\.safetensors"):
        export(empty, tmp_path / "m.onnx", weights=folder)


def test_a_model_cannot_refer_to_another_folder(tmp_path: Path) -> None:
    model, empty = models()
    for name in ("weights", "out"):
        (tmp_path / name).mkdir()
    file = tmp_path / "weights" / "model.safetensors"
    save(model.state_dict(), file)
    with pytest.raises(onnxport.ExportError, match="external_data=True"):
        export(empty, tmp_path / "out" / "m.onnx", weights=file)
    assert not list((tmp_path / "out").iterdir())
    export(empty, tmp_path / "out" / "m.onnx", weights=file, external_data=True)
    assert set(external(tmp_path / "out" / "m.onnx").values()) == {"m.onnx.data"}
    assert_same(model, tmp_path / "out" / "m.onnx")


def test_one_file_and_streams_hold_a_copy(tmp_path: Path) -> None:
    model, empty = models()
    file = tmp_path / "model.safetensors"
    save(model.state_dict(), file)
    export(empty, tmp_path / "m.onnx", weights=file, external_data=False)
    assert set(external(tmp_path / "m.onnx").values()) == {""}
    assert_same(model, tmp_path / "m.onnx")
    stream = io.BytesIO()
    export(empty, stream, weights=tmp_path)
    assert_same(model, stream.getvalue())
    program = export(empty, None, weights=tmp_path)
    x = torch.randn(3, 2, 24)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_data_that_begins_anywhere_is_copied(tmp_path: Path) -> None:
    """Elements of four bytes can be used at multiples of four alone."""
    model, empty = models()
    save(model.state_dict(), tmp_path / "model.safetensors", padding=3)
    assert export(empty, tmp_path / "m.onnx", weights=tmp_path).verification.passed
    assert set(external(tmp_path / "m.onnx").values()) == {""}
    assert_same(model, tmp_path / "m.onnx")


def test_weights_with_content_stay_as_they_are(tmp_path: Path) -> None:
    """They are referred to where the file has the same."""
    model, _ = models()
    save(model.state_dict(), tmp_path / "model.safetensors")
    with torch.no_grad():
        model.second.weight.add_(1)
    export(model, tmp_path / "m.onnx", weights=tmp_path)
    assert external(tmp_path / "m.onnx") == {"first.weight": "model.safetensors", "second.weight": ""}
    assert_same(model, tmp_path / "m.onnx")


def test_what_a_model_writes_to_its_weights_is_not_in_the_file(tmp_path: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(24, 24)
            self.register_buffer("calls", torch.zeros(400))

        def forward(self, x: torch.Tensor) -> Any:
            self.calls += 1
            return self.layer(x) + self.calls[0]

    model = Counting().eval()
    with torch.device("meta"):
        empty = Counting().eval()
    file = tmp_path / "model.safetensors"
    save(model.state_dict(), file)
    before = file.read_bytes()
    export(empty, tmp_path / "m.onnx", weights=file, verify=True)
    assert file.read_bytes() == before
    x = torch.randn(1, 2, 24)
    torch.testing.assert_close(run(tmp_path / "m.onnx", x), model.layer(x) + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_stay_too(dtype: torch.dtype, tmp_path: Path) -> None:
    layer = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(dtype).eval()
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(dtype).eval()
    save(layer.state_dict(), tmp_path / "model.safetensors")
    x = torch.randn(2, 3, 64, dtype=dtype)
    program = onnxport.export(empty, x, tmp_path / "m.onnx", weights=tmp_path, dynamic_axes={"input": {0: "n"}})
    assert program.verification.passed
    assert external(tmp_path / "m.onnx") == dict.fromkeys(("0.weight", "2.weight"), "model.safetensors")


def test_a_runner_gets_the_weights(tmp_path: Path) -> None:
    model, empty = models()
    save(model.state_dict(), tmp_path / "model.safetensors")
    seen = []

    def runner(proto: onnx.ModelProto, inputs: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        seen.append({tensor.name: len(tensor.raw_data) for tensor in proto.graph.initializer})
        return [model(torch.from_numpy(inputs["x"])).detach().numpy()]

    assert export(empty, tmp_path / "m.onnx", weights=tmp_path, verify=runner).verification.passed
    assert seen[0]["first.weight"] == 24 * 48 * 4


@pytest.mark.parametrize(
    ("weights", "options", "said"),
    [
        (3, {}, "weights"),
        ("w.safetensors", {"export_params": False}, "export_params"),
        (".", {}, "safetensors"),
    ],
)
def test_arguments_that_are_wrong(weights: Any, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    _, empty = models()
    given = tmp_path / weights if isinstance(weights, str) else weights
    with pytest.raises(onnxport.OptionError, match=said):
        export(empty, tmp_path / "m.onnx", weights=given, **options)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4.0]},
        [],
        None,
    ],
)
def test_a_damaged_header_names_file_and_tensor(entry: Any, tmp_path: Path) -> None:
    _, empty = models()
    text = json.dumps({"first.weight": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))
    with pytest.raises(onnxport.OptionError, match=r"model\.safetensors.*first\.weight"):
        export(empty, tmp_path / "m.onnx", weights=tmp_path)


def test_another_dtype_is_named(tmp_path: Path) -> None:
    model, empty = models()
    save(model.half().state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(onnxport.OptionError, match=r"first\.weight is torch\.float16, and torch\.float32"):
        export(empty, tmp_path / "m.onnx", weights=tmp_path)


def test_a_buffer_that_no_file_has_is_told_as_such(tmp_path: Path) -> None:
    model, empty = models()
    save(model.state_dict(), tmp_path / "model.safetensors")
    empty.register_buffer("table", torch.zeros(3, device="meta"), persistent=False)
    with pytest.raises(onnxport.OptionError, match="table is a buffer that is not saved"):
        export(empty, tmp_path / "m.onnx", weights=tmp_path)
