"""Operators that stay torch operators in the file, in a form from which they can be called again.

The node is ``ATen`` of the domain ``org.pytorch.aten`` with the attributes ``operator`` and ``overload_name``, or the
operator itself in a domain of its namespace. Its arguments by the names of the operator's schema:

- Tensors, and numbers that are only known at run time, are inputs. The attribute ``tensor_arguments`` names the
  argument of each input: ``self``, or ``tensors[0]``, ``tensors[1]`` for the elements of a list, ``tensors[]`` for an
  empty one. A name whose input is absent is None. Complex tensors have a last axis of two for their parts; the names
  of inputs that are complex end in ``:complex``, and the attribute ``complex_outputs`` numbers such results.
- All others are attributes: numbers, strings and lists of them. A dtype, layout, memory format or device is its name.
  What an attribute of float32 or int64 would change (``1e-5``, a bool for a ``Scalar``) is a tensor.
- An argument that is not mentioned has its default, or is None where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from onnxport.errors import UnsupportedOperatorError
from onnxport.graph import ir as captured
from onnxport.graph.ir import MODULE_CALL, Node, Parameter, PythonCall, ScalarType
from onnxport.lower import complexes
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import ONNX_TYPES
from onnxport.lower.registry import Converter, Converters
from onnxport.lower.value import Value
from onnxport.lower.walk import stored_type
from onnxport.symbolic.function_symbolic import python_node

ATEN_DOMAIN = "org.pytorch.aten"
ATEN = "ATen"
RESERVED = ("operator", "overload_name", "tensor_arguments", "complex_outputs")

NUMBER_DTYPES: dict[type, torch.dtype] = {int: torch.int64, float: torch.float64, bool: torch.bool}


class KeptOperators:
    """Finds converters that keep operators as nodes of torch: ``every`` one, or those that ``known`` has none for.

    ``kept`` collects the nodes of the captured graph that were kept.
    """

    def __init__(self, known: Converters, *, every: bool, own_domains: bool) -> None:
        self._known = known
        self._every = every
        self._own_domains = own_domains
        self.kept: list[Node] = []

    def of(self, node: Node) -> Converter:
        known = None if self._every and node.op != MODULE_CALL else self._known.of(node)
        if known is None:
            return self._keep

        def convert(g: Builder, /, **arguments: Any) -> Any:
            try:
                return known(g, **arguments)
            except UnsupportedOperatorError:
                # The nodes that the converter added before the error are unused, and removed as dead code.
                return self._keep(g, **arguments)

        return convert

    def _keep(self, g: Builder, /, **arguments: Any) -> Sequence[Value]:
        assert g.origin is not None
        if g.origin not in self.kept:
            self.kept.append(g.origin)
        return torch_node(g, arguments, own_domain=self._own_domains)


def torch_node(g: Builder, arguments: dict[str, Any], *, own_domain: bool) -> Sequence[Value]:
    """The current captured node as a torch operator with these arguments."""
    node = g.origin
    assert node is not None
    if isinstance(arguments.get("call"), PythonCall):
        return python_node(g, arguments, [_type(g, output) for output in node.outputs])
    namespace, _, name = node.op.partition("::")
    encoded = _Arguments(g, node)
    for argument, given in arguments.items():
        encoded.add(argument, given)
    if own_domain:
        domain, op_type = namespace, name
        attributes: dict[str, Any] = {"overload_name": node.overload} if node.overload else {}
    else:
        domain, op_type = ATEN_DOMAIN, ATEN
        attributes = {"operator": name if namespace == "aten" else node.op, "overload_name": node.overload}
    if encoded.names:
        attributes["tensor_arguments"] = encoded.names
    in_parts = [index for index, output in enumerate(node.outputs) if output.is_tensor and output.dtype.is_complex]
    if in_parts:
        attributes["complex_outputs"] = in_parts
    types = [_type(g, output) for output in node.outputs]
    results = g.foreign(f"{domain}::{op_type}", encoded.inputs, types, {**attributes, **encoded.attributes})
    return [complexes.from_joined(g, value) if index in in_parts else value for index, value in enumerate(results)]


class _Arguments:
    """The arguments of one call as inputs and attributes of a node."""

    def __init__(self, g: Builder, node: Node) -> None:
        self.g = g
        schema = node.schema
        self.parameters = {parameter.name: parameter for parameter in schema.parameters} if schema else {}
        self.inputs: list[Value | None] = []
        self.names: list[str] = []
        self.attributes: dict[str, Any] = {}

    def add(self, name: str, given: Any) -> None:
        parameter = self.parameters.get(name)
        if given is None:
            if parameter is not None and parameter.default is not None:
                self._input(name, None)
        elif isinstance(given, Value):
            self._input(name, given)
        elif isinstance(given, (list, tuple)) and _holds_inputs(given, parameter):
            if not given:
                self._input(f"{name}[]", None)
            for index, element in enumerate(given):
                self._input(f"{name}[{index}]", self._element(element))
        elif name in RESERVED:
            self.g.unsupported(f"its argument {name!r} has the name of a reserved attribute of the node")
        else:
            self.attributes[name] = self._attribute(name, given, parameter)

    def _input(self, name: str, value: Value | None) -> None:
        in_parts = isinstance(value, complexes.Complex)
        self.names.append(f"{name}:complex" if in_parts else name)
        self.inputs.append(value.joined(self.g) if isinstance(value, complexes.Complex) else value)

    def _element(self, element: Any) -> Value | None:
        if element is None or isinstance(element, Value):
            return element
        return self.g.constant(element, NUMBER_DTYPES.get(type(element)))

    def _attribute(self, name: str, given: Any, parameter: Parameter | None) -> Any:
        kind = parameter.type if parameter is not None else ""
        if isinstance(given, (torch.dtype, torch.memory_format, torch.layout)):
            return str(given).removeprefix("torch.")
        if isinstance(given, torch.device):
            return str(given)
        if isinstance(given, bool) and "number" not in kind:
            return int(given)
        if isinstance(given, (bool, complex)) or (isinstance(given, float) and not _is_float32(given)):
            return torch.tensor(given, dtype=torch.float64 if isinstance(given, float) else None)
        if isinstance(given, (int, float, str)):
            return given
        if isinstance(given, (list, tuple)) and all(isinstance(e, (bool, int, float, str)) for e in given):
            floats = any(isinstance(e, float) for e in given)
            if floats and not all(_is_float32(float(e)) for e in given):
                return torch.tensor([float(e) for e in given], dtype=torch.float64)
            return list(given)
        return self.g.unsupported(f"its argument {name!r} is a {type(given).__name__}, which a file cannot store")


def _holds_inputs(given: Sequence[Any], parameter: Parameter | None) -> bool:
    """Whether a list has tensors, or numbers that are only known at run time."""
    return any(isinstance(e, Value) for e in given) or (parameter is not None and "Tensor" in parameter.type)


def _is_float32(number: float) -> bool:
    return not math.isfinite(number) or float(np.float32(number)) == number


def _type(g: Builder, output: captured.Value) -> tuple[torch.dtype, Any]:
    if isinstance(output.type, ScalarType):
        return NUMBER_DTYPES[output.type.kind], ()
    if output.dtype not in ONNX_TYPES:
        g.unsupported(f"its result is of {output.dtype}, which ONNX does not have")
    stored = stored_type(output.tensor_type)
    return stored.dtype, stored.shape
