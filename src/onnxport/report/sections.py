"""The sections of the page, each from a part of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnxport.report.markup import Markup, byte_size, counted, element, joined, table
from onnxport.report.origins import type_text
from onnxport.report.report import Report

VERDICTS = {
    "passed": "The file has the same results as the model, at every size that was tried.",
    "failed": "The file has other results than the model.",
    "refused": "The model was not exported.",
    "unchecked": "The file was not checked against a model.",
}

MAX_ROWS = 20
"""Rows of a table for a notebook."""


def section(name: str, title: str, *content: str | Iterable[str]) -> Markup:
    return element("section", element("h2", title), *content, id=name)


def verdict(report: Report) -> Markup:
    facts = [f"opset {report.opset}"]
    facts += [counted(report.nodes, "node"), f"{byte_size(report.weight_bytes)} of weights"] if report.nodes else []
    facts += [f"file {byte_size(report.file_bytes)}"] if report.file_bytes is not None else []
    facts += [f"{report.seconds:.2f} s"] if report.phases else []
    badge = element("strong", report.verdict)
    lines = [element("p", badge, " ", VERDICTS[report.verdict]), element("p", " · ".join(facts), class_="facts")]
    if report.error is not None:
        lines.append(element("pre", f"{report.error.type}: {report.error.message}", class_="message"))
    return element("section", lines, id="verdict", data_verdict=report.verdict)


def interface(model: ir.Model) -> Markup:
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    rows = [("input", value.name or "", type_text(value)) for value in inputs]
    rows += [("output", value.name or "", type_text(value)) for value in model.graph.outputs]
    return section("interface", "Interface", table(("", "name", "type"), rows))


def axes(report: Report) -> Markup:
    if not report.axes:
        return section("axes", "Dynamic axes", element("p", "No axis is dynamic, or none is known."))
    rows = [(axis.name, ", ".join(axis.of), _listed(axis.traced), _listed(axis.verified)) for axis in report.axes]
    parts = [table(("axis", "of", "traced at", "verified at"), rows)]
    if report.repaired:
        items = [element("li", str(number)) for number in report.repaired]
        parts += [element("p", "Numbers that Python computed from sizes, and that the file computes:")]
        parts += [element("ul", items)]
    return section("axes", "Dynamic axes", parts)


def cases(report: Report) -> Markup:
    rows = []
    for case in report.cases:
        at = ", ".join(f"{name}={size}" for name, size in case.sizes.items()) or "the example's sizes"
        rows.append((at, f"{case.max_abs_error:.2e}", "; ".join(case.problems) or "none"))
    return section("cases", "Runs of the check", table(("sizes", "largest error", "problems"), rows, numbers=(1,)))


def messages(report: Report) -> Markup:
    items = [element("li", text, class_="warning") for text in report.warnings]
    items += [element("li", text) for text in report.notes]
    items += [element("li", f"kept as an operator of torch: {text}") for text in report.fallbacks]
    return section("warnings", "Warnings and notes", element("ul", items) if items else element("p", "None."))


def phases(report: Report) -> Markup:
    whole = report.seconds or 1.0
    rows = [(name, f"{seconds:.3f} s", _bar(seconds / whole)) for name, seconds in report.phases.items()]
    return section("phases", "Time", table(("phase", "time", ""), rows, numbers=(1,)) if rows else element("p", "–"))


def operators(report: Report) -> Markup:
    most = max(report.operators.values(), default=1)
    counts = sorted(report.operators.items(), key=lambda item: (-item[1], item[0]))
    rows = [(name, str(count), _bar(count / most)) for name, count in counts]
    return section("operators", "Operators", table(("operator", "nodes", ""), rows, numbers=(1,)))


def weights(model: ir.Model) -> Markup:
    tensors = [(name, value.const_value) for name, value in model.graph.initializers.items()]
    known = sorted(((name, tensor) for name, tensor in tensors if tensor is not None), key=lambda item: -item[1].nbytes)
    rows = [
        (name, "string" if tensor.dtype == ir.DataType.STRING else tensor.dtype.numpy().name,
         " × ".join(map(str, tensor.shape)) or "scalar", byte_size(tensor.nbytes))
        for name, tensor in known
    ]  # fmt: skip
    count = f"{len(rows)} tensors, {sum(tensor.size for _, tensor in known):,} numbers"
    shown = table(("name", "dtype", "shape", "size"), rows, numbers=(3,))
    return section("weights", "Weights", element("details", element("summary", count), shown))


def _bar(part: float) -> Markup:
    return element("div", class_="bar", style=f"width:{100 * part:.1f}%")


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "–"


def compact(report: Report, model: ir.Model) -> Markup:
    """A few lines for a notebook, without style sheet or script."""
    rows = [("input", value) for value in model.graph.inputs] + [("output", value) for value in model.graph.outputs]
    shown = [(kind, value.name or "", type_text(value)) for kind, value in rows[:MAX_ROWS]]
    shown += [("…", f"{len(rows) - MAX_ROWS} more", "")] if len(rows) > MAX_ROWS else []
    checked = [f"{axis.name}: checked at {_listed(axis.verified)}" for axis in report.axes[:MAX_ROWS]]
    nodes, weights = counted(report.nodes, "node"), byte_size(report.weight_bytes)
    facts = [f"{report.verdict}, opset {report.opset}, {nodes}, {weights} of weights"]
    facts += checked + [f"warning: {text:.200}" for text in report.warnings[:3]]
    return element("div", [element("p", line) for line in facts], joined(table(("", "name", "type"), shown)))
