"""A tensor that is broadcast into a slice, whose size is another at other sizes of the model or on other data."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import onnxruntime
import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import Function, check

ROW = torch.tensor([1.0, 2.0, 3.0])


def _columns(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] = ROW
    return x


def _behind_the_rows(x: Tensor) -> Tensor:
    """The slice is empty where there are more rows than columns."""
    x = x + 1
    x[:, x.size(0) :] = ROW
    return x


def _row_of_a_row(x: Tensor) -> Tensor:
    x = x + 1
    x[1:, 0] = x[:1, :1, 0] * 2
    return x


def _leading_ones(x: Tensor) -> Tensor:
    x = x + 1
    x[0] = ROW[None, None, None]
    return x


def _whole(x: Tensor) -> Tensor:
    y = x.new_zeros(x.shape)
    y[...] = ROW
    y[:] += x.sum(0)
    return y


def _integers(x: Tensor) -> Tensor:
    x = x + 1
    x[-1, :2] = torch.tensor([[7], [8]])
    return x


@pytest.mark.parametrize(
    "model", [_columns, _behind_the_rows, _row_of_a_row, _leading_ones, _whole, _integers], ids=lambda f: f.__name__
)
def test_a_tensor_is_broadcast_into_a_slice(model: Callable[[Tensor], Tensor], tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, example=(2, 5, 3), others=((4, 7, 3), (6, 4, 3), (3, 2, 3)))


def _up_to(x: Tensor, end: Tensor, value: Tensor) -> Tensor:
    x = x.clone()
    x[:end, 0] = value
    return x


@pytest.mark.parametrize("end", [torch.tensor(5), torch.tensor([5])], ids=["number", "vector"])
@pytest.mark.parametrize("width", [(), (1,), (4,), (1, 4)])
def test_the_data_say_how_long_the_slice_is(end: Tensor, width: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "model.onnx"
    onnxport.export(Function(_up_to), (torch.zeros(9, 3, 4), end, torch.randn(width)), file)
    session = onnxruntime.InferenceSession(file)
    for length in (1, 5, 8, 9):
        given = torch.randn(9, 3, 4), torch.full_like(end, length), torch.randn(width)
        feed = {entry.name: tensor.numpy() for entry, tensor in zip(session.get_inputs(), given, strict=True)}
        (result,) = session.run(None, feed)
        torch.testing.assert_close(torch.from_numpy(result), _up_to(*given), rtol=0, atol=0)
