"""Masks: masked_fill, masked_select, nonzero, where."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, B, Case, F, I, X, table


def some_zeros(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape) * (torch.rand(shape) > 0.5)


def Z(*shape: int | str) -> object:
    return X(*shape, make=some_zeros)


def masked_index(x: torch.Tensor, mask: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._unsafe_masked_index(x, mask, list(indices), True if x.dtype == torch.bool else 1)


CASES = [
    Case("masked_fill", lambda x, m: x.masked_fill(m, 3), [F("n", 4), B("n", 4)], since=9,
         dtypes=(*ALL, torch.bfloat16), graph=["Where"]),
    Case("masked_fill_infinite", lambda x, m: x.masked_fill(m, float("-inf")), [F("n", 2, 4), B("n", 1, 4)], since=9),
    Case("masked_fill_tensor", lambda x, m, v: x.masked_fill(m, v), [F("n", 4), B(4), F()], since=9),
    Case("masked_fill_wider_mask", lambda x, m: x.masked_fill(m, 0), [F(4), B("n", 4)], since=9),
    Case("masked_fill_in_place", lambda x, m: x.clone().masked_fill_(m, 0.5), [F("n", 4), B("n", 4)], since=9),
    Case("masked_fill_no_dims", lambda x, m: x.masked_fill(m, 1), [F("n", 4), B()], since=9),
    Case("masked_index", masked_index, [F("n", 5), B("n", 3), I("n", 1, low=-9, high=9), I(1, 3, low=-9, high=9)],
         since=9, dtypes=ALL),
    Case("masked_index_rows", lambda x, m, i: torch.ops.aten._unsafe_masked_index(x, m, [None, i], 2.5),
         [F("n", 5), B("n", 3), I(3, low=-9, high=9)], since=9),
    Case("where", torch.where, [B("n", 4), F("n", 4), F("n", 4)], since=9, dtypes=(*ALL, torch.bfloat16),
         graph=["Where"]),
    Case("where_broadcast", torch.where, [B("n", 1), F(4), F("n", 4)], since=9),
    Case("where_number", lambda m, x: torch.where(m, x, 0), [B("n", 4), F("n", 4)], since=9, dtypes=NUMBERS),
    Case("where_number_first", lambda m, x: torch.where(m, 1.5, x), [B("n", 4), F("n", 4)], since=9, dtypes=NUMBERS),
    Case("where_numbers", lambda m: torch.where(m, 1.0, 2), [B("n", 4)], since=9, dtypes=()),
    Case("where_integers", lambda m: torch.where(m, 1, 2), [B("n", 4)], since=9, dtypes=()),
    Case("where_promoted", lambda m, x: torch.where(m, x, x.long()), [B("n", 4), F("n", 4)], since=9, dtypes=NUMBERS),
    Case("where_method", lambda x, m, y: x.where(m, y), [F("n", 4), B("n", 4), F()], since=9),
    Case("where_only", torch.where, [B("n", 4)], since=9, dtypes=()),
    Case("where_only_vector", lambda m: torch.where(m)[0], [B("n")], since=9, dtypes=()),
    Case("nonzero", torch.nonzero, [Z("n", 4)], since=9, dtypes=(*ALL, torch.bfloat16), graph=["NonZero", "Transpose"]),
    Case("nonzero_tuple", lambda x: x.nonzero(as_tuple=True), [Z("n", 2, 4)], since=9),
    Case("nonzero_no_dims", lambda x: x.nonzero(), [F(low=1)], since=9),
    Case("nonzero_no_dims_tuple", lambda x: x.nonzero(as_tuple=True), [F(low=1)], since=9),
    Case("argwhere", torch.argwhere, [Z("n", 4)], since=9),
    Case("count_nonzero", torch.count_nonzero, [Z("n", 4)], dtypes=(*ALL, torch.bfloat16)),
    Case("count_nonzero_dim", lambda x: x.count_nonzero(1), [Z("n", 4)]),
    Case("count_nonzero_dims", lambda x: x.count_nonzero((0, -1)), [Z("n", 4, "t")]),
    Case("count_nonzero_no_dims", lambda x: x.count_nonzero(), [F(low=1)]),
    Case("masked_select", torch.masked_select, [F("n", 4), B("n", 4)], since=9, dtypes=(*ALL, torch.bfloat16),
         graph=["Reshape", "Compress"]),
    Case("masked_select_vector", torch.masked_select, [F("n"), B("n")], since=9, graph=["Compress"]),
    Case("masked_select_broadcast", torch.masked_select, [F("n", 4), B(4)], since=9),
    Case("masked_select_source", torch.masked_select, [F(4), B("n", 4)], since=9),
    Case("masked_select_no_dims", torch.masked_select, [F(), B()], since=9),
    Case("masked_scatter", lambda x, m, v: x.masked_scatter(m, v), [F("n", 4), B("n", 4), F("n", 4)], since=11,
         dtypes=(*ALL, torch.bfloat16)),
    Case("masked_scatter_broadcast", lambda x, m, v: x.masked_scatter(m, v), [F("n", 4), B(4), F("n", 6)], since=11),
]  # fmt: skip

test_masking = table(CASES)
