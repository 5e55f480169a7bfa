"""Every export is run in ONNX Runtime and compared with torch, at the example's sizes and at others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as MissingKernel

from onnxport.errors import BackendError
from onnxport.verify import lists
from onnxport.verify.arbiter import Arbitration, errors_against
from onnxport.verify.compare import Difference, compare
from onnxport.verify.mismatch import Mismatch
from onnxport.verify.runtime import Session
from onnxport.verify.statistics import Contrast, Statistics, contrast

__all__ = [
    "Arbitration",
    "Case",
    "Check",
    "Contrast",
    "Mismatch",
    "MissingKernel",
    "Sample",
    "Statistics",
    "Verification",
    "differences",
    "verify",
]

RUNTIME_ERRORS = (Fail, InvalidArgument, InvalidGraph, RuntimeException, BackendError)
# What the runtime says of a file that is no model.
UNREADABLE = (NoSuchFile, InvalidProtobuf)


class Loaded(Protocol):
    """A model that runs: in ONNX Runtime, or in what else can run it."""

    def run(self, inputs: Mapping[str, torch.Tensor], /) -> list[torch.Tensor]: ...


@dataclass(frozen=True)
class Case:
    """One run: the size of each dynamic axis, the largest error of any output, and what was wrong.

    ``differences`` has the outputs that are wrong, by name, as torch and as ONNX Runtime have them. ``arbitrated`` are
    outputs that differ from torch's and are right by the model in double precision. ``other_data`` tells of other
    content than the example's at the example's sizes. ``undecided`` tells why the run says nothing of the file.
    """

    sizes: dict[str, int]
    max_abs_error: float
    problems: tuple[str, ...] = ()
    differences: Mapping[str, Contrast] = field(default_factory=dict)
    arbitrated: tuple[Arbitration, ...] = ()
    other_data: bool = False
    undecided: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def place(self) -> str:
        """Where it was run, as it is told."""
        at = ", ".join(f"{label}={size}" for label, size in self.sizes.items()) or "the example's sizes"
        return f"on other data at {at}" if self.other_data else f"at {at}"


@dataclass(frozen=True)
class Verification:
    """What was checked. ``skipped`` says why nothing was."""

    cases: tuple[Case, ...] = ()
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        decided = [case for case in self.cases if not case.undecided]
        return self.skipped is None and bool(decided) and all(case.passed for case in decided)

    @property
    def max_abs_error(self) -> float:
        return max((case.max_abs_error for case in self.cases), default=0.0)

    def __str__(self) -> str:
        return "\n".join(self.lines(statistics=True))

    def lines(self, *, statistics: bool) -> list[str]:
        """What was found at each size; with statistics of the wrong outputs at the first of them."""
        if self.skipped is not None:
            return [f"not verified: {self.skipped}"]
        lines = []
        for case in self.cases:
            if case.undecided:
                lines.append(f"{case.place}: it says nothing of the file: {case.undecided}")
                continue
            found = case.problems or (f"largest error {case.max_abs_error:.2e}",)
            for text, values in itertools.zip_longest(found, case.differences.values()):
                lines.append(f"{case.place}: {text}")
                if statistics and values is not None:
                    lines += [f"  {line}" for line in str(values).splitlines()]
            lines += [f"{case.place}: {found}" for found in case.arbitrated]
            statistics = statistics and case.passed
        return lines

    @property
    def arbitrated(self) -> tuple[Arbitration, ...]:
        """The outputs that the model in double precision decided on, at all sizes."""
        return tuple(found for case in self.cases for found in case.arbitrated)


@dataclass(frozen=True)
class Sample:
    """Inputs for one case and what the model gives for them.

    ``again`` gives what it makes of the same inputs with their last bits changed; it is asked for when a result is off,
    to tell a model that amplifies rounding from a wrong one. ``truth`` gives what it makes of them in double precision,
    None where it does not run so; it is asked for when that did not explain it.
    """

    sizes: dict[str, int]
    inputs: list[torch.Tensor]
    expected: list[torch.Tensor]
    again: Callable[[], list[torch.Tensor]]
    truth: Callable[[], list[torch.Tensor] | None] = lambda: None
    other_data: bool = False


@dataclass(frozen=True)
class Check:
    """What to compare: the names of inputs and outputs, the outputs that depend on random numbers, and the coarsest
    dtype that each output had on its way, where that is known."""

    input_names: Sequence[str]
    output_names: Sequence[str]
    random_outputs: frozenset[int] = field(default_factory=frozenset)
    roundings: Mapping[int, torch.dtype] = field(default_factory=dict)


def verify(
    source: str | bytes,
    check: Check,
    samples: Callable[[], Iterator[Sample]],
    on_failure: Callable[[Sample], None] = lambda sample: None,
    load: Callable[[str | bytes], Loaded] = Session,
    upheld: Callable[[Sample], bool] = lambda sample: True,
    undecided: Callable[[Sample], str] = lambda sample: "",
) -> Verification:
    """Run the exported model on each sample and compare; ``on_failure`` gets the samples that it fails on.

    ``upheld`` has a say where the model in double precision takes the file's side: whether no operator is wrong.
    ``undecided`` tells why a sample on which they differ says nothing, if it does not.
    """
    try:
        session = load(source)
    except MissingKernel as error:
        return lacking_kernel(error)
    except RUNTIME_ERRORS as error:
        on_failure(next(samples()))
        return not_loading(error)
    cases: list[Case] = []
    for sample in samples():
        case = replace(_run_case(session, check, sample, upheld), other_data=sample.other_data)
        if not case.passed and all(earlier.passed for earlier in cases):
            reason = undecided(sample)
            case = Case(case.sizes, 0.0, other_data=case.other_data, undecided=reason) if reason else case
        cases.append(case)
        if not case.passed:
            on_failure(sample)
    return Verification(tuple(cases))


def lacking_kernel(error: Exception) -> Verification:
    return Verification(skipped=f"ONNX Runtime lacks a kernel that it needs: {error}")


def not_loading(error: Exception) -> Verification:
    return Verification((Case({}, float("inf"), (f"ONNX Runtime does not load the model: {error}",)),))


def _run_case(session: Loaded, check: Check, sample: Sample, upheld: Callable[[Sample], bool]) -> Case:
    try:
        actual = session.run(dict(zip(check.input_names, sample.inputs, strict=True)))
    except RUNTIME_ERRORS as error:
        return Case(sample.sizes, float("inf"), (f"ONNX Runtime stops: {error}",))
    lengths = lists.wrong_lengths(check, sample, actual)
    if lengths:
        return Case(sample.sizes, float("inf"), tuple(lengths))
    given = sample
    check, sample, actual = lists.unpacked(check, sample, actual)
    found = differences(check, sample, actual)
    wrong = {
        name: contrast(expected, got, difference.allowed)
        for name, expected, got, difference in zip(check.output_names, sample.expected, actual, found, strict=True)
        if difference.problem
    }
    problems = [
        f"output {name!r}: {difference.problem}"
        for name, difference in zip(check.output_names, found, strict=True)
        if difference.problem
    ]
    largest = max((difference.error for difference in found), default=0.0)
    arbitrated = _arbitrated(check, sample, actual, found) if problems else ()
    if arbitrated and upheld(given):
        return Case(sample.sizes, largest, arbitrated=arbitrated)
    return Case(sample.sizes, largest, tuple(problems), wrong)


def _arbitrated(
    check: Check, sample: Sample, actual: Sequence[torch.Tensor], found: Sequence[Difference]
) -> tuple[Arbitration, ...]:
    """The outputs that differ from torch's, if each of them is right by the model in double precision.

    Integers that differ, shapes and NaN are not a matter of rounding.
    """
    off = [place for place, difference in enumerate(found) if difference.problem]
    if not all(0 < found[place].error < math.inf and actual[place].is_floating_point() for place in off):
        return ()
    truth = sample.truth()
    if truth is None or len(truth) != len(actual):
        return ()
    arbitrated = []
    for place in off:
        name, expected = check.output_names[place], sample.expected[place].detach().cpu()
        ordinary = compare(expected, actual[place], rounding=check.roundings.get(place)).allowed
        errors = errors_against(truth[place].cpu(), expected, actual[place], ordinary)
        if errors is None:
            return ()
        arbitrated.append(Arbitration(name, *errors))
    return tuple(arbitrated)


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
