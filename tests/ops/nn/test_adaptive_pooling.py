"""Pools whose result has a given size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nnf

import onnxport
from tests.ops.harness import FLOATS, Case, F, table

ALL_FLOATS = (*FLOATS, torch.bfloat16)

CASES = [
    Case("average3d_nothing", lambda x: nnf.adaptive_avg_pool3d(x, (5, 7, 4)), [F(0, 2, 8, 8, 8)]),
    Case(
        "area_by_factor",
        lambda x: nnf.interpolate(x, scale_factor=1.7, mode="area"),
        [F("n", 3, "h")],
        dynamic_since=11,
    ),
    Case("avg1d_global", lambda x: nnf.adaptive_avg_pool1d(x, 1), [F("n", 3, "t")], graph=["GlobalAveragePool"]),
    Case(
        "avg2d_global",
        torch.nn.AdaptiveAvgPool2d(1),
        [F("n", 3, "h", "w")],
        dtypes=ALL_FLOATS,
        graph=["GlobalAveragePool"],
    ),
    Case("avg3d_global", torch.nn.AdaptiveAvgPool3d(1), [F("n", 3, "d", "h", "w")], graph=["GlobalAveragePool"]),
    Case("avg2d_global_unbatched", torch.nn.AdaptiveAvgPool2d(1), [F(3, "h", "w")], graph=["ReduceMean"]),
    Case("avg1d_uniform", lambda x: nnf.adaptive_avg_pool1d(x, 4), [F("n", 3, 12)], graph=["AveragePool"]),
    Case(
        "avg2d_uniform",
        lambda x: nnf.adaptive_avg_pool2d(x, (2, 3)),
        [F("n", 3, 8, 9)],
        dtypes=ALL_FLOATS,
        graph=["AveragePool"],
    ),
    Case("avg2d_same", lambda x: nnf.adaptive_avg_pool2d(x, (8, 9)) + 1, [F("n", 3, 8, 9)], graph=["Add"]),
    Case(
        "avg2d_one_axis", lambda x: nnf.adaptive_avg_pool2d(x, (1, None)), [F("n", 3, "h", "w")], graph=["ReduceMean"]
    ),
    Case(
        "avg2d_one_axis_and_pool",
        lambda x: nnf.adaptive_avg_pool2d(x, (1, 4)),
        [F("n", 3, "h", 12)],
        graph=["AveragePool"],
    ),
    Case("avg1d_overlapping", lambda x: nnf.adaptive_avg_pool1d(x, 3), [F("n", 3, 7)], graph=["AveragePool"]),
    Case(
        "avg2d_pool_and_uneven",
        lambda x: nnf.adaptive_avg_pool2d(x, (4, 3)),
        [F("n", 3, 9, 8)],
        graph=["AveragePool", "MatMul"],
    ),
    Case("avg1d_uneven", lambda x: nnf.adaptive_avg_pool1d(x, 3), [F("n", 3, 8)], dtypes=ALL_FLOATS, graph=["MatMul"]),
    Case("avg2d_uneven", lambda x: nnf.adaptive_avg_pool2d(x, (3, 4)), [F("n", 3, 8, 10)], graph=["MatMul", "MatMul"]),
    Case("avg3d_uneven", lambda x: nnf.adaptive_avg_pool3d(x, (3, 2, 4)), [F("n", 2, 5, 4, 9)]),
    Case("avg3d_uneven_unbatched", lambda x: nnf.adaptive_avg_pool3d(x, (3, 2, 4)), [F(2, 5, 4, 9)]),
    Case("avg2d_larger", lambda x: nnf.adaptive_avg_pool2d(x, (7, 10)), [F("n", 3, 3, 4)]),
    Case("avg1d_unbatched", lambda x: nnf.adaptive_avg_pool1d(x, 3), [F(3, "t")], dynamic_since=11),
    Case("avg2d_dynamic", lambda x: nnf.adaptive_avg_pool2d(x, (3, 7)), [F("n", 3, "h", "w")], dynamic_since=11),
    Case(
        "avg3d_dynamic", lambda x: nnf.adaptive_avg_pool3d(x, (2, 3, 4)), [F("n", 2, "d", "h", "w")], dynamic_since=11
    ),
    Case(
        "avg2d_to_size_of_other",
        lambda x, y: nnf.adaptive_avg_pool2d(x, y.shape[2:]),
        [F("n", 3, "h", 6), F("n", 3, "d", 3)],
        dynamic_since=11,
    ),
    Case("max1d_global", lambda x: nnf.adaptive_max_pool1d(x, 1), [F("n", 3, "t")], graph=["GlobalMaxPool"]),
    Case(
        "max2d_global", torch.nn.AdaptiveMaxPool2d(1), [F("n", 3, "h", "w")], dtypes=ALL_FLOATS, graph=["GlobalMaxPool"]
    ),
    Case("max3d_global_unbatched", torch.nn.AdaptiveMaxPool3d(1), [F(3, "d", "h", "w")], graph=["ReduceMax"]),
    Case("max2d_uniform", lambda x: nnf.adaptive_max_pool2d(x, (2, 3)), [F("n", 3, 8, 9)], graph=["MaxPool"]),
    Case("max2d_one_axis", lambda x: nnf.adaptive_max_pool2d(x, (None, 1)), [F("n", 3, "h", "w")], graph=["ReduceMax"]),
    Case("max1d_uneven", lambda x: nnf.adaptive_max_pool1d(x, 3), [F("n", 3, 8)], graph=["Gather", "ReduceMax"]),
    Case("max2d_uneven", lambda x: nnf.adaptive_max_pool2d(x, (3, 4)), [F("n", 3, 8, 10)], dtypes=ALL_FLOATS),
    Case("max3d_uneven_unbatched", lambda x: nnf.adaptive_max_pool3d(x, (3, 2, 4)), [F(2, 5, 4, 9)]),
    Case("max2d_dynamic", lambda x: nnf.adaptive_max_pool2d(x, (3, 7)), [F("n", 3, "h", "w")], dynamic_since=11),
    Case(
        "max3d_dynamic", lambda x: nnf.adaptive_max_pool3d(x, (2, 3, 4)), [F("n", 2, "d", "h", "w")], dynamic_since=11
    ),
    Case("max1d_global_indices", lambda x: nnf.adaptive_max_pool1d(x, 1, return_indices=True), [F("n", 3, "t")]),
    Case(
        "max3d_global_indices", lambda x: nnf.adaptive_max_pool3d(x, 1, return_indices=True), [F("n", 3, "d", "h", "w")]
    ),
    Case(
        "max2d_uniform_indices",
        lambda x: nnf.adaptive_max_pool2d(x, (2, 3), return_indices=True),
        [F("n", 3, 8, 9)],
        since=8,
        graph=["MaxPool", "Mod"],
    ),
    Case("max1d_uneven_indices", lambda x: nnf.adaptive_max_pool1d(x, 3, return_indices=True), [F("n", 3, 8)]),
    Case(
        "max2d_uneven_indices",
        lambda x: nnf.adaptive_max_pool2d(x, (3, 4), return_indices=True),
        [F("n", 3, 8, 10)],
        dtypes=ALL_FLOATS,
    ),
    Case(
        "max3d_uneven_indices",
        lambda x: nnf.adaptive_max_pool3d(x, (3, 2, 4), return_indices=True),
        [F("n", 2, 5, 4, 9)],
    ),
    Case(
        "max2d_dynamic_indices",
        lambda x: nnf.adaptive_max_pool2d(x, (3, 7), return_indices=True),
        [F("n", 3, "h", "w")],
        dynamic_since=11,
    ),
    Case(
        "max2d_indices_unbatched",
        lambda x: nnf.adaptive_max_pool2d(x, (3, 4), return_indices=True),
        [F(3, 8, "w")],
        dynamic_since=11,
    ),
    Case("avg1d_of_one_element", lambda x: nnf.adaptive_avg_pool1d(x, 3), [F("n", 3, 1)]),
    Case("max2d_of_one_row", lambda x: nnf.adaptive_max_pool2d(x, (2, 3)), [F("n", 3, 1, 6)]),
    Case(
        "avg2d_computed_size",
        lambda x: nnf.adaptive_avg_pool2d(x, (x.shape[2] // 2, 3)),
        [F("n", 3, "h", 7)],
        dynamic_since=11,
    ),
    Case(
        "max2d_computed_size",
        lambda x: nnf.adaptive_max_pool2d(x, (x.shape[2] // 2, 3)),
        [F("n", 3, "h", 7)],
        dynamic_since=11,
    ),
]

test_adaptive_pooling = table(CASES)


POOLS = [nnf.adaptive_avg_pool2d, nnf.adaptive_max_pool2d]


@pytest.mark.parametrize("pool", POOLS, ids=["average", "max"])
def test_a_size_that_becomes_zero_gives_nothing(pool: Callable[..., torch.Tensor]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return pool(x, (x.shape[2] // 2, x.shape[3] // 3))

    program = onnxport.export(model, torch.randn(2, 3, 6, 7), input_names=["x"], dynamic_axes={"x": {2: "h", 3: "w"}})
    for height, width in ((6, 7), (1, 7), (5, 2), (1, 1), (9, 3)):
        x = torch.randn(2, 3, height, width)
        torch.testing.assert_close(program(x), model(x))
