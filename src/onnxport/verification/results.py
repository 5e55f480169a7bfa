"""What a check found: one case for each sample, and the verdict on all of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxport.verification.arbiter import Arbitration, Choice
from onnxport.verification.statistics import Contrast


@dataclass(frozen=True)
class Case:
    """One run: the size of each dynamic axis, the largest error of any output, and what was wrong.

    ``differences`` has the outputs that are wrong, by name, as torch and as ONNX Runtime have them. ``arbitrated`` are
    outputs that differ from torch's by rounding alone, and are right just as well. ``other_data`` tells of other
    content than the example's at the example's sizes, ``undecided`` why the run says nothing of the file. ``parts``
    says how a quantized file was judged, and ``caution`` what is not right there and is not its fault.
    """

    sizes: dict[str, int]
    max_abs_error: float
    problems: tuple[str, ...] = ()
    differences: Mapping[str, Contrast] = field(default_factory=dict)
    arbitrated: tuple[Arbitration | Choice, ...] = ()
    other_data: bool = False
    undecided: str = ""
    parts: str = ""
    caution: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def place(self) -> str:
        """Where it was run, as messages say it."""
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
                lines.append(f"{case.place}: says nothing of the file: {case.undecided}")
                continue
            found = case.problems or (f"largest error {case.max_abs_error:.2e}",)
            for text, values in itertools.zip_longest(found, case.differences.values()):
                lines.append(f"{case.place}: {text}")
                if statistics and values is not None:
                    lines += [f"  {line}" for line in str(values).splitlines()]
            lines += [f"{case.place}: {found}" for found in (*case.arbitrated, case.parts, case.caution) if found]
            statistics = statistics and case.passed
        return lines

    def mismatches(self, *, statistics: bool) -> list[str]:
        """One line for each output that is wrong, with all sizes at which it is, and one for the sizes at which the
        file is right; with statistics of the outputs at the first size."""
        wrong: dict[str, list[str]] = {}
        lines: dict[str, list[str]] = {}
        for case in self.cases:
            for text, values in itertools.zip_longest(case.problems, case.differences.values()):
                subject = text.partition(": ")[0]
                wrong.setdefault(subject, []).append(case.place)
                below = [f"  {line}" for line in str(values).splitlines()] if statistics and values is not None else []
                lines.setdefault(subject, [f"{case.place}: {text}", *below])
        found = []
        for subject, (first, *below) in lines.items():
            others = list(dict.fromkeys(wrong[subject][1:]))
            found += [f"{first}; also {_together(others)}" if others else first, *below]
        right = [case.place for case in self.cases if case.passed and not case.undecided]
        undecided = [
            f"{case.place}: says nothing of the file: {case.undecided}" for case in self.cases if case.undecided
        ]
        return [*found, *([f"right {_together(right)}"] if right else []), *undecided]

    @property
    def arbitrated(self) -> tuple[Arbitration | Choice, ...]:
        """The outputs that the model in double precision decided on, at all sizes."""
        return tuple(found for case in self.cases for found in case.arbitrated)


def _together(places: list[str]) -> str:
    """Places as they stand in a sentence: ``at n=1, at n=2 and at n=8``."""
    return " and ".join(part for part in (", ".join(places[:-1]), places[-1]) if part)
