"""Operators at opsets that are older than the ONNX operator which says them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.classic.running import exported, run, same

INDEX = torch.tensor([[0, 2], [0, 1], [0, 2], [0, 2]])
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


def at(opset: int, model: Callable[..., Any], args: tuple[Tensor, ...], **options: Any) -> bytes:
    file = exported(model, args, opset_version=opset, **options)
    assert onnx.load_from_string(file).opset_import[0].version == opset
    return file


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 15])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatters_that_reduce_where_indices_repeat(opset: int, reduce: str, include_self: bool) -> None:
    def model(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return x.scatter_reduce(0, index, source, reduce, include_self=include_self)

    axes = {"index": {0: "m"}, "source": {0: "m"}}
    args = torch.randn(3, 2), INDEX, torch.randn(4, 2)
    file = at(opset, model, args, input_names=["x", "index", "source"], dynamic_axes=axes)
    for length in (1, 4, 9):
        given = torch.randn(3, 2), torch.randint(0, 3, (length, 2)), torch.randn(length, 2)
        same(model(*given), run(file, *given))


@pytest.mark.parametrize("opset", [9, 11, 13])
def test_rows_that_are_added(opset: int) -> None:
    def model(x: Tensor, rows: Tensor, columns: Tensor, source: Tensor) -> Tensor:
        return x.index_put((rows, columns), source, accumulate=True)

    args = torch.zeros(3, 4, 2), torch.tensor([0, -1, 0]), torch.tensor([1, 2, 1]), torch.randn(3, 2)
    same(model(*args), run(at(opset, model, args), *args))


@pytest.mark.parametrize("opset", [9, 10])
def test_gather_at_other_sizes(opset: int) -> None:
    axes = {"x": {0: "n", 1: "k"}, "index": {0: "n", 1: "m"}}
    args = torch.randn(3, 4, 2), torch.randint(0, 4, (3, 5, 2))
    file = at(opset, lambda x, index: x.gather(1, index), args, input_names=["x", "index"], dynamic_axes=axes)
    x, index = torch.randn(5, 7, 2), torch.randint(0, 7, (5, 2, 2))
    same(x.gather(1, index), run(file, x, index))


@pytest.mark.parametrize("opset", [7, 8, 9])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pools_with_dilation(opset: int, padding: int, ceil_mode: bool) -> None:
    model = nn.MaxPool2d((3, 2), (2, 3), padding, (2, 3), ceil_mode=ceil_mode)
    axes = {"input": {0: "n", 2: "h", 3: "w"}}
    file = at(opset, model, (torch.randn(1, 2, 12, 13),), input_names=["input"], dynamic_axes=axes)
    for height, width in ((12, 13), (9, 20)):
        x = torch.randn(2, 2, height, width)
        x[0, 0, 3, 3] = -torch.inf
        same(model(x), run(file, x))


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_goes_to_the_even_number(opset: int, dtype: torch.dtype) -> None:
    if opset == 7 and dtype == torch.float64:
        pytest.skip("Max of doubles that are broadcast came in opset 8")
    edges = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 8388609.0, -8388607.5, 1e30, torch.inf, -torch.inf, torch.nan, 0.0]
    x = torch.tensor([*edges, 4503599627370495.5, 0.49999999999999994], dtype=dtype)
    (result,) = run(at(opset, torch.round, (torch.randn(15, dtype=dtype),)), x)
    torch.testing.assert_close(result, x.round(), rtol=0, atol=0, equal_nan=True)


NUMBERS = [0, 1, -1, 5, -7, 2**40 + 3, -(2**62) - 5, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("opset", [7, 9, 13, 17])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_bits_of_every_integer(opset: int, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    numbers = torch.tensor(
        [n for n in NUMBERS if limits.min <= n <= limits.max] + [limits.min, limits.max], dtype=dtype
    )
    x, y = (grid.flatten() for grid in torch.meshgrid(numbers, numbers, indexing="ij"))
    file = at(opset, lambda x, y: (x & y, x | y, x ^ y), (x, y))
    for result, expected in zip(run(file, x, y), (x & y, x | y, x ^ y), strict=True):
        assert torch.equal(result, expected)


@torch.jit.script
def middle(x: Tensor, start: Tensor, end: Tensor) -> Tensor:
    return x[:, int(start) : int(end) : 2]


@pytest.mark.parametrize("opset", [9, 10])
def test_slices_with_computed_bounds(opset: int) -> None:
    x = torch.randn(2, 10)
    file = at(opset, middle, (x, torch.tensor(1), torch.tensor(7)))
    for start, end in ((0, 10), (3, 4), (5, 2), (-4, -1), (2, 99), (-99, 5)):
        bounds = torch.tensor(start), torch.tensor(end)
        same(x[:, start:end:2], run(file, x, *bounds))


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0])
def test_an_embedding_that_shrinks_its_rows(opset: int, norm_type: float) -> None:
    model = nn.Embedding(10, 3, max_norm=1.0, norm_type=norm_type)
    with torch.no_grad():
        model.weight[4] *= 1e-3
    file = at(opset, model, (torch.tensor([1, 2, 1]),))
    indices = torch.tensor([4, 9, 9])
    same(model(indices).detach(), run(file, indices))


@pytest.mark.parametrize("opset", [7, 8, 9])
def test_a_threshold_that_is_not_zero(opset: int) -> None:
    model = nn.Threshold(0.3, -2.0)
    x = torch.tensor([0.3, 0.31, -5.0, 7.0, torch.inf, -torch.inf])
    same(model(x), run(at(opset, model, (torch.randn(6),)), x))


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize("make", [torch.hann_window, torch.hamming_window, torch.bartlett_window, torch.kaiser_window])
def test_windows_of_a_size_of_run_time(opset: int, make: Callable[[int], Tensor]) -> None:
    axes = {"x": {0: "n"}}
    file = at(opset, lambda x: x * make(x.shape[0]), (torch.randn(8),), input_names=["x"], dynamic_axes=axes)
    for length in (1, 2, 5, 31):
        x = torch.randn(length)
        same(x * make(length), run(file, x))


def test_what_an_opset_cannot_say_names_the_one_that_can() -> None:
    x = torch.zeros(3, 2)
    with pytest.raises(onnxport.UnsupportedOpsetError, match=r"opset_version=9 or newer; the export is for 8"):
        exported(lambda x, i: x.scatter_add(0, i, x), (x, torch.zeros(3, 2).long()), opset_version=8)
