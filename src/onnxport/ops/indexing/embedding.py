"""Embeddings, bags of embeddings, one-hot codes and binning."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Size, product
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Operand, Value
from onnxport.ops.reduction import nan_order

SUM, MEAN, MAX = 0, 1, 2


@converter("aten::embedding")
def embedding(
    g: Builder,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"""  # noqa: E501
    return g.op("Gather", weight, indices, axis=0)


@converter("aten::embedding_renorm")
def embedding_renorm(g: Builder, self: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor"""
    positions = emit.reshape(g, g.cast(indices, torch.int64), [product(indices.shape or ())])
    if g.opset < 9:
        return _renormed_table(g, self, positions, max_norm, norm_type)
    rows = g.op("Gather", self, positions, axis=0)
    norm = _norms(g, rows, norm_type)
    scale = g.op("Div", g.cast(max_norm, rows.dtype), g.op("Add", norm, 1e-7))
    shrunk = g.op("Mul", rows, emit.where(g, g.op("Greater", norm, max_norm), scale, 1.0))
    return emit.scatter_nd(g, self, emit.unsqueeze(g, positions, [1]), shrunk)


def _renormed_table(g: Builder, table: Value, positions: Value, max_norm: float, norm_type: float) -> Value:
    """Without Scatter and Where: every row is multiplied by a factor, which is 1 for rows that are not looked up."""
    norm = _norms(g, table, norm_type)
    rows = emit.counting(g, (table.shape or ())[0])
    hits = g.cast(g.op("Equal", emit.unsqueeze(g, positions, [1]), emit.unsqueeze(g, rows, [0])), table.dtype)
    looked_up = emit.unsqueeze(g, emit.reduce(g, "ReduceMax", hits, [0], keepdims=False), [1])
    shrinks = g.op("Mul", looked_up, g.cast(g.op("Greater", norm, max_norm), table.dtype))
    scale = g.op("Div", g.cast(max_norm, table.dtype), g.op("Add", norm, 1e-7))
    factor = g.op("Add", g.op("Mul", shrinks, scale), g.op("Add", g.op("Neg", shrinks), 1.0))
    return g.op("Mul", table, factor)


def _norms(g: Builder, rows: Value, norm_type: float) -> Value:
    if norm_type in (1.0, 2.0):
        return emit.reduce(g, f"ReduceL{int(norm_type)}", rows, [1], keepdims=True)
    if norm_type == float("inf"):
        return nan_order.extreme(g, g.op("Abs", rows), [1], keepdims=True, largest=True)
    powers = emit.reduce(g, "ReduceSum", g.op("Pow", g.op("Abs", rows), norm_type), [1], keepdims=True)
    return g.op("Pow", powers, 1 / norm_type)


@dataclass(frozen=True)
class Bags:
    """Rows to be reduced: ``rows`` as (bags, positions, features) or (positions, features).

    ``member`` says which position belongs to which bag, for bags of different lengths; None if each has its own row.
    ``valid`` says which positions are not padding; None if none is.
    """

    rows: Value
    member: Value | None
    valid: Value | None


@converter(
    "aten::embedding_bag",
    "aten::embedding_bag.padding_idx",
    "aten::_embedding_bag",
    "aten::_embedding_bag_forward_only",
)
def embedding_bag(
    g: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> list[Value]:
    """aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    assert weight.shape is not None
    _refuse_details(g)
    inner = g.origin is not None and g.origin.op.startswith("aten::_")
    padding: Size | None = None if padding_idx is None or (padding_idx < 0 and inner) else padding_idx
    if isinstance(padding, int) and padding < 0:
        padding = weight.shape[0] + padding
    length = None if include_last_offset else _bag_length(g)
    member = None
    if length is None:
        member = _members(g, indices, offsets, include_last_offset)
    else:
        shape = [g.outputs[0].shape[0], length]
        indices = emit.reshape(g, indices, shape)
        if per_sample_weights is not None:
            per_sample_weights = emit.reshape(g, per_sample_weights, shape)
    rows = g.op("Gather", weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = g.op("Mul", rows, emit.unsqueeze(g, g.cast(per_sample_weights, rows.dtype), [indices.rank]))
    valid = None
    if padding is not None:
        valid = g.op("Not", g.op("Equal", indices, g.cast(sizes.scalar(g, padding), indices.dtype)))
    bags = Bags(rows, member, valid)
    joined = _largest(g, bags) if mode == MAX else _total(g, bags, mode == MEAN)
    return [joined, *(g.constant(torch.zeros(0, dtype=torch.int64)) for _ in range(3))]


def _refuse_details(g: Builder) -> None:
    """The other results of embedding_bag are for its gradient."""
    details = set(g.outputs[1:])
    graph = g.context.graph
    used = details.intersection(graph.block.outputs)
    if used or any(details.intersection(node.values()) for node in graph.block.nodes):
        g.unsupported("only the first result of embedding_bag can be exported")


def _bag_length(g: Builder) -> AnySize | None:
    """The length of all bags if they are the rows of a matrix: offsets 0, n, 2n, ..."""
    assert g.origin is not None
    made_by = g.origin.inputs["offsets"].node
    if made_by is None or made_by.op != "aten::arange" or made_by.inputs.get("start", 0) != 0:
        return None
    count, bags, step = g.origin.inputs["indices"].shape[0], g.outputs[0].shape[0], made_by.inputs.get("step", 1)
    length: AnySize | None = step if isinstance(step, int) else step.size
    return length if length is not None and bags * length == count else None  # type: ignore[operator]


def _members(g: Builder, indices: Value, offsets: Value, include_last_offset: bool) -> Value:
    """A mask [bag, position]: a bag has the positions from its offset up to the next."""
    assert indices.shape is not None
    positions = emit.counting(g, indices.shape[0])
    starts = g.cast(offsets, torch.int64)
    if include_last_offset:
        ends = emit.slice_(g, starts, [1], [emit.INT64_MAX], [0])
        starts = emit.slice_(g, starts, [0], [-1], [0])
    else:
        ends = g.op(
            "Concat", emit.slice_(g, starts, [1], [emit.INT64_MAX], [0]), sizes.vector(g, [indices.shape[0]]), axis=0
        )
    begun = emit.greater_or_equal(g, positions, emit.unsqueeze(g, starts, [1]))
    return g.op("And", begun, g.op("Less", positions, emit.unsqueeze(g, ends, [1])))


def _total(g: Builder, bags: Bags, mean: bool) -> Value:
    dtype = bags.rows.dtype
    counted = bags.member
    if bags.valid is not None:
        counted = bags.valid if counted is None else g.op("And", counted, bags.valid)
    if counted is None:
        return emit.reduce(g, "ReduceMean" if mean else "ReduceSum", bags.rows, [1], keepdims=False)
    ones = g.cast(counted, dtype)
    if bags.member is None:
        chosen = g.op("Mul", bags.rows, emit.unsqueeze(g, ones, [2]))
        total = emit.reduce(g, "ReduceSum", chosen, [1], keepdims=False)
    else:
        total = g.op("MatMul", ones, bags.rows)
    if not mean:
        return total
    counts = emit.reduce(g, "ReduceSum", ones, [1], keepdims=True)
    return g.op("Div", total, emit.clip(g, counts, 1.0, None))


def _largest(g: Builder, bags: Bags) -> Value:
    """The maximum of each bag; 0 for an empty bag."""
    counted = bags.member
    if bags.valid is not None:
        counted = bags.valid if counted is None else g.op("And", counted, bags.valid)
    if counted is None:
        return emit.reduce(g, "ReduceMax", bags.rows, [1], keepdims=False)
    rows = bags.rows if bags.member is None else emit.unsqueeze(g, bags.rows, [0])
    chosen = emit.where(g, emit.unsqueeze(g, counted, [2]), rows, float("-inf"), dtype=rows.dtype)
    largest = emit.reduce(g, "ReduceMax", chosen, [1], keepdims=False)
    counts = emit.reduce(g, "ReduceSum", g.cast(counted, torch.int64), [1], keepdims=True)
    return emit.where(g, g.op("Greater", counts, 0), largest, 0.0, dtype=rows.dtype)


@converter("aten::one_hot")
def one_hot(g: Builder, self: Value, num_classes: AnySize = -1) -> Value:
    """aten::one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    if isinstance(num_classes, int) and num_classes < 0:
        largest = g.op("ReduceMax", self, keepdims=0)
        depth = g.op("Add", largest, 1)
    else:
        depth = sizes.scalar(g, num_classes)
    if g.opset >= 9:
        index = emit.reshape(g, self, [1]) if self.rank == 0 else self
        result = g.op("OneHot", index, depth, g.constant([0, 1], torch.int64), axis=-1)
        return emit.squeeze(g, result, [0]) if self.rank == 0 else result
    if depth.data is None:
        g.require(9, "one_hot with a number of classes that is only known at run time")
    classes = emit.counting(g, int(depth.data))  # type: ignore[arg-type]
    return g.cast(g.op("Equal", emit.unsqueeze(g, self, [self.rank]), classes), torch.int64)


@converter("aten::bucketize")
def bucketize(g: Builder, self: Operand, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    """aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _count_before(g, boundaries, self, right)


@converter("aten::searchsorted")
def searchsorted(
    g: Builder,
    sorted_sequence: Value,
    self: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"""  # noqa: E501
    sequence = sorted_sequence
    if sorter is not None:
        sequence = emit.gather_elements(g, sequence, sorter, sequence.rank - 1)
    return _count_before(g, sequence, self, right or side == "right")


def _count_before(g: Builder, sequence: Value, values: Operand, right: bool) -> Value:
    """The number of elements of the last axis that are not greater than each value. NaN is greater than all."""
    bounds, sought = g.promoted(sequence, values)
    if bounds.rank > 1:
        bounds = emit.unsqueeze(g, bounds, [bounds.rank - 1])
    if sought.rank > 0:
        sought = emit.unsqueeze(g, sought, [sought.rank])
    behind = g.op("Greater", bounds, sought) if right else emit.greater_or_equal(g, bounds, sought)
    before = g.cast(g.op("Not", behind), torch.int64)
    return emit.reduce(g, "ReduceSum", before, [(before.rank) - 1], keepdims=False)
