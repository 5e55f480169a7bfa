"""Indexing with tensors."""

from __future__ import annotations

import io
from typing import Any

import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import ALL, NUMBERS, B, Case, F, I, Input, table

IDX = torch.tensor([[0, 2, -1], [1, 1, -3]])
ROW = torch.tensor([2, 0, 2, -1])
FLAT = torch.tensor([1, -1, 3, 0])
MASK = torch.tensor([True, False, True, True])


def put(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    y = x.clone()
    y[index] = value
    return y


def U(*shape: int | str) -> Input:
    """A mask of bytes, as masks once were."""
    return Input(shape, 0, 2, torch.uint8)


def distinct(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randperm(max(shape[0], 8))[: shape[0]]


D = lambda *shape: Input(shape, make=distinct)  # noqa: E731

READS = [
    Case("one", lambda x, i: x[i], [F(4, "n"), I(3)], dtypes=(*ALL, torch.bfloat16), graph=["Gather"]),
    Case("one_second", lambda x, i: x[:, i], [F("n", 4, 3), I(2, "t")], graph=["Gather"]),
    Case("one_constant", lambda x: x[:, ROW], [F("n", 4)], graph=["Gather"]),
    Case("one_constant_matrix", lambda x: x[:, IDX], [F("n", 4, "t")]),
    Case("one_negative", lambda x, i: x[i], [F(4, 2), I(3, low=-4)], since=7),
    Case("one_int32", lambda x, i: x[i.int()], [F(4, 2), I(3)]),
    Case("no_dims", lambda x, i: x[:, i[0]], [F("n", 4), I(2)]),
    Case("two", lambda x, i, j: x[i, j], [F(4, 5, "n"), I(3), I(3)],
         graph=["Unsqueeze", "Unsqueeze", "Concat", "GatherND"]),
    Case("two_broadcast", lambda x, i, j: x[i.unsqueeze(1), j], [F(4, 5), I("n"), I("t")]),
    Case("two_second", lambda x, i, j: x[:, i, j], [F("n", 4, 5), I("t"), I("t")]),
    Case("two_inner", lambda x, i, j: x[:, i, j], [F("n", 4, 5, "c"), I("t"), I("t")]),
    Case("two_inner_matrix", lambda x, i, j: x[:, i, j], [F("n", 4, 5, 3), I(2, "t"), I("t")]),
    Case("two_apart", lambda x, i, j: x[i, :, j], [F(4, "n", 5), I("t"), I("t")]),
    Case("two_apart_inner", lambda x, i, j: x[:, i, :, j], [F("n", 4, 2, 5), I("t"), I("t")]),
    Case("two_from_end", lambda x, i, j: x[:, i, j], [F("n", "c", 5), I("t", low=-3, high=3), I("t", low=-5, high=5)]),
    Case("constant_from_end", lambda x, i: x[ROW[:3] - 4, i], [F("h", 5), I(3, low=-5, high=5)]),
    Case("two_constant", lambda x: x[ROW, ROW], [F(4, 5, "n")], graph=["GatherND"]),
    Case("two_constant_inner", lambda x: x[:, ROW, FLAT], [F("n", 4, 5)], graph=["Reshape", "Gather"]),
    Case("two_constant_dynamic", lambda x: x[ROW, ROW], [F("c", "t")]),
    Case("three", lambda x, i: x[i, ROW[:3], i], [F(4, 5, 6), I(3)]),
    Case("with_slices", lambda x, i: x[1:, :, i, ::2], [F("c", 2, 4, 5), I("t")], dynamic_since=7),
    Case("with_none", lambda x, i: x[None, i, :, None], [F(4, "n"), I("t")]),
    Case("arange", lambda x, i: x[torch.arange(x.shape[0]), i], [F("n", 5), I("n")], dynamic_since=9),
    Case("mask", lambda x, m: x[m], [F("n", "c"), B("n", "c")], since=9, dtypes=(*ALL, torch.bfloat16),
         graph=["Reshape", "Compress"]),
    Case("mask_rows", lambda x, m: x[m], [F("n", 3), B("n")], since=9, graph=["Compress"]),
    Case("mask_columns", lambda x, m: x[:, m], [F("n", "c"), B("c")], since=9, graph=["Compress"]),
    Case("mask_first_two", lambda x, m: x[m], [F("n", "c", 3), B("n", "c")], since=9, dynamic_since=9),
    Case("mask_last_two", lambda x, m: x[:, m], [F("n", 4, 3), B(4, 3)], since=9),
    Case("mask_bytes", lambda x, m: x[m], [F("n", 3), U("n")], since=9),
    Case("mask_constant", lambda x: x[:, MASK], [F("n", 4)], graph=["Gather"]),
    Case("mask_and_number", lambda x, m: x[m, 1], [F("n", 4), B("n")], since=9),
    Case("mask_and_index", lambda x, m, i: x[m, i], [F("n", 4, 3), B("n"), I(1)], since=9),
    Case("mask_and_index_apart", lambda x, m, i: x[m, :, i], [F("n", 4, 3), B("n"), I(1, high=3)], since=9),
    Case("mask_of_two_and_index", lambda x, m, i: x[m, i], [F("n", 4, 3), B("n", 4), I(1, high=3)], since=9),
    Case("mask_computed", lambda x: x[x > 0], [F("n", 4)], since=9),
    Case("mask_then_expand", lambda x, m: x[m].reshape(-1, 1, 4).expand(-1, 2, -1), [F("h", 4), B("h")], since=9),
    Case("mask_then_like", lambda x, m: torch.zeros_like(x[m]) + x[m].shape[0], [F("h", 4), B("h")], since=9),
    Case("nonzero_then_index", lambda x: x[(x > 0).nonzero()[:, 0], ROW[:1]], [F("h", 4)], since=9),
    Case("nonzero_then_put", lambda x: put(x, (x > 0).nonzero(as_tuple=True), 3), [F("h", 4)], since=11),
]  # fmt: skip

WRITES = [
    Case("put", put, [F(8, 3), D(3), F(3, 3)], since=9, dtypes=(*ALL, torch.bfloat16),
         graph=["Unsqueeze", "ScatterND"]),
    Case("put_number", lambda x, i: put(x, i, 3), [F(8, "n"), D(3)], since=9),
    Case("put_row", put, [F(8, "n"), D(3), F("n")], since=9),
    Case("put_second", lambda x, i, v: put(x, (slice(None), i), v), [F("n", 8), D(3), F("n", 3)], since=9),
    Case("put_second_number", lambda x, i: put(x, (slice(None), i), 1), [F("n", 8, 2), D(3)], since=9),
    Case("put_matrix", lambda x, v: put(x, IDX[:1], v), [F(4, 3), F(1, 3, 3)], since=11),
    Case("put_matrix_inner", lambda x, v: put(x, (slice(None), IDX[:1]), v), [F("n", 4, 2), F("n", 1, 3, 2)], since=11),
    Case("put_two", lambda x, i, j, v: put(x, (i, j), v), [F(8, 8, 3), D(3), D(3), F(3, 3)], since=11),
    Case("put_two_number", lambda x, i, j: put(x, (i, j), 2), [F(8, 8, "n"), D(3), D(3)], since=11),
    Case("put_two_inner", lambda x, i, v: put(x, (slice(None), i, i), v), [F("n", 8, 8, 2), D(3), F("n", 3, 2)],
         since=11),
    Case("put_two_inner_row", lambda x, i, v: put(x, (slice(None), i, i), v), [F("n", 8, 8, 2), D(3), F(2)], since=11),
    Case("put_two_apart", lambda x, i, v: put(x, (i, slice(None), i), v), [F(8, "n", 8), D(3), F(3, "n")], since=9),
    Case("put_two_broadcast", lambda x, v: put(x, (torch.tensor([[0], [3]]), torch.tensor([1, 2])), v),
         [F(4, 5), F(2, 2)], since=11),
    Case("put_constant", lambda x, v: put(x, torch.tensor([3, 0]), v), [F(4, 5), F(2, 5)], since=9),
    Case("put_accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), [F(4, 3), I(6), F(6, 3)], since=9,
         dtypes=NUMBERS),
    Case("put_accumulate_two", lambda x, i, v: x.index_put((i, i), v, accumulate=True), [F(4, 4), I(6), F(6)],
         since=9),
    Case("put_mask_number", lambda x, m: put(x, m, 3), [F("n", 4), B("n", 4)], since=9, dtypes=(*ALL, torch.bfloat16),
         graph=["Where"]),
    Case("put_mask_rows", lambda x, m: put(x, m, 0), [F("n", 4), B("n")], since=9, graph=["Unsqueeze", "Where"]),
    Case("put_mask_columns", lambda x, m: put(x, (slice(None), m), 0), [F("n", 4, 2), B(4)], since=9),
    Case("put_mask_row", put, [F("n", 4), B("n"), F(4)], since=9),
    Case("put_mask_bytes", lambda x, m, v: x.index_put((m,), v), [F("n", 4), U("n"), F(4)], since=9),
    Case("put_mask_values", lambda x, m: put(x, m, (x * 2)[m]), [F("n", 6), B("n", 6)], since=11),
    Case("put_mask_row_values", lambda x, m: x.index_put((m,), (x * 2)[m]), [F("h", 4), B("h")], since=11),
    Case("put_mask_inner_values", lambda x, m: put(x, (slice(None), m), (x * 2)[:, m]), [F("n", 6, 2), B(6)], since=11),
    Case("put_mask_and_index", lambda x, m: put(x, (m, torch.tensor([1])), 5), [F("n", 4), B("n")], since=11),
    Case("put_mask_constant", lambda x, v: put(x, MASK, v), [F(4, "n"), F(3, "n")], since=9),
    Case("put_mask_accumulate", lambda x, m: x.index_put((m,), torch.tensor(2.0), accumulate=True),
         [F("n", 4), B("n", 4)], since=9, dtypes=()),
    Case("put_all", lambda x, v: put(x, slice(None), v), [F(3, 4), F(4)]),
    Case("index_put_add", lambda x, i: put(x, i, x[i] + 1), [F(8, 3), D(3)], since=9),
]  # fmt: skip

NAMED = [
    Case("index_select", lambda x, i: x.index_select(1, i), [F("n", 4), I("t")], dtypes=ALL, graph=["Gather"]),
    Case("index_select_no_dims", lambda x, i: x.index_select(0, i[0]), [F(4), I(1)]),
    Case("index_copy", lambda x, i, v: x.index_copy(0, i, v), [F(8, 3), D(3), F(3, 3)], since=9, dtypes=ALL),
    Case("index_copy_second", lambda x, i, v: x.index_copy(1, i, v), [F("n", 8), D(3), F("n", 3)], since=9),
    Case("index_fill", lambda x, i: x.index_fill(0, i, 7), [F(4, 3), I(2)], since=9, dtypes=NUMBERS),
    Case("index_fill_second", lambda x, i: x.index_fill(1, i, -1), [F("n", 4), I(2)], since=9),
    Case("index_fill_constant", lambda x: x.index_fill(1, ROW, -1), [F("n", 4)], since=9, graph=["Where"]),
    Case("index_fill_tensor", lambda x, i, v: x.index_fill(1, i, v), [F("n", 4), I(2), F()], since=9),
    Case("index_add", lambda x, i, v: x.index_add(0, i, v), [F(4, 3), I(6), F(6, 3)], since=9, dtypes=NUMBERS),
    Case("index_add_second", lambda x, i, v: x.index_add(1, i, v, alpha=2), [F("n", 4), I(6), F("n", 6)], since=9),
    Case("take", lambda x, i: x.take(i), [F("n", 4), I(2, "t")], dtypes=ALL, graph=["Reshape", "Gather"]),
    Case("put_flat", lambda x, i, v: x.put(i, v), [F("n", 8), D(3), F(3)], since=9, dtypes=ALL),
    Case("put_flat_add", lambda x, i, v: x.put(i, v, accumulate=True), [F("n", 8), I(3), F(3)], since=9),
    Case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), [F("n", 4), I("n", 3)], dynamic_since=11,
         dtypes=ALL, graph=["GatherElements"]),
    Case("take_along_dim_broadcast", lambda x, i: torch.take_along_dim(x, i, 1), [F("n", 4, 2), I(1, 3, 2)], since=7,
         dynamic_since=11),
    Case("take_along_flat", torch.take_along_dim, [F("n", 4), I(1, 3)]),
]  # fmt: skip

test_indexing = table(READS + WRITES + NAMED)


def test_one_row_is_written_to_all_rows_of_a_mask() -> None:
    """Their number is dynamic: as many as the mask selects, or one."""
    mask, target = torch.tensor([True, False, True, True]), io.BytesIO()
    axes = {"values": {0: "k"}}
    x, names = torch.rand(4, 2), ["x", "mask", "values"]
    onnxport.export(put, (x, mask, torch.rand(3, 2)), target, input_names=names, dynamic_axes=axes, opset_version=17)
    session = Session(target.getvalue())
    for count in (3, 1):
        values = torch.rand(count, 2)
        assert torch.equal(session.run({"x": x, "mask": mask, "values": values})[0], put(x, mask, values))
