"""Attributes of ONNX nodes from Python values."""

from __future__ import annotations

import functools
from typing import Any

import onnx_ir as ir
import torch

from onnxport.lower.dtypes import onnx_type


def attribute(name: str, value: Any) -> ir.Attr:
    """An attribute of the type that the value has; onnx_ir's own conversion takes ten times as long."""
    if type(value) in (list, tuple) and set(map(type, value)) == {int}:
        return _integers(name, tuple(value))
    if isinstance(value, torch.dtype):
        return _integer(name, int(onnx_type(value)))
    if isinstance(value, (bool, int)):
        return _integer(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.Attr):  # a protocol, for which isinstance takes long
        return value
    if isinstance(value, torch.Tensor):
        return ir.AttrTensor(name, ir.tensor_adapters.TorchTensor(value))
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    items = list(value)
    if items and all(isinstance(item, str) for item in items):
        return ir.AttrStrings(name, items)
    if any(isinstance(item, float) for item in items):
        return ir.AttrFloat32s(name, [float(item) for item in items])
    return _integers(name, tuple([int(item) for item in items]))


# Attributes cannot be changed, and most are one of a few.
@functools.lru_cache(maxsize=1000)
def _integer(name: str, number: int) -> ir.Attr:
    return ir.AttrInt64(name, number)


@functools.lru_cache(maxsize=1000)
def _integers(name: str, numbers: tuple[int, ...]) -> ir.Attr:
    return ir.AttrInt64s(name, numbers)
