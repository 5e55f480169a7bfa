"""The data that exports are traced and checked with at other sizes."""

from __future__ import annotations

import pytest
import torch

import onnxport
from onnxport.capture.model.other_data import redraw


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordered", [lambda x: x.topk(3, 1), lambda x: x.kthvalue(2, 1)], ids=["topk", "kthvalue"])
def test_places_of_distinct_numbers_are_checked_on_distinct_numbers(ordered: object, seed: int) -> None:
    """torch says nothing of the place of one of several equal numbers, and the example has none."""
    generator = torch.Generator().manual_seed(seed)
    program = onnxport.export(ordered, torch.randn(4, 6, generator=generator), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(9, 6, generator=generator)
    for got, expected in zip(program(x), ordered(x), strict=True):  # type: ignore[operator]
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_numbers_are_drawn_within_the_range_of_the_example(dtype: torch.dtype) -> None:
    example = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    (drawn,) = redraw([example], [torch.zeros(9, 7, dtype=dtype)], 0)
    assert drawn.dtype == dtype and drawn.shape == (9, 7)
    assert example.min() <= drawn.min() and drawn.max() <= example.max()


def test_distinct_numbers_stay_distinct() -> None:
    example = torch.randn(100, 80, generator=torch.Generator().manual_seed(0))
    (drawn,) = redraw([example], [torch.zeros(50, 40)], 0)
    assert len(drawn.unique()) > 0.99 * drawn.numel()


@pytest.mark.parametrize(
    "example",
    [
        torch.tensor([0.0, 1.0, 2.0, 5.0]),
        torch.tensor([0.0, float("-inf"), 0.5]),
        torch.tensor([0.1, 0.2]).repeat(6),
    ],
    ids=["whole numbers", "infinite", "few values"],
)
def test_numbers_of_a_kind_are_drawn_from_those_of_the_example(example: torch.Tensor) -> None:
    (drawn,) = redraw([example], [torch.zeros(40)], 0)
    assert torch.isin(drawn, example).all()


@pytest.mark.parametrize("edges", [torch.linspace(0, 1, 7), torch.rand(3, 7).cumsum(-1)], ids=["vector", "rows"])
def test_sorted_edges_stay_sorted(edges: torch.Tensor) -> None:
    """torch defines no result of searchsorted for others."""
    v = torch.rand(*edges.shape[:-1], 9)
    axes = {"edges": {edges.dim() - 1: "k"}, "v": {v.dim() - 1: "n"}}
    program = onnxport.export(
        torch.searchsorted, (edges, v), input_names=["edges", "v"], dynamic_axes=axes, output_names=["y"]
    )
    for count in (1, 5, 20):
        more = torch.rand(*edges.shape[:-1], count).sort().values
        torch.testing.assert_close(program(more, v), torch.searchsorted(more, v))


def test_falling_rows_fall_and_pairs_may_be_in_any_order() -> None:
    falling = torch.rand(4, 5).sort(descending=True).values
    (drawn,) = redraw([falling], [torch.zeros(6, 9)], 0)
    assert (drawn[:, 1:] <= drawn[:, :-1]).all()
    (drawn,) = redraw([torch.tensor([[0.25, 0.5]])], [torch.zeros(1, 40)], 0)
    assert (drawn[:, 1:] < drawn[:, :-1]).any()
