"""The report of an export, for people (`print`) and for programs (`to_json`). Imports no torch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from onnxport.errors import VerificationError
from onnxport.report.markup import byte_size, counted

SCHEMA = 1
"""The version of the format of `Report.to_json`."""

STANDARD = ("", "ai.onnx")
"""The two names of ONNX's own domain."""

Verdict: TypeAlias = Literal["passed", "failed", "refused", "unchecked"]


@dataclass(frozen=True)
class AxisSizes:
    """A dynamic axis: the dimensions with its name (``x[0]``), and its sizes in all runs of the model."""

    name: str
    of: tuple[str, ...]
    traced: tuple[int, ...]
    verified: tuple[int, ...]


@dataclass(frozen=True)
class RepairedNumber:
    """A number that Python computed from sizes and that the file computes again.

    ``values`` has its value in the recorded run. ``expression`` is its expression over the axes; None if it comes from
    data-dependent sizes, or is too long to read.
    """

    location: str | None
    module: str
    values: tuple[int | float, ...]
    expression: str | None

    def __str__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.values)
        how = f" = {self.expression}" if self.expression else ""
        return f"{self.location or self.module or 'the model'}: {values}{how}"


@dataclass(frozen=True)
class Failure:
    """The error that ended an export: the name of its type, and its message."""

    type: str
    message: str


class CheckedCase(Protocol):
    """One run of the check, as `onnxport.Case` is."""

    @property
    def sizes(self) -> Mapping[str, int]: ...
    @property
    def max_abs_error(self) -> float: ...
    @property
    def problems(self) -> Sequence[str]: ...


class FirstWrong(Protocol):
    """The first wrong operator, as in `onnxport.Mismatch`."""

    @property
    def operator(self) -> str | None: ...
    @property
    def module(self) -> str: ...
    @property
    def location(self) -> str | None: ...


@dataclass
class Report:
    """The report of an export: the verdict, seconds per phase, sizes of the result, warnings and notes.

    ``verdict`` is ``passed``, ``failed`` (the check found a mismatch), ``refused`` (an error before the check) or
    ``unchecked``. ``operators`` counts the nodes by operator, those of branches, loops and functions included, as
    ``nodes`` does. ``axes`` and ``repaired`` say at which sizes each dynamic axis was traced and verified, and which
    numbers that Python computed from sizes the file computes itself. ``cases`` are the runs of the check.
    """

    opset: int
    verdict: Verdict = "unchecked"
    nodes: int = 0
    operators: dict[str, int] = field(default_factory=dict)
    file_bytes: int | None = None
    weight_bytes: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    axes: list[AxisSizes] = field(default_factory=list)
    cases: Sequence[CheckedCase] = ()
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    error: Failure | None = None
    mismatch: FirstWrong | None = None
    sizes_traced: list[dict[str, int]] = field(default_factory=list)
    sizes_verified: list[dict[str, int]] = field(default_factory=list)
    repaired: list[RepairedNumber] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    # What is known after each phase

    def note_capture(self, points: Sequence[dict[str, int]]) -> None:
        """The sizes at which the model was traced."""
        self.sizes_traced = list(points)

    def note_graph(self, operators: Mapping[str, int], weight_bytes: int) -> None:
        """The nodes of each operator, and the size of the weights."""
        self.operators, self.nodes, self.weight_bytes = dict(operators), sum(operators.values()), weight_bytes

    def note_file(self, size: int | None) -> None:
        self.file_bytes = size

    def note_check(
        self,
        passed: bool | None,
        cases: Sequence[CheckedCase],
        decided: Sequence[CheckedCase],
        wrong: FirstWrong | None,
    ) -> None:
        """The runs of the check, and those that passed and say something; ``passed`` is None if nothing was checked."""
        if passed is not None:
            self.verdict = "passed" if passed else "failed"
        self.cases, self.mismatch = cases, wrong
        self.sizes_verified = [dict(case.sizes) for case in decided]

    def note_sizes(self, axes: Iterable[AxisSizes], repaired: Iterable[RepairedNumber]) -> None:
        """The dynamic axes, and the numbers that Python computed from sizes."""
        self.axes, self.repaired = list(axes), list(repaired)

    def note_fallbacks(self, operators: Iterable[str]) -> None:
        """The operators that stay torch's in the file."""
        self.fallbacks = list(operators)

    def note_messages(self, warnings: Iterable[str], notes: Iterable[str]) -> None:
        self.warnings += warnings
        self.notes += notes

    def fail(self, error: BaseException) -> None:
        """Note the error that ends the export."""
        self.verdict = "failed" if isinstance(error, VerificationError) else "refused"
        self.error = Failure(type(error).__name__, str(error))
        if isinstance(error, VerificationError):
            self.mismatch = error.mismatch

    def to_json(self) -> dict[str, Any]:
        """The report as data for `json.dumps`; None for what is not known."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "opset": self.opset,
            "nodes": self.nodes,
            "operators": dict(self.operators),
            "file_bytes": self.file_bytes,
            "weight_bytes": self.weight_bytes,
            "phases": dict(self.phases),
            "axes": [
                {"name": axis.name, "of": list(axis.of), "traced": list(axis.traced), "verified": list(axis.verified)}
                for axis in self.axes
            ],
            "cases": cases_json(self.cases),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "fallbacks": list(self.fallbacks),
            "error": self.error and {"type": self.error.type, "message": self.error.message},
            "mismatch": self.mismatch
            and {
                "operator": self.mismatch.operator,
                "module": self.mismatch.module,
                "location": self.mismatch.location,
            },
        }

    def __str__(self) -> str:
        lines = [f"opset {self.opset}, {counted(self.nodes, 'node')}, {byte_size(self.weight_bytes)} of weights"]
        lines += [f"  {phase:<10} {seconds:8.3f} s" for phase, seconds in self.phases.items()]
        lines += [f"  {line}" for line in _table(self.axes, self.repaired)]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  kept as an operator of torch: {operator}" for operator in self.fallbacks]
        return "\n".join(lines)


class AnyNode(Protocol):
    """A node of onnx_ir or of onnx."""

    @property
    def domain(self) -> str: ...
    @property
    def op_type(self) -> str: ...


def count_operators(nodes: Iterable[AnyNode]) -> dict[str, int]:
    """The number of nodes of each operator, by name; those of other domains as ``domain::Name``."""
    names = (f"{node.domain}::{node.op_type}" if node.domain not in STANDARD else node.op_type for node in nodes)
    return dict(sorted(Counter(names).items()))


def cases_json(cases: Sequence[CheckedCase]) -> list[dict[str, Any]]:
    """Runs of a check as data for `json.dumps`; the error is None if a run had nothing to compare."""
    return [
        {
            "sizes": dict(case.sizes),
            "max_abs_error": case.max_abs_error if math.isfinite(case.max_abs_error) else None,
            "problems": list(case.problems),
        }
        for case in cases
    ]


def _table(axes: Sequence[AxisSizes], repaired: Sequence[RepairedNumber]) -> list[str]:
    """The axes and the numbers that follow from them, as lines of text."""
    if not axes:
        return []
    rows = [("axis", "of", "traced at", "verified at")]
    rows += [(axis.name, ", ".join(axis.of), _listed(axis.traced), _listed(axis.verified)) for axis in axes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if repaired:
        lines += ["numbers that Python computed from sizes, at the sizes traced:", *(f"  {row}" for row in repaired)]
    return lines


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "-"
