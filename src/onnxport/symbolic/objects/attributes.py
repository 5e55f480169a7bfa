"""Attributes of nodes in symbolic functions: ``alpha_f=0.5``, ``axes_i=[0, 1]``, ``value_t=tensor``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import CustomOperatorError
from onnxport.graph.sizes import SizeExpr
from onnxport.lower.dtypes import onnx_type
from onnxport.symbolic.objects.subgraphs import Block
from onnxport.symbolic.objects.values import GraphObject, Value

SUFFIXED = re.compile(r"^(.+)_([ifstgz])s?$")


def read_attributes(graph: GraphObject, given: dict[str, Any]) -> dict[str, ir.Attr]:
    """The attributes by name. The letter after a name is the type; without one it follows from the value."""
    found: dict[str, ir.Attr] = {}
    for key, value in given.items():
        if value is None:
            continue
        match = SUFFIXED.match(key)
        name, letter = match.groups() if match else (key, _letter(graph, key, value))
        found[name] = attribute(graph, name, letter, value)
    return found


def attribute(graph: GraphObject, name: str, letter: str, value: Any) -> ir.Attr:
    """An attribute of the type in the letter; of its list type for a list or tuple."""
    value = _constant(graph, name, value)
    if letter == "z" or (letter == "t" and not isinstance(value, (list, tuple))):
        return ir.AttrTensor(name, ir.tensor_adapters.TorchTensor(as_tensor(graph, name, value).contiguous()))
    if letter == "g":
        return ir.AttrGraph(name, value.close() if isinstance(value, Block) else value)
    if isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim > 0:
        value = value.flatten().tolist()
    try:
        if not isinstance(value, (list, tuple)):
            return _single(name, letter, value)
        return PLURAL[letter](name, [_constant(graph, name, element) for element in value])
    except (TypeError, ValueError) as error:
        raise CustomOperatorError(
            f"{graph.builder.where()}: the attribute {name}_{letter} cannot be {value!r}: {error}"
        ) from error


def as_tensor(graph: GraphObject, name: str, value: Any) -> torch.Tensor:
    """A torch tensor from a tensor, an array or a number."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.from_numpy(np.array(value))
    if isinstance(value, (bool, int, float, list, tuple)):
        return torch.tensor(value)
    raise CustomOperatorError(f"{graph.builder.where()}: {name} must be a tensor, not {value!r}")


def content_of(attr: ir.Attr) -> Any:
    """An attribute as a Python value, tensors as torch's."""
    if attr.type == ir.AttributeType.TENSOR:
        return torch.from_numpy(np.array(attr.as_tensor().numpy()))
    return list(attr.value) if isinstance(attr.value, (list, tuple)) else attr.value


def _constant(graph: GraphObject, name: str, value: Any) -> Any:
    """The content of a value, which must be a constant."""
    if isinstance(value, Value):
        content = value.toIValue()
        if content is None or (isinstance(content, list) and None in content):
            raise CustomOperatorError(
                f"{graph.builder.where()}: the attribute {name} is a value that is only known at run time; an "
                "attribute is a constant. Read constants with symbolic_helper.parse_args or _get_const, and give "
                "values as inputs."
            )
        return content
    if isinstance(value, SizeExpr):
        raise CustomOperatorError(
            f"{graph.builder.where()}: the attribute {name} would be a size of a dynamic axis, which is only known at "
            "run time. Leave the axis static, or write the operator so that it takes the size as an input."
        )
    return value


def _letter(graph: GraphObject, name: str, value: Any) -> str:
    """The type of an attribute without a letter."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(first, Value):
        first = first.toIValue()
    if isinstance(first, (Block, ir.Graph)):
        return "g"
    if isinstance(first, (torch.Tensor, np.ndarray)):
        return "t"
    if isinstance(first, (str, bytes)):
        return "s"
    floats = isinstance(value, (list, tuple)) and any(isinstance(element, float) for element in value)
    return "f" if floats or isinstance(first, float) else "i"


def _number(value: Any) -> Any:
    """A tensor or array of one element as a number; others unchanged."""
    return value.item() if isinstance(value, (torch.Tensor, np.ndarray, np.generic)) else value


def _int(value: Any) -> int:
    if isinstance(value, torch.dtype):
        return int(onnx_type(value))
    number = _number(value)
    if isinstance(number, float) and not number.is_integer():
        raise ValueError("it is not an integer")
    return int(number)


def _string(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError("it is not a string")
    return value


def _ints(name: str, values: Sequence[Any]) -> ir.Attr:
    return ir.AttrInt64s(name, [_int(value) for value in values])


def _floats(name: str, values: Sequence[Any]) -> ir.Attr:
    return ir.AttrFloat32s(name, [float(_number(value)) for value in values])


def _strings(name: str, values: Sequence[Any]) -> ir.Attr:
    return ir.AttrStrings(name, [_string(value) for value in values])


def _tensors(name: str, values: Sequence[Any]) -> ir.Attr:
    if all(isinstance(value, (bool, int, float)) for value in values):
        return ir.AttrTensor(name, ir.tensor_adapters.TorchTensor(torch.tensor(list(values))))
    return ir.AttrTensors(name, [ir.tensor_adapters.TorchTensor(torch.as_tensor(value).cpu()) for value in values])


def _single(name: str, letter: str, value: Any) -> ir.Attr:
    if letter == "f":
        return ir.AttrFloat32(name, float(_number(value)))
    return ir.AttrInt64(name, _int(value)) if letter == "i" else ir.AttrString(name, _string(value))


PLURAL: dict[str, Callable[[str, Sequence[Any]], ir.Attr]] = {"i": _ints, "f": _floats, "s": _strings, "t": _tensors}
