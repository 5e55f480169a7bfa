"""gather, and scatter with its reductions."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, I, Input, table


def distinct(shape: tuple[int, ...]) -> torch.Tensor:
    """An index that names each place along the second axis at most once."""
    return torch.stack([torch.randperm(8)[: shape[1]] for _ in range(shape[0])])


def D(*shape: int | str) -> Input:
    return Input(shape, make=distinct)


def reduced(reduce: str, include_self: bool = True) -> object:
    return lambda x, i, v: x.scatter_reduce(1, i, v, reduce, include_self=include_self)


REDUCED = [F(2, 4), I(2, 6), F(2, 6)]

CASES = [
    Case("gather", lambda x, i: x.gather(1, i), [F("n", 4), I("n", 3)], dynamic_since=11,
         dtypes=(*ALL, torch.bfloat16), graph=["GatherElements"]),
    Case("gather_nothing", lambda x, i: x.gather(0, i), [F(5), I(2, 0)]),
    Case("gather_first", lambda x, i: x.gather(0, i), [F(4, "t", 2), I(3, "t", 2)], dynamic_since=9),
    Case("gather_smaller", lambda x, i: x.gather(0, i), [F(4, 5), I(3, 2)]),
    Case("gather_last", lambda x, i: x.gather(-1, i), [F("n", 2, 4), I("n", 2, 3)], dynamic_since=11),
    Case("gather_no_dims", lambda x, i: x.sum().gather(0, i), [F(3), I(high=1)], dtypes=()),
    Case("scatter", lambda x, i, v: x.scatter(1, i, v), [F("n", 8), D("n", 3), F("n", 3)], since=9,
         dtypes=(*ALL, torch.bfloat16), graph=["ScatterElements"]),
    Case("scatter_larger_source", lambda x, i, v: x.scatter(1, i, v), [F(2, 8), D(2, 3), F(3, 5)], since=9),
    Case("scatter_smaller_index", lambda x, i, v: x.scatter(1, i, v), [F(5, 8), D(2, 3), F(2, 3)], since=9),
    Case("scatter_value", lambda x, i: x.scatter(1, i, 7), [F("n", 4), I("n", 3)], since=9, dtypes=ALL),
    Case("scatter_in_place", lambda x, i: x.clone().scatter_(1, i, 1.5), [F("n", 4), I("n", 3)], since=9),
    Case("one_hot_by_scatter", lambda i: torch.zeros(2, 4).scatter_(1, i, 1.0), [I(2, 1)], since=9, dtypes=()),
    Case("scatter_nothing", lambda x, v: x.scatter_add(0, torch.empty(0, 0), v) + x.scatter(1, torch.empty(0), v),
         [F("n", 4), F("n", 4)]),
    Case("scatter_add", lambda x, i, v: x.scatter_add(1, i, v), [F("n", 4), I("n", 6), F("n", 6)], since=9,
         dtypes=(*NUMBERS, torch.bfloat16)),
    Case("scatter_reduce_add", lambda x, i, v: x.scatter(1, i, v, reduce="add"), REDUCED, since=9),
    Case("scatter_reduce_multiply", lambda x, i, v: x.scatter(1, i, v, reduce="multiply"), REDUCED, since=9),
    Case("scatter_value_add", lambda x, i: x.scatter(1, i, 2, reduce="add"), REDUCED[:2], since=9),
    Case("scatter_value_multiply", lambda x, i: x.scatter(1, i, 2, reduce="multiply"), REDUCED[:2], since=9),
    Case("sum", reduced("sum"), REDUCED, since=9, dtypes=NUMBERS),
    Case("prod", reduced("prod"), REDUCED, since=9, dtypes=NUMBERS),
    Case("amax", reduced("amax"), REDUCED, since=9, dtypes=ALL),
    Case("amin", reduced("amin"), REDUCED, since=9, dtypes=ALL),
    Case("mean", reduced("mean"), REDUCED, since=9, dtypes=NUMBERS),
    Case("sum_without_self", reduced("sum", False), REDUCED, since=9),
    Case("prod_without_self", reduced("prod", False), REDUCED, since=9),
    Case("amax_without_self", reduced("amax", False), REDUCED, since=9, dtypes=NUMBERS),
    Case("amin_without_self", reduced("amin", False), REDUCED, since=9, dtypes=NUMBERS),
    Case("mean_without_self", reduced("mean", False), REDUCED, since=9),
    Case("mean_dynamic", reduced("mean", False), [F("n", 4), I("n", 6), F("n", 6)], since=9, dtypes=()),
    Case("index_reduce", lambda x, i, v: x.index_reduce(1, i, v, "prod"), [F("n", 4), I(6), F("n", 6)], since=9),
    Case("index_reduce_amax", lambda x, i, v: x.index_reduce(0, i, v, "amax", include_self=False),
         [F(4, "n"), I(6), F(6, "n")], since=9),
    Case("index_reduce_mean", lambda x, i, v: x.index_reduce(1, i, v, "mean"), [F("n", 4), I(6), F("n", 6)], since=9),
]  # fmt: skip

test_scattering = table(CASES)
