"""The outline of a written model: what ONNX Runtime makes of weights that it maps from the same file."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
import torch

from onnxport.save import serialize, stage
from onnxport.save.outline import outline
from onnxport.save.proto import LargeInitializer
from onnxport.verification.runtime import Session
from tests.save.models import identity_model, linear_model

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int64, torch.uint8]


def written(path: Path, weights: dict[str, torch.Tensor]) -> onnx.ModelProto:
    """The outline of a model with these weights."""
    path.write_bytes(serialize(identity_model(weights)))
    found = outline(str(path))
    assert found is not None
    return onnx.ModelProto.FromString(found.message)


@pytest.mark.parametrize("name", ["w", "layer.weight", "a_longer_name_of_a_weight"])
@pytest.mark.parametrize("count", [257, 5_001, 70_000, 600_001])
def test_data_begins_where_it_can_be_mapped(count: int, name: str, tmp_path: Path) -> None:
    weights = {f"{name}{i}": torch.rand(count + i).to(dtype) for i, dtype in enumerate(DTYPES)}
    for tensor in written(tmp_path / "m.onnx", weights).graph.initializer:
        data = (tmp_path / "m.onnx").read_bytes()
        found = {entry.key: entry.value for entry in tensor.external_data}
        if len(found) == 0:
            assert len(tensor.raw_data) <= 1024
            continue
        offset, length = int(found["offset"]), int(found["length"])
        assert found["location"] == "m.onnx" and offset % 8 == 0
        expected = weights[tensor.name].view(torch.uint8).numpy().tobytes()
        assert data[offset : offset + length] == expected


@pytest.mark.parametrize("padding", range(9))
def test_every_reader_takes_the_padding(padding: int) -> None:
    """A number of 32 bits has five bytes at most, one of 64 bits ten."""
    header = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2**42 - 1, 3])
    plain, padded = (LargeInitializer(header, ir.tensor([0.0]), 0, size) for size in (0, padding))
    assert len(padded.front) == len(plain.front) + padding
    graph = onnx.GraphProto.FromString(padded.front)
    assert list(graph.initializer[0].dims) == [2**42 - 1, 3] and graph.initializer[0].data_type == header.data_type
    numbers = re.findall(rb"[\x80-\xff]*[\x00-\x7f]", padded.front)
    type_number = numbers[numbers.index(bytes([onnx.TensorProto.DATA_TYPE_FIELD_NUMBER << 3])) + 1]
    assert len(type_number) <= 5 and max(map(len, numbers)) <= 10


@pytest.mark.parametrize("nbytes", [2**14 - 20, 2**21 - 20])
def test_lengths_that_grow_with_the_padding(nbytes: int, tmp_path: Path) -> None:
    """The length of an initializer is itself a byte longer from some size on."""
    for extra in range(24):
        weights = {"a": torch.rand(400), "b": torch.zeros(nbytes + extra, dtype=torch.int8), "c": torch.rand(400)}
        file = tmp_path / "m.onnx"
        tensors = written(file, weights).graph.initializer
        loaded = {tensor.name: tensor for tensor in onnx.load(file).graph.initializer}
        for tensor in tensors:
            assert loaded[tensor.name].raw_data == weights[tensor.name].numpy().tobytes()
            assert all(int(entry.value) % 8 == 0 for entry in tensor.external_data if entry.key == "offset")


@pytest.mark.parametrize("external", [False, True])
def test_it_computes_what_the_file_computes(tmp_path: Path, *, external: bool) -> None:
    weight, bias, x = torch.randn(64, 32), torch.randn(32), torch.randn(3, 64)
    with stage(linear_model(weight, bias), tmp_path / "m.onnx", external) as staged:
        staged.commit()
    (result,) = Session(tmp_path / "m.onnx").run({"x": x})
    torch.testing.assert_close(result, x @ weight + bias)


def test_data_elsewhere_stays_in_the_message(tmp_path: Path) -> None:
    """A file of another writer, whose data does not begin at multiples of eight."""
    weight, bias, x = torch.randn(64, 32), torch.randn(32), torch.randn(3, 64)
    for name in ("w", "we", "wei", "weig", "weigh", "weight", "weights", "weights1"):
        proto = onnx.ModelProto.FromString(serialize(linear_model(weight, bias)))
        proto.producer_name = name
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        (result,) = Session(tmp_path / "m.onnx").run({"x": x})
        torch.testing.assert_close(result, x @ weight + bias)


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x08\x3a\xff\xff\xff\x7f", bytes(100), b"\x0b" * 9])
def test_what_is_no_model_has_no_outline(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    found = outline(str(tmp_path / "m.onnx"))
    assert found is None or found.external_bytes == 0
    assert outline(str(tmp_path / "missing.onnx")) is None


def test_sizes_are_counted(tmp_path: Path) -> None:
    model = identity_model({"w": torch.zeros(3000), "small": torch.zeros(3)})
    for external in (False, True):
        with stage(model, tmp_path / "m.onnx", external) as staged:
            staged.commit()
        found = outline(str(tmp_path / "m.onnx"))
        assert found is not None and found.external_bytes == 12_000
