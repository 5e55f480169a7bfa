"""Embeddings, bags of embeddings, one-hot codes and binning."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as nnf

from tests.ops.harness import Case, F, I, Input, X, table

OFFSETS = torch.tensor([0, 2, 2, 5])
FLOATS = (torch.float32, torch.float64)


def bag(**options: object) -> object:
    return lambda i, w: nnf.embedding_bag(i, w, **options)  # type: ignore[arg-type]


def bag_at(**options: object) -> object:
    return lambda i, w, o: nnf.embedding_bag(i, w, o, **options)  # type: ignore[arg-type]


def offsets(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(0, 7, (shape[0] - 1,)).sort().values])


def last_offsets(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.cat([offsets((shape[0] - 1,)), torch.tensor([7])])


O = X("c", make=offsets)  # noqa: E741
LAST = X("c", make=last_offsets)
ROWS = F(5, 3)


class Weighted(nn.Module):
    def forward(self, i: torch.Tensor, w: torch.Tensor, o: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return nnf.embedding_bag(i, w, o, mode="sum", per_sample_weights=p)


CASES = [
    Case("embedding", nnf.embedding, [I("n", "t"), ROWS], dtypes=(*FLOATS, torch.float16, torch.bfloat16),
         graph=["Gather"]),
    Case("embedding_module", nn.Embedding(5, 3, padding_idx=0), [I("n", "t")], dtypes=(), graph=["Gather"]),
    Case("embedding_padding", lambda i, w: nnf.embedding(i, w, padding_idx=-1, scale_grad_by_freq=True),
         [I("n"), ROWS]),
    Case("embedding_int32", lambda i, w: nnf.embedding(i.int(), w), [I("n"), ROWS]),
    Case("embedding_max_norm", nn.Embedding(5, 3, max_norm=1.0), [I("n", "t")], dtypes=()),
    Case("embedding_max_norm_1", nn.Embedding(5, 3, max_norm=1.0, norm_type=1.0), [I("n")], dtypes=()),
    Case("embedding_max_norm_3", nn.Embedding(5, 3, max_norm=1.0, norm_type=3.0), [I("n")], dtypes=()),
    Case("bag_sum", bag(mode="sum"), [I("n", 4), ROWS], dynamic_since=9, dtypes=(*FLOATS, torch.float16),
         graph=["Gather", "ReduceSum"]),
    Case("bag_mean", bag(), [I("n", 4), ROWS], dynamic_since=9, dtypes=FLOATS, graph=["Gather", "ReduceMean"]),
    Case("bag_max", bag(mode="max"), [I("n", 4), ROWS], dynamic_since=9, dtypes=FLOATS, graph=["Gather", "ReduceMax"]),
    Case("bag_dynamic", bag(), [I("n", "t"), ROWS], dynamic_since=9, dtypes=()),
    Case("bag_sum_padding", bag(mode="sum", padding_idx=1), [I("n", 4), ROWS], dynamic_since=9),
    Case("bag_mean_padding", bag(padding_idx=-4), [I("n", 4), ROWS], dynamic_since=9),
    Case("bag_max_padding", bag(mode="max", padding_idx=1), [I("n", 4), ROWS], since=9),
    Case("bags_sum", bag_at(mode="sum"), [I(7), ROWS, O], dtypes=FLOATS),
    Case("bags_mean", bag_at(), [I(7), ROWS, O]),
    Case("bags_max", bag_at(mode="max"), [I(7), ROWS, O], since=9),
    Case("bags_constant", lambda i, w: nnf.embedding_bag(i, w, OFFSETS), [I(7), ROWS]),
    Case("bags_long", bag_at(mode="sum"), [I("s"), ROWS, Input((3,), make=lambda s: torch.tensor([0, 1, 3]))],
         dynamic_since=9),
    Case("bags_last", bag_at(mode="sum", include_last_offset=True), [I(7), ROWS, LAST]),
    Case("bags_mean_padding", bag_at(padding_idx=0), [I(7), ROWS, O]),
    Case("bags_max_padding", bag_at(mode="max", padding_idx=0), [I(7), ROWS, O], since=9),
    Case("bags_weighted", Weighted(), [I(7), ROWS, O, F(7)]),
    Case("bag_weighted", lambda i, w, p: nnf.embedding_bag(i, w, mode="sum", per_sample_weights=p),
         [I("n", 4), ROWS, F("n", 4)], dynamic_since=9),
    Case("one_hot", lambda i: nnf.one_hot(i, 5), [I("n", "t")], dtypes=(), graph=["OneHot"]),
    Case("one_hot_unknown", nnf.one_hot, [I("n", 3)], since=9, dtypes=()),
    Case("one_hot_number", lambda i: nnf.one_hot(i, 5), [I()], dtypes=()),
    Case("bag_last_free", bag_at(mode="sum", padding_idx=-1), [I(7, high=3), F("c", 3), O]),
    Case("one_hot_by_size", lambda i, x: nnf.one_hot(i, x.shape[0]), [I("n"), F("d")], dynamic_since=9, dtypes=()),
    Case("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), [F("n", 4)], dtypes=FLOATS),
    Case("bucketize_right", lambda i: torch.bucketize(i, torch.tensor([1, 2, 3]), right=True, out_int32=True),
         [I("n")], dtypes=()),
    Case("searchsorted", lambda x, y: torch.searchsorted(x.sort().values, y), [F("n", 6), F("n", 4)], dtypes=FLOATS),
    Case("searchsorted_right", lambda x, y: torch.searchsorted(x, y, side="right"),
         [X(6, make=lambda s: torch.arange(6.0)), F("n", 4)]),
    Case("searchsorted_number", lambda x: torch.searchsorted(x, 2), [X(6, make=lambda s: torch.arange(6.0))]),
]  # fmt: skip

test_embedding = table(CASES)
