"""Whole operators under the names that public symbolic functions call them by: onnxport's own translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.symbolic.helpers.builtin import call_builtin
from onnxport.symbolic.helpers.constants import _is_value
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.values import Value


def _select_helper(g: GraphContext, self: Any, dim: Any, index: Any, apply_reshape: bool = True) -> Any:
    """One row along an axis; with a vector of indices the rows."""
    is_vector = _is_value(index) and (index.elements is not None or index.type().dim() not in (None, 0))
    return call_builtin(g, "index_select" if is_vector else "select", (self, dim, index), {})


def _flatten_helper(g: GraphContext, input: Any, start_dim: int, end_dim: int, dim: int | None = None) -> Any:
    return call_builtin(g, "flatten", (input, start_dim, end_dim), {})


def _lt_helper(g: GraphContext, input: Any, other: Any) -> Any:
    return call_builtin(g, "lt", (input, other), {})


def _scatter_helper(g: GraphContext, self: Any, dim: int, index: Any, src: Any) -> Any:
    return call_builtin(g, "scatter", (self, dim, index, src), {})


def _unbind_helper(g: GraphContext, self: Any, dim: int = 0, _outputs: int | None = None) -> Any:
    return call_builtin(g, "unbind", (self, dim), {})


def _argmin_argmax_helper(g: GraphContext, input: Any, dim: Any, keepdim: Any, op_name: str) -> Any:
    """``op_name`` is ONNX's: ArgMin or ArgMax."""
    return call_builtin(g, op_name.lower(), (input, dim, keepdim), {})


# Questions about values


def _is_tensor_list(x: Any) -> bool:
    """Whether a value is a list of tensors."""
    elements = x.elements if isinstance(x, Value) else None
    return elements is not None and all(element.isCompleteTensor() for element in elements)


def _is_tuple_construct(x: Any) -> bool:
    """Whether a value is made as a tuple. Values of operators are tensors and lists."""
    return isinstance(x, Value) and x.node().kind() == "prim::TupleConstruct"


def args_have_same_dtype(args: Sequence[Any]) -> bool:
    """Whether the element types are known to be equal."""
    return len({value.type().scalarType() for value in args}) == 1


def is_complex_value(x: Any) -> bool:
    dtype = x.type().dtype() if isinstance(x, Value) else None
    return isinstance(dtype, torch.dtype) and dtype.is_complex


def check_training_mode(op_train_mode: int, op_name: str) -> None:
    """Nothing to warn of: an operator is exported in the mode that it ran in, and the file is compared with it."""
