"""Files that commands read and write: ONNX files, arrays, and targets. Imports no torch."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnxport.cli.ending import CommandError
from onnxport.optimize.traversal import all_graphs, all_nodes

Array: TypeAlias = "npt.NDArray[Any]"


def check_exists(path: str, option: str = "") -> None:
    given = f"{option} {path}".strip()
    if not os.path.exists(path):
        raise CommandError(f"{given}: there is no such file")
    if not os.path.isfile(path):
        raise CommandError(f"{given} is a folder, not a file")


def check_writable(path: str, option: str) -> None:
    """Check a target before any work."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.basename(path):
        raise CommandError(f"{option} {path} is a folder; name a file")
    if not os.path.isdir(folder):
        raise CommandError(f"{option} {path}: there is no folder {folder}; create it first")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{option} {path}: the folder {folder} is not writable")


def read_model(path: str) -> ir.Model:
    """An ONNX file; external data is not loaded yet."""
    check_exists(path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(Path(path).read_bytes())
    except DecodeError:
        raise CommandError(f"{path} is not an ONNX file, or it is truncated") from None
    if not proto.HasField("graph") or not proto.ir_version:
        raise CommandError(f"{path} is not an ONNX model: it has no graph")
    try:
        model = ir.from_proto(proto)
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is not a valid ONNX model: {error}") from error
    ir.external_data.set_base_dir(model.graph, os.path.dirname(os.path.abspath(path)))
    return model


def read_arrays(path: str, option: str = "--inputs") -> dict[str, Array]:
    """The arrays of an npz file, without pickles."""
    check_exists(path, option)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise CommandError(f"{option} {path} has one array without a name: write it with numpy.savez")
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"{option} {path} is not an npz file of plain arrays: {error}") from error


def nodes_of(model: ir.Model) -> Iterator[ir.Node]:
    """All nodes, those of branches, loops and functions included."""
    yield from all_nodes(model.graph)
    for function in model.functions.values():
        yield from all_nodes(function.graph)


def interface(values: list[ir.Value]) -> list[dict[str, Any]]:
    """Inputs or outputs as `name`, `type`, `shape`; a dimension without a size or name is None."""
    return [{"name": value.name, "type": type_name(value), "shape": dims(value)} for value in values]


def inputs_of(model: ir.Model) -> list[ir.Value]:
    """The required inputs; weights that are inputs as well have a value already."""
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def type_name(value: ir.Value) -> str | None:
    """The element type as numpy and torch name it; of lists ``sequence(float32)``."""
    if value.type is None:
        return None
    kind = value.type
    name = dtype_name(kind.dtype)
    if isinstance(kind, ir.SequenceType):
        return f"sequence({name})"
    return f"optional({name})" if isinstance(kind, ir.OptionalType) else name


def dtype_name(dtype: ir.DataType) -> str:
    return "string" if dtype == ir.DataType.STRING else dtype.numpy().name if dtype.name != "UNDEFINED" else "undefined"


def dims(value: ir.Value) -> list[int | str | None] | None:
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else (str(dim.value) if dim.value is not None else None) for dim in value.shape]


def weights_of(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    found = {name: value.const_value for name, value in model.graph.initializers.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def file_bytes(path: str, model: ir.Model) -> int:
    """The file and the files of its external data."""
    external = {
        tensor.path
        for graph in all_graphs(model.graph)
        for value in graph.initializers.values()
        if isinstance(tensor := value.const_value, ir.ExternalTensor)
    }
    return sum(
        os.path.getsize(file)
        for file in {os.path.abspath(path), *map(os.path.abspath, external)}
        if os.path.exists(file)
    )
