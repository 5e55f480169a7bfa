"""The results of the benchmark as lines. `python -m benchmarks.latency.table FILE` prints a table of the docs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.latency.measure import CLASSIC, DYNAMO, EXPORTERS, OURS, SIZES

MEAN_AT_MOST, MODEL_AT_MOST = 0.97, 1.03
REMOVED_AT_MOST = 0.01
Row = dict[str, Any]


def ratios(row: Row, peers: tuple[str, ...] = (CLASSIC, DYNAMO)) -> dict[str, float]:
    """Ours by the faster of those peers, at each of the sizes and numbers of threads where there is one."""
    found = {}
    for setting, times in row.get("milliseconds", {}).items():
        others = [times[peer] for peer in peers if peer in times]
        if OURS in times and others:
            found[setting] = times[OURS] / min(others)
    return found


def mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def nodes(row: Row, exporter: str, which: str) -> int | None:
    """How many nodes a file has, without constants: as it is (operators), optimized, or behind onnxslim (slim)."""
    held = row.get("files", {}).get(exporter, {}).get(which)
    if isinstance(held, dict):
        return sum(int(count) for name, count in held.items() if name != "Constant")
    return None if held is None else int(held)


def differing(row: Row, peer: str) -> str:
    """Operators of which our file has another number than a peer's, after the runtime's optimizations."""
    ours, theirs = (row["files"].get(exporter, {}).get("optimized", {}) for exporter in (OURS, peer))
    names = sorted(set(ours) | set(theirs))
    counts = ((name, ours.get(name, 0), theirs.get(name, 0)) for name in names)
    return " ".join(f"{name}:{own}/{other}" for name, own, other in counts if own != other)


def line(row: Row) -> str:
    if "failed" in row:
        return f"{row['model']:<24} {row['failed']}"
    parts = [f"{row['model']:<24}"]
    for setting, times in row["milliseconds"].items():
        shown = " / ".join(f"{times[name]:.2f}" if name in times else "-" for name in (OURS, CLASSIC, DYNAMO))
        ratio = ratios(row).get(setting)
        parts.append(f"{setting}: {shown} ms" + ("" if ratio is None else f" = {ratio:.3f};"))
    for which in ("operators", "optimized", "slim"):
        counts = [nodes(row, exporter, which) for exporter in (OURS, CLASSIC, DYNAMO)]
        parts.append(f"{which} " + "/".join("-" if count is None else str(count) for count in counts))
    for who, error in row["errors"].items():
        parts.append(f"\n    {who}: {error}")
    return " ".join(parts)


def larger(row: Row) -> str | None:
    """What is too many in our file: more nodes than a peer's behind onnxslim, or more that onnxslim removes."""
    ours, left = nodes(row, OURS, "operators"), nodes(row, OURS, "slim")
    peers = [count for peer in (CLASSIC, DYNAMO) if (count := nodes(row, peer, "slim")) is not None]
    if ours is None or left is None:
        return None
    if peers and ours > min(peers):
        return f"{ours} nodes, {min(peers)} in a peer's file behind onnxslim"
    return f"onnxslim leaves {left} of {ours} nodes" if left < ours * (1 - REMOVED_AT_MOST) else None


def summary(rows: list[Row]) -> tuple[str, bool]:
    """The geometric mean and the models that miss what is expected; whether all is as expected."""
    many = {row["model"]: found for row in rows if (found := larger(row)) is not None}
    lines = [f"  {name}: {found}" for name, found in many.items()]
    measured = {row["model"]: mean(ratios(row).values()) for row in rows if ratios(row)}
    total = mean(measured.values())
    slower = {name: ratio for name, ratio in measured.items() if ratio > MODEL_AT_MOST}
    if not measured:
        return "\n".join([f"nodes of {len(rows)} models counted", *lines]), not many
    lines.append(f"geometric mean over {len(measured)} models: {total:.3f} (at most {MEAN_AT_MOST})")
    lines += [f"  above {MODEL_AT_MOST}: {name} {ratio:.3f}" for name, ratio in slower.items()]
    return "\n".join(lines), total <= MEAN_AT_MOST and not slower and not many


def markdown(rows: list[Row]) -> str:
    """The table of docs/performance.md, on one thread."""
    lines = ["| model | example | other sizes | nodes | behind ONNX Runtime |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        found = ratios(row)
        times = [found.get(f"{size}, 1 threads") for size in SIZES]
        counts = [
            " / ".join("-" if (count := nodes(row, exporter, which)) is None else str(count) for exporter in EXPORTERS)
            for which in ("operators", "optimized")
        ]
        cells = [row["model"], *("" if time is None else f"{time:.2f}" for time in times), *counts]
        lines.append(f"| {' | '.join(cells)} |")
    measured = [mean(ratios(row).values()) for row in rows if ratios(row)]
    lines.append(f"| geometric mean of both over {len(measured)} models: {mean(measured):.2f} | | | | |")
    return "\n".join(lines)


def node_table(rows: list[Row]) -> str:
    """The table of nodes of docs/performance.md."""
    lines = ["| model | nodes | behind onnxslim |", "|---|---:|---:|"]
    for row in rows:
        cells = (
            " / ".join("-" if (count := nodes(row, exporter, which)) is None else str(count) for exporter in EXPORTERS)
            for which in ("operators", "slim")
        )
        lines.append(f"| {' | '.join((row['model'], *cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    kept = [row for row in json.loads(Path(sys.argv[1]).read_text()) if "failed" not in row]
    print(markdown(kept) if any(map(ratios, kept)) else node_table(kept))
