"""Constant tensors that Python made from sizes, and so differ between the traces: as nodes that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.graph.dims import size
from onnxport.graph.ir import Argument, Node, TensorType, Value

# Tensors with more elements than these are not made element by element.
FEW_ELEMENTS = 16


@dataclass
class Making:
    """What it takes to make nodes: ``number`` gives the value for a number that is another in each trace."""

    number: Callable[[Sequence[int | float]], Argument]
    node: Callable[[str, str, dict[str, Argument], Value], Node]


def made(tensors: Sequence[torch.Tensor], making: Making) -> Value | None:
    """A value that is this tensor in each trace; None if it is none of the kinds that are understood.

    Those are: as many numbers each time; one number throughout; numbers with equal steps.
    """
    first = tensors[0]
    if len({(tensor.dtype, tensor.dim()) for tensor in tensors}) > 1 or first.is_complex():
        return None
    if all(tensor.shape == first.shape for tensor in tensors):
        return _elements(tensors, making) if first.numel() <= FEW_ELEMENTS else None
    if any(tensor.numel() == 0 for tensor in tensors):
        return None
    if len({tensor.flatten()[0].item() for tensor in tensors}) > 1:
        return None
    if all(bool((tensor == tensor.flatten()[0]).all()) for tensor in tensors):
        return _filled(tensors, making)
    return _range(tensors, making) if first.dim() == 1 and first.dtype != torch.bool else None


def _elements(tensors: Sequence[torch.Tensor], making: Making) -> Value:
    first = tensors[0]
    parts: list[Value] = []
    for column in zip(*(tensor.flatten().tolist() for tensor in tensors), strict=True):
        if column.count(column[0]) == len(column):
            parts.append(Value(TensorType(first.dtype, ()), data=torch.tensor(column[0], dtype=first.dtype)))
            continue
        number = making.number(column)
        wide = torch.float64 if first.is_floating_point() else torch.int64
        scalar = _one(making, "prim::NumToTensor", "", {"a": number}, wide, ())
        parts.append(scalar if wide == first.dtype else _cast(making, scalar, first.dtype))
    if not first.dim():
        return parts[0]
    flat = _one(making, "aten::stack", "", {"tensors": parts, "dim": 0}, first.dtype, (len(parts),))
    if first.dim() == 1:
        return flat
    shape = list(first.shape)
    return _one(making, "aten::reshape", "", {"self": flat, "shape": shape}, first.dtype, tuple(shape))


def _filled(tensors: Sequence[torch.Tensor], making: Making) -> Value:
    inputs = {"size": list(_sizes(tensors, making)), "fill_value": tensors[0].flatten()[0].item()}
    return _sized("aten::full", "", inputs, tensors, making)


def _range(tensors: Sequence[torch.Tensor], making: Making) -> Value | None:
    """start, start + step, …: the longest of the tensors shows both."""
    longest = max(tensors, key=torch.Tensor.numel)
    if longest.numel() < 3:
        return None
    start, step = longest[0].item(), longest[1].item() - longest[0].item()
    if not step or any(not torch.equal(t, _counted(start, step, t)) for t in tensors):
        return None
    (length,) = _sizes(tensors, making)
    inputs = {"start": 0, "end": length, "step": 1}
    counted = _sized("aten::arange", "start_step", inputs, tensors, making)
    for op, overload, number in (("aten::mul", "Scalar", step), ("aten::add", "Scalar", start)):
        if number != (1 if op == "aten::mul" else 0):
            extra = {} if op == "aten::mul" else {"alpha": 1}
            arguments = {"self": counted, "other": number, **extra}
            counted = _one(making, op, overload, arguments, tensors[0].dtype, counted.shape)
    return counted


def _counted(start: float, step: float, like: torch.Tensor) -> torch.Tensor:
    return torch.arange(like.numel(), dtype=like.dtype) * step + start


def _sizes(tensors: Sequence[torch.Tensor], making: Making) -> Iterator[Argument]:
    for lengths in zip(*(tensor.shape for tensor in tensors), strict=True):
        yield lengths[0] if lengths.count(lengths[0]) == len(lengths) else making.number(lengths)


def _sized(
    op: str, overload: str, inputs: dict[str, Argument], tensors: Sequence[torch.Tensor], making: Making
) -> Value:
    options = {"dtype": tensors[0].dtype, "layout": None, "device": None, "pin_memory": None}
    shape = tuple(size(lengths) for lengths in zip(*(tensor.shape for tensor in tensors), strict=True))
    return _one(making, op, overload, inputs | options, tensors[0].dtype, shape)


def _cast(making: Making, value: Value, dtype: torch.dtype) -> Value:
    inputs = {"self": value, "dtype": dtype, "non_blocking": False, "copy": False, "memory_format": None}
    return _one(making, "aten::to", "dtype", inputs, dtype, value.shape)


def _one(
    making: Making, op: str, overload: str, inputs: dict[str, Argument], dtype: torch.dtype, shape: tuple[Argument, ...]
) -> Value:
    return making.node(op, overload, inputs, Value(TensorType(dtype, shape))).outputs[0]
