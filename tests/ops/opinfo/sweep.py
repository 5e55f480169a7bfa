"""The long form: every operator of OpInfo in every dtype, as `make ops` runs it.

    python -m tests.ops.opinfo.sweep [--dtypes float32 int64] [--only sort topk] [--failures FILE] [--write FILE]
        [--ship FILE]

Prints how many operators pass, and writes the table of docs/operators.md. An operator passes when all its samples do.
The exit code says whether `known.py` is true.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.ops.opinfo import known
from tests.ops.opinfo.differences import NAN_ORDER, section
from tests.ops.opinfo.samples import DTYPES, MORE_DTYPES, OPERATORS, SAMPLES, operators_with
from tests.ops.opinfo.serve import serve
from tests.ops.opinfo.verdict import OPSET, Task, Verdict
from tests.ops.opinfo.workers import Pool, Worker

OLDEST_OPSET = 7


@dataclass
class Outcome:
    """All that was found out about one operator. A dtype without verdicts is one that torch has no samples of."""

    operator: str
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    lowest_opset: int | None = None

    def passes(self, dtype: str) -> bool:
        return all(verdict.passed for verdict in self.verdicts[dtype])

    def surprises(self) -> list[str]:
        """Where the table of what is known and the outcome differ."""
        lines = []
        for dtype, verdicts in self.verdicts.items():
            reason = known.reason(self.operator, dtype)
            bad = next((verdict for verdict in verdicts if not verdict.passed), None)
            if bad is not None and reason is None:
                lines.append(f"{dtype} {self.operator}: {bad.kind}: {bad.detail}")
            elif bad is None and reason is not None:
                lines.append(f"{dtype} {self.operator}: it works: take its row out of known.py ({reason})")
        return lines


def sweep(worker: Worker, operator: str, dtypes: Sequence[str], opsets: bool) -> Outcome:
    outcome = Outcome(operator)
    for dtype in dtypes:
        if operator in SUPPORTED[dtype]:
            verdicts = worker.samples(operator, dtype, SAMPLES)
            if verdicts:
                outcome.verdicts[dtype] = verdicts
    if opsets:
        outcome.lowest_opset = _lowest_opset(worker, outcome)
    return outcome


def _lowest_opset(worker: Worker, outcome: Outcome) -> int | None:
    """The lowest at which the first sample of the first dtype that passes can be exported and is right."""
    dtype = next((dtype for dtype in outcome.verdicts if outcome.passes(dtype)), None)
    if dtype is None:
        return None
    for opset in range(OLDEST_OPSET, OPSET):
        if worker.judge(Task(outcome.operator, dtype, 0, opset)).passed:
            return opset
    return OPSET


SUPPORTED = {dtype: frozenset(operators_with(dtype)) for dtype in (*DTYPES, *MORE_DTYPES)}


def summary(outcomes: Sequence[Outcome], dtypes: Sequence[str]) -> list[str]:
    """Per dtype, how many of the operators with samples pass."""
    lines = []
    for dtype in dtypes:
        tried = [outcome for outcome in outcomes if dtype in outcome.verdicts]
        passed = sum(outcome.passes(dtype) for outcome in tried)
        lines.append(f"{dtype:9} {passed:4} of {len(tried)}  {100 * passed / max(len(tried), 1):.1f} %")
    return lines


def document(outcomes: Sequence[Outcome], dtypes: Sequence[str]) -> str:
    """docs/operators.md."""
    lines = [
        "# Operators", "",
        "What `make ops` found, over torch's own database of operators and samples (OpInfo). An operator passes in a",
        f"dtype when its first {SAMPLES} samples, exported at opset {OPSET}, give in ONNX Runtime what torch gives:",
        "values, dtypes and shapes (of random operators dtypes and shapes). *Lowest opset* is the oldest at which the",
        "first sample is right. *all* are the dtypes below that torch itself takes. This file is generated.", "",
        *NAN_ORDER,
        "",
        "```", *summary(outcomes, dtypes), "```", "",
        *section(),
        "## The operators", "",
        "| operator | dtypes | lowest opset | notes |", "|---|---|---|---|",
    ]  # fmt: skip
    for outcome in sorted(outcomes, key=lambda outcome: outcome.operator.lower()):
        if outcome.verdicts:
            lines.append(_row(outcome))
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    passing = [dtype for dtype in outcome.verdicts if outcome.passes(dtype)]
    shown = "all" if len(passing) == len(outcome.verdicts) and len(passing) > 1 else ", ".join(passing) or "none"
    reasons: dict[str, list[str]] = {}
    for dtype in outcome.verdicts:
        if dtype not in passing:
            reasons.setdefault(known.reason(outcome.operator, dtype) or "fails", []).append(dtype)
    everywhere = len(reasons) == 1 and not passing
    notes = "; ".join(reason if everywhere else f"{', '.join(on)}: {reason}" for reason, on in reasons.items())
    return f"| {outcome.operator} | {shown} | {outcome.lowest_opset or ''} | {notes} |"


def shipped(lowest: Mapping[str, int]) -> dict[str, int]:
    """The table that comes with the package, of OpInfo's names and opsets; of variants the plain one."""
    found: dict[str, int] = {}
    for name, opset in sorted(lowest.items(), key=lambda item: (bool(OPERATORS[item[0]].variant_test_name), item[1])):
        found.setdefault(_public_name(OPERATORS[name]), opset)
    return dict(sorted(found.items()))


def _public_name(operator: Any) -> str:
    """ATen's name of an operator; what torch has as a Python function alone goes by that."""
    plain = operator.name.removeprefix("nn.functional.").removeprefix("torch.ops.aten.").removesuffix(".default")
    for name in (operator.aten_name, plain, plain.replace(".", "_")):
        if hasattr(torch.ops.aten, name):
            return f"aten::{name}"
    return f"torch.{operator.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Export every operator of OpInfo and run it in ONNX Runtime.")
    parser.add_argument("--dtypes", nargs="+", default=[*DTYPES, *MORE_DTYPES])
    parser.add_argument("--only", nargs="+", default=list(OPERATORS), help="names of operators")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--failures", type=Path, help="where to list everything that fails, known or not")
    parser.add_argument("--write", type=Path, help="where to write the table")
    parser.add_argument("--ship", type=Path, help="where to write the names and opsets that come with the package")
    asked = parser.parse_args()
    pool = Pool(serve, asked.workers)
    try:
        outcomes = pool.map(
            lambda worker, operator: sweep(worker, operator, asked.dtypes, asked.write is not None), asked.only
        )
    finally:
        pool.stop()
    if asked.failures:
        asked.failures.write_text("".join(f"{line}\n" for line in _failures(outcomes)), encoding="utf-8")
    if asked.write:
        asked.write.write_text(document(outcomes, asked.dtypes), encoding="utf-8")
    if asked.ship:
        lowest = {o.operator: o.lowest_opset for o in outcomes if o.lowest_opset is not None}
        asked.ship.write_text(json.dumps(shipped(lowest), indent=0) + "\n", encoding="utf-8")
    surprises = [line for outcome in outcomes for line in outcome.surprises()]
    print(*surprises, *summary(outcomes, asked.dtypes), sep="\n")
    return 1 if surprises else 0


def _failures(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        f"{dtype} {outcome.operator} {index}: {verdict.kind}: {verdict.detail}"
        for outcome in outcomes
        for dtype, verdicts in outcome.verdicts.items()
        for index, verdict in enumerate(verdicts)
        if not verdict.passed
    ]


if __name__ == "__main__":
    sys.exit(main())
