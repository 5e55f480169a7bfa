"""All models, as `make models` runs them.

    python -m tests.models.run [NAME ...] [--family FAMILY] [--seconds 300] [--workers 2] [--write docs/models.md]

Each model has a process and a time limit of its own: a crash or a hang is one failure. The exit code says whether
`known.py` is true.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from tests.models.catalogue import MODELS
from tests.models.document import document
from tests.models.judge import Verdict, judge
from tests.models.known import KNOWN

SECONDS = 300
PACKAGES = ["onnxport", "tests.models.preload", "tests.models.catalogue", "tests.models.judge"]


def serve(name: str, connection: Connection) -> None:
    """In a process of its own: judge the model and send the verdict."""
    model = MODELS[name]
    try:
        verdict = judge(model)
    except BaseException:
        connection.send(Verdict(name, model.family, "error", traceback.format_exc(limit=-4)))
        raise
    connection.send(verdict)


def isolated(name: str, seconds: float) -> Verdict:
    """The verdict of a process that may die or hang."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(name, theirs), daemon=True)
    process.start()
    theirs.close()
    verdict = Verdict(name, MODELS[name].family, "hang", f"no result in {seconds:.0f} s")
    if ours.poll(seconds):
        try:
            verdict = ours.recv()
        except EOFError:
            process.join()
            verdict = dataclasses.replace(verdict, kind="crash", detail=f"exit code {process.exitcode}")
    process.kill()
    process.join()
    return verdict


def row(verdict: Verdict) -> str:
    text = f"{verdict.name:34} {verdict.kind:9} {verdict.seconds:6.1f} s {verdict.nodes:6} nodes  {verdict.error:.1e}"
    return text if verdict.passed else f"{text}\n    {verdict.detail[:1500]}"


def surprises(verdicts: list[Verdict]) -> list[str]:
    """Where the table of what is known and the verdicts differ."""
    lines = [f"{v.name}: {v.kind}" for v in verdicts if not v.passed and v.name not in KNOWN]
    return lines + [f"{v.name}: it works, take it out of known.py" for v in verdicts if v.passed and v.name in KNOWN]


def main() -> int:
    parser = argparse.ArgumentParser(description="Export the models that people bring and run them in ONNX Runtime.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    names = options.names or [
        name for name, model in MODELS.items() if not options.family or model.family in options.family
    ]
    multiprocessing.get_context("forkserver").set_forkserver_preload(PACKAGES)

    def report(name: str) -> Verdict:
        verdict = isolated(name, options.seconds)
        print(row(verdict), flush=True)
        return verdict

    with ThreadPoolExecutor(options.workers) as pool:
        verdicts = list(pool.map(report, names))
    print(f"{sum(v.passed for v in verdicts)} of {len(verdicts)} right")
    if options.write:
        options.write.write_text(document(verdicts))
    wrong = surprises(verdicts)
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
