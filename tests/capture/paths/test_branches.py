"""Paths that do different things at different sizes are branches of one graph."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.capture.record.at_sizes import check

SIZES = [(n, 4) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 21, 28, 35, 64)]


def odd_or_even(x: Tensor) -> Tensor:
    if x.shape[0] % 2 == 0:
        return x.sin().sum()
    return x.cos().mean() + 1


def in_a_row(x: Tensor) -> Tensor:
    if x.shape[0] > 5:
        x = x * 2
    if x.shape[0] % 2:
        x = x.flip(0).sin()
    return x + 1


def nested(x: Tensor) -> Tensor:
    if x.shape[0] > 5:
        x = x * 2
    elif x.shape[0] > 2:
        x = x.exp()
    if x.shape[0] % 2:
        x = x[::2].sin()
    return x.cumsum(0)


def of_another_size(x: Tensor) -> Tensor:
    """What follows has the size that the branch gives."""
    y = x.relu().sum(1, keepdim=True) if x.shape[0] > 5 else x.softmax(0) * 2
    return (y + 1).tanh().reshape(-1, y.shape[1]) * y.shape[1]


def alike_at_first(x: Tensor) -> Tensor:
    """At 7 the sizes of both branches are the same, and not at 14."""
    y = x[:7] if x.shape[0] % 7 == 0 else x.flip(0)
    return torch.cat([y, y * 2]).cumsum(0)


def written(x: Tensor) -> Tensor:
    y = x * 1
    if x.shape[0] > 3:
        y[:, 1:] += 1
    else:
        y.mul_(3)
    return y.sin()


def written_behind(x: Tensor) -> Tensor:
    y = x * 1
    z = y if x.shape[0] > 3 else y * 2
    z += 1
    return y + z


def passed_on(x: Tensor) -> Tensor:
    return x if x.shape[0] % 3 else x * 3


def padded(x: Tensor) -> Tensor:
    """At 3 a pad by 0 does the same as the path without it; above it would cut."""
    if x.shape[0] < 3:
        x = nn.functional.pad(x, (0, 0, 3 - x.shape[0], 0))
    return x.sin()


def kept(x: Tensor) -> Tensor:
    """The last rows are written to a tensor that was there before, as to a cache, in either branch."""
    last = x.new_zeros(3, x.shape[1])
    rows = x.flip(0)
    if x.shape[0] < 3:
        rows = nn.functional.pad(rows, (0, 0, 3 - x.shape[0], 0))
    last.copy_(rows[-3:])
    return torch.cat([rows.sin(), last])


def kept_and_written_again(x: Tensor) -> Tensor:
    """A view from before the branch and the result of the write in it are the same memory."""
    last = x.new_zeros(3, x.shape[1])
    view = last[1:]
    rows = nn.functional.pad(x, (0, 0, 3 - x.shape[0], 0)) if x.shape[0] < 3 else x
    written = last.copy_(rows[-3:])
    written.mul_(2)
    kept = view.exp()
    view.add_(rows[-1])
    return torch.cat([rows.sin(), written, last * 3, kept])


FUNCTIONS = [
    odd_or_even, in_a_row, nested, of_another_size, alike_at_first, written, written_behind, passed_on, padded, kept,
    kept_and_written_again,
]  # fmt: skip


@pytest.mark.parametrize("size", [3, 4, 7])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_branches(function: Callable[[Tensor], Tensor], size: int, tmp_path: pathlib.Path) -> None:
    check(function, tmp_path, (size, 4), SIZES)


@pytest.mark.parametrize("size", [3, 5])
def test_a_path_that_does_the_same_where_another_axis_varies(size: int) -> None:
    """Of 3 columns all are taken: topk has them in another order, which does not show in the sum, whatever the number
    of rows. Of fewer it cannot take 3."""

    def nearest(x: Tensor) -> Tensor:
        if x.shape[1] > 3:
            x, _ = x.topk(3)
        return x.exp().sum(-1)

    axes = {"x": {0: "rows", 1: "columns"}}
    program = onnxport.export(nearest, torch.randn(2, size), input_names=["x"], dynamic_axes=axes)
    for shape in ((2, 3), (5, 3), (1, 1), (4, 2), (3, 4), (2, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), nearest(x))


class Positions(nn.Module):
    """Positions learned for a grid, interpolated for all others by factors that are a little too large."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.grid = nn.Parameter(torch.randn(1, 2, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        high, wide = x.shape[0] // 2, x.shape[1] // 2
        cells = x[::2, ::2][:high, :wide].reshape(-1)
        if cells.shape[0] == 16 and x.shape[0] == x.shape[1]:
            grid = self.grid
        else:
            factors = ((high + 0.1) / 4, (wide + 0.1) / 4)
            grid = nn.functional.interpolate(self.grid, scale_factor=factors, mode="bicubic")
            assert int(high + 0.1) == grid.shape[-2] and int(wide + 0.1) == grid.shape[-1]
        return grid.flatten(1) + cells.sum()


@pytest.mark.parametrize("size", [8, 10])
def test_a_path_that_the_example_does_not_take(size: int, tmp_path: pathlib.Path) -> None:
    """At 8 the first run neither interpolates nor calls int, and the other path takes no size below 2."""
    check(Positions(), tmp_path, (size, size), [(8, 8), (9, 8), (10, 13), (4, 16), (16, 4), (2, 33)])


class Layers(nn.Module):
    """What is alike before and after the branch stands once."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right, self.last = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = self.left(x) if x.shape[0] > 6 else self.right(x).tanh()
        return self.last(x).sigmoid()


def test_what_is_alike_stands_once(tmp_path: pathlib.Path) -> None:
    check(Layers().eval(), tmp_path, (3, 4), SIZES)
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert [node.op_type for node in graph.node].count("Gemm") == 2
    (branch,) = [node for node in graph.node if node.op_type == "If"]
    assert sorted(len(attribute.g.node) for attribute in branch.attribute) == [1, 2]


def test_two_conditions_in_a_row_are_two_branches(tmp_path: pathlib.Path) -> None:
    check(in_a_row, tmp_path, (3, 4), SIZES)
    assert [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node].count("If") == 2


def squeezed_apart(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.squeeze(0), x.squeeze(1) * 2


def squeezed_in_turns(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x.squeeze(1)
    return x.squeeze(0).sin(), y, y.squeeze(0) + 1


@pytest.mark.filterwarnings("ignore:.*has one number of dimensions at some sizes:onnxport.DynamicAxisWarning")
@pytest.mark.parametrize("model", [squeezed_apart, squeezed_in_turns])
@pytest.mark.parametrize("example", [(1, 3, 4), (1, 1, 4), (5, 3, 4)])
def test_results_of_several_ranks_that_other_conditions_decide(
    model: Callable[[Tensor], tuple[Tensor, ...]], example: tuple[int, ...]
) -> None:
    program = onnxport.export(
        model, torch.randn(example), input_names=["x"], dynamic_axes={"x": {0: "a", 1: "b", 2: "c"}}
    )
    for shape in ((1, 3, 5), (2, 1, 5), (1, 1, 5), (2, 3, 5), (1, 1, 1), (3, 3, 1)):
        x = torch.randn(shape)
        for result, expected in zip(program(x), model(x), strict=True):
            torch.testing.assert_close(result, expected)
