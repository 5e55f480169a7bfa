"""Exports the classic models with dynamic axes, verifies each at several sizes, and prints what came out.

python -m examples.demo [folder]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnxport
from examples.models import CLASSIC, Example

HEADER = ("model", "opset", "nodes", "file size", "export", "largest error", "sizes checked")
LEFT_ALIGNED = {0, len(HEADER) - 1}


def export(example: Example, folder: Path) -> onnxport.Program:
    model, inputs = example.build()
    return onnxport.export(
        model,
        inputs,
        folder / f"{example.name.lower().replace(' ', '_')}.onnx",
        input_names=example.input_names,
        output_names=example.output_names,
        dynamic_axes=example.dynamic_axes,
    )


def row(name: str, program: onnxport.Program) -> tuple[str, ...]:
    report, verification = program.report, program.verification
    return (
        name,
        str(report.opset),
        str(report.nodes),
        "-" if report.file_bytes is None else f"{report.file_bytes / 2**20:.1f} MiB",
        f"{report.seconds:.2f} s",
        f"{verification.max_abs_error:.1e}" if verification.cases else "-",
        sizes_text([case.sizes for case in verification.cases]) or f"not checked: {verification.skipped}",
    )


def sizes_text(cases: Sequence[Mapping[str, int]]) -> str:
    """``batch 2, 3, 7`` for one axis, ``time×batch 35×4, 9×5`` for more."""
    values = ", ".join("×".join(map(str, sizes.values())) for sizes in cases)
    return f"{'×'.join(cases[0])} {values}" if cases else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if index in LEFT_ALIGNED else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    header, *body = rows
    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, body)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="Export the classic models.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/demo"), help="where the files go")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)

    rows: list[tuple[str, ...]] = [HEADER]
    failures: list[str] = []
    for example in CLASSIC:
        print(f"exporting {example.name} …", file=sys.stderr)
        try:
            rows.append(row(example.name, export(example, folder)))
        except onnxport.ExportError as error:
            failures.append(f"{example.name}: {type(error).__name__}: {error}")
    print(table(rows))
    print(f"\nThe files are in {folder}.")
    for failure in failures:
        print(f"\nFAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
