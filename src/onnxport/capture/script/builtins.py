"""What a scripted program does beside computing with tensors: sizes, types, optional values, texts, calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport import compat
from onnxport.capture.script.control_flow.control import same_tensor
from onnxport.capture.script.items import Item, Maybe, ScriptList, ScriptObject, Text, Uninitialized
from onnxport.capture.script.places import Place, Raised
from onnxport.capture.script.predicates import constantly
from onnxport.capture.script.reader import Handler, Reader, plain
from onnxport.errors import CaptureError
from onnxport.graph.ir import TensorType, Value, values_in


def size(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    tensor: Value = given[0]
    if len(given) == 1:
        return [ScriptList([reader.size(place, tensor, dim) for dim in range(len(tensor.shape))], "int")]
    if isinstance(given[1], Value):
        raise CaptureError(f"{place.where}: the size of a dimension that is only known at run time")
    return [reader.size(place, tensor, given[1])]


def rank(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return [len(given[0].shape)]


def element_count(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    tensor: Value = given[0]
    count = 1
    for length in tensor.shape:
        count = count * length if isinstance(length, int) else -1
        if count < 0:
            return None
    return [count]


def first_argument(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return [given[0]]


def dropped(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    """Nobody sees it in a file."""
    return [None] * place.node.outputsSize()


def unwrapped(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    item = given[0].item if isinstance(given[0], Maybe) else given[0]
    if item is None and place.node.kind() == "aten::_unwrap_optional":
        raise CaptureError(f"{place.where}: an optional value is None where the program needs it")
    return [item]


def is_none(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    """``x is None``, or whether two variables hold the same tensor; other uses of ``is`` compare bools."""
    left, right = map(same_tensor, given)
    optional = next((item for item in given if isinstance(item, Maybe)), None)
    if optional is not None:
        return [reader.negated(place, optional.present)]
    if left is None or right is None or _are_tensors(left, right):
        return [left is right]
    return None


def _are_tensors(left: Item, right: Item) -> bool:
    return isinstance(left, Value) and isinstance(right, Value) and left.is_tensor and right.is_tensor


def is_not_none(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    left, right = map(same_tensor, given)
    optional = next((item for item in given if isinstance(item, Maybe)), None)
    if optional is not None:
        return [optional.present]
    if left is None or right is None or _are_tensors(left, right):
        return [left is not right]
    return None


def text(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    """Texts are put together from constants, or for nobody to see."""
    arguments = [None if isinstance(item, (Text, ScriptObject)) else plain(item, place) for item in given]
    if any(isinstance(item, Text) for item in given) or any(map(values_in, arguments)):
        return [Text()]
    if place.node.kind() == "aten::format" and isinstance(arguments[0], str):
        return [arguments[0].format(*arguments[1:])]
    if place.node.kind() == "aten::percentFormat" and isinstance(arguments[0], str):
        filled = plain(given[1], place)
        return [arguments[0] % (tuple(filled) if isinstance(given[1], tuple) else (filled,))]
    return None


def raise_exception(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    raise Raised(place)


def uninitialized(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return [Uninitialized()]


def is_instance(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    wanted = {kind.kind() for kind in place.node.tys("types")}
    found = (
        "TensorType" if isinstance(given[0], Value) and given[0].is_tensor
        else {int: "IntType", float: "FloatType", bool: "BoolType", str: "StringType", type(None): "NoneType",
              tuple: "TupleType", ScriptList: "ListType"}.get(_python_type(given[0]), "")
    )  # fmt: skip
    return [found in wanted]


def _python_type(item: Item) -> type:
    return item.type.kind if isinstance(item, Value) and not item.is_tensor else type(item)  # type: ignore[union-attr]


def make_tensor(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    """``torch.tensor(numbers)``: a constant, or the numbers side by side."""
    wanted = None if len(given) < 2 or given[1] is None else compat.DTYPE_CODES[given[1]]
    data = plain(given[0], place)
    if not values_in(data):
        content = torch.tensor(data, dtype=wanted)
        return [Value(TensorType(content.dtype, tuple(content.shape)), data=content)]
    if not isinstance(given[0], ScriptList):
        return None
    numbers = side_by_side(reader, place, given[0])
    dtype = wanted or (torch.get_default_dtype() if numbers.dtype.is_floating_point else numbers.dtype)
    return [reader.converted(place, numbers, dtype, copy=True)]


def side_by_side(reader: Reader, place: Place, item: Item) -> Value:
    """Numbers, lists of them, and lists of such lists as one tensor of 64 bits."""
    if isinstance(item, Value):
        return item if item.is_tensor else reader.as_tensor(place, item, reader.number_dtype(item))
    if not isinstance(item, ScriptList):
        return as_constant_tensor(item)
    if item.items is None:
        return side_by_side(reader, place, item.state)
    stacked: Value = reader.emit(
        place, "aten::stack", tensors=[side_by_side(reader, place, part) for part in item.items], dim=0
    )
    return stacked


def as_constant_tensor(number: bool | int | float) -> Value:
    content = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)
    return Value(TensorType(content.dtype, ()), data=content)


def number_to_tensor(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    number = given[0]
    kind = _python_type(number)
    dtype = {bool: torch.bool, int: torch.int64}.get(kind, torch.float32)
    return [reader.as_tensor(place, number, dtype)]


# Calls


def call_function(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    name = given[0].output().type().annotation_str
    graph = compat.scripts.script_function_graph(name)
    if graph is None:
        raise Unresolved
    return [reader.call(graph, given[1:], place.frame.path, place.source)]


def call_method(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return _called(reader, place, place.node.s("name"), given)


def enter(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return _called(reader, place, "__enter__", given)


def leave(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return _called(reader, place, "__exit__", [*given, None, None, None])


def _called(reader: Reader, place: Place, name: str, given: list[Item]) -> Sequence[Item]:
    owner = given[0]
    if isinstance(owner, ScriptObject):
        graph = compat.scripts.script_method_graph(owner.script, owner.type_name, name)
        if graph is not None:
            path = owner.path if owner.path is not None else place.frame.path
            return [reader.call(graph, given, path, place.source)]
    raise Unresolved


def python_call(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    name = place.node.pyname() if hasattr(place.node, "pyname") else "a function"
    raise CaptureError(
        f"{place.where}: the scripted code calls {name}, which @torch.jit.ignore keeps in Python. Let it be scripted, "
        "or export the module without scripting it."
    )


class Unresolved(Exception):
    """A call whose function is not known here: the graph that holds it is to be inlined by torch."""


def fork(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    """Run at once: its result is the same."""
    return [reader.call(place.node.g("Subgraph"), given, place.frame.path, place.source)]


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
    "prim::Print": dropped,
    "aten::warn": dropped,
    "aten::set_grad_enabled": dropped,
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
