"""Staging of a written model: it is complete and loadable before the old file is replaced."""

from __future__ import annotations

import functools
import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import onnx_ir as ir

from onnxport.errors import SaveError
from onnxport.save.external import write_external
from onnxport.save.folder import remove_stale, staging_file, staging_folder
from onnxport.save.layout import Writable, Written
from onnxport.save.proto import SplitModel, check_size, message_bytes, split, write_message
from onnxport.save.target import Target, resolve, save_errors, write_all

NAMED_AT_ONCE = 3


class Staged(ABC):
    """A model that is written, but not yet at its target. As a context manager it discards what was not committed.

    `size` is the number of bytes that it takes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pending = True

    @property
    @abstractmethod
    def source(self) -> str | bytes:
        """The argument for `onnxruntime.InferenceSession`: the path of a file, or bytes."""

    @property
    def path(self) -> Path | None:
        """The staged file, if the target is a path."""
        return Path(self.source) if isinstance(self.source, str) else None

    @property
    def data(self) -> bytes | None:
        """The bytes, if the target is a stream or None."""
        return self.source if isinstance(self.source, bytes) else None

    def commit(self) -> None:
        """Moves the model to its target, once. SaveError if that fails; the old file is then unchanged."""
        if not self._pending:
            raise ValueError("this model is already committed or discarded")
        try:
            self._put_in_place()
        finally:
            self.discard()

    def discard(self) -> None:
        """Removes the staged files; what was committed stays."""
        self._pending = False
        self._clean_up()

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()

    @abstractmethod
    def _put_in_place(self) -> None: ...

    @abstractmethod
    def _clean_up(self) -> None: ...


def stage(
    model: ir.Model | SplitModel,
    target: Target,
    external_data: bool | None = None,
    written: Written = lambda nbytes: None,
) -> Staged:
    """Writes the model where it can be loaded from, without touching `target` yet. The model is not changed.

    A path gets one file up to 2 GiB, and above, or with `external_data=True`, a second one, `<name>.data`, for the
    large initializers if there are any. `external_data=False` insists on one file. A binary stream gets the bytes of
    one file; with `target=None` they stay in memory. `written` is called with the number of bytes of written weights.

    Each file is replaced atomically, as far as processes can see; when it reaches the disk is left to the system. Two
    cannot be replaced at once: a process killed between the two renames of a commit leaves new data beside an old
    model. A file that is not needed any more, such as the `<name>.data` of an earlier export, is left where it is: it
    may belong to something else.
    """
    destination = resolve(target)
    split_model = model if isinstance(model, SplitModel) else split(model)
    if isinstance(destination, Path):
        external = not split_model.fits_message() if external_data is None else external_data
        return _stage_files(split_model, destination, external, written)
    if external_data:
        raise SaveError("external data is a second file beside the model's: give a path as target, not a stream")
    check_size(split_model)
    return _StagedBytes(split_model, destination)


class _StagedBytes(Staged):
    """Bytes in memory, to be written to a stream if there is one."""

    def __init__(self, split_model: SplitModel, stream: Writable | None) -> None:
        super().__init__(split_model.size())
        self._split_model = split_model
        self._stream = stream

    @functools.cached_property
    def source(self) -> bytes:
        return message_bytes(self._split_model)

    def _put_in_place(self) -> None:
        if self._stream is not None:
            with save_errors(self._stream):
                write_all(self._stream, self.source)

    def _clean_up(self) -> None:
        pass


class _StagedFiles(Staged):
    """Files in a hidden folder beside the target, with their final names."""

    def __init__(self, folder: TemporaryDirectory[str], names: list[str], target: Path) -> None:
        super().__init__(sum(os.path.getsize(os.path.join(folder.name, name)) for name in names))
        self._folder = folder
        self._names = names
        self._target = target

    @property
    def source(self) -> str:
        return os.path.join(self._folder.name, self._target.name)

    def _put_in_place(self) -> None:
        moves = [(Path(self._folder.name, name), self._target.with_name(name)) for name in self._names]
        with save_errors(self._target):
            for source, target in moves:
                _keep_mode(source, target)
            for source, target in moves:
                os.replace(source, target)

    def _clean_up(self) -> None:
        self._folder.cleanup()


class _StagedBeside(Staged):
    """A hidden file beside the target: what it refers to is where it will be for the target."""

    def __init__(self, path: Path, target: Path) -> None:
        super().__init__(os.path.getsize(path))
        self._path = path
        self._target = target

    @property
    def source(self) -> str:
        return str(self._path)

    def _put_in_place(self) -> None:
        with save_errors(self._target):
            _keep_mode(self._path, self._target)
            os.replace(self._path, self._target)

    def _clean_up(self) -> None:
        self._path.unlink(missing_ok=True)


def _stage_beside(split_model: SplitModel, target: Path, written: Written) -> Staged:
    if not split_model.fits_message():
        names = ", ".join(initializer.header.name for initializer in split_model.large[:NAMED_AT_ONCE])
        raise SaveError(
            f"{split_model.large_size:,} bytes of weights are not in the files as the model has them ({names}, ...), "
            "too many for the model's own file: external_data=True copies all weights to a file beside it"
        )
    with save_errors(target):
        remove_stale(target.parent)
        path = staging_file(target.parent)
        try:
            with open(path, "xb") as file:
                write_message(split_model, file, written)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return _StagedBeside(path, target)


def _stage_files(split_model: SplitModel, target: Path, external: bool, written: Written) -> Staged:
    if split_model.refers:
        return _stage_beside(split_model, target, written)
    if not external:
        check_size(split_model)
    with save_errors(target):
        remove_stale(target.parent)
        folder = staging_folder(target.parent)
        try:
            names = _write_files(split_model, Path(folder.name, target.name), external, written)
        except BaseException:
            folder.cleanup()
            raise
    return _StagedFiles(folder, names, target)


def _write_files(split_model: SplitModel, path: Path, external: bool, written: Written) -> list[str]:
    """Writes one file or two; returns their names in the order in which they have to be moved."""
    with open(path, "wb") as file:
        if not (external and split_model.large):
            write_message(split_model, file, written)
            return [path.name]
        location = f"{path.name}.data"
        with open(path.with_name(location), "wb") as data_file:
            write_external(split_model, file, data_file, location, written)
        return [location, path.name]


def _keep_mode(source: Path, target: Path) -> None:
    """Gives `source` the permissions of the file that it replaces."""
    if target.exists():
        os.chmod(source, stat.S_IMODE(target.stat().st_mode))
