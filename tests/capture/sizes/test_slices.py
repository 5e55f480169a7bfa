"""Slices at fixed bounds of axes whose sizes data or dynamic axes decide: they may be shorter, or empty."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import onnxruntime
import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import Function, check


def _best_rows(x: Tensor) -> Tensor:
    kept = x[:, 0] > 0
    return x[kept][x[:, 0][kept].argsort(descending=True)[:5]]


def _mean_of_first(x: Tensor) -> Tensor:
    first = x[x[:, 0] > 0][:3]
    return first.sum(0) / first.shape[0]


OF_DATA: dict[str, Callable[[Tensor], Tensor]] = {
    "median": lambda x: x[x > 0][:3].median(),
    "median of all": lambda x: x[x > 0].median(),
    "median that passes over NaN": lambda x: x[x > 0][:3].nanmedian(),
    "median of integers": lambda x: (x * 10).long()[x > 0][:3].median(),
    "mean": lambda x: x[x > 0][:3].mean(),
    "zeros": lambda x: torch.zeros_like(x[x > 0][:2]),
    "sorted": lambda x: x[x > 0][:3].sort().values,
    "best rows": _best_rows,
    "mean by number": _mean_of_first,
}


def _rows(positive: int, rows: int) -> Tensor:
    """Rows of which so many are positive."""
    x = -torch.rand(rows, 2) - 0.1
    x[torch.randperm(rows)[:positive]] *= -1
    return x


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seen", [0, 1, 3, 8])
@pytest.mark.parametrize("name", OF_DATA)
def test_slices_of_what_data_decides(name: str, seen: int, dynamic: bool, tmp_path: pathlib.Path) -> None:
    model, file = Function(OF_DATA[name]), tmp_path / "model.onnx"
    axes = {"x": {0: "n"}} if dynamic else None
    onnxport.export(model, (_rows(seen, 8),), file, input_names=["x"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(file)
    for positive, rows in [(0, 8), (1, 8), (2, 8), (8, 8), *([(0, 3), (1, 1), (4, 9), (40, 100)] if dynamic else [])]:
        x = _rows(positive, rows)
        (result,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(x), equal_nan=True)


def _halved(x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, c * 4, h // 2, w // 2)


def _pooled(x: Tensor) -> Tensor:
    """At a height or width of 1 there is nothing left."""
    b, c, h, w = x.shape
    return x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(b, c, h // 2, 2, w // 2, 2).amax((3, 5))


def _raised(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, :100] += 1
    return y


IMAGES = [(1, 3, 2, 2), (3, 3, 8, 4), (1, 3, 16, 2)]
OF_AXES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], list[tuple[int, ...]]]] = {
    "rows by their number": (lambda x: x.unflatten(0, (-1, x.shape[0] // 5)), (10, 4), [(10, 4), (15, 4), (50, 4)]),
    "halves": (_halved, (2, 3, 4, 6), IMAGES),
    "halves, cut": (_pooled, (2, 3, 4, 6), [*IMAGES, (1, 3, 1, 1), (2, 3, 1, 2), (2, 3, 2, 1), (1, 3, 3, 5)]),
    "more than there are": (_raised, (3, 5), [(1, 1), (3, 99), (2, 100), (2, 101), (4, 250)]),
    "the first of two parts": (lambda x: x.chunk(2, 1)[0], (3, 6), [(1, 1), (3, 1), (3, 2), (2, 3), (4, 7), (1, 8)]),
    "a part of one": (lambda x: x.chunk(2, 1)[0], (3, 1), [(1, 1), (3, 6), (3, 2), (2, 3), (4, 7), (1, 8)]),
}


@pytest.mark.parametrize("name", OF_AXES)
def test_slices_of_dynamic_axes(name: str, tmp_path: pathlib.Path) -> None:
    model, example, others = OF_AXES[name]
    check(model, tmp_path, example, others)


def _last_of_both(cache: Tensor, x: Tensor) -> Tensor:
    return torch.cat([cache, x], 1)[:, -8:]


def _last_of_cache(cache: Tensor, x: Tensor) -> Tensor:
    return torch.cat([cache[:, -(8 - x.shape[1]) :], x], 1)


def _as_long(cache: Tensor, x: Tensor) -> Tensor:
    window = torch.cat([cache[:, x.shape[1] :], x], 1)
    return window @ window.transpose(1, 2)


@pytest.mark.parametrize("example", [(3, 2), (8, 1), (7, 4)], ids=str)
@pytest.mark.parametrize("window", [_last_of_both, _last_of_cache, _as_long])
def test_sliding_windows_of_a_cache(
    window: Callable[[Tensor, Tensor], Tensor], example: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    def given(past: int, new: int) -> tuple[Tensor, Tensor]:
        return torch.randn(2, past, 4), torch.randn(2, new, 4)

    model, file = Function(window), tmp_path / "model.onnx"
    axes = {"cache": {1: "past"}, "x": {1: "new"}}
    onnxport.export(model, given(*example), file, input_names=["cache", "x"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(file)
    for past, new in [(1, 1), (7, 1), (8, 1), (9, 1), (20, 1), (3, 2), (7, 2), (5, 9), (0, 1)]:
        cache, x = given(past, new)
        (result,) = session.run(None, {"cache": cache.numpy(), "x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(cache, x))


def test_chunks_of_which_a_size_tells_how_many() -> None:
    def parts(x: Tensor) -> Tensor:
        return torch.chunk(x, x.size(0), dim=1)[0]

    with pytest.raises(onnxport.ExportError, match=r"test_slices.py:\d+"):
        onnxport.export(parts, torch.randn(3, 18), input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}})
