"""Calls of operators with sizes that vary, and what torch itself makes of them at each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.graph.interpret import operator
from onnxport.graph.ir import NUMBER, Node, ScalarType, TensorType, Value, schema_of
from onnxport.graph.shapes import Requirements, result_shapes
from onnxport.graph.sizes import Shape, SizeExpr

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError, ArithmeticError)
FILLS: tuple[Callable[[Sequence[int]], torch.Tensor], ...] = (
    torch.zeros,
    torch.ones,
    lambda sizes: torch.eye(*sizes[-2:]).expand(*sizes).clone(),  # some take matrices that have an inverse only
)


def tensor(*sizes: Any, dtype: torch.dtype = torch.float32) -> Value:
    return Value(TensorType(dtype, sizes))


def index(*sizes: Any) -> Value:
    return tensor(*sizes, dtype=torch.int64)


def call(name: str, *args: Any, **keywords: Any) -> Node:
    """A node: of ``slice.Tensor``, say, with the defaults of the schema."""
    op, _, overload = (name if "::" in name else f"aten::{name}").partition(".")
    schema = schema_of(op, overload)
    assert schema is not None, name
    given = {parameter.name: argument for parameter, argument in zip(schema.parameters, args, strict=False)}
    given |= keywords
    inputs = {p.name: _argument(given[p.name]) if p.name in given else p.default for p in schema.parameters}
    return Node(op, inputs, (), overload=overload)


def _argument(given: Any) -> Any:
    """Expressions are numbers that are known when the file runs."""
    if isinstance(given, SizeExpr):
        value = Value(ScalarType(given.kind), size=given if given.kind is int else None)
        value.node = Node(NUMBER, {"expression": given}, ())
        return value
    return [_argument(element) for element in given] if isinstance(given, (list, tuple)) else given


def recorded(op: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Node:
    """The node of a call that torch made."""
    schema = op._schema

    def value(given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            return tensor(*given.shape, dtype=given.dtype)
        return [value(element) for element in given] if isinstance(given, (list, tuple)) else given

    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    return call(name, *map(value, args), **{key: value(given) for key, given in keywords.items()})


# What torch makes of a call


def outcome(node: Node, point: int, device: str) -> list[tuple[int, ...]] | str:
    """The shapes of the results at a point, or why torch refuses the arguments."""
    refusal = ""
    for fill in FILLS if device == "cpu" else (lambda sizes: torch.empty(sizes, device="meta"),):
        try:
            return shapes_of(_called(node, point, device, fill))
        except REFUSALS as error:
            refusal = refusal or f"{type(error).__name__}: {error}"
    # MKL, and no operator, refuses transforms of no elements.
    return outcome(node, point, "meta") if "MKL FFT error" in refusal else refusal


def _called(node: Node, point: int, device: str, fill: Callable[[Sequence[int]], torch.Tensor]) -> Any:
    arguments = {name: _at(given, point, fill) for name, given in node.inputs.items()}
    if "device" in arguments:
        arguments["device"] = torch.device(device)
    return operator(node.op, node.overload)(**arguments)


def _at(given: Any, point: int, fill: Callable[[Sequence[int]], torch.Tensor]) -> Any:
    if isinstance(given, Value):
        if given.is_tensor:
            return fill(shape_at(given.shape, point)).to(given.dtype)
        assert given.node is not None
        return given.node.inputs["expression"].at[point]
    return [_at(element, point, fill) for element in given] if isinstance(given, list) else given


def shape_at(shape: Shape, point: int) -> tuple[int, ...]:
    return tuple(size.at[point] if isinstance(size, SizeExpr) else size for size in shape)


def shapes_of(results: Any) -> list[tuple[int, ...]]:
    """The shapes of tensors, lists of them taken apart."""
    return [tuple(result.shape) for result in flat(results)]


def flat(results: Any) -> Iterator[Any]:
    if isinstance(results, (tuple, list)):
        for result in results:
            yield from flat(result)
    elif results is not None:
        yield results


# What the shape function tells


@dataclass
class Told:
    """The shapes of the results, and the points at which the sizes are refused."""

    shapes: list[Shape]
    refused: dict[int, str]

    def at(self, point: int) -> list[tuple[int, ...]]:
        return [shape_at(shape, point) for shape in self.shapes]


def told(node: Node, points: int) -> Told | None:
    refused: dict[int, str] = {}

    def refuse(point: int, reason: str) -> None:
        refused.setdefault(point, reason)

    shapes = result_shapes(node, Requirements(points, refuse))
    return None if shapes is None else Told(shapes, refused)


def mistakes(node: Node, points: int) -> list[str]:
    """Where the shape function tells something else than the operator itself gives.

    Results that are other in number, or have another number of axes, are refusals: a record has one of each.
    """
    first = outcome(node, 0, "cpu")
    assert not isinstance(first, str), f"torch refuses the first point: {first}"
    found = told(node, points)
    if found is None:
        return [f"{node.full_name}: there is no function, or it does not know the call"]
    wrong = []
    for point in range(points):
        real, meta = outcome(node, point, "cpu"), outcome(node, point, "meta")
        if not isinstance(real, str) and list(map(len, real)) != list(map(len, first)):
            real = "results of another form"
        if not isinstance(real, str) and not isinstance(meta, str):
            real = meta
        refused = point in found.refused
        if refused if isinstance(real, str) else real == found.at(point) and refused <= isinstance(meta, str):
            continue
        given = {name: _shown(argument, point) for name, argument in node.inputs.items()}
        answer = found.refused.get(point, found.at(point))
        wrong.append(f"{node.full_name} of {given}: {real} (without memory {meta}), and not {answer}")
    return wrong


def _shown(given: Any, point: int) -> Any:
    if isinstance(given, Value):
        return shape_at(given.shape, point) if given.is_tensor else _at(given, point, torch.zeros)
    return [_shown(element, point) for element in given] if isinstance(given, list) else given
