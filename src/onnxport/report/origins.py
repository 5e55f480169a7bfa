"""The origins of a graph's nodes, and texts for their values and attributes."""

from __future__ import annotations

import linecache
from dataclasses import dataclass

import onnx_ir as ir

MOST = 80
"""Characters of an attribute's value that are shown."""


@dataclass(frozen=True)
class Origin:
    """The path of the module that made a node, and the line of the user's code; None if unknown."""

    module: str
    file: str | None = None
    line: int = 0

    @property
    def source(self) -> str | None:
        return None if self.file is None else f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The text of the line, if its file exists."""
        return "" if self.file is None else linecache.getline(self.file, self.line).strip()


def by_name(node: ir.Node) -> Origin:
    """The origin from a node's name: exporters prefix it with the module's path, as in ``layer/fc/Gemm``."""
    path = (node.name or "").strip("/").split("/")[:-1]
    return Origin(".".join(filter(None, path)))


def type_text(value: ir.Value) -> str:
    """``float32[batch, 4]``."""
    if value.dtype is None:
        return ""
    kind = "string" if value.dtype == ir.DataType.STRING else value.dtype.numpy().name
    if value.shape is None:
        return f"{kind}[…]"
    dims = (str(dim) if isinstance(dim, int) else str(dim.value or "?") for dim in value.shape)
    return f"{kind}[{', '.join(dims)}]"


def value_text(value: ir.Value | None) -> str:
    """A value's name with its type, if known."""
    return "–" if value is None else " ".join(filter(None, (value.name or "", type_text(value))))


def attributes_text(node: ir.Node) -> str:
    """``alpha=1.0 axis=-1``; graphs are shown as nodes of their own."""
    shown = []
    for name, attribute in sorted(node.attributes.items()):
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            continue
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            value = tensor.numpy().tolist() if tensor.size <= 8 else f"tensor{list(tensor.shape)}"
        text = str(list(value) if isinstance(value, tuple) else value)
        shown.append(f"{name}={text if len(text) <= MOST else text[: MOST - 1] + '…'}")
    return " ".join(shown)
