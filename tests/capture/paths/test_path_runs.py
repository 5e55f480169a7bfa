"""Runs on several sides of a condition that become one graph."""

from __future__ import annotations

import math
import pathlib

import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.capture.record.at_sizes import check


class MoreAtOne(nn.Module):
    """At a size of 1 it calls more operators, to the same effect: that run is not the graph of the others."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(0, keepdim=True).clone() * 2 if x.shape[0] == 1 else x * 2


class CutAxes(nn.Module):
    """Slices of two axes on one line, each made only where it does something."""

    def forward(self, x: Tensor) -> Tensor:
        for axis in range(2):
            if x.shape[axis] > 8:
                x = x[(slice(None),) * axis + (slice(0, 8),)]
        return x + 1


class SizesInRows(nn.Module):
    """A table is stretched unless it is as long as the input, in a model that makes nested lists of sizes tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 1, 9, 4))

    def forward(self, x: Tensor) -> Tensor:
        table = self.table
        if x.shape[0] != table.shape[2]:
            table = nn.functional.interpolate(table, (x.shape[0], 4), mode="bilinear")
        return x + table[0, 0] + torch.tensor([[x.shape[0], x.shape[1]]]).sum()


def test_nested_lists_of_sizes_are_tensors_on_either_path(tmp_path: pathlib.Path) -> None:
    check(SizesInRows(), tmp_path, (9, 4), ((5, 4), (12, 4)))


def test_a_run_at_size_one_is_not_the_graph_of_all(tmp_path: pathlib.Path) -> None:
    check(MoreAtOne(), tmp_path, (5, 4), ((2, 4), (1, 4), (9, 4)))


def test_slices_are_matched_by_their_axes(tmp_path: pathlib.Path) -> None:
    check(CutAxes(), tmp_path, (16, 16), ((8, 16), (4, 24), (9, 31), (3, 2)))


def test_the_line_is_told_whose_number_differs() -> None:
    """Parts of an axis that is as long everywhere stand above the loop that decides."""

    def model(x: Tensor) -> Tensor:
        total = sum(x.unbind(1)) * x.shape[0]
        return total + torch.tensor([math.sin(i) for i in range(x.shape[0])])

    line = model.__code__.co_firstlineno + 2
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_path_runs\.py:{line}, in .*another path"):
        onnxport.export(model, torch.randn(6, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize(("length", "size"), [(4, 3), (7, 3), (11, 6)])
def test_a_path_that_takes_few_sizes_is_found(length: int, size: int) -> None:
    """What is left over behind whole pieces is broadcast if it is one row, and refused if it is more."""

    def model(x: Tensor) -> Tensor:
        return x.split(length, 0)[-1] + x

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_path_runs\.py:{line}, in .*another path"):
        onnxport.export(model, torch.randn(size, 4), input_names=["x"], dynamic_axes={"x": {0: "b"}})


def test_the_axis_is_named_that_decides() -> None:
    def model(x: Tensor) -> Tensor:
        return x + torch.tensor([math.sin(i) for i in range(x.shape[1])])

    with pytest.raises(onnxport.DynamicAxisError, match=r'another path.*Dim\("n", min'):
        onnxport.export(model, torch.randn(6, 4), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "n"}})
