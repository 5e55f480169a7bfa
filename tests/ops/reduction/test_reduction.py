"""Reductions, sorting, cumulative operators and norms."""

from __future__ import annotations

import torch
from torch.nn import functional as nnf

from tests.ops.harness import ALL, FLOATS, NUMBERS, B, Case, F, I, table

inf = float("inf")

# A NaN among the elements is the result, and is above all when they are sorted.

REDUCTIONS = [
    Case("sum", torch.sum, [F("n", "c")], dtypes=(*ALL, torch.bfloat16), graph=["ReduceSum"]),
    Case("sum_dim", lambda x: x.sum(1), [F("n", 3, "t")], dtypes=ALL, graph=["ReduceSum"]),
    Case("sum_dims_keep", lambda x: x.sum((0, -1), keepdim=True), [F("n", 3, "t")], dtypes=NUMBERS),
    Case("sum_dtype", lambda x: x.sum(0, dtype=torch.float64), [F("n", 3)], dtypes=NUMBERS),
    Case("sum_scalar", lambda x: x[0, 0].sum() + x[0, 0].sum(0), [F("n", 3)]),
    Case("sum_empty", lambda x: x[:, :0].sum(1), [F("n", 3)]),
    Case("mean", torch.mean, [F("n", "c")], graph=["ReduceMean"]),
    Case("mean_of_nothing", lambda x: (x.mean(0), x.mean(1, True), x.var(0, correction=0)), [F(0, 3)]),
    Case("mean_dims", lambda x: x.mean((2, 3)), [F("n", 3, "h", "w")], dtypes=FLOATS, graph=["ReduceMean"]),
    Case("mean_int", lambda x: x.mean(1, dtype=torch.float32), [F("n", 3)], dtypes=(torch.int64, torch.uint8)),
    Case("prod", torch.prod, [F("n", 3)], dtypes=NUMBERS),
    Case("prod_dim", lambda x: x.prod(1, keepdim=True), [F("n", 3)], dtypes=NUMBERS),
    Case("amax", lambda x: x.amax(1), [F("n", 3, "t")], dtypes=ALL, graph=["ReduceMax"]),
    Case("amax_int", lambda x: x.amax(1), [I("n", 3, "t")], dtypes=(), base=torch.int64, graph=["TopK", "Squeeze"]),
    Case("amin_dims", lambda x: x.amin((0, 2)), [F("n", 3, "t")], dtypes=NUMBERS),
    Case("amax_all", lambda x: x.amax(), [F("n", 3)]),
    Case("max_all", lambda x: (x.max(), x.min()), [F("n", 3)], dtypes=NUMBERS),
    Case("aminmax", lambda x: tuple(torch.aminmax(x, dim=1)) + tuple(torch.aminmax(x)), [F("n", 3)]),
    Case("any", lambda x: (x.any(), x.any(1), x.any(0, keepdim=True)), [B("n", 3)]),
    Case("any_number", lambda x: (x > 1).any(1) | x.all(1), [F("n", 3)], dtypes=NUMBERS),
    Case("all", lambda x: (x.all(), x.all(1), torch.all(x[:, :0], 1)), [B("n", 3)]),
    Case("any_uint8", lambda x: (x.any(1), x.all()), [F("n", 3)], base=torch.uint8, dtypes=()),
    Case("logsumexp", lambda x: torch.logsumexp(x, (0, 1)), [F("n", 3)], graph=["ReduceLogSumExp"]),
    Case("logsumexp_large", lambda x: torch.logsumexp(x * 500, 1, keepdim=True), [F("n", 3)], dtypes=()),
    Case("nansum", lambda x: torch.nansum(torch.where(x > 1, float("nan"), x), 1), [F("n", 3)], since=9),
    Case("nanmean", lambda x: torch.nanmean(torch.where(x > 1, float("nan"), x), 1), [F("n", 8)], since=9),
    Case("var", lambda x: (x.var(1), x.var(1, unbiased=False), x.var()), [F("n", 5)]),
    Case("var_correction", lambda x: torch.var(x, (1, 2), correction=2, keepdim=True), [F("n", 3, "t")]),
    Case("var_sizes", lambda x: x.var(0), [F("s", 3)]),
    Case("std", lambda x: (x.std(), x.std(1, keepdim=True), x.std(0, unbiased=False)), [F("t", 5)]),
    Case("var_mean", lambda x: torch.var_mean(x, 1) + torch.std_mean(x, 0, keepdim=True), [F("t", 5)]),
    Case("std_one", lambda x: x[:, :1].std(1), [F("n", 3)]),
]

NEIGHBOURS = ["Reshape", "Slice", "Slice", "Equal", "Not", "Concat", "Compress"]

ORDERING = [
    Case("unique", torch.unique, [F("n", 5)], since=11, base=torch.int64, dtypes=ALL),
    Case("unique_all", lambda x: torch.unique(x, True, True, True), [I("n", 5)], since=11, dtypes=()),
    Case("unique_rows", lambda x: torch.unique(x, dim=0, return_counts=True), [I("n", 2, high=2)], since=11, dtypes=()),
    Case("unique_neighbours", torch.unique_consecutive, [I("n", 5)], since=11, dtypes=(), graph=NEIGHBOURS),
    Case("unique_runs", lambda x: torch.unique_consecutive(x, True, True), [I("n", 5)], since=11, dtypes=()),
    Case(
        "max_dim",
        lambda x: tuple(x.max(1)),
        [F("n", 5)],
        dtypes=NUMBERS,
        graph=["ReduceMax", "ArgMax"],
    ),
    Case("max_dim_values", lambda x: x.max(1, keepdim=True)[0], [F("n", 5)], graph=["ReduceMax"]),
    Case("max_dim_places", lambda x: x.max(1)[1], [F("n", 5)], graph=["ArgMax"]),
    Case("min_dim", lambda x: tuple(x.min(0, keepdim=True)), [F("n", 5)], dtypes=NUMBERS),
    Case("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmax(0, keepdim=True)), [F("n", 5)], dtypes=NUMBERS),
    Case("argmin_ties", lambda x: (x.round().argmin(1), x.round().argmax(1)), [F("n", 5)]),
    Case("argmax_keepdim", lambda x: x.argmax(keepdim=True), [F("n", 5)]),
    Case("topk", lambda x: tuple(x.topk(3)), [F("n", 5)], graph=["TopK"]),
    Case("topk_smallest", lambda x: tuple(x.topk(2, 0, largest=False)), [F("t", 5)], dtypes=FLOATS),
    Case("topk_size", lambda x: tuple(x.topk(x.shape[1] // 2, 1)), [F("n", "t")], dynamic_since=10),
    Case(
        "sort",
        lambda x: tuple(x.sort()),
        [F("n", 5)],
        dtypes=(*FLOATS, torch.int64, torch.int32),
        graph=["TopK"],
    ),
    Case("sort_desc", lambda x: tuple(x.sort(0, descending=True)), [F("t", 5)], dynamic_since=10),
    Case("sort_stable", lambda x: tuple(x.round().sort(stable=True, dim=1)), [F("n", 9)]),
    Case("argsort", lambda x: x.argsort(1), [F("n", 5)]),
    Case("msort", torch.msort, [F(6, 5)]),
    Case("kthvalue", lambda x: tuple(x.kthvalue(2, 1)) + tuple(x.kthvalue(1, 0, keepdim=True)), [F("n", 5)]),
    Case("median", lambda x: (x.median(), *x.median(1)), [F(4, 6)]),
    Case("median_size", lambda x: x.median(0)[0], [F("t", 4)], dynamic_since=10),
]

CUMULATIVE = [
    Case("cumsum", lambda x: x.cumsum(1), [F("n", 4)], dynamic_since=7, dtypes=FLOATS, graph=["CumSum"]),
    Case(
        "cumsum_int", lambda x: x.cumsum(0), [F("n", 4)], base=torch.int64, since=11, dtypes=(torch.int32, torch.bool)
    ),
    Case("cumsum_size", lambda x: x.cumsum(0), [F("t", 4)], dynamic_since=11),
    Case("cumsum_dtype", lambda x: x.cumsum(1, dtype=torch.float64), [F("n", 4)]),
    Case("cumprod", lambda x: x.cumprod(1), [F("n", 4)], since=9, dtypes=(*FLOATS, torch.int64)),
    Case("cumprod_size", lambda x: x.cumprod(0), [F("t", 4)], since=9),
    Case("diff", lambda x: (x.diff(), x.diff(2, 0), x.diff(prepend=x[:, :1])), [F("t", 5)], dtypes=NUMBERS),
    Case("diff_bool", lambda x: x.diff(dim=0), [B("t", 5)]),
    Case("diff_none", lambda x: x.diff(0, 0, x[:2], x[:1]), [F("t", 5)]),
]

NORMS = [
    Case("norm", lambda x: (x.norm(), x.norm(dim=1), x.norm(1, dim=1, keepdim=True)), [F("n", 5)]),
    Case("norm_p", lambda x: (x.norm(3, 1), x.norm(inf, 1), x.norm(-inf, 1), x.norm(0, 1)), [F("n", 5)]),
    Case("norm_fro", lambda x: torch.norm(x, p="fro", dim=(0, 1)), [F("n", 5)], graph=["ReduceL2"]),
    Case("vector_norm", lambda x: torch.linalg.vector_norm(x, 2, (1, 2)), [F("n", 3, "t")]),
    Case("vector_norm_dtype", lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), [F("n", 3)]),
    Case("normalize", lambda x: nnf.normalize(x, dim=1), [F("n", 5)]),
    Case("cosine_similarity", nnf.cosine_similarity, [F("n", 5), F("n", 5)]),
    Case("cosine_dim", lambda x, y: nnf.cosine_similarity(x, y, dim=2), [F("n", 3, 5), F(1, 1, 5)]),
    Case("cosine_spread", lambda x, y: nnf.cosine_similarity(x, y, dim=-2), [F(1, "t", 3), F("n", 1, 3)]),
    Case("cosine_number", lambda x, y: nnf.cosine_similarity(x, y, dim=0), [F(), F()]),
    Case("distance_integers", lambda x, y: nnf.pairwise_distance(x, y, p=3.0), [I("n", 5), I("n", 5)], dtypes=()),
    Case("pairwise_distance", lambda x, y: nnf.pairwise_distance(x, y, keepdim=True), [F("n", 5), F("n", 5)]),
    Case("pairwise_l1", lambda x, y: nnf.pairwise_distance(x, y, p=1), [F("n", 5), F("n", 5)]),
    Case("cdist", torch.cdist, [F("n", 5, 3), F("n", 4, 3)], dtypes=(torch.float64,)),
    Case("cdist_l1", lambda x, y: torch.cdist(x, y, p=1.0), [F("t", 3), F("s", 3)], dtypes=(torch.float64,)),
    Case("dist", lambda x, y: torch.dist(x, y, 2), [F("n", 5), F("n", 5)]),
]

test_reduction = table(REDUCTIONS)
test_ordering = table(ORDERING)
test_cumulative = table(CUMULATIVE)
test_norms = table(NORMS)
