"""The time of an export, against its limit and against torch's own exporters.

The limit is what an export cannot do without: one forward pass and one write of the weights. Machines differ and are
shared, so only ratios of times from the same run are judged, and the repeats of all that is compared are interleaved.
The exit code is 1 when a ratio misses what is expected of it.

python -m benchmarks.export_time [--repeats N] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import io
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import onnxport
from examples.models import DENSENET121, ENCODER, RESNET50, Example

OPSET = 18  # one that all three exporters write
MODELS = (RESNET50, ENCODER, DENSENET121)
LIMITED = ("forward", "write", "onnxport")
WITHOUT_DYNAMO = "torch.onnx.export(dynamo=True) is left out: it needs onnxscript, which is not installed (make bench)"

Seconds = Mapping[str, float]
Task = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """One time divided by others, and what is expected of it; without a bound it is only shown."""

    label: str
    of: str
    by: tuple[str, ...]
    at_most: float | None = None
    at_least: float | None = None

    def measurable(self, seconds: Seconds) -> bool:
        return {self.of, *self.by} <= seconds.keys()

    def value(self, seconds: Seconds) -> float:
        return seconds[self.of] / sum(seconds[name] for name in self.by)

    def holds(self, seconds: Seconds) -> bool:
        value = self.value(seconds)
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    @property
    def expected(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"


RATIOS = (
    Ratio("onnxport / (forward + write)", "onnxport", ("forward", "write"), at_most=3),
    Ratio("onnxport verified / (forward + write)", "onnxport verified", ("forward", "write")),
    Ratio("onnxport with dynamic axes / (forward + write)", "onnxport dynamic", ("forward", "write")),
    Ratio("torch dynamo=False / onnxport", "torch dynamo=False", ("onnxport",), at_least=1),
    Ratio("torch dynamo=True / onnxport", "torch dynamo=True", ("onnxport",), at_least=10),
)


def tasks(example: Example, model: nn.Module, inputs: tuple[Any, ...], folder: Path) -> dict[str, Task]:
    """What is timed, by name. Each export writes one file with the weights inside."""
    shared: dict[str, Any] = {
        "input_names": list(example.input_names),
        "output_names": list(example.output_names),
        "opset_version": OPSET,
    }

    def forward() -> object:
        with torch.no_grad():
            return model(*inputs)

    def ours(**options: Any) -> Task:
        return lambda: onnxport.export(model, inputs, folder / "model.onnx", **shared, **options)

    def torchs(**options: Any) -> Task:
        return lambda: torch.onnx.export(model, inputs, folder / "model.onnx", verbose=False, **shared, **options)

    timed = {
        "forward": forward,
        "write": lambda: write_weights(model, folder / "weights.bin"),
        "onnxport": ours(verify=False),
        "onnxport verified": ours(verify=True),
        "onnxport dynamic": ours(verify=False, dynamic_axes=example.dynamic_axes),
        "torch dynamo=False": torchs(dynamo=False),
    }
    if has_dynamo():
        timed["torch dynamo=True"] = torchs(dynamo=True, external_data=False)
    return timed


def write_weights(model: nn.Module, path: Path) -> None:
    """The memory of each distinct tensor to one file, not synced to the disk: the tightest limit."""
    with path.open("wb", buffering=0) as file:
        for tensor in {id(tensor): tensor for tensor in model.state_dict(keep_vars=True).values()}.values():
            file.write(memoryview(tensor.detach().reshape(-1).numpy()).cast("B"))


def has_dynamo() -> bool:
    return importlib.util.find_spec("onnxscript") is not None


def measure(timed: Mapping[str, Task], folder: Path, repeats: int) -> Seconds:
    """The median seconds of each task, over rounds in which each runs, right after an untimed forward pass.

    What the limit is about takes parts of a second, of which the system's caches may take as much again: it runs three
    times in each round, and the others once.
    """
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats):
        for name in (*LIMITED, *LIMITED, *timed):
            for leftover in folder.iterdir():
                leftover.unlink()
            gc.collect()
            with quiet():
                timed["forward"]()
                start = time.perf_counter()
                timed[name]()
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep back what torch's exporters print, warn and log."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def warm_up(folder: Path) -> None:
    """Take each exporter through a small model once: imports and tables are paid for once in a process."""
    example = Example("small", nn.Identity, tuple, ("input",), ("output",), {"input": {0: "batch"}})
    measure(tasks(example, nn.Linear(4, 4).eval(), (torch.randn(2, 4),), folder), folder, repeats=1)


def show(example: Example, seconds: Seconds) -> bool:
    """Print one model's seconds and ratios; whether all that is expected holds."""
    print(f"\n{example.name}")
    print("  " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    passed = True
    for ratio in RATIOS:
        if not ratio.measurable(seconds):
            verdict, value = "SKIPPED", "-"
        else:
            value = f"{ratio.value(seconds):.2f}"
            verdict = "" if not ratio.expected else "PASS" if ratio.holds(seconds) else "FAIL"
        passed &= verdict != "FAIL"
        print(f"  {ratio.label:<48}{value:>8}  {ratio.expected:<12}{verdict}".rstrip())
    return passed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export_time", description="Measure exports.")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="where the files are written (default build)"
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)

    threads, rounds = torch.get_num_threads(), options.repeats
    print(f"torch {torch.__version__}, {threads} threads, opset {OPSET}, medians of {rounds} rounds")
    if not has_dynamo():
        print(WITHOUT_DYNAMO)
    passed = True
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        warm_up(folder)
        for example in MODELS:
            model, inputs = example.build()
            inputs = tuple(tensor[:1] for tensor in inputs)  # one sample: the tightest limit
            passed &= show(example, measure(tasks(example, model, inputs, folder), folder, options.repeats))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
