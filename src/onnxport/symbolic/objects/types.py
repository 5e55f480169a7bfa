"""The classic exporter's names and numbers for element types."""

from __future__ import annotations

import enum
from typing import Any

import torch


class TensorProtoDataType(enum.IntEnum):
    """The element types of ONNX, with their numbers in a file."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


# In the order of TorchScript's numbers for dtypes: the name of the element
# type in TorchScript, its name in C++, the dtype, and the element type in ONNX.
_TABLE: tuple[tuple[str, str, torch.dtype, TensorProtoDataType], ...] = (
    ("Byte", "uint8_t", torch.uint8, TensorProtoDataType.UINT8),
    ("Char", "int8_t", torch.int8, TensorProtoDataType.INT8),
    ("Short", "int16_t", torch.int16, TensorProtoDataType.INT16),
    ("Int", "int", torch.int32, TensorProtoDataType.INT32),
    ("Long", "int64_t", torch.int64, TensorProtoDataType.INT64),
    ("Half", "half", torch.float16, TensorProtoDataType.FLOAT16),
    ("Float", "float", torch.float32, TensorProtoDataType.FLOAT),
    ("Double", "double", torch.float64, TensorProtoDataType.DOUBLE),
    ("ComplexHalf", "complex32", torch.complex32, TensorProtoDataType.UNDEFINED),
    ("ComplexFloat", "complex64", torch.complex64, TensorProtoDataType.COMPLEX64),
    ("ComplexDouble", "complex128", torch.complex128, TensorProtoDataType.COMPLEX128),
    ("Bool", "bool", torch.bool, TensorProtoDataType.BOOL),
    ("QInt8", "qint8", torch.qint8, TensorProtoDataType.INT8),
    ("QUInt8", "quint8", torch.quint8, TensorProtoDataType.UINT8),
    ("QInt32", "qint32", torch.qint32, TensorProtoDataType.INT32),
    ("BFloat16", "bfloat16", torch.bfloat16, TensorProtoDataType.BFLOAT16),
)

scalar_type_to_pytorch_type: list[torch.dtype] = [dtype for _, _, dtype, _ in _TABLE]
scalar_type_to_onnx: list[TensorProtoDataType] = [kind for _, _, _, kind in _TABLE]
cast_pytorch_to_onnx: dict[str, TensorProtoDataType] = {name: kind for name, _, _, kind in _TABLE}
cast_pytorch_to_onnx["Undefined"] = TensorProtoDataType.UNDEFINED
scalar_name_to_pytorch: dict[str, str] = {c_name: name for name, c_name, _, _ in _TABLE}
pytorch_name_to_type: dict[str, torch.dtype] = {name: dtype for name, _, dtype, _ in _TABLE}

NAMES: dict[torch.dtype, str] = {dtype: name for name, _, dtype, _ in _TABLE}
CODES: dict[torch.dtype, int] = {dtype: code for code, (_, _, dtype, _) in enumerate(_TABLE)}
MEMORY_FORMATS = {
    torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3,
}  # fmt: skip
LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}


class JitScalarType(enum.IntEnum):
    """An element type of TorchScript, with its other names."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    UNDEFINED = 16

    @classmethod
    def from_name(cls, name: str | None) -> JitScalarType:
        """By the name in TorchScript (``Float``), in C++ (``int64_t``) or in torch (``torch.float32``)."""
        for code, (name_in_graphs, name_in_c, dtype, _) in enumerate(_TABLE):
            if name in (name_in_graphs, name_in_c, str(dtype)):
                return cls(code)
        raise ValueError(f"there is no element type {name!r}")

    @classmethod
    def from_dtype(cls, dtype: torch.dtype | None) -> JitScalarType:
        return cls.UNDEFINED if dtype is None else cls(CODES[dtype])

    @classmethod
    def from_onnx_type(cls, kind: int | None) -> JitScalarType:
        return cls(scalar_type_to_onnx.index(TensorProtoDataType(kind or 0)))

    @classmethod
    def from_value(cls, value: Any, default: Any = None) -> JitScalarType:
        """The element type of a tensor or of a value of the graph."""
        dtype = value.dtype if isinstance(value, torch.Tensor) else value.type().dtype()
        if dtype is None:
            if default is None:
                raise ValueError(f"the element type of {value} is not known")
            return cls(default)
        return cls(CODES[dtype])

    def scalar_name(self) -> str:
        return "Undefined" if self is JitScalarType.UNDEFINED else _TABLE[self][0]

    def torch_name(self) -> str:
        return "undefined" if self is JitScalarType.UNDEFINED else _TABLE[self][1]

    def dtype(self) -> torch.dtype:
        return scalar_type_to_pytorch_type[self]

    def onnx_type(self) -> TensorProtoDataType:
        return TensorProtoDataType.UNDEFINED if self is JitScalarType.UNDEFINED else scalar_type_to_onnx[self]

    def onnx_compatible(self) -> bool:
        return self.onnx_type() is not TensorProtoDataType.UNDEFINED
