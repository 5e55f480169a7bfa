"""Changes of dtype, and numbers read from sizes and tensors."""

from __future__ import annotations

from typing import Any

import torch

from onnxport.graph.sizes import is_static, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import Operand, Value


@converter("aten::to", "aten::_to_copy", "aten::type_as", "aten::_autocast_to_reduced_precision",
           "aten::_autocast_to_full_precision")  # fmt: skip
def to(g: Builder, self: Value, **options: Any) -> Value:
    """aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""  # noqa: E501
    return g.cast(self, g.outputs[0].dtype)


@converter("aten::alias", "aten::clone", "aten::detach", "aten::contiguous", "aten::lift_fresh", "aten::lift",
           "aten::lift_fresh_copy", "aten::detach_copy", "aten::alias_copy", "aten::resolve_conj",
           "aten::resolve_neg")  # fmt: skip
def same(g: Builder, self: Value, memory_format: object = None) -> Value:
    """aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


@converter("aten::copy")
def copy(g: Builder, self: Value, src: Operand, non_blocking: bool = False) -> Value:
    """aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return emit.expand(g, g.cast(src, self.dtype), g.outputs[0].shape)


# Numbers


def _number(dtype: torch.dtype | None) -> Converter:
    def convert(g: Builder, a: Operand) -> Operand:
        if not isinstance(a, Value):
            return a
        value = emit.reshape(g, g.realise(a), [])
        number = value if dtype is None else g.cast(value, dtype)
        if number.data is None and a.data is not None:
            number.data = a.data.reshape(()).to(number.dtype)
        return number

    return convert


NUMBERS = entries(
    _number,
    {
        "aten::Int": torch.int64,
        "aten::IntImplicit": torch.int64,
        "aten::Float": torch.float64,
        "aten::FloatImplicit": torch.float64,
        "aten::Bool": torch.bool,
        "aten::ScalarImplicit": None,
        "prim::NumToTensor": None,
    },
)


@converter("aten::item", "aten::_local_scalar_dense")
def item(g: Builder, self: Value) -> Value:
    """aten::item(Tensor self) -> Scalar"""
    return emit.reshape(g, self, [])


@converter("aten::size")
def size(g: Builder, self: Value, dim: int | None = None) -> Value:
    """aten::size.int(Tensor self, int dim) -> int"""
    assert self.shape is not None
    return sizes.shape_vector(g, self) if dim is None else sizes.scalar(g, self.shape[dim])


@converter("aten::_shape_as_tensor")
def shape_as_tensor(g: Builder, self: Value) -> Value:
    """aten::_shape_as_tensor(Tensor self) -> Tensor"""
    return sizes.shape_vector(g, self)


@converter("aten::numel")
def numel(g: Builder, self: Value) -> Value:
    """aten::numel(Tensor self) -> int"""
    assert self.shape is not None
    if is_static(self.shape):
        return g.constant(product(self.shape), torch.int64)
    return g.op("Size", self)


@converter("aten::dim")
def dim(g: Builder, self: Value) -> Value:
    """aten::dim(Tensor self) -> int"""
    return g.constant(self.rank, torch.int64)
