"""Nodes with data-dependent result sizes: they may differ for other data of the same shape."""

from __future__ import annotations

import torch

from onnxport.graph.ir import Graph, Node, Value, values_in
from onnxport.graph.sizes import Size, SizeExpr

COUNTING_OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        "nonzero", "nonzero_numpy", "argwhere", "masked_select", "unique_consecutive", "unique_dim", "_unique",
        "_unique2", "bincount", "_pack_padded_sequence", "_pad_packed_sequence",
    )
) | {"torchvision::nms"}  # fmt: skip


def size_depends_on_data(node: Node) -> bool:
    if node.op in COUNTING_OPERATORS or _may_count(node):
        return True
    if node.op == "aten::index":
        indices = values_in(node.inputs["indices"])
        return any(value.is_tensor and value.dtype in (torch.bool, torch.uint8) for value in indices)
    if node.op == "aten::where":
        return list(node.inputs) == ["condition"]
    if node.op == "aten::one_hot":
        return bool(node.inputs.get("num_classes", -1) == -1)
    if node.op == "aten::tensor_split":
        return isinstance(node.inputs.get("tensor_indices_or_sections"), Value)
    if node.op == "aten::repeat_interleave":
        return isinstance(node.inputs.get("repeats"), Value) and node.inputs.get("output_size") is None
    if node.op == "prim::Loop":
        return False  # what a loop carries keeps its sizes, or they are known to be dynamic
    if node.op == "prim::If":
        return any(len({result.type for result in results}) > 1 for results in _sides(node))
    return any(not value.is_tensor and value.size is None for value in node.values())


def _sides(node: Node) -> list[tuple[Value, ...]]:
    return list(zip(*(block.outputs for block in node.blocks), strict=True))


def counted_sizes(graph: Graph) -> frozenset[SizeExpr]:
    """The data-dependent sizes and those that follow from them: each of them may be 0."""
    counted: set[SizeExpr] = set()
    known = {size for value in graph.block.inputs if value.is_tensor for size in value.shape}
    for node in graph.block.all_nodes():
        given = {size for value in node.values() for size in _sizes(value)}
        if size_depends_on_data(node) or not counted.isdisjoint(given):
            made = {size for value in node.outputs for size in _sizes(value) if isinstance(size, SizeExpr)}
            counted |= made - known - given
    return frozenset(counted)


def _sizes(value: Value) -> tuple[Size | None, ...]:
    return value.shape if value.is_tensor else (value.size,)


def _may_count(node: Node) -> bool:
    """An unknown operator may have data-dependent sizes, unless its result has the shape of an argument."""
    if node.op.startswith(("aten::", "prims::", "onnxport::")) or (
        node.op.startswith("prim::") and node.op != "prim::PythonOp"
    ):
        return False
    given = [value.type for value in node.values()]
    return any(value.is_tensor and value.type not in given for value in node.outputs)
