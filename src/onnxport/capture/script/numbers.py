"""Numbers that a scripted program makes of others: of all in a list, or two at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from onnxport.capture.script.items import Item, ScriptList
from onnxport.capture.script.lists import list_only
from onnxport.capture.script.places import Place
from onnxport.capture.script.reader import Handler, Reader
from onnxport.errors import CaptureError
from onnxport.graph.ir import Value

KINDS = {"int": int, "float": float, "bool": bool}


def _of_all(pair: str, tensor: str, kinds: Sequence[str]) -> Handler:
    """One number of a list: ``pair`` makes it of two, ``tensor`` of a list that is a tensor."""

    @list_only
    def handler(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
        numbers: ScriptList = given[0]
        if len(given) > 1 or not (numbers.items is None or any(isinstance(item, Value) for item in numbers.items)):
            return None
        if numbers.kind not in kinds:
            kind = place.node.kind()
            raise CaptureError(f"{place.where}: {kind} of a list of {numbers.kind} that is only known at run time")
        if numbers.items is None:
            return [reader.number_of(place, reader.emit(place, tensor, self=numbers.state), numbers.kind)]

        def both(left: Item, right: Item) -> Item:
            return reader.number_node(place, pair, KINDS[numbers.kind], numbers.kind, a=left, b=right)

        return [functools.reduce(both, numbers.items)]

    return handler


def quotient_and_rest(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item] | None:
    """``divmod`` of integers; of constants it is computed."""
    if not any(isinstance(item, Value) for item in given):
        return None
    if place.output_kinds() != ["IntType", "IntType"]:
        raise CaptureError(f"{place.where}: divmod of floats that are only known at run time; use // and %")
    left, right = given
    return [reader.number_node(place, op, int, "int", a=left, b=right) for op in ("aten::floordiv", "aten::remainder")]


def is_nonzero(reader: Reader, place: Place, given: list[Item]) -> Sequence[Item]:
    return reader.run(place, "aten::Bool", "Tensor", given)


HANDLERS: dict[str, Handler] = {
    "prim::max": _of_all("prim::max", "aten::max", ("int", "float")),
    "prim::min": _of_all("prim::min", "aten::min", ("int", "float")),
    "aten::sum": _of_all("aten::add", "aten::sum", ("int", "float")),
    "aten::all": _of_all("aten::__and__", "aten::all", ("bool",)),
    "aten::any": _of_all("aten::__or__", "aten::any", ("bool",)),
    "aten::divmod": quotient_and_rest,
    "aten::is_nonzero": is_nonzero,
}
