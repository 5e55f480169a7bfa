"""Calls the shape function of a node."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from onnxport.graph.interpret import has_tag
from onnxport.graph.ir import NUMBER, Node, Value, schema_of
from onnxport.graph.shapes import pointwise
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.shapes.table import FUNCTIONS, OVERLOADS, ShapeFunction
from onnxport.graph.sizes import Shape


@functools.cache
def function_of(op: str, overload: str) -> ShapeFunction | None:
    """The shape function of an overload."""
    if (op, overload) in OVERLOADS:
        return OVERLOADS[op, overload]
    if has_tag(op, overload, torch.Tag.pointwise):
        return pointwise.pointwise
    is_reduction = has_tag(op, overload, torch.Tag.reduction)
    function = pointwise.reduction if is_reduction else FUNCTIONS.get(op)
    return function if function is not None and _fits(function, op, overload) else None


def _fits(function: ShapeFunction, op: str, overload: str) -> bool:
    """Whether an overload has the parameters that a function needs."""
    schema = schema_of(op, overload)
    parameters = [parameter.name for parameter in schema.parameters] if schema is not None else []
    needed = inspect.signature(function).parameters.values()
    names = [p.name for p in needed if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return all(name in parameters for name in names[1:] if name != "node")


def result_shapes(node: Node, require: Requirements) -> list[Shape] | None:
    """The shapes of a node's results, with lists flattened; None if no shape function covers the call."""
    function = function_of(node.op, node.overload)
    if function is None or "out" in node.inputs:
        return None
    # In an elementwise operator no size follows from a number.
    any_number = function in (pointwise.pointwise, pointwise.reduction, pointwise.like)
    try:
        arguments = {name: _bound(argument, any_number) for name, argument in node.inputs.items()}
        found = function(require, node=node, **arguments)
    except NotKnown:
        return None
    return [found] if isinstance(found, tuple) else found


def _bound(argument: Any, any_number: bool) -> Any:
    """An argument for shape functions: the shape of a tensor, the expression of a number."""
    if isinstance(argument, Value):
        if argument.is_tensor:
            return argument.shape
        if argument.size is not None:
            return argument.size
        made_by = argument.node
        if made_by is not None and made_by.op == NUMBER:
            return made_by.inputs["expression"]
        if any_number:
            return argument
        raise NotKnown
    return [_bound(element, any_number) for element in argument] if isinstance(argument, list) else argument
