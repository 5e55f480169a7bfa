"""How fast the files run, beside those of torch's own exporters.

python -m benchmarks.latency [NAME ...] [--json FILE] [--opset N] [--threads N ...] [--seconds N]

Each model is exported and run in a process of its own, where its files take turns. The exit code is 1 when ours is
slower than the faster of the others by more than is allowed, for one model or in the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
import torch

from benchmarks.latency.catalogue import MODELS
from benchmarks.latency.measure import CLASSIC, DYNAMO, OURS, Settings, measure
from benchmarks.latency.table import line, summary

LIMIT_SECONDS = 3600


def one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        case = MODELS[name].build()
        peers = tuple(options.peers)
        kept = None
        if options.keep is not None:
            kept = options.keep / f"{name}, opset {options.opset}"
            kept.mkdir(parents=True, exist_ok=True)
        settings = Settings(options.opset, tuple(options.threads), options.seconds, (OURS, *peers), options.slim, kept)
        result = measure(case, Path(folder), settings)
    return {"model": name, "family": MODELS[name].family, **result}


def in_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The result of a model from a process of its own."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "benchmarks.latency", name, "--one", "--json", str(path)]
        command += ["--opset", str(options.opset), "--seconds", str(options.seconds), "--folder", folder]
        command += ["--threads", *map(str, options.threads), "--peers", *options.peers]
        command += ["--slim"] if options.slim else []
        command += [] if options.keep is None else ["--keep", str(options.keep)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return {"model": name, "family": MODELS[name].family, "failed": f"more than {LIMIT_SECONDS} s"}
        if not path.exists():
            last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
            return {"model": name, "family": MODELS[name].family, "failed": last[:300]}
        result: dict[str, Any] = json.loads(path.read_text())[0]
        return result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description="Measure how fast files run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (default all)")
    parser.add_argument("--json", type=Path, help="where the results are kept; those of models measured before stay")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="*", default=[1], help="none: only count nodes")
    parser.add_argument("--seconds", type=float, default=8, help="of turns for each model, size and number of threads")
    parser.add_argument("--peers", nargs="+", default=[CLASSIC, DYNAMO], choices=[CLASSIC, DYNAMO])
    parser.add_argument("--slim", action="store_true", help="also count the nodes that onnxslim leaves")
    parser.add_argument("--keep", type=Path, help="a folder for the others' files, which later runs take from there")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the files are written")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.one:
        options.json.write_text(json.dumps([one(options.names[0], options)]))
        return 0

    print(f"torch {torch.__version__}, ONNX Runtime {ort.__version__}, opset {options.opset}")
    kept: dict[str, dict[str, Any]] = {}
    if options.json is not None and options.json.exists():
        kept = {row["model"]: row for row in json.loads(options.json.read_text())}
    for name in options.names or MODELS:
        kept[name] = in_process(name, options)
        print(line(kept[name]), flush=True)
        if options.json is not None:
            rows = [kept[model] for model in MODELS if model in kept]
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    text, passed = summary(list(kept.values()))
    print(text)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
