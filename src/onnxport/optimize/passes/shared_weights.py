"""One stored copy of each tensor."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import CONSTANT, is_readable, is_torch
from onnxport.optimize.traversal import all_graphs

_COMPARED_BYTES = 1024
_SAMPLED = 16

_Key = Callable[[ir.TensorProtocol], Hashable]


class ShareWeights(ir.passes.InPlacePass):
    """Keeps one initializer of those that are the same tensor: over the same memory, with the same type, shape and
    strides, as tied weights are.

    The first one of a graph stays, with its name. Initializers that are inputs or outputs of a graph are left alone.
    Those that are only equal, as biases are before training, are for `ShareEqual`, once nothing computes with them.

    Preserves: all values. Reads no weight (onnx_ir's DeduplicateInitializersPass copies each tensor that it compares,
    its hashing variant reads up to 4 GiB of each).
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for graph in all_graphs(model.graph):
            candidates = [value for value in graph.initializers.values() if _is_internal(value)]
            for overlapping in _groups(candidates, _memory):
                for same in _groups(overlapping, _type_and_shape):
                    _merge(same)
                    modified = True
        return ir.passes.PassResult(model, modified=modified)


class ShareEqual(ir.passes.InPlacePass):
    """Keeps one of several initializers with equal content, such as biases, whatever their names.

    The first one of a graph stays. Its metadata ``merged`` lists the others and their uses, so that a change of one
    weight can split them again. Content is read only where type, shape and a few
    elements are the same.

    Preserves: all values.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        candidates = [value for value in model.graph.initializers.values() if _is_internal(value)]
        for alike in _groups(candidates, _sampled):
            for same in _groups(alike, _content):
                modified = True
                same[0].meta.setdefault("merged", []).extend((value, list(value.uses())) for value in same[1:])
                _merge(same)
        return ir.passes.PassResult(model, modified=modified)


class ShareConstants(ir.passes.InPlacePass):
    """Keeps one of several initializers that are no weights, so that equal nodes have equal inputs.

    Rules:
        1. Those with the same few integers, such as axes and shapes. Tensors of torch are left alone: they may be the
           model's own, which keep their names.
        2. Those that are marked as `CONSTANT` and have the same type, shape and content, such as the frequencies of
           position embeddings that each layer computes for itself.

    Preserves: all values.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for graph in all_graphs(model.graph):
            small = (value for value in graph.initializers.values() if type(value.const_value) is ir.Tensor)
            for same in _groups(filter(_is_internal, small), _integers):
                _merge(same)
                modified = True
            constants = (value for value in graph.initializers.values() if value.meta.get(CONSTANT))
            for alike in _groups(filter(_is_internal, constants), _sampled):
                for same in _groups(alike, _content):
                    _merge(same)
                    modified = True
        return ir.passes.PassResult(model, modified=modified)


def _groups(values: Iterable[ir.Value], key_of: _Key) -> Iterator[list[ir.Value]]:
    """The values of each key that occurs more than once."""
    groups: defaultdict[Hashable, list[ir.Value]] = defaultdict(list)
    for value in values:
        if value.const_value is not None and (key := key_of(value.const_value)) is not None:
            groups[key].append(value)
    return (group for group in groups.values() if len(group) > 1)


def _is_internal(value: ir.Value) -> bool:
    return not (value.is_graph_input() or value.is_graph_output())


def _type_and_shape(tensor: ir.TensorProtocol) -> Hashable:
    return tensor.dtype, tensor.shape.dims


def _integers(tensor: ir.TensorProtocol) -> Hashable:
    """The content of a small tensor of integers; None for others."""
    if tensor.dtype != ir.DataType.INT64 or tensor.nbytes > _COMPARED_BYTES:
        return None
    return tensor.shape.dims, tensor.numpy().tobytes()


def _sampled(tensor: ir.TensorProtocol) -> Hashable:
    """Type, shape and a few elements; None for what has no content to compare."""
    if not is_readable(tensor) or not tensor.size:
        return None
    array = tensor.numpy()
    return tensor.dtype, tensor.shape.dims, array.flat[:: max(array.size // _SAMPLED, 1)].tobytes()


def _content(tensor: ir.TensorProtocol) -> Hashable:
    return hashlib.sha256(tensor.tobytes()).digest()


def _memory(tensor: ir.TensorProtocol) -> Hashable:
    """The address of a tensor; None if it has no memory of its own."""
    raw = getattr(tensor, "raw", None)
    if isinstance(raw, np.ndarray):
        return (raw.__array_interface__["data"][0], raw.strides) if raw.size else None
    if is_torch(tensor):
        torch_tensor = tensor.raw
        located = is_readable(tensor) and torch_tensor.numel() > 0
        return (torch_tensor.data_ptr(), torch_tensor.device, torch_tensor.stride()) if located else None
    return id(tensor)


def _merge(values: list[ir.Value]) -> None:
    kept, *others = values
    for value in others:
        assert value.graph is not None and value.name is not None
        value.replace_all_uses_with(kept)
        del value.graph.initializers[value.name]
