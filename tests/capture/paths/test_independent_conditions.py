"""Many conditions on sizes that do not affect each other: there are too many paths to run, and not too many triples."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxport
from tests.capture.record.at_sizes import check

HEIGHTS, WIDTHS = (32, 33, 47, 64, 70, 95, 127), (35, 64, 77, 96)
SIZES = [(2, 2, h, w) for h, w in itertools.product(HEIGHTS, WIDTHS)]


class UNet(nn.Module):
    """Four levels, each of which pads height and width where they were odd."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(4))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2, 2, 2, stride=2) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for conv in self.down:
            kept.append(conv(x).relu())
            x = F.max_pool2d(kept[-1], 2)
        for conv in self.up:
            skip, x = kept.pop(), conv(x)
            pads = [0, 0, 0, 0]
            for axis in (1, 2):
                if x.shape[-axis] != skip.shape[-axis]:
                    pads[2 * axis - 1] = 1
            x = F.pad(x, pads, "replicate") + skip
        return x


class SamePadding(nn.Module):
    """Four convolutions with stride 2 and the padding of TensorFlow, which differs for even and odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(2, 2, 3, stride=2) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.layers:
            height, width = x.shape[-2:]
            rows = max(3 - 2, 0) if height % 2 == 0 else max(3 - height % 2, 0)
            columns = max(3 - 2, 0) if width % 2 == 0 else max(3 - width % 2, 0)
            x = conv(F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))).relu()
        return x


class PaddedWhereOdd(nn.Module):
    """The pad is left out where it does nothing, and the width is asked for only where the height is even."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            rows, columns = x.shape[-2] % 2, x.shape[-1] % 2
            if rows or columns:
                x = F.pad(x, (0, columns, 0, rows), value=2.0)
            x = F.avg_pool2d(x, 2)
        return x


@pytest.mark.parametrize("model", [UNet(), SamePadding(), PaddedWhereOdd()], ids=lambda model: type(model).__name__)
def test_conditions_in_each_of_several_levels(model: nn.Module, tmp_path: pathlib.Path) -> None:
    check(model.eval(), tmp_path, (1, 2, 96, 80), SIZES)


def _bits(x: Tensor) -> list[int]:
    return [1 if size // 2**k % 2 == 1 else 0 for k in range(5) for size in x.shape]


def test_two_conditions_that_decide_together(tmp_path: pathlib.Path) -> None:
    def model(x: Tensor) -> Tensor:
        bits = _bits(x)
        return x * (3 if bits[0] ^ bits[7] else 2)

    check(model, tmp_path, (24, 26), list(itertools.product(range(16, 80, 7), range(17, 80, 9))))


def test_three_conditions_that_decide_together_are_refused() -> None:
    """A number has to follow from one or two conditions."""

    def model(x: Tensor) -> Tensor:
        bits = _bits(x)
        return x * (3 if bits[0] ^ bits[3] ^ bits[6] else 2)

    with pytest.raises(onnxport.DynamicAxisError, match=r"2 at .*; 3 at"):
        onnxport.export(model, torch.randn(24, 26), None, input_names=["x"], dynamic_axes={"x": [0, 1]})


def _with_parities(x: Tensor) -> Tensor:
    """Six conditions that have nothing to do with what follows."""
    for divisor in (2, 3):
        for size in x.shape:
            x = x + (1 if size % divisor else 0)
    return x


def by_and(x: Tensor) -> Tensor:
    a, b, c = x.shape
    return _with_parities(x) * (3 if a > 40 and b > 50 and c > 60 else 2)


def by_all(x: Tensor) -> Tensor:
    held = [bool(size % 5 == 0) for size in x.shape]
    return _with_parities(x) * (3 if all(held) else 2)


def by_a_product(x: Tensor) -> Tensor:
    a, b, c = (1 if size > 40 else 0 for size in x.shape)
    return _with_parities(x) * (3 if a * b * c else 2)


def by_a_count(x: Tensor) -> Tensor:
    count = 0
    for size in x.shape:
        if size > 40:
            count += 1
    return _with_parities(x) * (3 if count == 3 else 2)


@pytest.mark.parametrize("model", [by_and, by_all, by_a_product, by_a_count], ids=lambda model: model.__name__)
def test_what_three_conditions_do_only_together_is_not_overlooked(model: Callable[[Tensor], Tensor]) -> None:
    """No pair of outcomes shows it."""
    with pytest.raises(onnxport.DynamicAxisError, match=r"test_independent_conditions\.py:\d+"):
        onnxport.export(model, torch.randn(4, 6, 8), None, input_names=["x"], dynamic_axes={"x": [0, 1, 2]})


def test_what_each_condition_decides_stands_once(tmp_path: pathlib.Path) -> None:
    """A pad that follows from one condition is not told for all combinations of the others."""
    file = tmp_path / "model.onnx"
    x = torch.randn(1, 2, 96, 80)
    program = onnxport.export(SamePadding(), x, file, input_names=["x"], dynamic_axes={"x": {2: "h", 3: "w"}})
    assert sum(node.op_type == "Where" for node in program.model.graph) <= 4 * 4


@pytest.mark.parametrize("example", [(24, 26), (23, 26), (25, 28), (24, 79)], ids=str)
def test_a_condition_that_is_asked_behind_another_one(example: tuple[int, int], tmp_path: pathlib.Path) -> None:
    """Most runs do not ask it, and are told apart by many other conditions that have nothing to do with the number."""

    def model(x: Tensor) -> Tensor:
        factor = 2.0
        if x.shape[0] % 7 == 3:
            factor = 2.5
            if x.shape[1] % 37 == 5:
                factor = 3.0
        for bit in _bits(x)[:7]:
            x = x + (1 if bit else 0.5)
        return x * factor

    sizes = list(itertools.product((8, 10, 17, 23, 24, 38, 45), (5, 20, 42, 46, 79, 83)))
    check(model, tmp_path, example, sizes)
