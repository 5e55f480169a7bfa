"""Handlers for sizes, types, optional values, strings and calls in scripted code."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport import compat
from onnxport.capture.script.binding import plain
from onnxport.capture.script.control_flow.control import same_tensor
from onnxport.capture.script.items import Item, Maybe, ScriptList, ScriptObject, Text, Uninitialized
from onnxport.capture.script.locations import Location, Raised
from onnxport.capture.script.predicates import constantly
from onnxport.capture.script.reader import Handler, Reader
from onnxport.errors import CaptureError
from onnxport.graph.ir import TensorType, Value, values_in


def size(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    tensor: Value = args[0]
    if len(args) == 1:
        return [ScriptList([reader.size(location, tensor, dim) for dim in range(len(tensor.shape))], "int")]
    if isinstance(args[1], Value):
        raise CaptureError(f"{location.where}: the size of a dimension that is only known at run time")
    return [reader.size(location, tensor, args[1])]


def rank(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [len(args[0].shape)]


def element_count(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    tensor: Value = args[0]
    count = 1
    for length in tensor.shape:
        count = count * length if isinstance(length, int) else -1
        if count < 0:
            return None
    return [count]


def first_argument(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [args[0]]


def ignored(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """``print`` and ``warn`` have no effect in a file."""
    return [None] * location.node.outputsSize()


def unwrapped(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    item = args[0].item if isinstance(args[0], Maybe) else args[0]
    if item is None and location.node.kind() == "aten::_unwrap_optional":
        raise CaptureError(f"{location.where}: an optional value is None where the program needs it")
    return [item]


def is_none(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """``x is None``, or whether two variables hold the same tensor; other uses of ``is`` compare bools."""
    left, right = map(same_tensor, args)
    optional = next((item for item in args if isinstance(item, Maybe)), None)
    if optional is not None:
        return [reader.negated(location, optional.present)]
    if left is None or right is None or _are_tensors(left, right):
        return [left is right]
    return None


def _are_tensors(left: Item, right: Item) -> bool:
    return isinstance(left, Value) and isinstance(right, Value) and left.is_tensor and right.is_tensor


def is_not_none(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    left, right = map(same_tensor, args)
    optional = next((item for item in args if isinstance(item, Maybe)), None)
    if optional is not None:
        return [optional.present]
    if left is None or right is None or _are_tensors(left, right):
        return [left is not right]
    return None


def text(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """Strings of constants are computed. Others become `Text`: they can only be printed or raised."""
    arguments = [None if isinstance(item, (Text, ScriptObject)) else plain(item, location) for item in args]
    if any(isinstance(item, Text) for item in args) or any(map(values_in, arguments)):
        return [Text()]
    if location.node.kind() == "aten::format" and isinstance(arguments[0], str):
        return [arguments[0].format(*arguments[1:])]
    if location.node.kind() == "aten::percentFormat" and isinstance(arguments[0], str):
        filled = plain(args[1], location)
        return [arguments[0] % (tuple(filled) if isinstance(args[1], tuple) else (filled,))]
    return None


def raise_exception(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    raise Raised(location)


def uninitialized(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [Uninitialized()]


def is_instance(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    wanted = {kind.kind() for kind in location.node.tys("types")}
    found = (
        "TensorType" if isinstance(args[0], Value) and args[0].is_tensor
        else {int: "IntType", float: "FloatType", bool: "BoolType", str: "StringType", type(None): "NoneType",
              tuple: "TupleType", ScriptList: "ListType"}.get(_python_type(args[0]), "")
    )  # fmt: skip
    return [found in wanted]


def _python_type(item: Item) -> type:
    return item.type.kind if isinstance(item, Value) and not item.is_tensor else type(item)  # type: ignore[union-attr]


def make_tensor(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """``torch.tensor(numbers)``: a constant, or a stack of the numbers."""
    wanted = None if len(args) < 2 or args[1] is None else compat.DTYPE_CODES[args[1]]
    data = plain(args[0], location)
    if not values_in(data):
        content = torch.tensor(data, dtype=wanted)
        return [Value(TensorType(content.dtype, tuple(content.shape)), data=content)]
    if not isinstance(args[0], ScriptList):
        return None
    numbers = side_by_side(reader, location, args[0])
    dtype = wanted or (torch.get_default_dtype() if numbers.dtype.is_floating_point else numbers.dtype)
    return [reader.converted(location, numbers, dtype, copy=True)]


def side_by_side(reader: Reader, location: Location, item: Item) -> Value:
    """Numbers, lists of numbers and nested lists as one tensor of 64-bit elements."""
    if isinstance(item, Value):
        return item if item.is_tensor else reader.as_tensor(location, item, reader.number_dtype(item))
    if not isinstance(item, ScriptList):
        return as_constant_tensor(item)
    if item.items is None:
        return side_by_side(reader, location, item.state)
    stacked: Value = reader.emit(
        location, "aten::stack", tensors=[side_by_side(reader, location, part) for part in item.items], dim=0
    )
    return stacked


def as_constant_tensor(number: bool | int | float) -> Value:
    content = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)
    return Value(TensorType(content.dtype, ()), data=content)


def number_to_tensor(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    number = args[0]
    kind = _python_type(number)
    dtype = {bool: torch.bool, int: torch.int64}.get(kind, torch.float32)
    return [reader.as_tensor(location, number, dtype)]


# Calls


def call_function(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    name = args[0].output().type().annotation_str
    graph = compat.scripts.script_function_graph(name)
    if graph is None:
        raise Unresolved
    return [reader.call(graph, args[1:], location.frame.path, location.source)]


def call_method(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return _called(reader, location, location.node.s("name"), args)


def enter(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return _called(reader, location, "__enter__", args)


def leave(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return _called(reader, location, "__exit__", [*args, None, None, None])


def _called(reader: Reader, location: Location, name: str, args: list[Item]) -> Sequence[Item]:
    owner = args[0]
    if isinstance(owner, ScriptObject):
        graph = compat.scripts.script_method_graph(owner.script, owner.type_name, name)
        if graph is not None:
            path = reader.scope(owner.path, name, location.frame.path)
            return [reader.call(graph, args, path, location.source)]
    raise Unresolved


def python_call(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    name = location.node.pyname() if hasattr(location.node, "pyname") else "a function"
    raise CaptureError(
        f"{location.where}: the scripted code calls {name}, which @torch.jit.ignore keeps in Python. "
        "Let it be scripted, or export the module without scripting it."
    )


class Unresolved(Exception):
    """A call of a function that is not known here: torch has to inline it into the graph."""


def fork(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """Run at the call: the result is the same."""
    return [reader.call(location.node.g("Subgraph"), args, location.frame.path, location.source)]


HANDLERS: dict[str, Handler] = {
    "aten::size": size,
    "aten::dim": rank,
    "aten::numel": element_count,
    "aten::is_scripting": constantly(True),
    "aten::is_autocast_enabled": constantly(False),
    "aten::is_autocast_cpu_enabled": constantly(False),
    "aten::is_grad_enabled": constantly(False),
    "aten::has_torch_function": constantly(False),
    "aten::requires_grad_": first_argument,
    "prim::data": first_argument,
    "prim::unchecked_cast": unwrapped,
    "prim::unchecked_unwrap_optional": unwrapped,
    "aten::_unwrap_optional": unwrapped,
    "aten::__is__": is_none,
    "aten::__isnot__": is_not_none,
    "aten::format": text,
    "aten::percentFormat": text,
    "aten::str": text,
    "prim::Print": ignored,
    "aten::warn": ignored,
    "aten::set_grad_enabled": ignored,
    "prim::RaiseException": raise_exception,
    "prim::Uninitialized": uninitialized,
    "prim::isinstance": is_instance,
    "aten::tensor": make_tensor,
    "prim::NumToTensor": number_to_tensor,
    "prim::CallFunction": call_function,
    "prim::CallMethod": call_method,
    "prim::Enter": enter,
    "prim::Exit": leave,
    "prim::PythonOp": python_call,
    "prim::fork": fork,
    "aten::wait": first_argument,
}
