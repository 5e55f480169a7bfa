"""Changes of an exported model: other names for its dynamic axes, other weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import OptionError, OptionTypeError
from onnxport.optimize.context import is_torch
from onnxport.optimize.traversal import all_graphs

AGAIN = "export the model with the new weights, or with optimize=False"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def rename_axes(model: ir.Model, names: Mapping[str, str]) -> None:
    """Give dimensions other names, also within expressions such as ``batch*sequence``."""
    known = {name for dim in _dims(model) for name in NAME.findall(dim)}
    for old, new in names.items():
        if not isinstance(new, str) or not NAME.fullmatch(new):
            raise OptionTypeError(f"rename_axes: {new!r} for {old!r} is not a name of letters, digits and underscores")
        if old not in known:
            raise OptionError(f"rename_axes: the model has no axis {old!r}; it has {sorted(known)}")
    left = [name for name in known if name not in names]
    twice = sorted(new for new in names.values() if [*names.values(), *left].count(new) > 1)
    if twice:
        raise OptionError(f"rename_axes: {twice[0]!r} would name two axes, whose sizes may differ")

    def renamed(dim: int | ir.SymbolicDim) -> int | str | None:
        if isinstance(dim, int) or dim.value is None:
            return dim if isinstance(dim, int) else None
        return NAME.sub(lambda found: names.get(found[0], found[0]), str(dim.value))

    for value in _values(model):
        if value.shape is not None and any(not isinstance(dim, int) for dim in value.shape):
            value.shape = ir.Shape([renamed(dim) for dim in value.shape])


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in all_graphs(model.graph):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _dims(model: ir.Model) -> Iterator[str]:
    for value in _values(model):
        for dim in value.shape or ():
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                yield str(dim.value)


def apply_weights(
    model: ir.Model, weights: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Replace weights by name; returns the tensors that the model now has.

    It is an error if the file has something computed from weights at export, unless these weights stay equal.
    """
    for name, tensor in others.items():
        if not isinstance(tensor, torch.Tensor):
            raise OptionTypeError(f"apply_weights: {name!r} must be a tensor, not {type(tensor).__name__}")
    replaced = {tensor.data_ptr() for name, tensor in others.items() if name in weights and tensor.numel()}
    changed = {}
    for name, tensor in others.items():
        if name not in weights:
            if tensor.data_ptr() in replaced:
                continue  # a second name of a tied weight
            raise OptionError(f"apply_weights: the model has no weight {name!r}")
        old = weights[name]
        if tensor.shape != old.shape or tensor.dtype != old.dtype:
            raise OptionError(
                f"apply_weights: {name!r} is {tensor.dtype}{list(tensor.shape)}, the model has "
                f"{old.dtype}{list(old.shape)}"
            )
        if tensor is not old and not torch.equal(tensor.detach().cpu(), old.detach().cpu()):
            changed[name] = tensor.detach()
    _part_merged(model, changed)
    stored = {name: _stored_as(model, name, weights[name]) for name in changed}
    _check_nothing_computed(model, weights, changed)
    for name, tensor in changed.items():
        for value, order in stored[name]:
            value.const_value = ir.tensor_adapters.TorchTensor(_arranged(tensor, order), name=value.name)
    return {**weights, **changed}


def _part_merged(model: ir.Model, names: Collection[str]) -> None:
    """Split initializers that several equal weights share, if one of these weights changes."""
    initializers = model.graph.initializers
    for value in list(initializers.values()):
        merged = value.meta.get("merged", ())
        if any(other.name in names for other in (value, *(other for other, _ in merged))):
            for other, uses in merged:
                initializers[other.name] = other
                for node, index in uses:
                    node.replace_input_with(index, other)
            value.meta.pop("merged", None)


def _arranged(tensor: torch.Tensor, order: list[int | None]) -> torch.Tensor:
    """A tensor with its axes in this order, and axes of size 1 where that is None."""
    arranged = tensor.permute([axis for axis in order if axis is not None])
    return arranged[tuple(None if axis is None else slice(None) for axis in order)]


def _stored_as(model: ir.Model, name: str, weight: torch.Tensor) -> list[tuple[ir.Value, list[int | None]]]:
    """The initializers with the content of a weight, with the order of its axes in each."""
    initializers = [(value, value.const_value) for value in model.graph.initializers.values()]
    same = [
        (value, _order(tensor, weight))
        for value, tensor in initializers
        if tensor is not None and _address(tensor) == weight.data_ptr()
    ]
    found = [(value, order) for value, order in same if order is not None]
    if not same or len(found) < len(same):
        raise OptionError(f"apply_weights: {name!r} is not in the file itself, only combined with others: {AGAIN}")
    return found


def _order(stored: ir.TensorProtocol, weight: torch.Tensor) -> list[int | None] | None:
    """The order of a weight's axes in an initializer, with None for an axis of size 1 that the weight does not have;
    None if it is not exactly the weight."""
    if weight.is_complex():
        return None
    raw = stored.raw
    strides = raw.stride() if is_torch(stored) else [stride // raw.itemsize for stride in raw.strides]
    left = list(enumerate(zip(weight.shape, weight.stride(), strict=True)))
    order: list[int | None] = []
    for axis in zip(raw.shape, strides, strict=True):
        found = next((own for own in left if own[1] == axis), None)
        if found is None and axis[0] != 1:
            return None
        if found is not None:
            left.remove(found)
        order.append(None if found is None else found[0])
    return None if left else order


def _address(tensor: ir.TensorProtocol) -> int | None:
    raw = getattr(tensor, "raw", None)
    if is_torch(tensor):
        return int(tensor.raw.data_ptr())
    return int(raw.__array_interface__["data"][0]) if isinstance(raw, np.ndarray) else None


def _is_shape(tensor: ir.TensorProtocol) -> bool:
    """Whether a constant is a small list of integers, such as axes or bounds, and so not computed from weights."""
    return tensor.dtype.is_integer() and len(tensor.shape) <= 1


def _check_nothing_computed(
    model: ir.Model, weights: Mapping[str, torch.Tensor], changed: Mapping[str, torch.Tensor]
) -> None:
    """Refuse constants that a pass may have computed from weights."""
    known = {tensor.data_ptr() for tensor in weights.values()}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if not changed or tensor is None or _is_shape(tensor):
            continue
        if not is_torch(tensor) and _address(tensor) not in known:
            raise OptionError(f"apply_weights: {name!r} was computed at export, perhaps from weights: {AGAIN}")
