"""scan, map, associative_scan and flex_attention of torch's higher-order operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import flex_attention

from tests.classic.running import exported, graph_of, operators, run, same

WEIGHT = torch.randn(3, 3)


def running(init: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.tanh(state @ WEIGHT + x)
        return new, new * 2

    return scan(step, init, xs)  # type: ignore[no-any-return]


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_scan_at_other_lengths(opset: int) -> None:
    axes = {"init": {0: "b"}, "xs": {0: "n", 1: "b"}}
    args = torch.randn(2, 3), torch.randn(5, 2, 3)
    file = exported(running, args, input_names=["init", "xs"], dynamic_axes=axes, opset_version=opset)
    assert operators(file).count("Loop") == 1
    for rows, batch in ((1, 2), (8, 4)):
        given = torch.randn(batch, 3), torch.randn(rows, batch, 3)
        same(running(*given), run(file, *given))


def test_scan_backwards_over_another_axis_with_several_states() -> None:
    def model(first: Tensor, second: Tensor, xs: Tensor) -> Any:
        def step(states: tuple[Tensor, Tensor], x: Tensor) -> Any:
            return (states[0] + x, states[1] * 0.5), {"sum": states[0] + 1, "both": states[0] * states[1]}

        return scan(step, (first, second), xs, dim=1, reverse=True)

    args = torch.randn(4), torch.randn(4), torch.randn(4, 6)
    file = exported(model, args)
    other = torch.randn(4), torch.randn(4), torch.randn(4, 6)
    (first, second), rows = model(*other)
    same([first, second, rows["sum"], rows["both"]], run(file, *other))


def test_map_over_rows() -> None:
    def model(xs: Tensor, y: Tensor) -> Any:
        return mapped(lambda x, y: (x.sin() + y, x.sum()), xs, y)

    args = torch.randn(5, 3), torch.randn(3)
    file = exported(model, args, input_names=["xs", "y"], dynamic_axes={"xs": {0: "n"}})
    for rows in (1, 9):
        given = torch.randn(rows, 3), torch.randn(3)
        same(model(*given), run(file, *given))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("combine", [lambda a, b: a + b, lambda a, b: a * b, torch.maximum])
def test_associative_scan(combine: Callable[[Tensor, Tensor], Tensor], reverse: bool) -> None:
    def model(xs: Tensor) -> Tensor:
        return associative_scan(combine, xs, dim=1, reverse=reverse, combine_mode="generic")  # type: ignore[no-any-return]

    file = exported(model, torch.randn(2, 5), input_names=["xs"], dynamic_axes={"xs": {1: "n"}})
    for length in (1, 2, 7, 12):
        x = torch.randn(2, length)
        same(model(x), run(file, x))


def test_attention_with_a_function_of_the_scores() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score + (j - i), -1e9))

    file = exported(model, tuple(torch.randn(1, 2, 16, 8) for _ in range(3)))
    assert len(graph_of(file).node) < 30
    given = [torch.randn(1, 2, 16, 8) for _ in range(3)]
    same(model(*given), run(file, *given))
