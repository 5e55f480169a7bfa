"""The transaction: whatever happens, the target is the old file or the new one, and nothing is left beside it."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch

from onnxport.errors import SaveError
from onnxport.save import serialize, stage
from onnxport.save import staging as staging_module
from tests.save.models import identity_model, linear_model, python, run

pytestmark = pytest.mark.filterwarnings("error::ResourceWarning")


@pytest.fixture
def model() -> ir.Model:
    return linear_model(torch.randn(64, 32), torch.randn(32))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    return path


def assert_untouched(target: Path) -> None:
    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]


def test_nothing_is_visible_before_the_commit(model: ir.Model, target: Path) -> None:
    with stage(model, target) as staged:
        assert target.read_bytes() == b"old"
        assert staged.path is not None
        assert staged.path.name == target.name
        assert staged.data is None
        assert run(staged.source, np.ones((1, 64), np.float32)).shape == (1, 32)
        staged.commit()
    assert target.read_bytes() == serialize(model)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("external_data", [False, True])
def test_leaving_without_commit_discards(external_data: bool, model: ir.Model, target: Path) -> None:
    with stage(model, target, external_data):
        pass
    assert_untouched(target)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_discards(error: type[BaseException], model: ir.Model, target: Path) -> None:
    with pytest.raises(error), stage(model, target):
        raise error
    assert_untouched(target)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_an_exception_while_writing_discards(
    error: BaseException, model: ir.Model, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(staging_module, "write_message", fail)
    with pytest.raises(SaveError if isinstance(error, OSError) else KeyboardInterrupt):
        stage(model, target)
    assert_untouched(target)


def test_an_error_of_the_commit_discards(model: ir.Model, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    staged = stage(model, target)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SaveError, match=r"model\.onnx: Input/output error"):
        staged.commit()
    assert_untouched(target)


def test_a_model_is_committed_once(model: ir.Model, target: Path) -> None:
    staged = stage(model, target)
    staged.commit()
    with pytest.raises(ValueError, match="already"):
        staged.commit()
    staged.discard()
    assert target.read_bytes() == serialize(model)


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_kinds_of_paths(kind: type, model: ir.Model, tmp_path: Path) -> None:
    with stage(model, kind(tmp_path / "new.onnx")) as staged:
        staged.commit()
    assert (tmp_path / "new.onnx").read_bytes() == serialize(model)


def test_a_relative_path(model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with stage(model, "new.onnx") as staged:
        staged.commit()
    assert (tmp_path / "new.onnx").read_bytes() == serialize(model)


def test_a_name_as_long_as_the_file_system_allows(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".onnx")
    with stage(model, path) as staged:
        staged.commit()
    assert path.exists()
    with pytest.raises(SaveError, match="too long"):
        stage(model, path, external_data=True)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("buffering", [0, -1], ids=["raw", "buffered"])
def test_a_file_object(buffering: int, model: ir.Model, target: Path) -> None:
    with open(target, "wb", buffering=buffering) as file:
        file.write(b"head")
        with stage(model, file) as staged:
            assert staged.path is None
            assert staged.source == staged.data == serialize(model)
            staged.commit()
    assert target.read_bytes() == b"head" + serialize(model)


def test_bytes_io_gets_nothing_without_commit(model: ir.Model) -> None:
    buffer = io.BytesIO()
    with stage(model, buffer):
        pass
    assert not buffer.getvalue()
    with stage(model, buffer) as staged:
        staged.commit()
    assert buffer.getvalue() == serialize(model)


def test_without_a_target_the_bytes_stay_in_memory(model: ir.Model) -> None:
    with stage(model, None) as staged:
        staged.commit()
    assert staged.data == serialize(model)


def test_a_raw_stream_that_takes_little_at_a_time(model: ir.Model) -> None:
    class Trickle(io.RawIOBase):
        received = b""

        def writable(self) -> bool:
            return True

        def write(self, data: object, /) -> int:
            part = bytes(data)[:1000]  # type: ignore[call-overload]
            self.received += part
            return len(part)

    stream = Trickle()
    with stage(model, stream) as staged:
        staged.commit()
    assert stream.received == serialize(model)


def test_devices_are_written_to_and_not_replaced(model: ir.Model) -> None:
    with stage(model, "/dev/null") as staged:
        staged.commit()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with stage(model, "/dev/full") as staged, pytest.raises(SaveError, match="/dev/full: No space"):
        staged.commit()


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_and_what_it_points_to_is_replaced(exists: bool, model: ir.Model, tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    real, link = tmp_path / "versions" / "v1.onnx", tmp_path / "latest.onnx"
    link.symlink_to(real)
    if exists:
        real.write_bytes(b"old")
    with stage(model, link) as staged:
        staged.commit()
    assert link.is_symlink()
    assert real.read_bytes() == serialize(model)


def test_a_new_file_has_the_usual_permissions(model: ir.Model, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with stage(model, tmp_path / "model.onnx", external_data=True) as staged:
            staged.commit()
    finally:
        os.umask(old)
    assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o640, 0o640]


def test_a_replaced_file_keeps_its_permissions(model: ir.Model, target: Path) -> None:
    target.chmod(0o604)
    with stage(model, target) as staged:
        staged.commit()
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("external_data", [False, True])
def test_a_full_disk(external_data: bool, small_disk: Path) -> None:
    target = small_disk / "model.onnx"
    target.write_bytes(b"old")
    with pytest.raises(SaveError, match=r"disk/model\.onnx: No space left on device"):
        stage(identity_model({"w": torch.ones(2**20)}), target, external_data)
    assert_untouched(target)


_KILLED = """
import sys, time
import torch
from onnxport.save import external, proto, stage
from tests.save.models import identity_model

def stall(tensor):
    print("writing", flush=True)
    time.sleep(600)

if sys.argv[2] == "writing":
    proto.tensor_bytes = external.tensor_bytes = stall
with stage(identity_model({"w": torch.ones(1000)}), sys.argv[1], external_data=sys.argv[3] == "True"):
    stall(None)
"""


@pytest.mark.parametrize("external_data", [False, True])
@pytest.mark.parametrize("moment", ["writing", "verifying"])
def test_a_killed_export(moment: str, external_data: bool, model: ir.Model, target: Path) -> None:
    with python(_KILLED, target, moment, external_data) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        (running,) = (path for path in target.parent.iterdir() if path != target)
        stage(model, target).discard()
        assert running.exists(), "the folder of a running export was removed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert target.read_bytes() == b"old"
    assert running.exists()
    stage(model, target).discard()
    assert_untouched(target)


def test_folders_of_other_machines_are_left_alone(model: ir.Model, target: Path) -> None:
    foreign = target.parent / ".onnxport-00000000-999999999-abc"
    foreign.mkdir()
    stage(model, target).discard()
    assert foreign.exists()
