"""One model: the files of the exporters, what they hold, and how long they run in turns in one process."""

from __future__ import annotations

import collections
import importlib.util
import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor

import onnxport
from benchmarks.export_time import has_dynamo, quiet
from benchmarks.latency.models import Case

OURS, CLASSIC, DYNAMO = "onnxport", "dynamo=False", "dynamo=True"
EXPORTERS = (OURS, CLASSIC, DYNAMO)
PEER_OPSETS = {CLASSIC: 20, DYNAMO: 26}
SIZES = ("example", "other")
ROUND = 0.04  # seconds of one file's turn in a round, or one call
Feeds = dict[str, Any]


def export(exporter: str, case: Case, path: Path, opset: int) -> None:
    """Write a file by one of the exporters, at the opset or the newest that it writes."""
    axes = {name: dict(dims) for name, dims in case.axes.items() if dims}
    asked: dict[str, Any] = {"input_names": list(case.axes), "opset_version": opset}
    if exporter == OURS:
        onnxport.export(case.module, case.args, path, dynamic_axes=axes or None, verify=False, **asked)
        return
    asked |= {"opset_version": min(opset, PEER_OPSETS[exporter]), "dynamo": exporter == DYNAMO, "verbose": False}
    if exporter == DYNAMO:
        auto = tuple(dict.fromkeys(dims, torch.export.Dim.AUTO) for dims in case.axes.values())
        taken = inspect.signature(case.module.forward).parameters.values()
        fixed = sum(parameter.kind is not parameter.VAR_POSITIONAL for parameter in taken)
        asked["dynamic_shapes"] = (*auto[:fixed], auto[fixed:]) if fixed < len(auto) else auto
        asked["external_data"] = False
    else:
        asked["dynamic_axes"] = axes or None
    torch.onnx.export(case.module, case.args, str(path), **asked)


def feeds(session: ort.InferenceSession, case: Case, tensors: tuple[Tensor, ...]) -> Feeds:
    """The inputs of a file: one that the model does not read may be absent."""
    named = {name: tensor.numpy() for name, tensor in zip(case.axes, tensors, strict=True)}
    return {entry.name: named[entry.name] for entry in session.get_inputs()}


def start(path: Path, threads: int, optimized: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def operators(model: onnx.ModelProto) -> collections.Counter[str]:
    """The operators of a model's nodes, those of its subgraphs and functions included."""

    def names(nodes: Any) -> Iterator[str]:
        for node in nodes:
            yield node.op_type
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    yield from names(graph.node)

    return collections.Counter(itertools.chain(names(model.graph.node), *(names(f.node) for f in model.functions)))


def contents(path: Path, folder: Path, slim: bool) -> dict[str, Any]:
    """The operators of a file as it is, after the runtime's optimizations, and those that onnxslim leaves."""
    optimized = folder / "optimized.onnx"
    start(path, 1, optimized)
    found: dict[str, Any] = {
        "operators": operators(onnx.load(path, load_external_data=False)),
        "optimized": operators(onnx.load(optimized, load_external_data=False)),
    }
    optimized.unlink()
    if slim and importlib.util.find_spec("onnxslim") is not None:
        slimmed = importlib.import_module("onnxslim").slim
        with quiet():
            found["slim"] = operators(slimmed(onnx.load(path)))
    return found


def difference(session: ort.InferenceSession, case: Case, tensors: tuple[Tensor, ...]) -> float:
    """The largest difference of a file's results from the model's, by the largest result."""
    with torch.no_grad():
        expected = case.module(*tensors)
    expected = [expected] if isinstance(expected, Tensor) else list(_flat(expected))
    worst = 0.0
    for ours, theirs in zip(session.run(None, feeds(session, case, tensors)), expected, strict=True):
        reference = theirs.numpy()
        if ours.shape != reference.shape:
            raise ValueError(f"shape {ours.shape} instead of {reference.shape}")
        if reference.size and reference.dtype.kind == "f":
            worst = max(worst, float(np.abs(ours - reference).max() / max(float(np.abs(reference).max()), 1e-9)))
    return worst


def _flat(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)


def interleaved(runs: Mapping[str, Callable[[], object]], threads: int, seconds: float) -> dict[str, float]:
    """The least time of one run of each, in turns of which each round begins with another.

    On one thread it is the CPU time of that thread, which does not count while others have the processor.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    least = dict.fromkeys(runs, float("inf"))
    names = list(runs)
    for run in runs.values():
        run()
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or rounds < 2 * len(names):
        for name in names[rounds % len(names) :] + names[: rounds % len(names)]:
            turn = time.perf_counter()
            while True:
                before = clock()
                runs[name]()
                least[name] = min(least[name], clock() - before)
                if time.perf_counter() - turn > ROUND:
                    break
        rounds += 1
    return least


@dataclass(frozen=True)
class Settings:
    """How much is measured of each model."""

    opset: int = 20
    threads: tuple[int, ...] = (1,)
    seconds: float = 8
    exporters: tuple[str, ...] = EXPORTERS
    slim: bool = False
    kept: Path | None = None
    """Where files of the other exporters are kept, which are not written again."""


def file_of(exporter: str, folder: Path, settings: Settings) -> Path:
    kept = folder if exporter == OURS or settings.kept is None else settings.kept
    return kept / f"{exporter.replace('=', '-')}.onnx"


def measure(case: Case, folder: Path, settings: Settings) -> dict[str, Any]:
    """What is written about one model."""
    files: dict[str, Path] = {}
    errors: dict[str, str] = {}
    for exporter in settings.exporters:
        if exporter == DYNAMO and not has_dynamo():
            continue
        path = file_of(exporter, folder, settings)
        try:
            if not path.exists():
                with quiet():
                    export(exporter, case, path, settings.opset)
            start(path, 1)
        except Exception as error:  # noqa: BLE001 - whatever stops an exporter is part of the result
            errors[exporter] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        else:
            files[exporter] = path
    result: dict[str, Any] = {"errors": errors, "files": {}, "milliseconds": {}, "difference": {}}
    result["files"] = {exporter: contents(path, folder, settings.slim) for exporter, path in files.items()}
    for count in settings.threads:
        sessions = {exporter: start(path, count) for exporter, path in files.items()}
        for size, tensors in zip(SIZES, (case.args, case.other), strict=True):
            runs, differences = {}, {}
            for exporter, session in sessions.items():
                try:
                    differences[exporter] = difference(session, case, tensors)
                except Exception as error:  # noqa: BLE001 - a file that refuses these sizes is part of the result
                    errors[f"{exporter}, {size} sizes"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                    continue
                given = feeds(session, case, tensors)
                runs[exporter] = lambda session=session, given=given: session.run(None, given)
            result["difference"][size] = differences
            if runs:
                times = interleaved(runs, count, settings.seconds)
                result["milliseconds"][f"{size}, {count} threads"] = {name: 1000 * t for name, t in times.items()}
    return result
