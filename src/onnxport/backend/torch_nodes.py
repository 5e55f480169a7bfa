"""Nodes that torch computes: torch operators in the file, in the format of `symbolic.aten`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch
from onnx import numpy_helper

from onnxport.errors import BackendError
from onnxport.graph.interpret import NEEDS_LAYOUT, UNBOUND_OVERLOADS, operator
from onnxport.graph.ir import Parameter, Schema, schema_of
from onnxport.symbolic.aten import ATEN, ATEN_DOMAIN, RESERVED

# Domains without torch operators.
ONNX_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft")
ENTRY = re.compile(r"(\w+)(?:\[(\d*)\])?(:complex)?")

# Computes the outputs of a node from its inputs, None for absent ones.
Kernel = Callable[[Sequence[Any]], list[Any]]


def is_torch_node(node: onnx.NodeProto) -> bool:
    """Whether torch has this operator and ONNX does not."""
    return node.domain not in ONNX_DOMAINS and _schema(*_operator(node)) is not None


def claims_torch(node: onnx.NodeProto) -> bool:
    """Whether a node says that it is torch's."""
    return node.domain == ATEN_DOMAIN


def check_runs(node: onnx.NodeProto) -> None:
    """Raise `BackendError` for a torch node that cannot be run."""
    schema = _schema(*_operator(node)) if node.domain not in ONNX_DOMAINS else None
    if schema is None and claims_torch(node):
        raise BackendError(f"{describe(node)}: torch has no such operator here; import what defines it first")
    if schema is not None and schema.mutates:
        raise BackendError(f"{describe(node)} writes to its arguments, which the values of ONNX do not allow")


def describe(node: onnx.NodeProto) -> str:
    op, overload = _operator(node)
    return f"the node {node.name!r} ({op}{f'.{overload}' if overload else ''})"


def compile_node(node: onnx.NodeProto, device: torch.device) -> Kernel:
    """The node as a function of its inputs; attributes are read once."""
    op, overload = _operator(node)
    schema = _schema(op, overload)
    assert schema is not None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    constants: dict[str, Any] = {}
    for parameter in schema.parameters:
        if parameter.name in attributes and parameter.name not in RESERVED:
            constants[parameter.name] = _decoded(attributes[parameter.name], parameter, device)
    sources = _sources(node, schema, attributes, constants)
    in_parts = set(attributes["complex_outputs"].ints) if "complex_outputs" in attributes else set()
    positional, keywords = _layout(schema, sources, constants)
    function = operator(op, overload)
    lays_out = op in NEEDS_LAYOUT

    def run(inputs: Sequence[Any]) -> list[Any]:
        try:
            arguments = [read(inputs) for read in positional]
            if lays_out:
                arguments[0] = arguments[0].contiguous()
            result = function(*arguments, **{name: read(inputs) for name, read in keywords})
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            raise BackendError(f"{describe(node)}: torch fails: {error}") from error
        if isinstance(result, torch.Tensor) and not in_parts:
            return [result]
        results = result if isinstance(result, (list, tuple)) else [] if result is None else [result]
        return [_output(value, index in in_parts, device) for index, value in enumerate(results)]

    return run


@functools.cache
def _schema(op: str, overload: str) -> Schema | None:
    namespace, _, name = op.partition("::")
    if not namespace or not name:
        return None
    return schema_of(op, overload)


def _operator(node: onnx.NodeProto) -> tuple[str, str]:
    text = {a.name: a.s.decode() for a in node.attribute if a.name in ("operator", "overload_name")}
    overload = text.get("overload_name", "")
    if node.op_type != ATEN or "operator" not in text:
        op = f"{node.domain}::{node.op_type}"
    else:
        op = text["operator"] if "::" in text["operator"] else f"aten::{text['operator']}"
    return op, overload or UNBOUND_OVERLOADS.get(op, "")


def _sources(
    node: onnx.NodeProto,
    schema: Schema,
    attributes: dict[str, onnx.AttributeProto],
    constants: dict[str, Any],
) -> dict[str, Callable[[Sequence[Any]], Any]]:
    """A reader for each argument that comes from inputs."""
    if "tensor_arguments" in attributes:
        entries = [entry.decode() for entry in attributes["tensor_arguments"].strings]
    else:
        free = [parameter.name for parameter in schema.parameters if parameter.name not in constants]
        if len(node.input) > len(free):
            raise BackendError(f"{describe(node)} has {len(node.input)} inputs, and the operator takes {len(free)}")
        entries = free[: len(node.input)]
    kinds = {parameter.name: parameter.type for parameter in schema.parameters}
    lists: dict[str, list[Callable[[Sequence[Any]], Any]]] = {}
    sources: dict[str, Callable[[Sequence[Any]], Any]] = {}
    for index, entry in enumerate(entries):
        match = ENTRY.fullmatch(entry)
        if match is None or match[1] not in kinds:
            raise BackendError(f"{describe(node)}: the operator has no argument {entry!r}")
        name, element, in_parts = match.groups()
        read = _reader(index, kinds[name], bool(in_parts))
        if element is None:
            sources[name] = read
        else:
            lists.setdefault(name, []).extend([read] if element else [])
    for name, readers in lists.items():
        sources[name] = functools.partial(_read_list, readers)
    return sources


def _read_list(readers: Sequence[Callable[[Sequence[Any]], Any]], inputs: Sequence[Any]) -> list[Any]:
    return [read(inputs) for read in readers]


def _reader(index: int, kind: str, in_parts: bool) -> Callable[[Sequence[Any]], Any]:
    is_tensor = "Tensor" in kind

    def read(inputs: Sequence[Any]) -> Any:
        value = inputs[index] if index < len(inputs) else None
        if value is None or (is_tensor and not in_parts):
            return value
        if in_parts:
            return torch.view_as_complex(value.contiguous())
        return value.item()

    return read


def _layout(
    schema: Schema, sources: dict[str, Callable[[Sequence[Any]], Any]], constants: dict[str, Any]
) -> tuple[list[Callable[[Sequence[Any]], Any]], list[tuple[str, Callable[[Sequence[Any]], Any]]]]:
    """The arguments in the order of the schema, by position as far as possible; missing ones are left out."""
    positional: list[Callable[[Sequence[Any]], Any]] = []
    keywords: list[tuple[str, Callable[[Sequence[Any]], Any]]] = []
    complete = True
    for parameter in schema.parameters:
        read = sources.get(parameter.name)
        if read is None and (parameter.name in constants or parameter.required):
            read = functools.partial(_constant, constants.get(parameter.name))
        complete = complete and not parameter.keyword_only and read is not None
        if read is not None and complete:
            positional.append(read)
        elif read is not None:
            keywords.append((parameter.name, read))
    return positional, keywords


def _constant(content: Any, inputs: Sequence[Any]) -> Any:
    return content


def _decoded(attribute: onnx.AttributeProto, parameter: Parameter, device: torch.device) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    kind = parameter.type
    if isinstance(value, bytes):
        return _named(value.decode(), kind, device)
    if isinstance(value, onnx.TensorProto):
        array = numpy_helper.to_array(value)
        if "Tensor" in kind:
            return torch.from_numpy(array.copy()).to(device)
        return array.tolist()
    if isinstance(value, list):
        items = [item.decode() if isinstance(item, bytes) else item for item in value]
        return [bool(item) for item in items] if "bool" in kind else items
    return bool(value) if "bool" in kind else value


def _named(name: str, kind: str, device: torch.device) -> Any:
    """A string, or the object that it names. Factory functions make tensors on the model's device."""
    if "Device" in kind:
        return device
    if any(word in kind for word in ("ScalarType", "MemoryFormat", "Layout")):
        return getattr(torch, name)
    return name


def _output(value: Any, in_parts: bool, device: torch.device) -> Any:
    if isinstance(value, (bool, int, float)):
        # In double precision, as Python computes.
        return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None, device=device)
    return torch.view_as_real(value.resolve_conj()) if in_parts else value
