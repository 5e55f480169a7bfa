"""Information about a model for the passes: its constants, shapes and names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.optimize.traversal import all_graphs

Array = npt.NDArray[Any]

# The largest constants that rules read: bounds, axes, shapes and masks, but no weights.
_READABLE_BYTES = 64 * 1024


IN_FILE = "in_file"
"""The mark, in `meta`, of an initializer that the model's file refers to in another file, where it stays."""


CONSTANT = "constant"
"""The mark, in `meta`, of an initializer that is no weight: a constant of the model's code, or computed at export."""


def stays(value: ir.Value) -> bool:
    """Whether the bytes of an initializer are in a file of their own, so that what is made from it is an addition."""
    return bool(value.meta.get(IN_FILE))


@dataclasses.dataclass(frozen=True)
class Context:
    """A model and the mode in which it is rewritten.

    While `training`, parameters will change after the export: no floating-point initializer counts as constant.
    """

    model: ir.Model
    training: bool = False

    @property
    def opset(self) -> int:
        return self.model.opset_imports[""]

    @functools.cached_property
    def names(self) -> Names:
        return Names(self.model)

    def tensor(self, value: ir.Value | None) -> ir.TensorProtocol | None:
        """The tensor of a constant: of a Constant node, or of an initializer that no caller can override."""
        if value is None or value.is_graph_input():
            return None
        if value.is_initializer():
            tensor = value.const_value
            if tensor is None or not is_readable(tensor):
                return None
            return None if self.training and tensor.dtype.is_floating_point() else tensor
        producer = value.producer()
        if producer is None or not is_op(producer, "Constant"):
            return None
        content = producer.attributes.get("value")
        # The usual form, read directly: get_const_tensor checks its type against a protocol, for up to 150 µs.
        return ir.convenience.get_const_tensor(value) if content is None or content.is_ref() else content.value

    def array(self, value: ir.Value | None) -> Array | None:
        """The content of a constant small enough to be read."""
        tensor = self.tensor(value)
        if tensor is None or tensor.nbytes > _READABLE_BYTES or tensor.dtype.is_string():
            return None
        return tensor.numpy()

    def argument(self, node: ir.Node, name: str, index: int) -> Array | None:
        """A constant argument that is an attribute in some opsets and an input in others; None if absent or unknown."""
        if name in node.attributes:
            return np.asarray(node.attributes[name].value)
        return self.array(operand(node, index))

    def ints(self, node: ir.Node, name: str, index: int) -> tuple[int, ...] | None:
        """`argument` as integers."""
        array = self.argument(node, name, index)
        return None if array is None else tuple(int(item) for item in array.reshape(-1))


class Names:
    """The names of all values and nodes of a model, to find free ones."""

    def __init__(self, model: ir.Model) -> None:
        self._taken: set[str | None] = set()
        for graph in all_graphs(model.graph):
            self._taken.update(value.name for value in graph.inputs)
            self._taken.update(graph.initializers)
            for node in graph:
                self._taken.add(node.name)
                self._taken.update([output.name for output in node.outputs])

    def claim(self, wanted: str) -> str:
        """`wanted`, with a number appended if it is in use."""
        name, number = wanted, 0
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


def is_readable(tensor: ir.TensorProtocol) -> bool:
    """Whether a tensor has values; a torch tensor on the meta device has none."""
    return not is_torch(tensor) or tensor.raw.device.type != "meta"


def is_torch(tensor: ir.TensorProtocol) -> TypeGuard[ir.tensor_adapters.TorchTensor]:
    """Whether a tensor wraps one of torch."""
    return _is_torch_type(type(tensor))


@functools.cache
def _is_torch_type(kind: type) -> bool:
    # Cached, because the tensor classes are protocols, for which isinstance takes 3 µs.
    return issubclass(kind, ir.tensor_adapters.TorchTensor)


def is_op(node: ir.Node | None, *op_types: str) -> bool:
    """Whether a node is one of these operators of the ONNX domain."""
    return node is not None and node.domain == "" and node.op_type in op_types


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """An input that may be absent."""
    return node.inputs[index] if index < len(node.inputs) else None


def has_argument(node: ir.Node, name: str, index: int) -> bool:
    """Whether an argument is present, as attribute or input."""
    return name in node.attributes or operand(node, index) is not None


def produced_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The producer of a value if it is one of these ONNX operators."""
    node = None if value is None else value.producer()
    return node if is_op(node, *op_types) else None


def only_use(value: ir.Value) -> bool:
    """Whether the value has a single use, and is not a graph output."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def permutation(node: ir.Node) -> Sequence[int] | None:
    """The order of axes of a Transpose, reversed by default; None if that needs an unknown rank."""
    if "perm" in node.attributes:
        return node.attributes["perm"].as_ints()
    value_rank = rank(node.inputs[0])
    return None if value_rank is None else range(value_rank)[::-1]


def same_dim(left: int | ir.SymbolicDim, right: int | ir.SymbolicDim) -> bool:
    """Whether two dimensions are known to be equal; onnx_ir's == also holds between two unknown ones."""
    if isinstance(left, ir.SymbolicDim):
        return left.value is not None and left == right
    return left == right


def differing_dims(left: ir.Value | None, right: ir.Value | None) -> int | None:
    """The number of dimensions that are not known to be equal; None if the ranks differ or are unknown."""
    if left is None or right is None or left.shape is None or right.shape is None:
        return None
    if len(left.shape) != len(right.shape):
        return None
    return sum(not same_dim(a, b) for a, b in zip(left.shape, right.shape, strict=True))


def same_shape(left: ir.Value | None, right: ir.Value | None) -> bool:
    return differing_dims(left, right) == 0


def normalized(axes: tuple[int, ...], total_rank: int | None) -> tuple[int, ...] | None:
    """The axes counted from the front; None if that needs an unknown rank."""
    if min(axes, default=0) >= 0:
        return axes
    return None if total_rank is None else tuple(axis % total_rank for axis in axes)
