"""Elementwise operators, reductions, losses, and operators with results of the input's shape."""

from __future__ import annotations

import math
from typing import Any

from onnxport.graph.ir import Node, Schema
from onnxport.graph.shapes.bound import axes_of, axis_of, replaced, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape
from onnxport.graph.sizes.shapes import product

# These have no result for empty tensors.
NEEDS_ELEMENTS = frozenset(f"aten::{name}" for name in ("max", "min", "amax", "amin", "argmax", "argmin", "aminmax"))
# These have none if the given axis is empty.
NEEDS_ELEMENTS_OF_AXIS = frozenset(f"aten::{name}" for name in ("median", "nanmedian", "mode", "kthvalue"))
NORMS = frozenset({"aten::linalg_vector_norm", "aten::norm"})
# With an empty list of axes these reduce none; others reduce all.
NO_AXES = frozenset({"aten::all", "aten::any"})


def schema_of(node: Node) -> Schema:
    schema = node.schema
    if schema is None:
        raise NotKnown
    return schema


def tensors_of(arguments: dict[str, Any]) -> list[Shape]:
    """The shapes of the tensors among arguments; raises `NotKnown` for lists of tensors."""
    if any(isinstance(argument, list) and any(type(of) is tuple for of in argument) for argument in arguments.values()):
        raise NotKnown
    return [shape for shape in arguments.values() if type(shape) is tuple]


def pointwise(require: Requirements, node: Node, **arguments: Any) -> list[Shape]:
    """All tensors broadcast; an argument that is written to keeps its shape."""
    schema = schema_of(node)
    result = require.broadcast(*tensors_of(arguments))
    for parameter in schema.written():
        own = tensor(arguments[parameter.name])
        require.expandable(result, own)
        result = own
    return [result] * len(schema.returns)


def like(require: Requirements, node: Node, **arguments: Any) -> list[Shape]:
    """The shape of the first tensor."""
    tensors = tensors_of(arguments)
    if not tensors:
        raise NotKnown
    return tensors[:1] * len(schema_of(node).returns)


def copied(require: Requirements, self: Shape, src: Shape, **_: Any) -> Shape:
    require.expandable(src, self)
    return self


def masked_write(require: Requirements, self: Shape, mask: Shape, **_: Any) -> Shape:
    require.expandable(mask, self)
    return self


def masked_scatter(require: Requirements, self: Shape, mask: Shape, **_: Any) -> Shape:
    return require.broadcast(self, mask)


def prelu(require: Requirements, self: Shape, weight: Shape, **_: Any) -> Shape:
    """One weight, or one per channel."""
    channels = self[1] if len(self) > 1 else 1
    require.hold(lambda a, b: a in (1, b), "weights and channels have to be equal", product(weight), channels)
    return self


# Reductions


def reduction(require: Requirements, node: Node, self: Shape, dim: Any = None, **arguments: Any) -> list[Shape]:
    """The axes in ``dim`` are dropped or kept as 1; all of them if there are none."""
    if tensors_of(arguments):
        raise NotKnown
    if dim == [] and node.op in NO_AXES:
        return [self]
    gone = range(len(self)) if dim is None or dim == [] else sorted(axes_of(dim, len(self)))
    needed = node.op in NEEDS_ELEMENTS or (node.op in NEEDS_ELEMENTS_OF_AXIS and dim is not None)
    if needed or (node.op in NORMS and _has_no_identity(arguments.get("ord", arguments.get("p")))):
        require.not_empty([self[axis] for axis in gone if axis < len(self)], "the size of a reduced axis")
    keep = arguments.get("keepdim", False)
    return [without(self, gone, keep)] * len(schema_of(node).returns)


def _has_no_identity(order: Any) -> bool:
    return isinstance(order, (int, float)) and (order < 0 or math.isinf(order))


def without(shape: Shape, axes: Any, keep: Any) -> Shape:
    """A shape with some axes dropped, or set to 1."""
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def kthvalue(require: Requirements, node: Node, self: Shape, k: Any, dim: Any, **arguments: Any) -> list[Shape]:
    axis = axis_of(dim, len(self))
    require.at_least(self[axis] if self else 1, k)
    return reduction(require, node, self, dim, **arguments)


def quantile(require: Requirements, self: Shape, q: Any, dim: Any, keepdim: bool, **_: Any) -> Shape:
    """The first axis are the quantiles, if there are several."""
    first = q if type(q) is tuple else ()
    axes = range(len(self)) if dim is None else [axis_of(dim, len(self))]
    require.not_empty(self, "the input of a quantile")
    return (*first, *without(self, axes, keepdim))


def running_extreme(require: Requirements, self: Shape, **_: Any) -> list[Shape]:
    return [self, self]


# Losses


def loss(require: Requirements, reduction: int, **arguments: Any) -> Shape:
    """One number per element, or one in all."""
    result = require.broadcast(*tensors_of(arguments))
    return () if reduction else result


def loss_of_same(require: Requirements, self: Shape, target: Shape, reduction: int, **weights: Any) -> Shape:
    """One number per element, or one in all, for tensors that do not broadcast."""
    require.same([self, target])
    for weight in tensors_of(weights):
        require.expandable(weight, self)
    return () if reduction else self


def weighted_loss(
    require: Requirements,
    self: Shape,
    target: Shape,
    reduction: int,
    weight: Any = None,
    pos_weight: Any = None,
    **_: Any,
) -> Shape:
    """The same with weights, which do not change the shape."""
    result = require.broadcast(self, target, *([] if pos_weight is None else [tensor(pos_weight)]))
    if weight is not None:
        require.expandable(tensor(weight), result)
    return () if reduction else result


def distance(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    require.broadcast(self, other)
    return ()


def class_loss(require: Requirements, self: Shape, target: Shape, reduction: int, **_: Any) -> Shape:
    """Logits with the classes as second axis; the target are class indices or probabilities."""
    classes = 0 if len(self) == 1 else 1
    rest = replaced(self, classes)
    require.same([self if len(target) == len(self) else rest, target])
    return () if reduction else rest


def cosine_similarity(require: Requirements, x1: Shape, x2: Shape, dim: int, **_: Any) -> Shape:
    together = require.broadcast(x1, x2)
    return replaced(together, axis_of(dim, len(together)))


def pairwise_distance(require: Requirements, x1: Shape, x2: Shape, keepdim: bool, **_: Any) -> Shape:
    together = require.broadcast(x1, x2)
    return (*together[:-1], *([1] if keepdim else []))
