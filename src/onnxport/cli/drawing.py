"""Random inputs for a file, and its run in ONNX Runtime. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

from onnxport.cli.ending import CommandError
from onnxport.cli.files import Array

STOPS = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)
FATAL = 4
LARGEST = 512


class Session:
    """A model in ONNX Runtime, with numpy arrays in and out."""

    def __init__(self, source: str | bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.outputs = [entry.name for entry in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        feeds = {name: _value(array) for name, array in inputs.items()}
        results = self._session.run_with_ort_values(None, feeds)
        return {name: _array(value) for name, value in zip(self.outputs, results, strict=True)}


def _value(array: Array) -> Any:
    """An array for the runtime; a dtype that numpy lacks is passed as its bits."""
    array = np.ascontiguousarray(array)
    kind = ir.DataType.from_numpy(array.dtype)
    if array.dtype.kind in "biufcO":
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"i{array.itemsize}"), kind.value)


def _array(value: Any) -> Any:
    return value.numpy()


def draw(values: Sequence[ir.Value], size: int) -> dict[str, Array]:
    """An array for each input, the same each time; every named dimension has that size."""
    generator = np.random.default_rng(0)
    return {value.name or "": _drawn(value, size, generator) for value in values}


def draw_runnable(file: str, values: Sequence[ir.Value]) -> dict[str, Array]:
    """Inputs at the first of the sizes 2, 4, 8, … at which the file runs."""
    try:
        session = Session(os.fspath(file))
    except STOPS as error:
        raise CommandError(f"{file} does not load in ONNX Runtime: {error}") from error
    size, refusal = 2, ""
    while size <= LARGEST:
        inputs = draw(values, size)
        try:
            session.run(inputs)
        except STOPS as error:
            refusal = str(error)
            size *= 2
        else:
            return inputs
    raise CommandError(f"no inputs were found on which {file} runs, give them with --input or --inputs: {refusal}")


def _drawn(value: ir.Value, size: int, generator: np.random.Generator) -> Array:
    if value.dtype is None or value.shape is None or not isinstance(value.type, ir.TensorType):
        raise CommandError(f"the input {value.name!r} is not a tensor of known rank: give it in a file")
    shape = [dim if isinstance(dim, int) else _size(dim, size) for dim in value.shape]
    dtype = value.dtype
    if dtype == ir.DataType.STRING:
        return np.full(shape, "", dtype=object)
    if dtype == ir.DataType.BOOL or dtype.is_integer():
        return generator.integers(0, 2, shape).astype(dtype.numpy())
    return generator.standard_normal(shape).astype(dtype.numpy())


def _size(dim: ir.SymbolicDim, size: int) -> int:
    """The size for a name; the value of an expression of names."""
    if dim.value is None or str(dim.value).isidentifier():
        return size
    try:
        found = dim.evaluate(dict.fromkeys(dim.free_symbols(), size))
    except (ValueError, TypeError, SyntaxError):
        return size
    return found if isinstance(found, int) else size
