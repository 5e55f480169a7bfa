"""Whether the runtime's result is torch's, up to the rounding that its dtype allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.report.tolerances import NO_MAGNITUDE, OTHERWISE, TOLERANCES
from onnxport.verification.sample import Check, Sample

# Every operator rounds, not the inputs alone: the error may be this many times what their last bit makes of the result.
NOISE_FACTOR = 10.0
# What the inputs are moved by to see what integers do that fall otherwise, in rounding errors: about a hundredth of a
# step of 7 bits, as near to the boundary as either integer is right. Each number is another draw. The result may move
# as far as twice the most of them. It jumps if it moves more than twice as far as in proportion.
ERRORS_TO_JUMP = (512, 640, 768, 896)
JUMP_FACTOR = 2.0


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
    jump: float = 0.0,
    rounding: torch.dtype | None = None,
) -> Difference:
    """``content=False`` compares dtype and shape only. ``noise`` is what the model itself makes of rounding, ``jump``
    what it makes of integers that fall otherwise.

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
    least = max(NOISE_FACTOR * noise, JUMP_FACTOR * jump)
    return _compare_rounded(expected, actual, least, tolerance_of(rounding or expected.dtype))


def tolerance_of(dtype: torch.dtype) -> float:
    """The largest error allowed, relative to the largest magnitude in the output."""
    return TOLERANCES.get(str(dtype).removeprefix("torch."), OTHERWISE)


def _compare_exact(expected: torch.Tensor, actual: torch.Tensor) -> Difference:
    wrong = int((expected != actual).sum())
    if not wrong:
        return Difference(0.0, None)
    error = float((expected.long() - actual.long()).abs().max())
    return Difference(error, f"{wrong} of {expected.numel()} elements differ, by up to {error:g}")


def _compare_rounded(expected: torch.Tensor, actual: torch.Tensor, least: float, tolerance: float) -> Difference:
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
    allowed = max(allowed, tolerance * NO_MAGNITUDE, least)
    if error <= allowed:
        return Difference(error, None, allowed)
    return Difference(error, f"largest error {error:g}, values up to {magnitude:g}, {allowed:g} allowed", allowed)


def _largest(of: torch.Tensor) -> float:
    """The largest magnitude; a NaN if there is one."""
    low, high = of.aminmax()
    return max(abs(float(low)), abs(float(high)))


def differences(check: Check, sample: Sample, actual: Sequence[torch.Tensor]) -> list[Difference]:
    """How each output compares with the model's, with what the model makes of rounding taken into account."""
    none = [0.0] * len(actual)
    found = _differences(check, sample, actual, none, none)
    if _are_off(found):
        noise = _moved(sample, 1)
        found = _differences(check, sample, actual, noise, none)
        if check.rounds_inside and _are_off(found):
            found = _differences(check, sample, actual, noise, _jumps(sample, noise))
    return found


def _are_off(found: Sequence[Difference]) -> bool:
    return any(difference.problem and 0 < difference.error < math.inf for difference in found)


def _differences(
    check: Check, sample: Sample, actual: Sequence[torch.Tensor], noise: Sequence[float], jumps: Sequence[float]
) -> list[Difference]:
    return [
        compare(
            expected.detach().cpu(),
            got,
            content=index not in check.random_outputs,
            noise=noise[index],
            jump=jumps[index],
            rounding=check.roundings.get(index),
        )
        for index, (expected, got) in enumerate(zip(sample.expected, actual, strict=True))
    ]


def _jumps(sample: Sample, noise: Sequence[float]) -> list[float]:
    """How far each output jumps: moves far more than in proportion to the inputs."""
    most = [0.0] * len(noise)
    for errors in ERRORS_TO_JUMP:
        for index, (far, near) in enumerate(zip(_moved(sample, errors), noise, strict=True)):
            most[index] = max(most[index], far if far > 2 * errors * near else 0.0)
    return most


def _moved(sample: Sample, errors: int) -> list[float]:
    """How far each output moves when the inputs do, by so many rounding errors."""
    moved = []
    for expected, other in zip(sample.expected, sample.again(errors), strict=True):
        comparable = expected.is_floating_point() and expected.shape == other.shape and expected.numel() > 0
        distance = (expected.double() - other.double()).abs() if comparable else torch.zeros(1)
        moved.append(float(distance[distance.isfinite()].max()) if distance.isfinite().any() else 0.0)
    return moved
