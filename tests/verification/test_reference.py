"""What the models are checked on: content that stays within what the example shows."""

from __future__ import annotations

import ctypes
import io
import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnxport
from tests.recording import is_recorded

F8 = [torch.float8_e4m3fn, torch.float8_e5m2]


def test_ids_stay_within_the_range_of_the_example() -> None:
    calls = []

    def model(ids: torch.Tensor) -> torch.Tensor:
        if not is_recorded():
            calls.append(ids.clone())
        return ids.float() * 2

    ids = torch.tensor([[3, 7, 11], [5, 3, 7]])
    onnxport.export(model, ids, dynamic_axes={"ids": {0: "batch", 1: "length"}})
    assert len({tuple(seen.shape) for seen in calls}) >= 3
    assert {int(number) for seen in calls for number in seen.flatten()} <= {3, 5, 7, 11}


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_masks_keep_their_pattern(dtype: torch.dtype) -> None:
    calls = []

    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not is_recorded():
            calls.append((x.clone(), mask.clone()))
        return x.masked_fill(mask == 0, -1e9).softmax(-1)

    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).to(dtype)
    axes = {0: "batch"}
    onnxport.export(model, (torch.randn(2, 4), mask), dynamic_axes={"x": axes, "mask": axes})
    assert len({len(seen) for _, seen in calls}) >= 3
    for _, seen in calls:
        assert {tuple(row.tolist()) for row in seen} <= {tuple(row.tolist()) for row in mask}
    example, other = (x.flatten().tolist()[:8] for x, _ in calls[:2])
    assert other != example and min(example) <= min(other) and max(other) <= max(example), "the rest is drawn anew"


def test_lengths_follow_the_axis_where_a_model_needs_it() -> None:
    class Lengths(nn.Module):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            if not is_recorded():
                assert int(lengths.max()) == x.shape[1], "the longest fills the batch"
            return x * (torch.arange(x.shape[1])[None] < lengths[:, None])

    program = onnxport.export(
        Lengths(),
        (torch.randn(2, 6), torch.tensor([6, 4])),
        dynamic_axes={"x": {0: "batch", 1: "length"}, "lengths": {0: "batch"}},
    )
    assert len({case.sizes["length"] for case in program.verification.cases}) >= 3


@pytest.mark.parametrize("dtype", F8)
def test_float8(dtype: torch.dtype) -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x.to(torch.float32) * 2
            return y, y.to(dtype)

    x = torch.randn(3, 4).to(dtype)
    program = onnxport.export(Both(), x, dynamic_axes={"x": {0: "n"}})
    assert program.verification.passed and len(program.verification.cases) >= 3
    y, narrow = program(x)
    assert narrow.dtype == dtype and torch.equal(y, x.float() * 2)
    assert torch.equal(narrow.float(), y.to(dtype).float())


def test_a_file_that_is_wrong_is_told_with_statistics(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    onnxport.export(model, torch.randn(4, 3), tmp_path / "m.onnx", output_names=["y"])
    with torch.no_grad():
        model[0].weight.mul_(2)  # type: ignore[union-attr, operator]
    found = onnxport.verify(tmp_path / "m.onnx", model, torch.randn(4, 3))
    case, *_ = found.cases
    assert not case.passed and list(case.differences) == ["y"]
    assert case.differences["y"].kind == "values" and case.differences["y"].expected.shape == (4, 2)
    assert "'y'" in str(found) and "elements differ" in str(found) and "instead of" in str(found)


@pytest.mark.parametrize("content", [None, b"no model"])
def test_what_is_no_model_is_told(content: bytes | None, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(onnxport.OptionError, match="cannot be read"):
        onnxport.verify(path, nn.Linear(3, 2), torch.randn(4, 3))


def _first_byte(x: torch.Tensor) -> torch.Tensor:
    """Content that Python reads where no mode of torch's can see it."""
    return x + ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_ubyte))[0]


def _through_a_file(x: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    loaded: torch.Tensor = torch.load(file)
    return loaded * 2


@pytest.mark.parametrize("model", [_first_byte, _through_a_file])
def test_static_exports_are_checked_on_other_data(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnxport.VerificationError, match="on other data at the example's sizes"):
        onnxport.export(model, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))


def test_other_data_that_the_model_refuses_is_left_out() -> None:
    x = torch.randn(3, 4)

    def model(given: torch.Tensor) -> torch.Tensor:
        if not is_recorded() and not torch.equal(given, x):
            raise ValueError("no other data")
        return given * 2

    assert [case.other_data for case in onnxport.export(model, x).verification.cases] == [False]
