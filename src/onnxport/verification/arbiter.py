"""Arbitration of outputs that differ from torch's.

Of floats, the file and torch in single precision are both compared with the model in double precision. Integers and
bools have no size of error: each that differs has to be one that torch gives, too, when its inputs are moved by a few
rounding errors, or in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

# Rounding errors of two computations of the same are alike, not equal: on 66 models made to amplify them the file's
# largest error was 0.2 to 3.2 times torch's own, in 95 of 100 at most 1.7 times.
FACTOR = 4.0
# Where torch is further off than this part of the largest magnitude, its error measures nothing: a choice fell
# otherwise, or the model has no result in single precision.
LARGEST_ERROR = 1e-2
# What the inputs are moved by, in rounding errors, to see which integers fall otherwise: each number is another draw of
# signs. Of an integer that falls either way as often, one in 100,000 falls the same way in all of them.
FEW_ERRORS = range(1, 17)


@dataclass(frozen=True)
class Arbitration:
    """An output that differs from torch's in single precision, and is right by the model in double precision.

    ``own_error`` is torch's largest error against that, ``file_error`` the file's.
    """

    output: str
    own_error: float
    file_error: float

    def __str__(self) -> str:
        return (
            f"output {self.output!r} is right by the model in double precision: it is {self.file_error:.2g} away from "
            f"that, torch in single precision {self.own_error:.2g}"
        )


@dataclass(frozen=True)
class Choice:
    """An output of integers or bools, ``count`` of which differ from torch's and are as right."""

    output: str
    count: int

    def __str__(self) -> str:
        return (
            f"output {self.output!r} differs in {self.count} elements, which rounding decides: they differ in torch, "
            "too, when the inputs are moved by their last bits, or in double precision"
        )


def chosen_otherwise(expected: torch.Tensor, actual: torch.Tensor, others: Iterable[torch.Tensor]) -> int | None:
    """How many elements differ, if each of them is an element of one of the ``others``; None if one is not."""
    wrong = expected != actual
    unexplained = wrong.clone()
    for other in others:
        if other.shape != actual.shape or other.dtype != actual.dtype:
            return None
        unexplained &= other != actual
        if not bool(unexplained.any()):
            return int(wrong.sum())
    return None


def errors_against(
    truth: torch.Tensor | None, expected: torch.Tensor, actual: torch.Tensor, allowed: float
) -> tuple[float, float] | None:
    """Torch's largest error and the file's, if the latter is no larger than ``allowed`` or than torch's error explains.

    An output on which torch is off by no more than ``allowed`` gets no allowance for rounding.
    """
    if truth is None or truth.dtype is not torch.float64 or expected.dtype is not torch.float32:
        return None
    if not truth.shape == expected.shape == actual.shape or not truth.numel():
        return None
    finite = truth.isfinite()
    others = expected.double(), actual.double()
    if any(not bool((other.isfinite() == finite).all()) for other in others) or not bool(finite.any()):
        return None
    own, file = (float((other - truth)[finite].abs().max()) for other in others)
    if own > LARGEST_ERROR * float(truth[finite].abs().max()):
        return None
    return (own, file) if file <= (allowed if own <= allowed else FACTOR * own) else None
