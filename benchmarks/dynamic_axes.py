"""The time of an export with dynamic axes, against torch.onnx.export(dynamo=False) and against one without them.

Machines differ and are shared, so CPU seconds are measured, and only ratios of times from the same run are judged. Each
model has a process of its own, in which all that is compared runs in turns. The exit code is 1 when a ratio misses what
is expected of it, or a model could not be measured.

python -m benchmarks.dynamic_axes [NAME ...] [--repeats N] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import onnxport
from benchmarks.export_time import OPSET, Seconds, Task, quiet
from examples.models import ALL

EXAMPLES = {example.name: example for example in ALL}
# Of tests/models: each has dynamic axes, and both exporters take it.
CATALOGUE = (
    *("roberta", "deberta-v2", "gpt2", "t5", "dgcnn", "wav2vec2", "vit", "segformer", "tv-mobilenet-v3", "timm-deit"),
    *("unet", "style-transfer", "detr-like", "pointnet", "tab-transformer", "tcn", "wavenet", "hifi-gan"),
    *("torch-encoder-padded", "windowed-attention"),
)
NAMES = (*EXAMPLES, *CATALOGUE)


@dataclass(frozen=True)
class Ratio:
    """One time divided by another; what its geometric mean and each single one are to be at most."""

    label: str
    of: str
    by: str
    mean_at_most: float
    each_at_most: float | None = None

    def value(self, seconds: Seconds) -> float:
        return seconds[self.of] / seconds[self.by]


RATIOS = (
    Ratio("dynamic / torch", "dynamic", "torch", mean_at_most=0.5),
    Ratio("verified / torch", "verified", "torch", mean_at_most=1.0),
    Ratio("dynamic / static", "dynamic", "static", mean_at_most=1.5, each_at_most=3),
)
KINDS = ("dynamic", "verified", "static", "torch")


@dataclass(frozen=True)
class Export:
    """What both exporters are given, and the axes that vary."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: Mapping[str, list[str] | None]
    axes: Mapping[str, Mapping[int, str]]


def load(name: str) -> Export:
    """A model of the examples or of the catalogue."""
    torch.manual_seed(0)
    if name in EXAMPLES:
        example = EXAMPLES[name]
        model, inputs = example.build()
        names = {"input_names": list(example.input_names), "output_names": list(example.output_names)}
        return Export(model, inputs, {}, {**names}, example.dynamic_axes)
    call = importlib.import_module("tests.models.catalogue").MODELS[name].build()
    given = {"input_names": call.input_names, "output_names": call.output_names}
    return Export(call.model, call.args, call.kwargs, {k: v and list(v) for k, v in given.items()}, call.axes)


def tasks(export: Export, folder: Path) -> dict[str, Task]:
    """What is timed, by name. Each writes one file with the weights inside."""
    path = folder / "model.onnx"
    shared: dict[str, Any] = {**export.names, "kwargs": dict(export.kwargs), "opset_version": OPSET}
    axes = {name: dict(labels) for name, labels in export.axes.items()}

    def ours(**options: Any) -> Task:
        return lambda: onnxport.export(export.model, export.args, path, **shared, **options)

    def torchs() -> object:
        model: Any = export.model
        return torch.onnx.export(model, export.args, path, dynamo=False, verbose=False, dynamic_axes=axes, **shared)

    return {
        "dynamic": ours(verify=False, dynamic_axes=axes),
        "verified": ours(verify=True, dynamic_axes=axes),
        "static": ours(verify=False),
        "torch": torchs,
    }


def measure(timed: Mapping[str, Task], folder: Path, repeats: int) -> Seconds:
    """The median CPU seconds of each task, over rounds in which each runs."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repeats):
        for name, task in timed.items():
            for leftover in folder.iterdir():
                leftover.unlink()
            gc.collect()
            with quiet():
                start = time.process_time()
                task()
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def serve(name: str, folder: Path, repeats: int) -> None:
    """In a process of its own: print the seconds of one model, after a small one for what is paid for once."""
    small = Export(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), {}, {"input_names": ["x"]}, {"x": {0: "batch"}})
    measure(tasks(small, folder), folder, repeats=1)
    with quiet():
        export = load(name)
    print(json.dumps(measure(tasks(export, folder), folder, repeats)))


def measured(name: str, folder: Path, repeats: int) -> Seconds | str:
    """The seconds of one model, or why there are none."""
    command = [sys.executable, "-m", "benchmarks.dynamic_axes", name, "--serve", "--repeats", str(repeats)]
    with tempfile.TemporaryDirectory(dir=folder) as own:
        done = subprocess.run([*command, "--folder", own], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line[:1].isalpha() and ": " in line]
        return lines[-1] if lines else f"exit code {done.returncode}"
    seconds: Seconds = json.loads(done.stdout.splitlines()[-1])
    return seconds


def row(name: str, seconds: Seconds) -> str:
    times = "".join(f"{seconds[kind]:10.3f}" for kind in KINDS)
    ratios = "".join(f"{ratio.value(seconds):18.2f}" for ratio in RATIOS)
    return f"{name:22}{times}{ratios}"


def judge(measurements: Mapping[str, Seconds]) -> bool:
    """Print each ratio's geometric mean and largest value; whether all that is expected holds."""
    passed = True
    for ratio in RATIOS:
        values = {name: ratio.value(seconds) for name, seconds in measurements.items()}
        worst = max(values, key=values.__getitem__)
        mean = statistics.geometric_mean(values.values())
        holds = mean <= ratio.mean_at_most and (ratio.each_at_most is None or values[worst] <= ratio.each_at_most)
        expected = f"at most {ratio.mean_at_most:g}"
        if ratio.each_at_most is not None:
            expected += f", none above {ratio.each_at_most:g}"
        verdict = "PASS" if holds else "FAIL"
        print(f"{ratio.label:18}{mean:6.2f}  largest {values[worst]:.2f} ({worst})  {expected}  {verdict}")
        passed &= holds
    return passed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic_axes", description="Measure dynamic exports.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where files are written (default build)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.serve:
        serve(options.names[0], options.folder, options.repeats)
        return 0

    print(f"torch {torch.__version__}, opset {OPSET}, CPU seconds, medians of {options.repeats} rounds")
    print(f"{'':22}" + "".join(f"{kind:>10}" for kind in KINDS) + "".join(f"{ratio.label:>18}" for ratio in RATIOS))
    measurements: dict[str, Seconds] = {}
    failed = False
    for name in options.names or NAMES:
        found = measured(name, options.folder, options.repeats)
        if isinstance(found, str):
            failed = True
            print(f"{name:22}  FAIL: {found}", flush=True)
        else:
            measurements[name] = found
            print(row(name, found), flush=True)
    print()
    return 0 if measurements and judge(measurements) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
