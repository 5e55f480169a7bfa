"""Every export is run in ONNX Runtime and compared with torch, at the example's sizes and at others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

from onnxport.verify.compare import Difference, compare
from onnxport.verify.runtime import Session

RUNTIME_ERRORS = (Fail, InvalidArgument, InvalidGraph, RuntimeException)


@dataclass(frozen=True)
class Case:
    """One run: the size of each dynamic axis, the largest error of any output, and what was wrong."""

    sizes: dict[str, int]
    max_abs_error: float
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Verification:
    """What was checked. ``skipped`` says why nothing was."""

    cases: tuple[Case, ...] = ()
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        return self.skipped is None and bool(self.cases) and all(case.passed for case in self.cases)

    @property
    def max_abs_error(self) -> float:
        return max((case.max_abs_error for case in self.cases), default=0.0)

    def __str__(self) -> str:
        if self.skipped is not None:
            return f"not verified: {self.skipped}"
        lines = []
        for case in self.cases:
            at = ", ".join(f"{label}={size}" for label, size in case.sizes.items()) or "the example's sizes"
            lines += [f"at {at}: {problem}" for problem in case.problems] or [
                f"at {at}: largest error {case.max_abs_error:.2e}"
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Sample:
    """Inputs for one case and what the model gives for them.

    ``again`` gives what it makes of the same inputs with their last bits changed; it is asked for when a result is off,
    to tell a model that amplifies rounding from a wrong one.
    """

    sizes: dict[str, int]
    inputs: list[torch.Tensor]
    expected: list[torch.Tensor]
    again: Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Check:
    """What to compare: the names of inputs and outputs, the outputs that depend on random numbers, and the coarsest
    dtype that each output had on its way, where that is known."""

    input_names: Sequence[str]
    output_names: Sequence[str]
    random_outputs: frozenset[int] = field(default_factory=frozenset)
    roundings: Mapping[int, torch.dtype] = field(default_factory=dict)


def verify(source: str | bytes, check: Check, samples: Callable[[], Iterator[Sample]]) -> Verification:
    """Run the exported model on each sample and compare."""
    try:
        session = Session(source)
    except NotImplemented as error:
        return Verification(skipped=f"ONNX Runtime lacks a kernel that it needs: {error}")
    except RUNTIME_ERRORS as error:
        return Verification((Case({}, float("inf"), (f"ONNX Runtime does not load the model: {error}",)),))
    return Verification(tuple(_run_case(session, check, sample) for sample in samples()))


def _run_case(session: Session, check: Check, sample: Sample) -> Case:
    try:
        actual = session.run(dict(zip(check.input_names, sample.inputs, strict=True)))
    except RUNTIME_ERRORS as error:
        return Case(sample.sizes, float("inf"), (f"ONNX Runtime stops: {error}",))
    differences = _differences(check, sample, actual, [0.0] * len(actual))
    if any(difference.problem and 0 < difference.error < math.inf for difference in differences):
        differences = _differences(check, sample, actual, _noise(sample))
    problems = [
        f"output {name!r}: {difference.problem}"
        for name, difference in zip(check.output_names, differences, strict=True)
        if difference.problem
    ]
    return Case(sample.sizes, max((difference.error for difference in differences), default=0.0), tuple(problems))


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
