"""One part of a model in ONNX Runtime, with torch tensors as inputs and outputs, without copies."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as runtime
from torch.utils.dlpack import from_dlpack

from onnxport.backend.device import Device
from onnxport.errors import BackendError

FATAL = 4
LOAD_ERRORS = (
    runtime.Fail,
    runtime.InvalidArgument,
    runtime.InvalidGraph,
    runtime.InvalidProtobuf,
    runtime.NoSuchFile,
    runtime.NotImplemented,
    runtime.RuntimeException,
)

ELEMENT_TYPES: dict[torch.dtype, int] = {
    torch.float32: onnx.TensorProto.FLOAT, torch.float64: onnx.TensorProto.DOUBLE,
    torch.float16: onnx.TensorProto.FLOAT16, torch.bfloat16: onnx.TensorProto.BFLOAT16,
    torch.int64: onnx.TensorProto.INT64, torch.int32: onnx.TensorProto.INT32, torch.int16: onnx.TensorProto.INT16,
    torch.int8: onnx.TensorProto.INT8, torch.uint8: onnx.TensorProto.UINT8, torch.uint16: onnx.TensorProto.UINT16,
    torch.uint32: onnx.TensorProto.UINT32, torch.uint64: onnx.TensorProto.UINT64, torch.bool: onnx.TensorProto.BOOL,
    torch.complex64: onnx.TensorProto.COMPLEX64, torch.complex128: onnx.TensorProto.COMPLEX128,
    torch.float8_e4m3fn: onnx.TensorProto.FLOAT8E4M3FN, torch.float8_e4m3fnuz: onnx.TensorProto.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: onnx.TensorProto.FLOAT8E5M2, torch.float8_e5m2fnuz: onnx.TensorProto.FLOAT8E5M2FNUZ,
}  # fmt: skip

# Element types that neither DLPack nor numpy supports.
BYTES = {
    "tensor(float8e4m3fn)": torch.float8_e4m3fn,
    "tensor(float8e4m3fnuz)": torch.float8_e4m3fnuz,
    "tensor(float8e5m2)": torch.float8_e5m2,
    "tensor(float8e5m2fnuz)": torch.float8_e5m2fnuz,
}


def open_session(
    source: str | bytes, device: Device, *, alone: bool = True, weights: Mapping[str, Any] | None = None
) -> onnxruntime.InferenceSession:
    """Load a model. One that is not ``alone`` shares the cores with torch: its threads do not spin while they wait."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL
    if not alone:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if weights:
        options.add_external_initializers(list(weights), list(weights.values()))
    try:
        return onnxruntime.InferenceSession(source, options, providers=device.providers)
    except LOAD_ERRORS as error:
        raise BackendError(f"ONNX Runtime does not load the model: {error}") from error


class Piece:
    """A loaded part. Values are torch tensors, or the runtime's own if torch has none: sequences, strings."""

    def __init__(self, session: onnxruntime.InferenceSession, device: Device) -> None:
        self._session = session
        # The runtime's own classes: its wrappers look the device up again for every tensor, which takes longer than a
        # small piece does.
        self._device = onnxruntime.OrtDevice.make(device.kind, device.index)._get_c_device()
        self.inputs = [entry.name for entry in session.get_inputs()]
        self.outputs = [entry.name for entry in session.get_outputs()]

    def run(self, values: Sequence[Any]) -> list[Any]:
        binding = runtime.SessionIOBinding(self._session._sess)
        kept = [self._bind(binding, name, value) for name, value in zip(self.inputs, values, strict=True)]
        for name in self.outputs:
            binding.bind_output(name, self._device)
        try:
            self._session._sess.run_with_iobinding(binding, None)
        except LOAD_ERRORS as error:
            raise BackendError(f"ONNX Runtime fails: {error}") from error
        del kept
        return [to_torch(value) for value in binding.get_outputs()]

    def _bind(self, binding: Any, name: str, value: Any) -> Any:
        """Bind an input to the tensor's memory; the returned object must live until the end of the run."""
        if not isinstance(value, torch.Tensor):
            binding.bind_ortvalue_input(name, value._ortvalue)
            return value
        value = value.detach().contiguous()
        element = ELEMENT_TYPES.get(value.dtype)
        if element is None:
            raise BackendError(f"the value {name!r} is of {value.dtype}, which ONNX does not have")
        if value.numel() == 0:
            empty = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(value.shape), element, "cpu", 0)
            binding.bind_ortvalue_input(name, empty._ortvalue)
            return empty
        binding.bind_input(name, self._device, element, list(value.shape), value.data_ptr())
        return value


def to_torch(value: Any) -> Any:
    """A tensor in the runtime's memory; the runtime's value if torch has no such type."""
    kind = value.data_type()
    if not value.is_tensor() or kind == "tensor(string)":
        return onnxruntime.OrtValue(value)
    if kind in BYTES:
        return torch.from_numpy(content_of(value)).view(BYTES[kind]).reshape(value.shape())
    tensor = from_dlpack(value.to_dlpack())
    return tensor.view(torch.bool) if kind == "tensor(bool)" else tensor


def content_of(value: Any) -> np.ndarray[Any, Any]:
    """A copy of the bytes of a tensor in CPU memory."""
    if value.device_name().lower() != "cpu":
        raise BackendError(f"a value of {value.data_type()} cannot be read from the device {value.device_name()}")
    count = value.tensor_size_in_bytes()
    return np.frombuffer(bytearray(ctypes.string_at(value.data_ptr(), count)) if count else b"", dtype=np.uint8)
