"""External data: the second file, its offsets, and when it comes about."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from onnx.external_data_helper import ExternalDataInfo

from onnxport.errors import SaveError
from onnxport.save import proto, stage
from tests.save.models import identity_model, linear_model, run


def save(model: ir.Model, path: Path, external_data: bool | None = True) -> None:
    with stage(model, path, external_data) as staged:
        staged.commit()


@pytest.fixture
def model() -> ir.Model:
    return linear_model(torch.randn(64, 32), torch.randn(32))


def test_runs_staged_and_in_place(model: ir.Model, tmp_path: Path) -> None:
    x = np.ones((2, 64), np.float32)
    path = tmp_path / "model.onnx"
    with stage(model, path, external_data=True) as staged:
        before = run(staged.source, x)
        staged.commit()
    np.testing.assert_array_equal(run(str(path), x), before)
    onnx.checker.check_model(str(path), full_check=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]


def test_large_initializers_go_outside_and_small_ones_stay(model: ir.Model, tmp_path: Path) -> None:
    save(model, tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    bias, weight = loaded.graph.initializer
    assert bias.data_location == onnx.TensorProto.DEFAULT
    assert weight.data_location == onnx.TensorProto.EXTERNAL
    info = ExternalDataInfo(weight)
    assert (info.location, info.offset, info.length) == ("model.onnx.data", 0, 64 * 32 * 4)


def test_no_file_without_content(tmp_path: Path) -> None:
    save(identity_model({"w": torch.ones(3)}), tmp_path / "model.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_offsets_are_aligned(tmp_path: Path) -> None:
    tensors = {"odd": torch.ones(1501, dtype=torch.int8), "small": torch.arange(1000), "page": torch.ones(2**18)}
    save(identity_model(tensors), tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    offsets = [ExternalDataInfo(tensor).offset for tensor in loaded.graph.initializer]
    assert offsets == [0, 1536, 12288]
    for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), tensors[tensor.name].numpy())


def test_same_model_gives_same_bytes(model: ir.Model, tmp_path: Path) -> None:
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        save(model, folder / "model.onnx")
        contents.append([file.read_bytes() for file in sorted(folder.iterdir())])
    assert contents[0] == contents[1]


@pytest.mark.parametrize(("limit", "names"), [(10**6, ["model.onnx"]), (2000, ["model.onnx", "model.onnx.data"])])
def test_the_size_decides(
    limit: int, names: list[str], model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proto, "SIZE_LIMIT", limit)
    save(model, tmp_path / "model.onnx", external_data=None)
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_one_file_insisted_on_is_an_error_above_the_limit(
    model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proto, "SIZE_LIMIT", 2000)
    with pytest.raises(SaveError, match="external data"):
        stage(model, tmp_path / "model.onnx", external_data=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", [io.BytesIO(), None])
def test_a_stream_has_no_place_for_it(
    target: io.BytesIO | None, model: ir.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SaveError, match="give a path"):
        stage(model, target, external_data=True)
    monkeypatch.setattr(proto, "SIZE_LIMIT", 2000)
    with pytest.raises(SaveError, match="save it to a path"):
        stage(model, target)


def test_a_loaded_model_may_be_saved_over_itself(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save(model, path)
    contents = [file.read_bytes() for file in sorted(tmp_path.iterdir())]
    save(ir.load(path), path)
    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == contents


def test_data_of_an_earlier_export_is_left_alone(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save(model, path)
    save(model, path, external_data=False)
    assert (tmp_path / "model.onnx.data").exists()
    assert run(str(path), np.ones((1, 64), np.float32)).shape == (1, 32)


def test_a_folder_in_the_way_of_the_data_leaves_the_old_model(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    (tmp_path / "model.onnx.data").mkdir()
    with stage(model, path, external_data=True) as staged, pytest.raises(SaveError, match=r"model\.onnx"):
        staged.commit()
    assert path.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
