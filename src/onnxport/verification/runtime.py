"""ONNX Runtime, with torch tensors in and out."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import onnxruntime
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as MissingKernel

from onnxport.errors import BackendError
from onnxport.save.outline import Outline, outline

__all__ = ["RUNTIME_ERRORS", "UNREADABLE", "Loaded", "MissingKernel", "Session", "real_form"]

RUNTIME_ERRORS = (Fail, InvalidArgument, InvalidGraph, RuntimeException, BackendError)
# What the runtime says of a file that is no model.
UNREADABLE = (NoSuchFile, InvalidProtobuf)

FATAL = 4

COPIED_BYTES = 100_000_000
"""Bytes of weights that the check of a file may copy."""

# Element types that numpy lacks: what their bits travel as, and ONNX's number and name for them.
BITS: dict[torch.dtype, tuple[torch.dtype, int, str]] = {
    torch.bfloat16: (torch.int16, 16, "bfloat16"),
    torch.float8_e4m3fn: (torch.uint8, 17, "float8e4m3fn"),
    torch.float8_e4m3fnuz: (torch.uint8, 18, "float8e4m3fnuz"),
    torch.float8_e5m2: (torch.uint8, 19, "float8e5m2"),
    torch.float8_e5m2fnuz: (torch.uint8, 20, "float8e5m2fnuz"),
}
_BY_NAME = {f"tensor({name})": dtype for dtype, (_, _, name) in BITS.items()}


class Loaded(Protocol):
    """A model that runs: in ONNX Runtime, or in what else can run it."""

    def run(self, inputs: Mapping[str, torch.Tensor], /) -> list[torch.Tensor]: ...


class Session:
    """A loaded model. ``source`` is a path or the serialised model.

    The weights of a file are not copied: the runtime maps them into memory.

    With ``optimize=False`` the runtime computes what the file says, node by node, and fuses nothing. ``options`` are
    a user's: those that register the library of a domain's operators. With them, the model is loaded as any other.
    ``folder`` has the file of weights of a model that is given as bytes.
    """

    def __init__(
        self,
        source: str | bytes | os.PathLike[str],
        *,
        optimize: bool = True,
        options: onnxruntime.SessionOptions | None = None,
        folder: str | None = None,
    ) -> None:
        unwanted: list[str] = []
        given: str | bytes = source if isinstance(source, bytes) else os.fspath(source)
        if options is None:
            options = _own_options()
            if isinstance(given, str) and (found := outline(given)):
                folder, given = os.path.dirname(os.path.abspath(given)), found.message
                unwanted = _keep_weights(options, found)
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(
            given, options, providers=["CPUExecutionProvider"], disabled_optimizers=unwanted
        )
        self.input_names = [entry.name for entry in self._session.get_inputs()]
        self.shapes = [list(entry.shape) for entry in self._session.get_inputs()]
        self.output_names = [entry.name for entry in self._session.get_outputs()]
        self._has_lists = any(entry.type.startswith(("seq", "optional")) for entry in self._session.get_outputs())

    def run(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        feeds = {name: _to_ort(tensor) for name, tensor in inputs.items() if name in self.input_names}
        if self._has_lists:
            outputs = self._session.run(None, {name: value.numpy() for name, value in feeds.items()})
            return [_plain(output) for output in outputs]
        return [_to_torch(value) for value in self._session.run_with_ort_values(None, feeds)]


def _own_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL
    # As many threads as torch has; between the few short runs of a check they would spin.
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Products with weights of blocks are computed in float32, as the file says; left alone, the runtime rounds
    # what they are multiplied with to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return options


def _keep_weights(options: onnxruntime.SessionOptions, found: Outline) -> list[str]:
    """Has the runtime use the weights where they are, without the copies that it makes for speed.

    Returns the optimisations that it may not do for that.
    """
    options.add_session_config_entry("session.disable_prepacking", "1")
    if found.external_bytes <= COPIED_BYTES:
        return []
    # The next level writes the weights of all convolutions in blocks.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return ["ConstantFolding"]


def real_form(tensor: Any) -> Any:
    """A tensor, or a list of them, as it is in the file: complex numbers have their two parts along a last axis."""
    if isinstance(tensor, list):
        return [real_form(element) for element in tensor]
    return torch.view_as_real(tensor.resolve_conj()) if tensor is not None and tensor.is_complex() else tensor


def _to_ort(tensor: torch.Tensor) -> Any:
    tensor = real_form(tensor.detach().cpu()).contiguous()
    if tensor.dtype in BITS:
        bits, number, _ = BITS[tensor.dtype]
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(bits).numpy(), number)
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape)))


def _plain(output: Any) -> Any:
    """A tensor, the tensors of a sequence as a list, or None."""
    if output is None:
        return None
    return [_plain(element) for element in output] if isinstance(output, list) else torch.from_numpy(np.array(output))


def _to_torch(value: Any) -> torch.Tensor:
    if value.data_type() in _BY_NAME:
        return _from_memory(value, _BY_NAME[value.data_type()])
    array = np.array(value.numpy())
    # Of numpy's two names for 64 bits without a sign, torch knows one.
    return torch.from_numpy(array.view(np.uint64) if array.dtype == np.uint64 else array)


def _from_memory(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A copy of a tensor of a type that numpy lacks."""
    shape = value.shape()
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    content = bytearray(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
    return torch.frombuffer(content, dtype=torch.uint8).view(dtype).reshape(shape)
