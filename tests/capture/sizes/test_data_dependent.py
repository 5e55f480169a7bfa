"""Sizes that data decide, cut and compared by Python: the file follows them on data with more and with fewer hits."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor

import onnxport


def _kept(s: Tensor) -> Tensor:
    return s[s > 0.5]


def _best(s: Tensor) -> Tensor:
    kept = _kept(s)
    return kept.topk(min(5, kept.shape[0])).values


def _pairs(best: Tensor) -> Tensor:
    pairs = torch.stack([best, best], 1)
    return torch.stack([pairs, -pairs], 2).reshape(pairs.shape[0], 4)


def _padded(s: Tensor) -> Tensor:
    kept = _kept(s)
    return torch.cat([kept, kept.new_ones(max(6, kept.shape[0]) - kept.shape[0])])


def _numbered(s: Tensor) -> Tensor:
    first = _kept(s)[:30]
    return first * torch.arange(first.shape[0])


def _best_by_tensors(s: Tensor) -> Tensor:
    kept = _kept(s)
    length = torch._shape_as_tensor(kept)[0].unsqueeze(0)
    best = kept.topk(torch.min(torch.cat((torch.tensor([5]), length), 0))).values  # type: ignore[arg-type]
    return _pairs(best)


def _of_two(s: Tensor) -> Tensor:
    above, below = s[s > 0.5], s[s <= 0.5]
    count = min(above.shape[0], below.shape[0], 7)
    return above[:count] * below[:count] + torch.zeros(count)


def _minus_two(s: Tensor) -> Tensor:
    count: Any = (s > 0.5).sum().item()
    return s[: max(count - 2, 0)]


FOLLOWED: dict[str, Callable[[Tensor], Tensor]] = {
    "smaller": _best,
    "length": lambda s: _kept(s).topk(min(len(_kept(s)), 5)).values,
    "elements": lambda s: _kept(s).topk(min(_kept(s).numel(), 5)).values,
    "size of a cut": lambda s: _pairs(_best(s)),
    "by tensors": _best_by_tensors,
    "slice": lambda s: _kept(s)[: min(4, _kept(s).shape[0])] * 2,
    "slice beyond the example": _numbered,
    "larger": _padded,
    "two counts": _of_two,
    "counted in a tensor": _minus_two,
}


def _data(hits: int, size: int) -> Tensor:
    s = torch.rand(size) * 0.4
    s[torch.randperm(size)[:hits]] += 0.6
    return s


@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("seen", [3, 8])
@pytest.mark.parametrize("name", FOLLOWED)
def test_counted_sizes_are_followed(name: str, seen: int, dynamic: bool, tmp_path: pathlib.Path) -> None:
    model, file = FOLLOWED[name], tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        axes = {"s": {0: "n"}} if dynamic else None
        onnxport.export(model, (_data(seen, 50),), file, input_names=["s"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(file)
    for hits in (0, 1, 2, 4, 5, 6, 7, 20, 31, 50):
        for size in (50, 63) if dynamic else (50,):
            s = _data(hits, size)
            (result,) = session.run(None, {"s": s.numpy()})
            torch.testing.assert_close(torch.from_numpy(result), model(s))


def test_a_number_of_hits_that_the_model_refuses_tells_nothing(tmp_path: pathlib.Path) -> None:
    def model(s: Tensor) -> Tensor:
        kept = _kept(s)
        return kept.topk(5).values * kept[:5]

    file = tmp_path / "model.onnx"
    onnxport.export(model, (_data(8, 20),), file, input_names=["s"], dynamic_axes={"s": {0: "n"}})
    session = onnxruntime.InferenceSession(file)
    for s in (_data(5, 20), _data(12, 31)):
        (result,) = session.run(None, {"s": s.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(s))


def test_a_condition_on_a_counted_size_is_told() -> None:
    def model(s: Tensor) -> Tensor:
        kept = _kept(s)
        return s.new_zeros(1) if kept.shape[0] == 0 else kept.max().reshape(1)

    with pytest.warns(onnxport.TraceWarning, match=r"test_data_dependent.py:\d+.*used as a condition; its value False"):
        onnxport.export(model, (_data(8, 20),))
