"""Sizes that data decide, cut and compared by Python: the file follows them on data with more and with fewer hits."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

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
    "padded to the longest": lambda s: pad_sequence([s[s > bound] for bound in (0.3, 0.5, 0.7)], padding_value=-1.0),
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


def _or_zero(s: Tensor) -> Tensor:
    kept = _kept(s)
    return s.new_zeros(1) if kept.shape[0] == 0 else kept.max().reshape(1)


def _at_most_five(s: Tensor) -> Tensor:
    kept = _kept(s)
    if kept.numel() > 5:
        kept = kept[kept.argsort(descending=True)[:5]]
    return kept * 2


def _for_each_row(s: Tensor) -> Tensor:
    found = []
    for row in s.view(2, -1):
        kept = _kept(row)
        if not len(kept):
            found.append(s.new_full((1,), -1.0))
            continue
        if kept.shape[0] > 3:
            kept = kept.topk(3).values
        found.append(kept.mean(0, keepdim=True))
    return torch.cat(found)


CONDITIONS = {"none": _or_zero, "too many": _at_most_five, "in each row": _for_each_row}


@pytest.mark.parametrize(
    ("name", "seen"), [("none", 2), ("none", 9), *(("too many", n) for n in (0, 2, 9)), ("in each row", 9)]
)
def test_conditions_on_counted_sizes(name: str, seen: int, tmp_path: pathlib.Path) -> None:
    model, file = CONDITIONS[name], tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        onnxport.export(model, (_data(seen, 20),), file, input_names=["s"], dynamic_axes={"s": {0: "n"}})
    session = onnxruntime.InferenceSession(file)
    for hits in (0, 1, 3, 4, 5, 6, 20):
        for size in (20, 32):
            s = _data(hits, size)
            (result,) = session.run(None, {"s": s.numpy()})
            torch.testing.assert_close(torch.from_numpy(result), model(s))


@pytest.mark.parametrize(("name", "seen"), [("none", 0), ("in each row", 2)])
def test_a_side_that_the_example_cannot_take_is_told(name: str, seen: int) -> None:
    """Nothing has no largest element, and two elements have no three largest ones."""
    with pytest.warns(onnxport.TraceWarning, match=r"test_data_dependent.py:\d+.*used as a condition"):
        onnxport.export(CONDITIONS[name], (_data(seen, 20),))


def test_a_decided_condition_on_a_counted_size_is_told() -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"test_data_dependent.py:\d+.*used as a condition; its value False"):
        onnxport.export(_or_zero, (_data(8, 20),), control_flow="trace")


@pytest.mark.parametrize("bound", [lambda n: n.max(), lambda n: n.max().reshape(1), lambda n: n.max().to(torch.int32)])
def test_tensors_as_bounds_of_slices(bound: Callable[[Tensor], Tensor], tmp_path: pathlib.Path) -> None:
    def model(x: Tensor, lengths: Tensor) -> Tensor:
        longest = bound(lengths)
        x = x.clone()
        x[:, longest:] = 0
        mask = torch.arange(longest.item()) < lengths[:, None]
        return x[:, :longest] * mask + x[:, longest - 1 : longest]

    file = tmp_path / "model.onnx"
    axes = {"x": {0: "batch", 1: "n"}, "lengths": {0: "batch"}}
    example = torch.randn(2, 6), torch.tensor([6, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        onnxport.export(model, example, file, input_names=["x", "lengths"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(file)
    for sizes in ([1], [3, 5, 2], [9, 9]):
        x, lengths = torch.randn(len(sizes), 9), torch.tensor(sizes)
        (result,) = session.run(None, {"x": x.numpy(), "lengths": lengths.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(x, lengths))


class Placed(nn.Module):
    """Rows that a mask chooses go where the ids are 9: as many as Python counted there."""

    def forward(self, ids: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        chosen = rows[mask > 0]
        count = (ids == 9).sum().item()
        torch._check(count == chosen.shape[0])
        return torch.zeros(*ids.shape, rows.shape[-1]).masked_scatter((ids == 9)[..., None], chosen)


@pytest.mark.parametrize("axes", [{"ids": {0: "b", 1: "s"}, "rows": {0: "b", 1: "t"}, "mask": {0: "b", 1: "t"}}, {}])
def test_a_count_that_is_compared_with_how_many_a_mask_chooses(axes: dict[str, dict[int, str]]) -> None:
    def inputs(batch: int, length: int, count: int) -> tuple[Tensor, ...]:
        ids, mask = torch.randint(0, 8, (batch, length)), torch.zeros(batch, length - 2, dtype=torch.long)
        ids[:, 1 : count + 1], mask[:, :count] = 9, 1
        return ids, torch.randn(batch, length - 2, 4), mask

    names = ["ids", "rows", "mask"]
    program = onnxport.export(Placed(), inputs(2, 7, 3), input_names=names, dynamic_axes=axes)
    for given in [inputs(2, 7, 3), inputs(2, 7, 1), *([inputs(3, 9, 4)] if axes else [])]:
        torch.testing.assert_close(program(*given), Placed()(*given), rtol=0, atol=0)
