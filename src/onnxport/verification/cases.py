"""Runs a file on samples and compares each result with what the torch model gives."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from onnxport.verification import lists
from onnxport.verification.arbiter import FEW_ERRORS, Arbitration, Choice, chosen_otherwise, errors_against
from onnxport.verification.compare import Difference, compare, differences
from onnxport.verification.mismatch import Mismatch
from onnxport.verification.results import Case, Verification
from onnxport.verification.runtime import RUNTIME_ERRORS, Loaded, MissingKernel, Session
from onnxport.verification.sample import Check, Refusal, Sample
from onnxport.verification.statistics import contrast


@dataclass(frozen=True)
class Outcome:
    """One case and, unless it is right, the sample that it ran on, or what is wrong if that is known.

    A case with both problems and arbitrations is disputed: the file differs from torch, and the model in double
    precision takes the file's side.
    """

    case: Case
    sample: Sample | None = None
    mismatch: Mismatch | None = None

    @property
    def is_disputed(self) -> bool:
        return bool(self.case.problems and self.case.arbitrated)

    def upheld(self) -> Outcome:
        """The disputed case decided for the file."""
        return Outcome(replace(self.case, problems=(), differences={}))

    def overruled(self) -> Outcome:
        """The disputed case decided against the file."""
        return replace(self, case=replace(self.case, arbitrated=()))


Judge: TypeAlias = Callable[[Check, Sample, Case], "Outcome | None"]


@dataclass(frozen=True)
class Comparison:
    """The outcome of each sample, and the sizes that the torch model does not take. ``skipped`` says why none ran."""

    outcomes: tuple[Outcome, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    skipped: str | None = None

    @property
    def verification(self) -> Verification:
        return Verification(tuple(outcome.case for outcome in self.outcomes), self.skipped)

    @property
    def first_wrong(self) -> Sample | None:
        """The sample of the first case that is wrong."""
        wrong = (outcome.sample for outcome in self.outcomes if not outcome.case.passed)
        return next((sample for sample in wrong if sample is not None), None)

    def without_ties(self, tie: Callable[[Sample], str]) -> Comparison:
        """With wrong cases that are ``undecided`` up to the first that is not: ``tie`` says why, if a case is."""
        outcomes = list(self.outcomes)
        for index, outcome in enumerate(outcomes):
            if outcome.case.passed:
                continue
            reason = tie(outcome.sample) if outcome.sample is not None else ""
            if not reason:
                break
            case = Case(outcome.case.sizes, 0.0, other_data=outcome.case.other_data, undecided=reason)
            outcomes[index] = Outcome(case)
        return replace(self, outcomes=tuple(outcomes))

    def decided(self, is_right: Callable[[Sample], bool] = lambda sample: True) -> Comparison:
        """With each disputed case decided by a closer look at its sample."""
        return replace(self, outcomes=tuple(_decided(outcome, is_right) for outcome in self.outcomes))


def _decided(outcome: Outcome, is_right: Callable[[Sample], bool]) -> Outcome:
    if not outcome.is_disputed or outcome.sample is None:
        return outcome
    return outcome.upheld() if is_right(outcome.sample) else outcome.overruled()


def compare_file(
    source: str | bytes,
    check: Check,
    samples: Iterable[Sample | Refusal],
    load: Callable[[str | bytes], Loaded] = Session,
    judge: Judge | None = None,
) -> Comparison:
    """Run the exported model on each sample and compare; ``judge`` has the last word where it has one."""
    remaining = iter(samples)
    try:
        session = load(source)
    except MissingKernel as error:
        return Comparison(skipped=lacking_kernel(error))
    except RUNTIME_ERRORS as error:
        first = next(remaining)
        return Comparison((Outcome(not_loading(error), first if isinstance(first, Sample) else None),))
    outcomes: list[Outcome] = []
    refusals: list[Refusal] = []
    for sample in remaining:
        if isinstance(sample, Refusal):
            refusals.append(sample)
        else:
            case = replace(run_case(session, check, sample), other_data=sample.other_data)
            judged = judge(check, sample, case) if judge is not None else None
            outcomes.append(judged or Outcome(case, None if case.passed else sample))
    return Comparison(tuple(outcomes), tuple(refusals))


def lacking_kernel(error: Exception) -> str:
    return f"ONNX Runtime lacks a kernel that it needs: {error}"


def not_loading(error: Exception) -> Case:
    return Case({}, float("inf"), (f"ONNX Runtime does not load the model: {error}",))


def run_case(session: Loaded, check: Check, sample: Sample) -> Case:
    """Run the file on a sample and compare its outputs."""
    try:
        actual = session.run(dict(zip(check.input_names, sample.inputs, strict=True)))
    except RUNTIME_ERRORS as error:
        return Case(sample.sizes, float("inf"), (f"ONNX Runtime fails: {error}",))
    lengths = lists.wrong_lengths(check, sample, actual)
    if lengths:
        return Case(sample.sizes, float("inf"), tuple(lengths))
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
    return Case(sample.sizes, largest, tuple(problems), wrong, arbitrated)


def _arbitrated(
    check: Check, sample: Sample, actual: Sequence[torch.Tensor], found: Sequence[Difference]
) -> tuple[Arbitration | Choice, ...]:
    """The outputs that differ from torch's, if each of them is right just as well. Shapes and NaN are not a matter of
    rounding."""
    off = [index for index, difference in enumerate(found) if difference.problem]
    if not all(0 < found[index].error < math.inf for index in off):
        return ()
    truth = sample.truth()
    truth = truth if truth is not None and len(truth) == len(actual) else None
    again = functools.cache(sample.again)
    arbitrated: list[Arbitration | Choice] = []
    for index in off:
        name, expected = check.output_names[index], sample.expected[index].detach().cpu()
        if not expected.is_floating_point():
            runs = itertools.chain([] if truth is None else [truth], map(again, FEW_ERRORS))
            count = chosen_otherwise(expected, actual[index], (run[index].cpu() for run in runs))
            verdict: Arbitration | Choice | None = None if count is None else Choice(name, count)
        else:
            verdict = _rounded(check, index, expected, actual[index], truth)
        if verdict is None:
            return ()
        arbitrated.append(verdict)
    return tuple(arbitrated)


def _rounded(
    check: Check, index: int, expected: torch.Tensor, actual: torch.Tensor, truth: Sequence[torch.Tensor] | None
) -> Arbitration | None:
    if truth is None:
        return None
    ordinary = compare(expected, actual, rounding=check.roundings.get(index)).allowed
    errors = errors_against(truth[index].cpu(), expected, actual, ordinary)
    return None if errors is None else Arbitration(check.output_names[index], *errors)
