"""Triangles and diagonals of matrices."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, table

EVERY = (*ALL, torch.bfloat16)


def written(offset: int, dim1: int = 0, dim2: int = 1) -> object:
    def call(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.diagonal(offset, dim1, dim2).copy_(v)
        return y

    return call


def filled(x: torch.Tensor) -> torch.Tensor:
    return x.clone().fill_diagonal_(3)


CASES = [
    Case("tril", torch.tril, [F("n", 4, 5)], since=9, dtypes=EVERY, graph=["Trilu"]),
    Case("triu", torch.triu, [F("n", 4, 5)], since=9, dtypes=EVERY, graph=["Trilu"]),
    Case("tril_offset", lambda x: x.tril(1), [F(4, 5)], since=9, dtypes=EVERY),
    Case("triu_offset", lambda x: x.triu(-1), [F("h", "w")], since=9),
    Case("tril_dynamic", lambda x: x.tril(-1), [F("h", "w")], since=9),
    Case("triu_bool", lambda x: (x > 0).triu(1), [F("h", "w")], dynamic_since=9, dtypes=()),
    Case("causal_mask", lambda x: torch.ones(x.shape[0], x.shape[0]).tril() * x[:, :1], [F("t", "t")],
         dynamic_since=9, dtypes=()),
    Case("tril_indices", lambda x: x + torch.tril_indices(4, 3, 1), [F(1)], dtypes=()),
    Case("triu_indices", lambda x: x + torch.triu_indices(4, 3, -1), [F(1)], dtypes=()),
    Case("triu_indices_dynamic", lambda x: torch.triu_indices(x.shape[0], x.shape[1], 1), [F("c", "t")],
         dynamic_since=9, dtypes=()),
    Case("diagonal", torch.diagonal, [F(4, 5)], dtypes=EVERY, graph=["Reshape", "Slice"]),
    Case("diagonal_batch", lambda x: x.diagonal(dim1=-2, dim2=-1), [F("n", 4, 4)], dtypes=EVERY),
    Case("diagonal_tall", lambda x: x.diagonal(dim1=-2, dim2=-1), [F("n", 6, 2)]),
    Case("diagonal_above", lambda x: x.diagonal(1, 1, 2), [F("n", 4, 5)]),
    Case("diagonal_below", lambda x: x.diagonal(-2, 1, 2), [F("n", 4, 5)]),
    Case("diagonal_swapped", lambda x: x.diagonal(1, 2, 0), [F(3, "n", 5)]),
    Case("diagonal_outside", lambda x: x.diagonal(7, 1, 2), [F("n", 4, 5)]),
    Case("diagonal_dynamic", lambda x: x.diagonal(0, -2, -1), [F("n", "h", "w")], dynamic_since=9),
    Case("diagonal_dynamic_above", lambda x: x.diagonal(2, -2, -1), [F("n", "h", "w")], dynamic_since=9),
    Case("diagonal_dynamic_below", lambda x: x.diagonal(-1), [F("h", "w")], dynamic_since=9),
    Case("linalg_diagonal", torch.linalg.diagonal, [F("n", 4, 5)]),
    Case("diag", torch.diag, [F(4, 5)], dtypes=EVERY),
    Case("diag_of_vector", torch.diag, [F("n")], since=9, dtypes=EVERY, graph=["Unsqueeze", "Where"]),
    Case("diag_of_vector_above", lambda x: x.diag(2), [F("n")], since=9),
    Case("diag_embed", torch.diag_embed, [F("n", 4)], since=9, dtypes=EVERY),
    Case("diag_embed_above", lambda x: torch.diag_embed(x, 1), [F("n", 4)], since=9, dtypes=ALL),
    Case("diag_embed_below", lambda x: torch.diag_embed(x, -2), [F("n", 4)], since=9),
    Case("diag_embed_dims", lambda x: torch.diag_embed(x, 1, 0, 2), [F(3, 4)], since=9),
    Case("diag_embed_dynamic", lambda x: torch.diag_embed(x, 1), [F(2, "t")], since=9),
    Case("diagflat", lambda x: torch.diagflat(x, 1), [F(2, 3)], since=9),
    Case("trace", torch.trace, [F(4, 5)], dtypes=NUMBERS),
    Case("trace_dynamic", torch.trace, [F("h", "w")], dynamic_since=9),
    Case("diagonal_scatter", lambda x, v: x.diagonal_scatter(v), [F(4, 5), F(4)], since=9, dtypes=EVERY),
    Case("diagonal_write", written(0), [F(5, 3), F(3)], since=9),
    Case("diagonal_write_above", written(1, 1, 2), [F("n", 4, 5), F("n", 4)], since=9),
    Case("diagonal_write_below", written(-2, 1, 2), [F("n", 4, 5), F("n", 2)], since=9),
    Case("diagonal_write_swapped", written(0, 2, 0), [F(4, "n", 4), F("n", 4)], since=9),
    Case("diagonal_write_dynamic", written(0), [F("t", "t"), F("t")], since=9),
    Case("fill_diagonal", filled, [F(4, 5)], since=9, dtypes=NUMBERS),
    Case("fill_diagonal_dynamic", filled, [F("t", "t")], since=9),
]  # fmt: skip

test_triangular = table(CASES)
