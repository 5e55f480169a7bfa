"""torch dtypes in ONNX, and torch's type promotion."""

from __future__ import annotations

import functools

import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperatorError
from onnxport.graph.ir import QUANTIZED
from onnxport.lower.value import Operand, Value

# torch has these dtypes, but hardly any operators for them.
INT4: torch.dtype = torch.int4  # type: ignore[attr-defined]
UINT4: torch.dtype = torch.uint4  # type: ignore[attr-defined]

ONNX_TYPES: dict[torch.dtype, ir.DataType] = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.int64: ir.DataType.INT64,
    torch.int32: ir.DataType.INT32,
    torch.int16: ir.DataType.INT16,
    torch.int8: ir.DataType.INT8,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.bool: ir.DataType.BOOL,
    torch.complex64: ir.DataType.COMPLEX64,
    torch.complex128: ir.DataType.COMPLEX128,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    INT4: ir.DataType.INT4,
    UINT4: ir.DataType.UINT4,
}
# As ONNX schemas spell them.
SCHEMA_NAMES: dict[torch.dtype, str] = {
    torch.float32: "float", torch.float64: "double", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
    torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64", torch.bool: "bool",
    torch.complex64: "complex64", torch.complex128: "complex128",
    INT4: "int4", UINT4: "uint4",
}  # fmt: skip
# For a dtype that an operator does not accept: dtypes that represent all its values exactly, the cheapest first.
WIDER: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.int32, torch.int64, torch.uint8, torch.float32),
    torch.uint8: (torch.int32, torch.int64, torch.float32),
    torch.int8: (torch.int32, torch.int64, torch.float32),
    torch.int16: (torch.int32, torch.int64, torch.float32),
    torch.uint16: (torch.int32, torch.int64, torch.float32),
    torch.int32: (torch.int64, torch.float64, torch.float32),
    torch.uint32: (torch.int64, torch.float64),
    torch.int64: (torch.float64, torch.float32),
    torch.uint64: (torch.int64,),
    torch.float16: (torch.float32,),
    torch.bfloat16: (torch.float32,),
}


def onnx_type(dtype: torch.dtype) -> ir.DataType:
    # A quantized tensor is the floats that it stands for, between DequantizeLinear and QuantizeLinear.
    found = ir.DataType.FLOAT if dtype in QUANTIZED else ONNX_TYPES.get(dtype)
    if found is None:
        raise UnsupportedOperatorError(f"tensors of {dtype} cannot be written to ONNX: use another dtype in the model")
    return found


def as_float(dtype: torch.dtype) -> torch.dtype:
    """The dtype; for a quantized tensor that of its dequantized floats."""
    return torch.float32 if dtype in QUANTIZED else dtype


def is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that torch's kernels compute in: half precision in single."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def float_type(*operands: Operand) -> torch.dtype:
    """`result_type` for operators with a float result: integers and bools count as the default float."""
    found = result_type(*operands)
    return found if found.is_floating_point or found.is_complex else torch.get_default_dtype()


def result_type(*operands: Operand) -> torch.dtype:
    """The dtype that torch computes in: tensors with dimensions first, then 0-dim tensors, then Python numbers.

    A lower rank counts only where its category (bool, integer, float, complex) is higher.
    """
    dimensioned: torch.dtype | None = None
    zero_dim: torch.dtype | None = None
    number: torch.dtype | None = None
    for operand in operands:
        if not isinstance(operand, Value):
            number = _join(number, number_dtype(operand))
        elif operand.shape == ():
            zero_dim = _join(zero_dim, operand.dtype)
        else:
            dimensioned = _join(dimensioned, operand.dtype)
    result = functools.reduce(_prefer, (dimensioned, zero_dim, number))
    assert result is not None, "no operand"
    return result


def number_dtype(number: bool | int | float | complex) -> torch.dtype:
    if isinstance(number, bool):
        return torch.bool
    if isinstance(number, int):
        return torch.int64
    return torch.get_default_dtype() if isinstance(number, float) else torch.complex64


def _join(left: torch.dtype | None, right: torch.dtype) -> torch.dtype:
    return right if left is None else torch.promote_types(left, right)


def _prefer(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return higher if lower is None else lower
    return torch.promote_types(higher, lower) if _category(lower) > _category(higher) else higher


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1
