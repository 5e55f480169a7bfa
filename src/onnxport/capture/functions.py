"""Calls of autograd Functions that stay one node: those with a ``symbolic``, and others that are to be kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np
import torch

from onnxport import compat
from onnxport.errors import CaptureError
from onnxport.graph.ir import Argument, PythonCall, Source, Varying, schema_of

PYTHON_OP = "prim::PythonOp"


def has_symbolic(function: Any) -> bool:
    """Whether an autograd Function says itself how it is exported."""
    return getattr(function, "symbolic", None) is not None


def running_functions() -> Iterator[Any]:
    """The autograd Functions whose forward is running, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "apply" and frame.f_code.co_filename == compat.functions.FILE:
            yield frame.f_locals["cls"]
        frame = frame.f_back


def function_of(node: Any) -> Any:
    """The class of the autograd Function that a traced node calls."""
    return node.pyobj().__self__


def call_of(node: Any) -> PythonCall:
    """The call that a traced node stands for; tensors are None among its arguments."""
    convention = node.cconv()
    constants = iter(node.scalar_args())
    arguments = tuple(next(constants) if letter == "c" else None for letter in convention)
    return PythonCall(function_of(node), arguments, convention, is_tensor(node.output().type()), tuple(_shared(node)))


def is_tensor(kind: Any) -> tuple[bool, ...]:
    """Which of the results are tensors: what is none has a type without a dtype."""
    kinds = kind.elements() if kind.kind() == "TupleType" else [kind]
    return tuple(element.kind() == "TensorType" and element.dtype() is not None for element in kinds)


def _shared(node: Any) -> Iterator[int]:
    """The tensors among the arguments whose memory some result shares: each by its place among the tensors."""
    inner = node.g("Subgraph")
    entries = {value.unique(): place for place, value in enumerate(inner.inputs())}
    for value in inner.outputs():
        while value.unique() not in entries:
            made = value.node()
            schema = schema_of(made.kind(), _overload(made)) if "::" in made.kind() else None
            source = schema.view_of() if schema else None
            if schema is None or source is None:
                break
            value = made.inputsAt(next(i for i, p in enumerate(schema.parameters) if p.name == source))
        else:
            yield entries[value.unique()]


def _overload(node: Any) -> str:
    return "" if node.kind().startswith("prim::") else str(node.schema().partition("(")[0].partition(".")[2])


def common_call(
    calls: Sequence[PythonCall],
    tensors: Sequence[Argument],
    source: Source | None,
    follow: Callable[[Sequence[int | float]], Argument],
) -> dict[str, Argument]:
    """The arguments of a node for one call in several traces, by their places.

    A number that differs is one that Python computed from a size: ``follow`` makes it a value.
    """
    given = iter(tensors)
    inputs: dict[str, Argument] = {"call": calls[0]}
    for place, letter in enumerate(calls[0].convention):
        if letter == "d":
            inputs[str(place)] = next(given)
            continue
        constants = [call.arguments[place] for call in calls]
        common = _common(constants, source, follow)
        if common is not constants[0]:
            inputs[str(place)] = common
    return inputs


def _common(
    constants: Sequence[Any], source: Source | None, follow: Callable[[Sequence[int | float]], Argument]
) -> Argument:
    """The constant itself if it is the same in every trace."""
    first = constants[0]
    if all(_same(first, other) for other in constants[1:]):
        return first
    if all(type(constant) in (int, float) for constant in constants):
        return follow(constants)
    if all(type(c) in (list, tuple) and len(c) == len(first) for c in constants):
        elements = [_common(column, source, follow) for column in zip(*constants, strict=True)]
        return elements if type(first) is list else tuple(elements)
    return Varying(tuple(constants), source)


def _same(left: Any, right: Any) -> bool:
    """Whether two constants say the same; objects without an equality of their own are compared by their attributes."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.shape == right.shape and left.dtype == right.dtype and bool(torch.equal(left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    compares = any("__eq__" in vars(base) for base in type(left).__mro__ if base is not object)
    if not compares and hasattr(left, "__dict__"):
        return _same(vars(left), vars(right))
    return bool(left == right) or (left != left and right != right)


def check_nested_tensors(inputs: int) -> None:
    """Refuse a tensor that depends on the first ``inputs`` of the trace where it is hidden in another argument.

    The trace does not show it, and a symbolic function would take it for a constant.
    """
    graph = compat.traced_graph()
    calls = list(graph.findAllNodes(PYTHON_OP))
    entries = [value.unique() for value in graph.inputs()] if calls else []
    for node in calls:
        for tensor in _tensors_in(node.scalar_args()):
            value = compat.traced_value(tensor)
            kind = "" if value is None else value.node().kind()
            if kind in ("", "prim::Constant") or (kind == "prim::Param" and value.unique() not in entries[:inputs]):
                continue
            raise CaptureError(
                f"the autograd Function {node.pyname()} is given a tensor inside a {_holders(node)}, where a trace "
                "does not show it. Hand it to apply as an argument of its own."
            )


def _holders(node: Any) -> str:
    held = [argument for argument in node.scalar_args() if any(True for _ in _tensors_in([argument]))]
    return " or ".join(dict.fromkeys(type(argument).__name__ for argument in held))


def _tensors_in(content: Any) -> Iterator[torch.Tensor]:
    if isinstance(content, torch.Tensor):
        yield content
    elif isinstance(content, dict):
        yield from _tensors_in(list(content.values()))
    elif isinstance(content, (list, tuple)):
        for element in content:
            yield from _tensors_in(element)
