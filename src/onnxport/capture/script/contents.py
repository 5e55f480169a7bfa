"""Numbers in tensors that are known when the program is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import Node, Value

NUMBER_DTYPES = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
PICKS = frozenset({"aten::select", "aten::to", "aten::detach", "aten::lift_fresh"})
FACTORIES = frozenset({"aten::arange", "aten::full", "aten::linspace", "aten::ones", "aten::zeros"})
READS_NUMBER: dict[str, Callable[[torch.Tensor], Any]] = {
    "aten::Int": int, "aten::IntImplicit": int, "aten::Float": float, "aten::FloatImplicit": float, "aten::Bool": bool,
    "aten::ScalarImplicit": torch.Tensor.item, "aten::item": torch.Tensor.item,
}  # fmt: skip


def read_from(node: Node) -> Value | None:
    """The tensor from which a node reads a number."""
    tensor = node.inputs.get("self" if node.op == "aten::item" else "a") if node.op in READS_NUMBER else None
    return tensor if isinstance(tensor, Value) and tensor.is_tensor else None


def element_kind(node: Node) -> type | None:
    """The type of a number that is an element of a tensor, whatever its dtype; None where the schema says it."""
    tensor = read_from(node) if READS_NUMBER.get(node.op) is torch.Tensor.item else None
    if tensor is None or tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return None
    return bool if tensor.dtype == torch.bool else int


def known_content(tensor: Value) -> torch.Tensor | None:
    """The content of a constant, of an element selected from one, or of a tensor made of constant numbers.

    None for everything else, parameters included.
    """
    if tensor.data is not None:
        return None if tensor.name else tensor.data
    node = tensor.node
    if node is None or node.op not in PICKS | FACTORIES:
        return None
    contents = {value: known_content(value) for value in node.values()}
    if any(content is None for content in contents.values()):
        return None
    arguments = {name: contents[a] if isinstance(a, Value) else a for name, a in node.inputs.items()}
    (result,) = evaluate(node, arguments)
    return result if isinstance(result, torch.Tensor) else None
