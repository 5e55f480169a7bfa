"""Reductions of lists of numbers, ``divmod`` and truth values in scripted code."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from onnxport.capture.script.items import Item, ScriptList
from onnxport.capture.script.list_operators import list_only
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Handler, Reader
from onnxport.errors import CaptureError
from onnxport.graph.ir import Value

KINDS = {"int": int, "float": float, "bool": bool}


def _of_all(pair: str, tensor: str, kinds: Sequence[str]) -> Handler:
    """A reduction of a list: ``pair`` is the operator on two numbers, ``tensor`` the one on a list that is a tensor."""

    @list_only
    def handler(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
        numbers: ScriptList = args[0]
        if len(args) > 1 or not (numbers.items is None or any(isinstance(item, Value) for item in numbers.items)):
            return None
        if numbers.kind not in kinds:
            kind = location.node.kind()
            raise CaptureError(f"{location.where}: {kind} of a list of {numbers.kind} that is only known at run time")
        if numbers.items is None:
            return [reader.number_of(location, reader.emit(location, tensor, self=numbers.state), numbers.kind)]

        def both(left: Item, right: Item) -> Item:
            return reader.number_node(location, pair, KINDS[numbers.kind], numbers.kind, a=left, b=right)

        return [functools.reduce(both, numbers.items)]

    return handler


def quotient_and_rest(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """``divmod`` of integers that are only known at run time; torch computes it for constants."""
    if not any(isinstance(item, Value) for item in args):
        return None
    if location.output_kinds() != ["IntType", "IntType"]:
        raise CaptureError(f"{location.where}: divmod of floats that are only known at run time; use // and %")
    left, right = args
    return [
        reader.number_node(location, op, int, "int", a=left, b=right) for op in ("aten::floordiv", "aten::remainder")
    ]


def is_nonzero(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return reader.run(location, "aten::Bool", "Tensor", args)


def absolute(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """Python's ``abs`` of a tensor."""
    is_tensor = isinstance(args[0], Value) and args[0].is_tensor
    return reader.run(location, "aten::abs", "", args) if is_tensor else None


HANDLERS: dict[str, Handler] = {
    "prim::abs": absolute,
    "prim::max": _of_all("prim::max", "aten::max", ("int", "float")),
    "prim::min": _of_all("prim::min", "aten::min", ("int", "float")),
    "aten::sum": _of_all("aten::add", "aten::sum", ("int", "float")),
    "aten::all": _of_all("aten::__and__", "aten::all", ("bool",)),
    "aten::any": _of_all("aten::__or__", "aten::any", ("bool",)),
    "aten::divmod": quotient_and_rest,
    "aten::is_nonzero": is_nonzero,
}
