"""Random programs by the thousand: `make fuzz N=2000 SEED=7`.

    python -m tests.fuzz.run [--count 300] [--seed 7] [--family data] [--workers 2] [--found FOLDER]

Each program is exported as it is and with dynamic axes. Prints how many came out how, and the smallest form of each one
that is silently wrong or crashes; the exit code says whether there is none.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from tests.fuzz.grow import grown, runs
from tests.fuzz.judge import BAD, HANG, REFUSED, Verdict, judge
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrunk
from tests.ops.opinfo.workers import Pool, Worker

# A program that takes longer hangs.
PROGRAM_SECONDS = 300


@dataclass(frozen=True)
class Task:
    """A program to judge; without one, the program of a seed."""

    seed: int
    dynamic: bool
    family: str | None = None
    program: Program | None = None

    def made(self) -> Program:
        return self.program or grown(self.seed, self.family)


def serve(connection: Connection) -> None:
    """What runs in a worker's process: judges programs until nobody asks any more."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    connection.send("ready")
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            program = task.made()
            usable = task.program is None or runs(program, Path(folder))
            connection.send(judge(program, Path(folder), dynamic=task.dynamic) if usable else Verdict("void"))


def smallest(worker: Worker, task: Task, verdict: Any) -> Program:
    """The smallest form of a program that comes out the same way."""

    def still(program: Program) -> bool:
        return bool(worker.judge(dataclasses.replace(task, program=program)).kind == verdict.kind)  # type: ignore[arg-type]

    return shrunk(task.made(), still)


def tried(worker: Worker, task: Task) -> tuple[Task, Any, Program | None]:
    verdict: Any = worker.judge(task)  # type: ignore[arg-type]
    if verdict.kind not in BAD:
        return task, verdict, None
    # To shrink what hangs takes as long as it hangs, each time.
    return task, verdict, task.made() if verdict.kind == HANG else smallest(worker, task, verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description="Export random programs and run the files.")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--found", type=Path, help="a folder for the sources of what is silently wrong or crashes")
    asked = parser.parse_args()
    seeds = [asked.seed * 1_000_000 + place for place in range(asked.count)]
    tasks = [Task(seed, dynamic, asked.family) for seed in seeds for dynamic in (False, True)]
    pool = Pool(serve, asked.workers, PROGRAM_SECONDS)
    try:
        results = pool.map(tried, tasks)
    finally:
        pool.stop()
    for dynamic in (False, True):
        told(results, dynamic)
    bad = [(task, verdict, program) for task, verdict, program in results if program is not None]
    for task, verdict, program in bad:
        print(f"\n# {task.seed} {'dynamic' if task.dynamic else 'static'} {verdict.kind}: {verdict.detail}")
        print("\n".join((*program.layers, *program.lines, f"return {', '.join(program.result)}")), program.inputs)
        if asked.found:
            asked.found.mkdir(parents=True, exist_ok=True)
            (asked.found / f"{task.seed}_{task.dynamic:d}.py").write_text(program.source(), encoding="utf-8")
    return 1 if bad else 0


def told(results: list[tuple[Task, Any, Program | None]], dynamic: bool) -> None:
    """Prints the verdicts by kind and family, and the reasons of refusals."""
    chosen = [(task, verdict) for task, verdict, _ in results if task.dynamic == dynamic]
    kinds = collections.Counter(verdict.kind for _, verdict in chosen)
    print(f"{'dynamic' if dynamic else 'static'}: {len(chosen)} exports: {dict(kinds.most_common())}")
    reasons = collections.Counter(verdict.detail for _, verdict in chosen if verdict.kind == REFUSED)
    for reason, count in reasons.most_common():
        print(f"    {count} {reason}")


if __name__ == "__main__":
    sys.exit(main())
