"""Questions about a tensor's dtype, layout and device in scripted code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.script.binding import overload_in
from onnxport.capture.script.items import Item, ScriptList
from onnxport.capture.script.list_operators import equal
from onnxport.capture.script.locations import Location
from onnxport.capture.script.reader import Handler, Reader
from onnxport.graph.interpret import operator
from onnxport.graph.ir import ScalarType, TensorType, Value


def constantly(answer: Any) -> Handler:
    return lambda reader, location, args: [answer]


def dtype(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    return [compat.dtype_code(args[0].dtype)]


def by_type(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item]:
    """Answers that depend on dtypes, and on which tensors are 0-dim: torch's own, for meta tensors."""
    function = operator(location.node.kind(), overload_in(location.node.schema()))
    answer = function(*map(_stand_in, args))
    return [compat.dtype_code(answer) if isinstance(answer, torch.dtype) else answer]


def _stand_in(item: Item) -> Any:
    if isinstance(item, Value) and isinstance(item.type, TensorType):
        return torch.empty([1] * len(item.shape), dtype=item.dtype, device="meta")
    return item.type.kind(1) if isinstance(item, Value) and isinstance(item.type, ScalarType) else item


def is_conjugate(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """``is_conj`` and ``is_neg``: only views of complex tensors can have these bits."""
    content = args[0].data
    is_view = content is not None and (content.is_conj() or content.is_neg())
    return None if reader.has_complex or is_view else [False]


def is_same_size(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    return equal(reader, location, [_sizes(reader, location, tensor) for tensor in args])


def _sizes(reader: Reader, location: Location, tensor: Value) -> ScriptList:
    return ScriptList([reader.size(location, tensor, dim) for dim in range(len(tensor.shape))], "int")


def where(reader: Reader, location: Location, args: list[Item]) -> Sequence[Item] | None:
    """A uint8 condition is read as bools, as torch does with a warning."""
    if len(args) != 3 or args[0].dtype != torch.uint8:
        return None
    condition = reader.converted(location, args[0], torch.bool)
    return reader.run(location, "aten::where", overload_in(location.node.schema()), [condition, *args[1:]])


NEVER = (
    "aten::is_inference", "aten::is_distributed", "aten::is_pinned", "aten::retains_grad", "prim::requires_grad",
    "prim::is_meta", "prim::is_quantized", "prim::is_sparse", "prim::is_sparse_csr", "prim::is_nested",
    "prim::is_mkldnn", "prim::is_cuda", "prim::is_xpu", "prim::is_mps", "prim::is_vulkan", "prim::is_ipu",
    "prim::is_xla", "prim::is_mtia", "prim::is_maia",
)  # fmt: skip
BY_TYPE = ("is_floating_point", "is_complex", "is_signed", "element_size", "result_type")

HANDLERS: dict[str, Handler] = {
    "prim::dtype": dtype,
    "prim::device": constantly(torch.device("cpu")),
    "prim::layout": constantly(0),
    "prim::is_cpu": constantly(True),
    "aten::is_leaf": constantly(True),  # as nothing needs a gradient
    "aten::get_device": constantly(-1),
    "prim::itemsize": by_type,
    "aten::is_conj": is_conjugate,
    "aten::is_neg": is_conjugate,
    "aten::is_same_size": is_same_size,
    "aten::where": where,
    **{f"aten::{name}": by_type for name in BY_TYPE},
    **dict.fromkeys(NEVER, constantly(False)),
}
