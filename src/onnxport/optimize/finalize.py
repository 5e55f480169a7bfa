"""The final form of the ONNX graph: initializers as inputs, domains, names of axes, doc strings."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxport.optimize.rewrite import constant_to_node
from onnxport.optimize.traversal import all_nodes

FIRST_IR_WITH_FREE_INITIALIZERS = 4
LARGE = 1024


def finalize(
    model: ir.Model,
    parameter_names: set[str],
    *,
    initializers_as_inputs: bool,
    output_axes: Mapping[str, Mapping[int, str | None]],
    custom_opsets: Mapping[str, int],
    doc_strings: bool,
    producer: tuple[str, str],
) -> None:
    """Give the graph its final form. ``output_axes`` are labels of axes by the name of the output.

    ``producer`` is the name and version of what made the file.
    """
    graph = model.graph
    model.producer_name, model.producer_version = producer
    if initializers_as_inputs or (model.ir_version or 0) < FIRST_IR_WITH_FREE_INITIALIZERS:
        _constants_to_nodes(graph, parameter_names)
        graph.inputs.extend(value for value in graph.initializers.values() if not value.is_graph_input())
    for value in graph.outputs:
        _name_axes(value, output_axes.get(value.name or "", {}))
    for domain, version in custom_opsets.items():
        graph.opset_imports[domain] = version
    for node in all_nodes(graph):
        graph.opset_imports.setdefault(node.domain, 1)
        if not doc_strings:
            node.doc_string = None


def _constants_to_nodes(graph: ir.Graph, parameter_names: set[str]) -> None:
    """Small constants of the translation become Constant nodes, so that callers do not override them."""
    for name, value in list(graph.initializers.items()):
        if name in parameter_names or value.const_value is None or value.const_value.nbytes > LARGE:
            continue
        constant_to_node(graph, name, graph[0] if len(graph) else None)


def _name_axes(value: ir.Value, labels: Mapping[int, str | None]) -> None:
    """Give the dynamic axes of an output their declared labels."""
    if value.shape is None or not any(labels.values()):
        return
    dims = list(value.shape)
    for dim, label in labels.items():
        dims[dim] = ir.SymbolicDim(label) if label and not isinstance(dims[dim], int) else dims[dim]
    value.shape = ir.Shape(dims)
