"""Operators that are equivalent to others: copies of views, operators on lists, torch's own primitives."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from onnxport.graph.ir import Argument, Node, Parameter, Schema, TensorType, Value, schema_of, schemas_of

FOREACH = "aten::_foreach_"
COPY = "_copy"
# Operators on one tensor with a name other than that of the operator on lists.
SINGLE = {
    "maximum": "aten::clamp_min",
    "minimum": "aten::clamp_max",
    "norm": "aten::linalg_vector_norm",
    "powsum": "aten::linalg__powsum",
    "zero": "aten::zeros_like",
}
# torch's primitives that have another name in ATen; the others have the same.
PRIMITIVES = {
    "bessel_i0": "aten::i0",
    "bessel_i0e": "aten::special_i0e",
    "bessel_i1": "aten::special_i1",
    "bessel_i1e": "aten::special_i1e",
    "bessel_j0": "aten::special_bessel_j0",
    "bessel_j1": "aten::special_bessel_j1",
    "spherical_bessel_j0": "aten::special_spherical_bessel_j0",
    "erf_inv": "aten::erfinv",
    "erfcx": "aten::special_erfcx",
    "ndtri": "aten::special_ndtri",
    "zeta": "aten::special_zeta",
    "convert_element_type": "aten::_to_copy",
    "collapse": "aten::flatten",
    "collapse_view": "aten::flatten",
    "copy_strided": "aten::clone",
    "device_put": "aten::alias",
    "view_of": "aten::alias",
    "rev": "aten::flip",
    "shift_left": "aten::bitwise_left_shift",
    "shift_right_arithmetic": "aten::bitwise_right_shift",
    "transpose": "aten::permute",
}
# Internal operators that are public ones with other parameters.
INTERNAL = {
    "aten::_aminmax": "aten::aminmax",
    "aten::_is_all_true": "aten::all",
    "aten::_is_any_true": "aten::any",
    "aten::_neg_view": "aten::neg",
    "aten::_stack": "aten::stack",
    "aten::_slow_conv2d_forward": "aten::conv2d",
    "aten::slow_conv_dilated2d": "aten::conv2d",
    "aten::slow_conv_dilated3d": "aten::conv3d",
    "aten::slow_conv3d_forward": "aten::conv3d",
    "aten::slow_conv_transpose2d": "aten::conv_transpose2d",
    "aten::slow_conv_transpose3d": "aten::conv_transpose3d",
}
# Parameters of primitives, and of operators on lists, by the names that ATen has for them.
RENAMED = {"output_dtype": "dtype", "dims": "dim", "pred": "condition", "scalars": "value"}
# Arguments about device and memory format, which have no meaning in a graph.
PLACEMENT = frozenset({"device", "requires_grad", "non_blocking", "stride"})
# Parameters of a convolution that follow from its weight.
READ_OFF = "kernel_size"


def equivalent(node: Node) -> list[Node] | None:
    """The same node by more common ATen operators; None if there are none."""
    if node.op.startswith(FOREACH):
        return _each(node)
    if node.op.startswith("prims::"):
        return _primitive(node)
    if node.op in INTERNAL:
        arguments = {name: argument for name, argument in node.inputs.items() if name != READ_OFF}
        found = _call(node, INTERNAL[node.op], arguments, node.outputs)
        return None if found is None else [found]
    return _view(node) if node.op.endswith(COPY) else None


def _view(node: Node) -> list[Node] | None:
    """The view for a copy of a view: without mutation they are the same."""
    op = node.op.removesuffix(COPY)
    if schema_of(op, node.overload) is None:
        return None
    renamed = node.like(op, node.inputs, node.outputs, overload=node.overload)
    renamed.returns_list = node.returns_list
    return [_made(renamed)]


def _each(node: Node) -> list[Node] | None:
    """One node for each element of the lists."""
    name = node.op.removeprefix(FOREACH)
    made: list[Node] = []
    for position, output in enumerate(node.outputs):
        arguments: dict[str, Argument] = {}
        for parameter, argument in node.inputs.items():
            arguments[parameter] = argument[position] if isinstance(argument, list) else argument
            if parameter == "scalars" and isinstance(argument, Value):
                number = Value(TensorType(argument.dtype, ()))
                made.append(
                    node.like("aten::select", {"self": argument, "dim": 0, "index": position}, [number], overload="int")
                )
                arguments[parameter] = number
        found = _call(node, SINGLE.get(name, f"aten::{name}"), arguments, [output])
        if found is None:
            return None
        made.append(found)
    return made


def _primitive(node: Node) -> list[Node] | None:
    name = node.op.removeprefix("prims::")
    if name == "div" and not node.outputs[0].dtype.is_floating_point:
        arguments = {**node.inputs, "rounding_mode": "trunc"}
    else:
        arguments = {name: argument for name, argument in node.inputs.items() if name not in PLACEMENT}
    found = _call(node, PRIMITIVES.get(name, f"aten::{name}"), arguments, node.outputs)
    return None if found is None else [found]


def _call(node: Node, op: str, arguments: dict[str, Argument], outputs: Sequence[Value]) -> Node | None:
    """A call of the overload that accepts these arguments: by name where it has the name, else in order."""
    for overload, schema in _overloads(op):
        bound = _bound(schema, arguments)
        if bound is not None and len(schema.returns) == len(outputs):
            return _made(node.like(op, bound, outputs, overload=overload))
    return None


def _made(node: Node) -> Node:
    for output in node.outputs:
        output.node = node
    return node


@functools.cache
def _overloads(op: str) -> list[tuple[str, Schema]]:
    found = schemas_of(op) if op.startswith("aten::") else ()
    return [(overload, schema) for overload, schema in found if not schema.mutates]


def _bound(schema: Schema, arguments: dict[str, Argument]) -> dict[str, Argument] | None:
    """The arguments by parameter name, with defaults for the rest; None if they do not fit."""
    parameters = {parameter.name: parameter for parameter in schema.parameters}
    free = iter([p for p in schema.parameters if not p.keyword_only])
    bound: dict[str, Argument] = {}
    for name, argument in arguments.items():
        named = parameters.get(RENAMED.get(name, name))
        if named is None and argument is None:
            continue
        parameter = named or next(_unbound(free, bound), None)
        if parameter is None or not _fits(parameter, argument):
            return None
        bound[parameter.name] = argument
    if any(p.required and p.name not in bound for p in schema.parameters):
        return None
    return {p.name: bound.get(p.name, p.default) for p in schema.parameters}


def _unbound(parameters: Iterator[Parameter], bound: dict[str, Any]) -> Iterator[Parameter]:
    return (parameter for parameter in parameters if parameter.name not in bound)


def _fits(parameter: Parameter, argument: Argument) -> bool:
    is_tensor = isinstance(argument, Value) and argument.is_tensor
    if is_tensor and argument.shape == () and parameter.type == "number":
        return True
    if is_tensor or "Tensor" in parameter.type:
        if isinstance(argument, list):
            return parameter.type.startswith("List[Tensor]")
        return parameter.type in ("Tensor", "Optional[Tensor]") and (is_tensor or argument is None)
    return isinstance(argument, list) == ("List" in parameter.type) or argument is None
