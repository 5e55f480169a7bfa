"""ONNX operators that move elements, or read shapes, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Array

Inputs = Sequence[Array | None]

VIEWS = {"Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose result is a view of their input: they cost no memory, whatever the size."""


def given(node: ir.Node, name: str, inputs: Inputs, index: int) -> tuple[int, ...] | None:
    """Integers that are an attribute in some opsets and an input in others."""
    if name in node.attributes:
        return tuple(node.attributes[name].as_ints())
    array = inputs[index] if index < len(inputs) else None
    return None if array is None else tuple(int(item) for item in array.reshape(-1))


def reshape(node: ir.Node, inputs: Inputs) -> Array | None:
    array, target = inputs[0], given(node, "shape", inputs, 1)
    if array is None or target is None:
        return None
    if not node.attributes.get_int("allowzero", 0):
        target = tuple(array.shape[axis] if size == 0 else size for axis, size in enumerate(target))
    return array.reshape(target)


def flatten(node: ir.Node, inputs: Inputs) -> Array | None:
    array = inputs[0]
    if array is None:
        return None
    axis = node.attributes.get_int("axis", 1)
    axis += array.ndim if axis < 0 else 0
    return array.reshape(int(np.prod(array.shape[:axis])), -1) if array.size else None


def squeeze(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.squeeze(inputs[0], given(node, "axes", inputs, 1))


def unsqueeze(node: ir.Node, inputs: Inputs) -> Array | None:
    axes = given(node, "axes", inputs, 1)
    return None if inputs[0] is None or axes is None else np.expand_dims(inputs[0], axes)


def transpose(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.transpose(inputs[0], node.attributes.get_ints("perm"))


def concat(node: ir.Node, inputs: Inputs) -> Array:
    return np.concatenate([array for array in inputs if array is not None], node.attributes["axis"].as_int())


def slice_(node: ir.Node, inputs: Inputs) -> Array | None:
    array = inputs[0]
    starts, ends = given(node, "starts", inputs, 1), given(node, "ends", inputs, 2)
    if array is None or starts is None or ends is None:
        return None
    axes = given(node, "axes", inputs, 3) or range(len(starts))
    steps = given(node, "steps", inputs, 4) or (1,) * len(starts)
    if any(step < 1 for step in steps):
        return None
    index = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return np.asarray(array[tuple(index)])


def gather(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    return None if array is None or indices is None else np.take(array, indices, node.attributes.get_int("axis", 0))


def gather_elements(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    if array is None or indices is None:
        return None
    axis = node.attributes.get_int("axis", 0) % array.ndim
    index: list[Any] = list(np.indices(indices.shape, sparse=True))
    index[axis] = indices
    return np.asarray(array[tuple(index)])


def gather_nd(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices = inputs[0], inputs[1]
    if array is None or indices is None or node.attributes.get_int("batch_dims", 0) != 0:
        return None
    return np.asarray(array[tuple(np.moveaxis(indices, -1, 0))])


def scatter_nd(node: ir.Node, inputs: Inputs) -> Array | None:
    array, indices, updates = inputs
    if array is None or indices is None or updates is None or node.attributes.get_string("reduction", "none") != "none":
        return None
    # Which of two updates of one element stays is not said anywhere.
    positions = np.reshape(indices, (-1, indices.shape[-1])) % np.array(array.shape[: indices.shape[-1]])
    if len(np.unique(positions, axis=0)) < len(positions):
        return None
    result: Array = array.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def expand(node: ir.Node, inputs: Inputs) -> Array | None:
    array, target = inputs[0], given(node, "shape", inputs, 1)
    if array is None or target is None:
        return None
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, target))


def tile(node: ir.Node, inputs: Inputs) -> Array | None:
    repeats = given(node, "repeats", inputs, 1)
    return None if inputs[0] is None or repeats is None else np.tile(inputs[0], repeats)


def shape(node: ir.Node, inputs: Inputs) -> Array | None:
    if inputs[0] is None:
        return None
    dims = np.array(inputs[0].shape, dtype=np.int64)
    return dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", dims.size)]


def size(node: ir.Node, inputs: Inputs) -> Array | None:
    return None if inputs[0] is None else np.array(inputs[0].size, dtype=np.int64)


def constant_of_shape(node: ir.Node, inputs: Inputs) -> Array | None:
    shape = given(node, "shape", inputs, 0)
    value = node.attributes.get_tensor("value")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return None if shape is None else np.broadcast_to(fill.reshape(()), shape)


def trilu(node: ir.Node, inputs: Inputs) -> Array | None:
    if inputs[0] is None:
        return None
    diagonal = int(inputs[1].reshape(())) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if node.attributes.get_int("upper", 1) else np.tril)(inputs[0], diagonal)
