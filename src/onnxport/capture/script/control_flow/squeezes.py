"""``squeeze`` of dynamic axes in scripted code: a condition on their sizes, where they may be 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.capture.script.control_flow.control import Condition
from onnxport.capture.script.items import Item, ScriptList
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Reader
from onnxport.graph.functionalize.views import kept_axis, squeezed_sizes
from onnxport.graph.ir import Node, Value
from onnxport.graph.sizes import SizeExpr, leaves_of


def squeeze(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    tensor, dims = args[0], _plain_dims(args[1:])
    if not isinstance(tensor, Value):
        return None
    sizes = squeezed_sizes(Node("aten::squeeze", {"self": tensor, "dim": dims}, ()))
    if any(isinstance(size, SizeExpr) and not _follows_axes(size) for size in sizes.values()):
        reader.warnings.append(kept_axis(location.source))
    if location.source not in reader.squeezes:
        return None
    dropped = [axis for axis, size in sizes.items() if _is_dropped(reader, location, tensor, axis, size)]
    item: Item = tensor
    for axis in sorted(dropped, reverse=True):
        item = reader.emit(location, "aten::select", "int", self=item, dim=axis, index=0)
    return [item]


def _follows_axes(size: SizeExpr) -> bool:
    return all(leaf.op == "axis" for leaf in leaves_of(size))


def _plain_dims(args: Sequence[Item]) -> Any:
    given = args[0] if args else None
    return given.items if isinstance(given, ScriptList) else given


def _is_dropped(reader: Reader, location: Location, tensor: Value, axis: int, size: Any) -> bool:
    """Whether the axis is dropped in the branch that is being read."""
    if not isinstance(size, SizeExpr) or not _follows_axes(size):
        return bool(size == 1)
    key = id(location.frame), location.node.outputsAt(0).unique(), axis
    if key not in reader.outcomes:
        number = reader.size(location, tensor, axis)
        condition = reader.number_node(location, "aten::eq", bool, "int", a=number, b=1)
        raise Condition(reader, location, condition, key)
    return reader.outcomes[key]
