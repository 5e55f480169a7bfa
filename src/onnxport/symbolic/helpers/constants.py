"""Reads arguments that are constants."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.errors import CustomOperatorError, UnsupportedOperatorError
from onnxport.symbolic.objects.graph import GraphContext
from onnxport.symbolic.objects.values import Value

DESCRIPTORS = {
    "v": "a value", "i": "an integer", "f": "a float", "b": "a bool", "s": "a string", "t": "a tensor",
    "is": "a list of integers", "fs": "a list of floats", "none": "anything",
}  # fmt: skip


def parse_args(*descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Read the arguments of a symbolic function as Python values, one descriptor for each.

    v: the value as it is; i, f, b, s: an integer, float, bool or string; is, fs: a list of them; t: a tensor; none: as
    it is, for an argument that is not used.
    """
    unknown = [descriptor for descriptor in descriptors if descriptor not in DESCRIPTORS]
    if unknown:
        raise CustomOperatorError(f"parse_args: {unknown[0]!r} is none of {', '.join(DESCRIPTORS)}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", repr(function))
        names = list(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def parsed(g: Any, *arguments: Any, **keywords: Any) -> Any:
            if len(arguments) > len(descriptors):
                raise CustomOperatorError(
                    f"{name} has parse_args for {len(descriptors)} arguments and is given {len(arguments)}"
                )
            read = [_parse_arg(a, d, arg_name=name) for a, d in zip(arguments, descriptors, strict=False)]
            wanted = dict(zip(names, descriptors, strict=False))
            named = {key: _parse_arg(a, wanted.get(key, "v"), arg_name=name) for key, a in keywords.items()}
            return function(g, *read, **named)

        return parsed

    return decorate


def quantized_args(*flags: bool, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark the arguments that may be quantized. Values of a graph are dequantized here: nothing is left to do."""
    return lambda function: function


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def _is_none(x: Any) -> bool:
    return x is None or (isinstance(x, Value) and x.is_none)


def _is_constant(value: Any) -> bool:
    """Whether the content is known: anything that is not a value, and constants of the graph."""
    return not isinstance(value, Value) or (
        value.elements is None and (value.lowered is None or value.data is not None)
    )


def _is_onnx_constant(value: Any) -> bool:
    return isinstance(value, Value) and value.node().kind() == "onnx::Constant"


def _is_packed_list(value: Any) -> bool:
    return isinstance(value, Value) and value.elements is not None


_is_list = _is_packed_list


def _unpack_list(value: Value) -> list[Value]:
    """The values in a list."""
    if value.elements is None:
        raise CustomOperatorError(f"{value.graph.builder.where()}: {value} is not a list")
    return list(value.elements)


_unpack_tuple = _unpack_list


def _is_scalar_list(value: Any) -> bool:
    return _is_packed_list(value) and all(_is_constant(element) for element in value)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Value) and x.type().kind() == "TensorType"


def _scalar(x: Any) -> Any:
    """The one number in a tensor or constant."""
    if isinstance(x, Value):
        x = _get_const(x, "t", "_scalar") if x.data is not None else x.toIValue()
    if isinstance(x, torch.Tensor):
        if x.numel() != 1:
            raise CustomOperatorError(f"_scalar: a tensor of {x.numel()} elements is not one number")
        return x.item()
    return x


def _get_const(value: Any, desc: str, arg_name: str = "an argument") -> Any:
    """The content of a constant; an error for anything else."""
    if not _is_constant(value) and not (_is_packed_list(value) and _is_scalar_list(value)):
        raise _not_constant(value, desc, arg_name)
    return _parse_arg(value, desc, arg_name)


def _maybe_get_const(value: Any, desc: str) -> Any:
    """The content of a constant; anything else as it is."""
    if _is_none(value) or not isinstance(value, Value):
        return None if isinstance(value, Value) and desc != "v" else value
    if desc in ("is", "fs") and (_is_scalar_list(value) or _is_constant(value)):
        return _parse_arg(value, desc)
    return _parse_arg(value, desc) if _is_constant(value) else value


def _maybe_get_scalar(value: Any) -> Any:
    """The tensor of a constant without dimensions; anything else as it is."""
    if isinstance(value, Value) and value.data is not None and value.data.dim() == 0:
        return value.data
    return value


def _parse_arg(value: Any, desc: str, arg_name: str = "an argument", node_name: str | None = None) -> Any:
    """An argument converted as its descriptor says; anything that is not a value is unchanged."""
    if desc in ("none", "v") or not isinstance(value, Value):
        return value
    if value.is_none:
        return None
    if value.elements is not None:
        if desc not in ("is", "fs"):
            raise _not_constant(value, desc, arg_name)
        return [_parse_arg(element, desc[0], arg_name) for element in value.elements]
    content = value.toIValue()
    if content is None and desc == "t" and value.lowered is not None:
        content = value.lowered.data  # that of a parameter
    if content is None:
        raise _not_constant(value, desc, arg_name)
    try:
        return READERS[desc](content)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CustomOperatorError(
            f"{value.graph.builder.where()}: {content!r} is given to {arg_name} where {DESCRIPTORS[desc]} is needed"
        ) from error


def _number(content: Any) -> Any:
    if isinstance(content, str):
        raise TypeError("a string is not a number")
    return content.item() if isinstance(content, torch.Tensor) else content


def _list(content: Any, kind: Callable[[Any], Any]) -> list[Any]:
    if isinstance(content, str):
        raise TypeError("a string is not a list")
    elements = content.flatten().tolist() if isinstance(content, torch.Tensor) else [content]
    return [kind(element) for element in elements]


def _string(content: Any) -> str:
    if not isinstance(content, str):
        raise TypeError("it is not a string")
    return content


READERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda content: int(_number(content)),
    "f": lambda content: float(_number(content)),
    "b": lambda content: bool(_number(content)),
    "s": _string,
    "t": lambda content: content if isinstance(content, torch.Tensor) else torch.tensor(_number(content)),
    "is": lambda content: _list(content, int),
    "fs": lambda content: _list(content, float),
}


def _node_get(node: Any, key: str) -> Any:
    """An attribute of a node."""
    return node[key]


def _not_constant(value: Value, desc: str, arg_name: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"{value.graph.builder.where()}: {arg_name} needs {DESCRIPTORS.get(desc, desc)} that is constant, and is given "
        f"{value}, from a {value.node().kind()} node: it depends on data or on the size of a dynamic axis"
    )


def graph_and_rest(arguments: Sequence[Any]) -> tuple[GraphContext | None, list[Any]]:
    """The graph object, which some helpers took first in older versions and some do not, apart from the rest."""
    if arguments and (isinstance(arguments[0], GraphContext) or hasattr(arguments[0], "original_node")):
        return arguments[0], list(arguments[1:])
    return None, list(arguments)
