"""Targets that are refused before any work is done, each with its reason."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from onnxport.errors import OptionTypeError, SaveError
from onnxport.save import check_target, stage
from tests.save.models import identity_model


def assert_refused(target: Any, reason: str) -> None:
    with pytest.raises(SaveError, match=reason):
        check_target(target)
    with pytest.raises(SaveError, match=reason):
        stage(identity_model({"w": torch.ones(1)}), target)


@pytest.mark.parametrize("target", [None, io.BytesIO(), "/dev/null"])
def test_accepted(target: Any) -> None:
    check_target(target)


def test_paths_are_accepted_and_not_created(tmp_path: Path) -> None:
    check_target(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_missing_folder(tmp_path: Path) -> None:
    assert_refused(tmp_path / "missing" / "model.onnx", r"missing/model\.onnx: the folder .*missing does not exist")


def test_folder_as_target(tmp_path: Path) -> None:
    assert_refused(tmp_path, "it is a folder")
    assert_refused(".", "it is a folder")
    assert_refused(f"{tmp_path}/new/", "it names a folder")
    assert_refused("", "it names a folder")


def test_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(tmp_path / "file" / "model.onnx", "file is not a folder")
    assert_refused(tmp_path / "file" / "deeper" / "model.onnx", "does not exist")


def test_link_that_leads_nowhere_or_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "nowhere.onnx").symlink_to(tmp_path / "missing" / "model.onnx")
    (tmp_path / "circle.onnx").symlink_to(tmp_path / "circle.onnx")
    assert_refused(tmp_path / "nowhere.onnx", "missing does not exist")
    assert_refused(tmp_path / "circle.onnx", "symbolic links")


@pytest.mark.parametrize(("denied", "reason"), [("folder", "folder .* is not writable"), ("file", "is read-only")])
def test_no_permission(denied: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is a given one."""
    target = tmp_path / "model.onnx"
    target.write_bytes(b"old")
    protected = tmp_path if denied == "folder" else target
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != protected)
    assert_refused(target, reason)
    assert target.read_bytes() == b"old"


def test_a_folder_that_only_refuses_when_it_is_written_to() -> None:
    with pytest.raises(SaveError, match=r"/proc/model\.onnx: "):
        stage(identity_model({"w": torch.ones(1)}), "/proc/model.onnx")


def test_files_that_do_not_take_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with open(path, "w") as text, pytest.raises(OptionTypeError, match="text mode"):
        check_target(text)  # type: ignore[arg-type]
    with open(path, "rb") as reading:
        assert_refused(reading, "not open for writing")
    assert_refused(reading, "it is closed")


@pytest.mark.parametrize("target", [3, object(), [b"model.onnx"]], ids=["int", "object", "list"])
def test_no_target_at_all(target: Any) -> None:
    with pytest.raises(OptionTypeError, match=type(target).__name__):
        check_target(target)


def test_a_stream_that_fails() -> None:
    class Broken(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise OSError(28, "No space left on device")

    with stage(identity_model({"w": torch.ones(1)}), Broken()) as staged, pytest.raises(SaveError, match="No space"):
        staged.commit()
