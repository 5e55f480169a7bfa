"""Whether the runtime's result is torch's, up to the rounding that its dtype allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from onnxport.report.tolerances import NO_MAGNITUDE, OTHERWISE, TOLERANCES

# Every operator rounds, not the inputs alone: the error may be this many times what their last bit makes of the result.
NOISE_FACTOR = 10.0


@dataclass(frozen=True)
class Difference:
    """How one output compares: the largest absolute error, what is wrong, if anything, and the error allowed."""

    error: float
    problem: str | None
    allowed: float = 0.0


def compare(
    expected: torch.Tensor,
    actual: torch.Tensor,
    *,
    content: bool = True,
    noise: float = 0.0,
    rounding: torch.dtype | None = None,
) -> Difference:
    """``content=False`` compares dtype and shape only. ``noise`` is what the model itself makes of rounding.

    ``rounding`` is the coarsest dtype that the content had on its way, where that is not its own.
    """
    if actual.dtype != expected.dtype:
        return Difference(0.0, f"dtype {actual.dtype} instead of {expected.dtype}")
    if actual.shape != expected.shape:
        return Difference(0.0, f"shape {list(actual.shape)} instead of {list(expected.shape)}")
    if not content or expected.numel() == 0:
        return Difference(0.0, None)
    if not expected.is_floating_point() and not expected.is_complex():
        return _compare_exact(expected, actual)
    return _compare_rounded(expected, actual, noise, tolerance_of(rounding or expected.dtype))


def tolerance_of(dtype: torch.dtype) -> float:
    """The largest error allowed, relative to the largest magnitude in the output."""
    return TOLERANCES.get(str(dtype).removeprefix("torch."), OTHERWISE)


def _compare_exact(expected: torch.Tensor, actual: torch.Tensor) -> Difference:
    wrong = int((expected != actual).sum())
    if not wrong:
        return Difference(0.0, None)
    error = float((expected.double() - actual.double()).abs().max())
    return Difference(error, f"{wrong} of {expected.numel()} elements differ, by up to {error:g}")


def _compare_rounded(expected: torch.Tensor, actual: torch.Tensor, noise: float, tolerance: float) -> Difference:
    wide_expected, wide_actual = expected.double(), actual.double()
    error = _largest(wide_expected - wide_actual)
    if not math.isfinite(error):
        finite = wide_expected.isfinite()
        same_special = (wide_expected == wide_actual) | (wide_expected.isnan() & wide_actual.isnan())
        if not bool((finite == wide_actual.isfinite()).all()) or not bool(same_special[~finite].all()):
            return Difference(float("inf"), "NaN or infinity where the other has a number", tolerance)
        if not bool(finite.any()):
            return Difference(0.0, None)
        wide_expected, wide_actual = wide_expected[finite], wide_actual[finite]
        error = _largest(wide_expected - wide_actual)
    magnitude = _largest(wide_expected)
    allowed = tolerance * max(magnitude, torch.finfo(expected.dtype).tiny)
    allowed = max(allowed, tolerance * NO_MAGNITUDE, NOISE_FACTOR * noise)
    if error <= allowed:
        return Difference(error, None, allowed)
    return Difference(error, f"largest error {error:g}, values up to {magnitude:g}, {allowed:g} allowed", allowed)


def _largest(of: torch.Tensor) -> float:
    """The largest magnitude; a NaN if there is one."""
    low, high = of.aminmax()
    return max(abs(float(low)), abs(float(high)))
