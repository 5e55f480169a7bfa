"""Sums of products over labelled axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from tests.ops.harness import NUMBERS, Case, F, I, table


def einsum(equation: str, *shapes: Sequence[int | str], **options: Any) -> Case:
    return Case(equation, lambda *tensors: torch.einsum(equation, *tensors), [F(*shape) for shape in shapes], **options)


CASES = [
    einsum("ij,jk->ik", ("n", 3), (3, "c"), dtypes=(*NUMBERS, torch.bfloat16), graph=["MatMul"]),
    einsum("ij,jk", ("n", 3), (3, "c"), graph=["MatMul"]),
    einsum("ik,jk->ij", ("n", 3), ("c", 3), graph=["Gemm"]),
    einsum("ki,kj->ji", (3, "n"), (3, "c")),
    einsum("bij,bjk->bik", ("n", "t", 3), ("n", 3, "c"), graph=["MatMul"]),
    einsum("bij,jk->bik", ("n", "t", 3), (3, "c"), graph=["MatMul"]),
    einsum("ij,bjk->bik", ("t", 3), ("n", 3, "c"), graph=["MatMul"]),
    einsum("...ij,...jk->...ik", ("n", 1, "t", 3), (2, 3, "c")),
    einsum("...ij,...jk->...ik ", ("n", 2, "t", 3), (2, 3, "c"), graph=["MatMul"]),
    einsum("...ij,jk->...ik", ("n", 2, "t", 3), (3, "c"), graph=["MatMul"]),
    einsum("ij,j->i", ("n", 3), (3,), graph=["MatMul"]),
    einsum("j,bjk->bk", (3,), ("n", 3, "c"), graph=["MatMul"]),
    einsum("i,i->", ("t",), ("t",), graph=["MatMul"]),
    einsum("i,j->ij", ("t",), ("c",)),
    einsum("bhid,bhjd->bhij", ("n", 2, "t", 3), ("n", 2, "s", 3), dtypes=(*NUMBERS, torch.bfloat16), graph=["Einsum"]),
    einsum("bihd,bjhd->bhij", ("n", "t", 2, 3), ("n", "s", 2, 3)),
    einsum("nchw,nc->nhw", ("n", "c", "h", "w"), ("n", "c")),
    einsum("abc,cbd->da", (2, 3, "t"), ("t", 3, "c")),
    einsum("ij,ij->ij", ("n", "t"), ("n", "t")),
    einsum("ij,kl->k", ("n", "t"), ("c", "s")),
    einsum("ij,ik->i", ("n", "t"), ("n", "c")),
    einsum("Ab,ba", ("n", "t"), ("t", "c")),
    einsum("ij->ji", ("n", "t"), graph=["Transpose"]),
    einsum("ji", ("n", "t"), graph=["Transpose"]),
    einsum("ij->", ("n", "t"), dtypes=NUMBERS),
    einsum("ijk->ki", ("n", "t", "c"), dtypes=NUMBERS),
    einsum("ij->ij", ("n", "t")),
    einsum("...i->...", ("n", "t", 3)),
    einsum("i...->...", ("n", "t", 3)),
    einsum("b...->b", ("n", "t", 3)),
    einsum("ii->i", (3, 3), since=12),
    einsum("ii", (3, 3), since=12),
    einsum("bii->b", ("n", 3, 3), since=12),
    einsum("ii,ij->j", (3, 3), (3, "c"), since=12),
    einsum("i,ij,j->", ("n",), ("n", "t"), ("t",)),
    einsum("bi,oij,bj->bo", ("n", 3), (4, 3, 2), ("n", 2)),
    einsum("ij,jk,kl->il", ("n", 3), (3, "c"), ("c", 2)),
    einsum("ij,->ij", ("n", "t"), ()),
    einsum("ij,ij->i", ("n", 1), ("n", "t")),
    einsum("bij,bjk ->bik", (1, "t", 3), ("n", 3, "c")),
    Case("sublists", lambda x, y: torch.einsum(x, [0, 1], y, [2, 1], [2, 0]), [F("n", 3), F("c", 3)]),
    Case("mixed", lambda x, y: torch.einsum("ij,ij->ij", x.int(), y), [I("n", 3), F("n", 3)]),
    Case("mixed_outer", lambda x, y: torch.einsum("i,j->ij", x, y), [I("n"), F("c")]),
    Case("with_parameter", torch.nn.Bilinear(3, 4, 5), [F("n", 3), F("n", 4)], graph=["Einsum", "Add"]),
    Case(
        "tensordot1",
        lambda x, y: torch.tensordot(x, y, dims=1),
        [F("n", 3), F(3, "c")],
        dtypes=NUMBERS,
        graph=["MatMul"],
    ),
    Case("tensordot2", lambda x, y: torch.tensordot(x, y, dims=2), [F("n", 3, 4), F(3, 4, "c")]),
    Case("tensordot0", lambda x, y: torch.tensordot(x, y, dims=0), [F("n", 3), F("c")]),
    Case(
        "tensordot_axes",
        lambda x, y: torch.tensordot(x, y, dims=([0, 2], [-1, 0])),
        [F(2, "n", 3), F(3, "c", 2)],
        dtypes=NUMBERS,
    ),
    Case("tensordot_all", lambda x, y: torch.tensordot(x, y, dims=2), [F("n", 3), F("n", 3)]),
    Case("tensordot_size_one", lambda x, y: torch.tensordot(x, y, dims=1), [F("n", 1), F(3, "c")]),
    Case("inner11", torch.inner, [F("t"), F("t")], dtypes=NUMBERS, graph=["MatMul"]),
    Case("inner22", torch.inner, [F("n", "t"), F("c", "t")], dtypes=NUMBERS, graph=["Gemm"]),
    Case("inner23", torch.inner, [F("n", "t"), F("c", 2, "t")], dtypes=NUMBERS),
    Case("inner_scalar", torch.inner, [F(), F("n", "t")]),
    Case("bilinear", nnf.bilinear, [F("n", 3), F("n", 4), F(5, 3, 4), F(5)], dtypes=NUMBERS),
    Case("bilinear_rank3", nnf.bilinear, [F("n", "t", 3), F("n", "t", 4), F(5, 3, 4)]),
    Case("bilinear_rank1", nnf.bilinear, [F(3), F(4), F("c", 3, 4)]),
    einsum("bij,bkj->bik", (0, 2, 3), (0, 4, 3)),
]

test_contraction = table(CASES)
