"""Numbers in tensors: constants that are known when the program is read, and ``tolist``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnxport.capture.script.items import Item, ScriptList
from onnxport.errors import CaptureError
from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import Node, Value

if TYPE_CHECKING:
    from onnxport.capture.script.locations import Location
    from onnxport.capture.script.reader import Handler, Reader

NUMBER_DTYPES = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
PICKS = frozenset({"aten::select", "aten::to", "aten::detach", "aten::lift_fresh"})
FACTORIES = frozenset({"aten::arange", "aten::full", "aten::linspace", "aten::ones", "aten::zeros"})
READS_NUMBER: dict[str, Callable[[torch.Tensor], Any]] = {
    "aten::Int": int, "aten::IntImplicit": int, "aten::Float": float, "aten::FloatImplicit": float, "aten::Bool": bool,
    "aten::ScalarImplicit": lambda content: content.item(),
}  # fmt: skip


def element_kind(node: Node) -> type | None:
    """The type of a number that ``ScalarImplicit`` reads from a tensor; None where the schema says it."""
    tensor = node.inputs.get("a") if node.op == "aten::ScalarImplicit" else None
    if not isinstance(tensor, Value) or tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return None
    return bool if tensor.dtype == torch.bool else int


def known_content(tensor: Value) -> torch.Tensor | None:
    """The content of a constant, of an element selected from one, or of a tensor made of constant numbers.

    None for everything else, parameters included.
    """
    if tensor.data is not None:
        return None if tensor.name else tensor.data
    node = tensor.node
    if node is None or node.op not in PICKS | FACTORIES:
        return None
    contents = {value: known_content(value) for value in node.values()}
    if any(content is None for content in contents.values()):
        return None
    arguments = {name: contents[a] if isinstance(a, Value) else a for name, a in node.inputs.items()}
    (result,) = evaluate(node, arguments)
    return result if isinstance(result, torch.Tensor) else None


def with_elements(reader: Reader, location: Location, item: Item) -> Item:
    """A list of numbers that is one tensor of known length, as a list of its elements."""
    state = item.state if isinstance(item, ScriptList) else None
    if not isinstance(state, Value) or not state.is_tensor or not isinstance(state.shape[0], int):
        return item
    return ScriptList(
        [_number(reader, location, state, index, item.kind) for index in range(state.shape[0])], item.kind
    )


def _number(reader: Reader, location: Location, numbers: Value, index: int, kind: str) -> Value:
    return reader.number_of(
        location, reader.emit(location, "aten::select", "int", self=numbers, dim=0, index=index), kind
    )


def tolist(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """``numbers: List[int] = x.tolist()``: the last dimension stays a tensor, the others become lists."""
    kind = location.node.outputsAt(0).type()
    while kind.kind() == "ListType":
        kind = kind.getElementType()
    if kind.annotation_str not in NUMBER_DTYPES:
        raise CaptureError(f"{location.where}: tolist of {kind.annotation_str} elements is not supported")
    return [_as_list(reader, location, args[0], kind.annotation_str)]


def _as_list(reader: Reader, location: Location, tensor: Value, kind: str) -> Item:
    if not tensor.shape:
        return reader.number_of(location, tensor, kind)
    content = None if reader.has_written else known_content(tensor)
    if content is not None and content.dim() == 1:
        return ScriptList(content.to(NUMBER_DTYPES[kind]).tolist(), kind)
    if len(tensor.shape) == 1:
        return ScriptList(reader.converted(location, tensor, NUMBER_DTYPES[kind], copy=True), kind)
    count = tensor.shape[0]
    if not isinstance(count, int):
        raise CaptureError(
            f"{location.where}: tolist makes a list of lists whose length is only known at run time. Keep the tensor, "
            "or make its first dimension static."
        )
    rows = [reader.emit(location, "aten::select", "int", self=tensor, dim=0, index=index) for index in range(count)]
    inner = "List[" * (len(tensor.shape) - 1) + kind + "]" * (len(tensor.shape) - 1)
    return ScriptList([_as_list(reader, location, row, kind) for row in rows], inner)


HANDLERS: dict[str, Handler] = {"prim::tolist": tolist}
