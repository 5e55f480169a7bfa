"""Loops that data end, in which tensors change their sizes and lists grow: suppression of boxes, greedy decoding."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport


def overlap(box: Tensor, boxes: Tensor) -> Tensor:
    low, high = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:], boxes[:, 2:])
    inside = (high - low).clamp(min=0).prod(-1)
    area = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return inside / (area - inside)


def stacked(boxes: Tensor, scores: Tensor) -> Tensor:
    order, keep = scores.argsort(descending=True), []
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        rest = order[1:]
        order = rest[overlap(boxes[i], boxes[rest]) <= 0.3]
    return torch.stack(keep)


def numbers(boxes: Tensor, scores: Tensor) -> Tensor:
    order, keep = scores.argsort(descending=True), []
    while len(order):
        i = order[0].item()
        keep.append(i)
        order = order[1:][overlap(boxes[i], boxes[order[1:]]) <= 0.3]
    return torch.tensor(keep)


def tensors_as_numbers(boxes: Tensor, scores: Tensor) -> Tensor:
    order, keep = scores.argsort(descending=True), []
    while order.shape[0] != 0:
        keep.append(order[0])
        order = order[overlap(boxes[order[0]], boxes[order]) < 0.3]
    return torch.tensor(keep)


def selected(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    order, keep = scores.argsort(descending=True), []
    while len(order) > 0:
        keep.append(order[0])
        order = order[overlap(boxes[order[0]], boxes[order]) < 0.3]
    index = torch.stack(keep)
    return boxes[index], scores[index]


def joined(boxes: Tensor, scores: Tensor) -> Tensor:
    order, keep = scores.argsort(descending=True), torch.zeros(0, dtype=torch.int64)
    while order.shape[0] > 0:
        keep = torch.cat([keep, order[:1]])
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) <= 0.3]
    return keep


def boxes(count: int, spread: float) -> tuple[Tensor, Tensor]:
    torch.manual_seed(count)
    corner = torch.rand(count, 2) * spread
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * 4], 1), torch.rand(count)


@pytest.mark.parametrize("example", [(6, 100.0), (6, 1.0), (9, 8.0)], ids=["none overlap", "all overlap", "some"])
@pytest.mark.parametrize("axes", [None, {"boxes": {0: "n"}, "scores": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("model", [stacked, numbers, tensors_as_numbers, selected, joined])
def test_suppression_of_boxes(model: Callable[..., Any], axes: Any, example: tuple[int, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, boxes(*example), input_names=["boxes", "scores"], dynamic_axes=axes)
    assert program.report.operators["Loop"] == 1
    for count in (1, 2, 7, 40) if axes else example[:1]:
        for spread in (1.0, 4.0, 12.0, 100.0):
            given = boxes(count, spread)
            expected, result = model(*given), program(*given)
            for found, wanted in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                torch.testing.assert_close(found, wanted)


class Decoder(nn.Module):
    """Greedy decoding that a number of tokens ends, or a token: Python compares a size in each iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, ids: Tensor) -> Tensor:
        most = ids.shape[1] + 5
        while ids.shape[1] < most:
            hidden, _ = self.layer(self.embedding(ids))
            token = self.head(hidden[:, -1]).argmax(-1, keepdim=True)
            ids = torch.cat([ids, token], 1)
            if (token == 3).all():
                break
        return ids


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_loop_that_a_size_or_data_end(is_dynamic: bool) -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    axes = {"ids": {0: "b", 1: "t"}} if is_dynamic else None
    program = onnxport.export(model, torch.randint(20, (2, 7)), input_names=["ids"], dynamic_axes=axes)
    for shape in ((1, 3), (3, 9), (1, 1)) if is_dynamic else ((2, 7),):
        for _ in range(8):
            ids = torch.randint(20, shape)
            torch.testing.assert_close(program(ids), model(ids))
