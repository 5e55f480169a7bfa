"""Values and types with the classic interface for symbolic functions, around those of converters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import onnx_ir as ir
import torch

from onnxport.graph.ir import Node, ScalarType
from onnxport.graph.ir import Value as CapturedValue
from onnxport.graph.sizes import Shape
from onnxport.lower import value as lower
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import number_dtype
from onnxport.lower.registry import Converters
from onnxport.symbolic.objects.builder import UserBuilder
from onnxport.symbolic.objects.types import NAMES

KINDS: dict[type, str] = {
    bool: "BoolType", int: "IntType", float: "FloatType", str: "StringType", type(None): "NoneType",
    torch.device: "DeviceObjType",
}  # fmt: skip


class Type:
    """The type of a value: for a tensor its dtype and sizes, None if not known."""

    def __init__(self, kind: str, dtype: torch.dtype | None = None, sizes: Sequence[int | None] | None = None) -> None:
        self._kind = kind
        self._dtype = dtype
        self._sizes = None if sizes is None else list(sizes)

    def kind(self) -> str:
        return self._kind

    def dtype(self) -> torch.dtype | None:
        return self._dtype

    def scalarType(self) -> str | None:
        """The name of the dtype in TorchScript: ``Float``, ``Long``."""
        return None if self._dtype is None else NAMES.get(self._dtype)

    def sizes(self) -> list[int] | None:
        """All sizes as numbers; None if one of them is dynamic or not known."""
        known = [size for size in self._sizes or () if size is not None]
        return known if self._sizes is not None and len(known) == len(self._sizes) else None

    def varyingSizes(self) -> list[int | None] | None:
        """The sizes, None for dynamic ones."""
        return None if self._sizes is None else list(self._sizes)

    def symbolic_sizes(self) -> list[int | None] | None:
        return self.varyingSizes()

    def dim(self) -> int | None:
        return None if self._sizes is None else len(self._sizes)

    def strides(self) -> list[int] | None:
        """The strides of a contiguous tensor: the strides of the model's own tensor are not part of a graph."""
        sizes = self.sizes()
        return None if sizes is None else list(torch.empty(sizes, device="meta").stride())

    def device(self) -> torch.device:
        return torch.device("cpu")

    def undefined(self) -> bool:
        return False

    def with_sizes(self, sizes: Sequence[int | None] | None) -> Type:
        return Type(self._kind, self._dtype, sizes)

    def with_dim(self, rank: int | None) -> Type:
        return Type(self._kind, self._dtype, None if rank is None else [None] * rank)

    def with_dtype(self, dtype: torch.dtype) -> Type:
        return Type(self._kind, dtype, self._sizes)

    def contiguous(self) -> Type:
        return self

    def isSubtypeOf(self, other: Any) -> bool:
        """Whether it is a subtype of another type, which may be one of torch's own."""
        return bool(self._kind == other.kind())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type):
            return NotImplemented
        return (self._kind, self._dtype, self._sizes) == (other._kind, other._dtype, other._sizes)

    def __hash__(self) -> int:
        return hash((self._kind, self._dtype))

    def __str__(self) -> str:
        if self._kind != "TensorType" or self._dtype is None:
            return self._kind.removesuffix("Type")
        sizes = "" if self._sizes is None else ", ".join("*" if size is None else str(size) for size in self._sizes)
        return f"{self.scalarType()}({sizes})"

    __repr__ = __str__


class Value:
    """An argument or result of a symbolic function.

    It is a tensor of the ONNX graph (``lowered``), a list of values (``elements``), or a Python constant
    (``content``: a number, a string, None), which becomes a tensor if it is the input of a node.
    """

    __slots__ = ("content", "elements", "graph", "lowered", "stated")

    def __init__(
        self,
        graph: GraphObject,
        lowered: lower.Value | None = None,
        *,
        content: Any = None,
        elements: list[Value] | None = None,
    ) -> None:
        self.graph = graph
        self.lowered = lowered
        self.content = content
        self.elements = elements
        self.stated: Type | None = None

    @property
    def is_none(self) -> bool:
        return self.lowered is None and self.elements is None and self.content is None

    @property
    def data(self) -> torch.Tensor | None:
        """The content as a tensor, if it is a constant."""
        if self.lowered is not None:
            return self.lowered.data if self.graph.is_constant(self.lowered) else None
        if isinstance(self.content, (bool, int, float)):
            return torch.tensor(self.content, dtype=number_dtype(self.content))
        return None

    @property
    def dtype(self) -> torch.dtype | None:
        return self.type().dtype()

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The sizes, None for dynamic ones."""
        sizes = self.type().varyingSizes()
        return None if sizes is None else tuple(sizes)

    @property
    def rank(self) -> int | None:
        return self.type().dim()

    def type(self) -> Type:
        if self.stated is not None:
            return self.stated
        if self.elements is not None:
            return Type("ListType")
        if self.lowered is not None:
            dtype = None if self.lowered.guessed else self.lowered.dtype
            return Type("TensorType", dtype, _sizes(self.lowered.shape))
        if isinstance(self.content, (bool, int, float)):
            return Type("TensorType", number_dtype(self.content), [])
        return Type(KINDS.get(type(self.content), "AnyType"))

    def setType(self, type: Any) -> Value:
        """Set the type of the value; for results of the symbolic function the captured type has priority."""
        self.stated = as_type(type)
        if self.lowered is not None:
            self.graph.state(self.lowered, self.stated)
        return self

    def inferTypeFrom(self, tensor: torch.Tensor) -> None:
        self.setType(Type("TensorType", tensor.dtype, list(tensor.shape)))

    def isCompleteTensor(self) -> bool:
        kind = self.type()
        return kind.kind() == "TensorType" and kind.dtype() is not None and kind.sizes() is not None

    def node(self) -> Any:
        """The node that makes it, a `NodeView`."""
        return self.graph.node_of(self)

    def debugName(self) -> str:
        if self.lowered is not None and self.lowered.ir is not None:
            return str(self.lowered.ir.name)
        return str(self.lowered.size if self.lowered is not None else self.content)

    def uniqueName(self) -> str:
        return self.debugName()

    def setDebugName(self, name: str) -> Value:
        if self.lowered is not None and self.lowered.ir is not None and self.lowered.ir.producer() is not None:
            self.lowered.ir.name = self.graph.builder.context.unique(name)
        return self

    def requiresGrad(self) -> bool:
        return False

    def requires_grad(self) -> bool:
        return False

    def toIValue(self) -> Any:
        """The content of a constant, None for anything else."""
        if self.elements is not None:
            return [element.toIValue() for element in self.elements]
        return self.data if self.lowered is not None else self.content

    def __iter__(self) -> Iterator[Value]:
        if self.elements is None:
            raise TypeError(f"%{self.debugName()} is not a list, so it has no elements to iterate over")
        return iter(self.elements)

    def __repr__(self) -> str:
        if self.elements is not None:
            return f"[{', '.join(map(repr, self.elements))}]"
        return f"%{self.debugName()} : {self.type()}"


class TranslatedNode(Protocol):
    """The node that is being translated."""

    node: Node

    def scopeName(self) -> str: ...

    def sourceRange(self) -> str: ...


class GraphObject(Protocol):
    """The graph object ``g``, as values, nodes, blocks and built-in translations know it."""

    builtins: Converters
    values: dict[int, Value]

    @property
    def builder(self) -> UserBuilder: ...

    @property
    def original_node(self) -> TranslatedNode: ...

    def inner(self, builder: Builder) -> GraphObject: ...

    def close(self) -> None: ...

    def cast(self, value: Any, dtype: torch.dtype) -> Value: ...

    def value(self, content: Any) -> Value: ...

    def wrap(self, lowered: lower.Value) -> Value: ...

    def value_of(self, found: ir.Value | None) -> Value: ...

    def tensor(self, value: Any) -> lower.Value: ...

    def is_constant(self, lowered: lower.Value) -> bool: ...

    def state(self, lowered: lower.Value, kind: Type) -> None: ...

    def node_of(self, value: Value) -> Any: ...

    def add_block(self, node: ir.Node) -> Any: ...


def as_type(given: Any) -> Type:
    """A type of ours or of torch's, which have the same methods."""
    if isinstance(given, Type):
        return given
    kind = given.kind()
    if kind != "TensorType":
        return Type(kind)
    return Type(kind, given.dtype(), given.varyingSizes())


def type_of_captured(value: CapturedValue) -> Type:
    if isinstance(value.type, ScalarType):
        return Type(KINDS[value.type.kind])
    return Type("TensorType", value.dtype, _sizes(value.shape))


def _sizes(shape: Shape | None) -> list[int | None] | None:
    return None if shape is None else [size if isinstance(size, int) else None for size in shape]
