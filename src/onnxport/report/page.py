"""The whole page: one HTML file, readable without a script, without external resources."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

import onnx_ir as ir

from onnxport.report import sections
from onnxport.report.markup import Markup, element, joined
from onnxport.report.node_tree import NodeTree
from onnxport.report.origins import Origin, by_name
from onnxport.report.plot import Step, plot
from onnxport.report.report import Report


@dataclass(frozen=True)
class Page:
    """The content of a page. ``model`` is None if the export failed before there was one.

    ``origin`` returns the origin of a node; ``steps`` are the errors along the model if the check failed.
    """

    title: str
    report: Report
    model: ir.Model | None = None
    origin: Callable[[ir.Node], Origin] = by_name
    steps: Sequence[Step] = ()


def render(page: Page) -> str:
    """The file's content."""
    script = _resource("page.js")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_digest(script)}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{page.title} · onnxport"),
        element("style", Markup(_resource("page.css"))),
    )
    body = element(
        "body",
        element("header", element("h1", page.title), element("p", "onnxport report", class_="facts")),
        element("main", _sections(page)),
        element("script", _json(page.report), type="application/json", id="report"),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(page: Page) -> list[Markup]:
    report, model = page.report, page.model
    shown = [sections.verdict(report)]
    if report.mismatch is not None or page.steps:
        shown.append(_errors(page))
    if model is not None:
        shown.append(sections.interface(model))
    shown.append(sections.axes(report))
    if report.cases:
        shown.append(sections.cases(report))
    shown += [sections.messages(report), sections.phases(report)]
    if model is not None:
        shown += [sections.operators(report), _graph(page, model), sections.weights(model)]
    return shown


def _errors(page: Page) -> Markup:
    """The mismatch: its origin, and the error along the model."""
    content = []
    mismatch = page.report.mismatch
    if mismatch is not None:
        at = ", ".join(filter(None, (mismatch.module, mismatch.location)))
        content.append(element("p", element("code", mismatch.operator or "the model"), f" in {at}" if at else ""))
    if page.steps:
        content.append(plot(page.steps))
    return sections.section("errors", "Where it goes wrong", content)


def _graph(page: Page, model: ir.Model) -> Markup:
    wrong = next((step.node for step in page.steps if step.is_first_wrong), None)
    tree = NodeTree(page.origin, wrong)
    functions = [tree.function(function) for function in model.functions.values()]
    return sections.section("graph", "Graph", joined(tree.graph(model.graph), functions))


def _json(report: Report) -> Markup:
    """The report as JSON in an element that no text in it can close."""
    return Markup(json.dumps(report.to_json(), allow_nan=False).replace("<", "\\u003c"))


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _resource(name: str) -> str:
    return resources.files("onnxport.report").joinpath(name).read_text("utf-8")
