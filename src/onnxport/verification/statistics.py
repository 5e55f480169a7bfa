"""Statistics of two values side by side: torch's, ONNX Runtime's, and how they differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Statistics:
    """One value. Minimum, maximum and mean are of its finite elements; NaN where there are none."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    minimum: float
    maximum: float
    mean: float
    nans: int
    infinities: int

    @staticmethod
    def of(tensor: torch.Tensor) -> Statistics:
        wide = tensor.detach().cpu().double()
        finite = wide[wide.isfinite()]
        low, high, mean = (
            (float(finite.min()), float(finite.max()), float(finite.mean())) if finite.numel() else (math.nan,) * 3
        )
        nans, infinities = int(wide.isnan().sum()), int(wide.isinf().sum())
        return Statistics(tensor.dtype, tuple(tensor.shape), low, high, mean, nans, infinities)

    def __str__(self) -> str:
        special = f", {self.nans} NaN" if self.nans else ""
        special += f", {self.infinities} infinite" if self.infinities else ""
        dtype = str(self.dtype).removeprefix("torch.")
        numbers = f"min {self.minimum:g}, max {self.maximum:g}, mean {self.mean:g}"
        return f"{dtype}{list(self.shape)}, {'empty' if 0 in self.shape else numbers}{special}"


@dataclass(frozen=True)
class Contrast:
    """A value as torch has it and as ONNX Runtime has it.

    ``kind`` is ``"dtype"``, ``"shape"``, ``"special"`` (NaN or infinity where the other has a number) or ``"values"``.
    ``differing`` counts the elements further apart than allowed; ``first`` is the index of the first of them, with
    torch's element and the runtime's.
    """

    kind: str
    expected: Statistics
    actual: Statistics
    differing: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    first: tuple[int, ...] = ()
    first_expected: float = math.nan
    first_actual: float = math.nan

    def __str__(self) -> str:
        lines = [f"torch: {self.expected}", f"ONNX:  {self.actual}"]
        if self.kind in ("special", "values"):
            special = ", with NaN or infinity on one side only" if self.kind == "special" else ""
            first, wanted = _shown(self.first_actual), _shown(self.first_expected)
            lines += [
                f"{self.differing} of {math.prod(self.expected.shape)} elements differ{special}; largest difference "
                f"{self.max_abs:g}, relative {self.max_rel:g}",
                f"the first at {list(self.first)}: {first} instead of {wanted}",
            ]
        return "\n".join(lines)


def _shown(number: float) -> str:
    """Integers in full: large ones may differ in their last digits only."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    """A value in a dtype that holds its elements exactly: float64 does not hold all integers."""
    tensor = tensor.detach().cpu()
    return tensor.double() if tensor.is_floating_point() or tensor.is_complex() else tensor.long()


def contrast(expected: torch.Tensor, actual: torch.Tensor, allowed: float) -> Contrast:
    """Lay two values side by side; elements that differ by no more than ``allowed`` count as equal."""
    ours, theirs = Statistics.of(expected), Statistics.of(actual)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return Contrast("dtype" if ours.shape == theirs.shape else "shape", ours, theirs)
    left, right = _exact(expected), _exact(actual)
    same_special = (left == right) | (left.isnan() & right.isnan())
    finite = left.isfinite() & right.isfinite()
    distance = (left - right).abs().double()
    wrong = torch.where(finite, distance > allowed, ~same_special)
    if not bool(wrong.any()):
        wrong = torch.where(finite, distance > 0, ~same_special)
    positions = wrong.nonzero()
    if not len(positions):
        return Contrast("values", ours, theirs)
    first = tuple(int(index) for index in positions[0])
    relative = (distance / left.abs())[finite & (left != 0)]
    return Contrast(
        "special" if bool((~finite & wrong).any()) else "values",
        ours,
        theirs,
        differing=len(positions),
        max_abs=float(distance[finite].max()) if bool(finite.any()) else 0.0,
        max_rel=float(relative.max()) if relative.numel() else 0.0,
        first=first,
        first_expected=left[first].item(),
        first_actual=right[first].item(),
    )
