"""The report page of an export: the report, the model, and the origins of its nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from onnxport.graph.ir import Graph, Node
from onnxport.optimize.traversal import all_nodes
from onnxport.report.origins import Origin, by_name
from onnxport.report.page import Page, render
from onnxport.report.plot import Step
from onnxport.report.report import Report
from onnxport.save.target import save_errors
from onnxport.verification.bisect import StepError


def write_page(
    path: Path, report: Report, model: ir.Model | None, graph: Graph | None, trail: Sequence[StepError]
) -> None:
    """Write the page atomically. ``model`` and its captured ``graph`` are None if the export failed before them."""
    page = Page(path.stem, report, model, origin=_origin, steps=_steps(trail, model, graph, report))
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with save_errors(path):
        try:
            beside.write_text(render(page), encoding="utf-8")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _origin(node: ir.Node) -> Origin:
    """The module and the line that a node comes from."""
    origin = node.meta.get("origin")
    if not isinstance(origin, Node):
        return by_name(node)
    source = origin.source
    return Origin(str(origin.scope), source.file if source else None, source.line if source else 0)


def _steps(trail: Sequence[StepError], model: ir.Model | None, graph: Graph | None, report: Report) -> list[Step]:
    """The errors along the model, each with its ONNX node."""
    if model is None or graph is None:
        return []
    names: dict[int, str] = {}
    for node in all_nodes(model.graph):
        names.setdefault(id(node.meta.get("origin")), node.name or "")
    first = _first_wrong(trail, report)
    return [
        Step(
            step.node.op,
            graph.scope_name(step.node.scope),
            step.node.location or "",
            step.error,
            step.allowed,
            names.get(id(step.node)),
            is_first_wrong=step is first,
        )
        for step in trail
    ]


def _first_wrong(trail: Sequence[StepError], report: Report) -> StepError | None:
    """The step that the check identified as the cause; else the first wrong one."""
    wrong = [step for step in trail if step.is_wrong]
    found = report.mismatch
    if found is not None:
        at_fault = [step for step in wrong if (step.node.op, step.node.location) == (found.operator, found.location)]
        wrong = at_fault or wrong
    return wrong[0] if wrong else None
