"""How each output of the file compares with the model's, with what the model itself makes of rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.verification.compare import Difference, compare
from onnxport.verification.sample import Check, Sample


def differences(check: Check, sample: Sample, actual: Sequence[torch.Tensor]) -> list[Difference]:
    """How each output compares with the model's, with what the model makes of rounding taken into account."""
    found = _differences(check, sample, actual, [0.0] * len(actual))
    if any(difference.problem and 0 < difference.error < math.inf for difference in found):
        found = _differences(check, sample, actual, _noise(sample))
    return found


def _differences(
    check: Check, sample: Sample, actual: Sequence[torch.Tensor], noise: Sequence[float]
) -> list[Difference]:
    return [
        compare(
            expected.detach().cpu(),
            got,
            content=index not in check.random_outputs,
            noise=noise[index],
            rounding=check.roundings.get(index),
        )
        for index, (expected, got) in enumerate(zip(sample.expected, actual, strict=True))
    ]


def _noise(sample: Sample) -> list[float]:
    """How far each output moves when the last bits of the inputs change."""
    moved = []
    for expected, other in zip(sample.expected, sample.again(), strict=True):
        comparable = expected.is_floating_point() and expected.shape == other.shape and expected.numel() > 0
        distance = (expected.double() - other.double()).abs() if comparable else torch.zeros(1)
        moved.append(float(distance[distance.isfinite()].max()) if distance.isfinite().any() else 0.0)
    return moved
