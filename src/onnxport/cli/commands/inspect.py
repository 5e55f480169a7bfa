"""`onnxport inspect`: the content of an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import onnx_ir as ir
import typer

from onnxport.cli.answers import Answer
from onnxport.cli.files import check_writable, file_bytes, inputs_of, interface, nodes_of, read_model, weights_of
from onnxport.cli.screen import shape, table
from onnxport.report.markup import byte_size, counted
from onnxport.report.page import Page, render
from onnxport.report.report import Report, count_operators


def inspect(
    file: Annotated[str, typer.Argument(metavar="F", help="An ONNX file.")],
    graph: Annotated[bool, typer.Option("--graph", help="Show every node.")] = False,
    report: Annotated[str | None, typer.Option(metavar="page.html", help="Write a page about the file.")] = None,
) -> Answer:
    """Show what an ONNX file holds: interface, operators, weights."""
    if report is not None:
        check_writable(report, "--report")
    model = read_model(file)
    data = summary(file, model)
    if report is not None:
        Path(report).write_text(render(_page(file, model, data)), encoding="utf-8")

    def show(console: Any) -> None:
        _show(console, file, data)
        if graph:
            console.print(str(model))

    return Answer(True, data, show)


def summary(file: str, model: ir.Model) -> dict[str, Any]:
    weights = weights_of(model).values()
    operators = count_operators(nodes_of(model))
    return {
        "opsets": dict(model.opset_imports),
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))) or None,
        "inputs": interface(inputs_of(model)),
        "outputs": interface(list(model.graph.outputs)),
        "nodes": sum(operators.values()),
        "operators": operators,
        "parameters": sum(tensor.size for tensor in weights),
        "weight_bytes": sum(tensor.nbytes for tensor in weights),
        "file_bytes": file_bytes(file, model),
    }


def _page(file: str, model: ir.Model, data: Mapping[str, Any]) -> Page:
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    known = {name: data[name] for name in ("nodes", "operators", "file_bytes", "weight_bytes")}
    return Page(Path(file).stem, Report(opset, **known), model)


def _show(console: Any, file: str, data: Mapping[str, Any]) -> None:
    opsets = ", ".join(f"{domain or 'onnx'} {version}" for domain, version in data["opsets"].items())
    made = f", made by {data['producer']}" if data["producer"] else ""
    console.print(f"{file}: opset {opsets}{made}")
    console.print(
        f"{counted(data['nodes'], 'node')}, {data['parameters']:,} parameters in {byte_size(data['weight_bytes'])}, "
        f"file {byte_size(data['file_bytes'])}"
    )
    values = table("", "name", "type", "shape")
    for kind in ("inputs", "outputs"):
        for value in data[kind]:
            dims = "?" if value["shape"] is None else shape(value["shape"])
            values.add_row(kind.removesuffix("s"), value["name"], value["type"] or "?", dims)
    console.print(values)
    operators = table("operator", "nodes", right=("nodes",))
    for name, count in sorted(data["operators"].items(), key=lambda item: -item[1]):
        operators.add_row(name, str(count))
    console.print(operators)
