"""Errors that a model handles itself: an operator that raises at some sizes or on some data is a condition."""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import Function, check

SIZES = [(n, 4) for n in (1, 2, 3, 5, 6, 7, 8, 14, 21, 33)]


def viewed(x: Tensor) -> Tensor:
    try:
        y = x.view(7, -1)
    except RuntimeError:
        y = x * 2
    return y


def multiplied(x: Tensor) -> Tensor:
    try:
        return x @ x
    except RuntimeError:
        return x + x


def indexed(x: Tensor) -> Tensor:
    try:
        return x[5] * 2
    except IndexError:
        return x[0]


def indexed_in_a_row(x: Tensor) -> Tensor:
    try:
        return x[..., 1] + x[None, -4, :, None][..., 0].sum()
    except IndexError:
        return x[:, 0]


def suppressed(x: Tensor) -> Tensor:
    y = x
    with contextlib.suppress(RuntimeError):
        y = x.view(7, -1).sum(0)
    return y.sum()


@pytest.mark.parametrize("function", [viewed, multiplied, indexed, indexed_in_a_row, suppressed])
@pytest.mark.parametrize("size", [3, 4, 7])
def test_what_raises_at_some_sizes_only_is_a_branch(
    function: Callable[[Tensor], Tensor], size: int, tmp_path: pathlib.Path
) -> None:
    check(function, tmp_path, (size, 4), [*SIZES, (4, 4)])


def widened(x: Tensor) -> Tensor:
    """With another dtype where nothing raises."""
    try:
        return x.view(7, -1).reshape(x.shape).double()
    except RuntimeError:
        return x


@pytest.mark.parametrize("function", [widened])
@pytest.mark.parametrize("size", [3, 4, 7])
def test_what_cannot_be_a_branch_is_an_error_with_its_line(
    function: Callable[[Tensor], Tensor], size: int, tmp_path: pathlib.Path
) -> None:
    first = function.__code__.co_firstlineno
    lines = "|".join(str(line) for line in range(first + 2, first + 5))
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_handled_errors\.py:({lines}), in .*another path at n="):
        onnxport.export(
            Function(function), (torch.randn(size, 4),), tmp_path / "m.onnx", input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )  # fmt: skip


def of_transposed(x: Tensor) -> Tensor:
    """It raises because of how the tensor lies in memory."""
    y = x.t()
    try:
        return y.view(-1)
    except RuntimeError:
        return y.reshape(-1)


def on_a_missing_axis(x: Tensor) -> Tensor:
    try:
        return x.unsqueeze(7)
    except IndexError:
        return x * 2


def all_guarded(x: Tensor) -> Tensor:
    """Nothing in it raises at any size."""
    try:
        first, *_ = x.unbind(0)
        return (x.relu() @ torch.ones(4, 4)).view(x.shape[0], 2, 2).sum(1).reshape(-1, 2) + first[:2]
    except RuntimeError:
        return x * 2


def of_another_kind(x: Tensor) -> Tensor:
    """What it handles is nothing that operators raise."""
    try:
        return x.view(-1, x.shape[0])
    except (KeyError, AttributeError):
        return x * 2


@pytest.mark.parametrize("function", [of_transposed, on_a_missing_axis, all_guarded, of_another_kind])
def test_what_does_the_same_at_every_size_is_exported(
    function: Callable[[Tensor], Tensor], tmp_path: pathlib.Path
) -> None:
    check(function, tmp_path, (4, 4), SIZES)


def factored(x: Tensor) -> Tensor:
    try:
        return torch.linalg.cholesky(x)
    except RuntimeError:
        return x * 2


@pytest.mark.parametrize("axes", [None, {"x": {0: "n", 1: "n"}}], ids=["static", "dynamic"])
def test_what_raises_on_some_data_is_told(axes: dict[str, dict[int, str]] | None, tmp_path: pathlib.Path) -> None:
    with pytest.warns(
        onnxport.TraceWarning,
        match=r"test_handled_errors\.py:\d+, in \S+: .* the cause of an error that the model handles",
    ):
        onnxport.export(Function(factored), (-torch.eye(4),), tmp_path / "m.onnx", input_names=["x"], dynamic_axes=axes)


def remainder(x: Tensor) -> Tensor:
    try:
        return x + 12 % (x.shape[0] - 2)
    except ZeroDivisionError:
        return x * 2


def quotient(x: Tensor) -> Tensor:
    try:
        r = 3 / (x.shape[0] - 7)
    except (KeyError, ArithmeticError):
        r = 0.5
    return x + r


def rest(x: Tensor) -> Tensor:
    with contextlib.suppress(ZeroDivisionError):
        x = x * divmod(x.shape[0], x.shape[0] // 3)[1]
    return x + 1


def inverse(x: Tensor) -> Tensor:
    try:
        return x + (x.shape[0] - 7) ** -2
    except ZeroDivisionError:
        return x - 1


def root(x: Tensor) -> Tensor:
    try:
        return x + math.sqrt(x.shape[0] - 5)
    except ValueError:
        return x * 3


def logarithm(x: Tensor) -> Tensor:
    try:
        r = math.log(abs(x.shape[0] - 7))
    except ValueError:
        r = 7.0
    return x + r


@pytest.mark.parametrize("function", [remainder, quotient, rest, inverse, root, logarithm])
@pytest.mark.parametrize("size", [2, 6, 7])
def test_a_number_that_python_cannot_compute_at_some_sizes_is_a_branch(
    function: Callable[[Tensor], Tensor], size: int, tmp_path: pathlib.Path
) -> None:
    check(function, tmp_path, (size, 4), SIZES)
