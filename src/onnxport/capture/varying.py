"""Constant tensors that Python made from sizes, and so differ between the traces: as nodes that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from onnxport.graph.dims import size
from onnxport.graph.ir import Argument, Node, TensorType, Value

Number = int | float

# Tensors with more elements than these are not made element by element.
FEW_ELEMENTS = 16


@dataclass
class Making:
    """What it takes to make nodes: ``number`` gives the value for a number that is another in each trace."""

    number: Callable[[Sequence[Number]], Argument]
    node: Callable[[str, str, dict[str, Argument], Value], Node]


def made(tensors: Sequence[torch.Tensor], making: Making) -> Value | None:
    """A value that is this tensor in each trace; None if it is none of the kinds that are understood.

    Those are: as many numbers each time; one number throughout; numbers with equal steps. Which numbers, may follow
    from the sizes, too.
    """
    first = tensors[0]
    if len({(tensor.dtype, tensor.dim()) for tensor in tensors}) > 1 or first.is_complex():
        return None
    if all(tensor.shape == first.shape for tensor in tensors):
        return _elements(tensors, making) if first.numel() <= FEW_ELEMENTS else None
    if any(tensor.numel() == 0 for tensor in tensors):
        return None
    starts = [tensor.flatten()[0].item() for tensor in tensors]
    if first.dtype == torch.bool and len(set(starts)) > 1:
        return None
    if all(bool((tensor == start).all()) for tensor, start in zip(tensors, starts, strict=True)):
        return _filled(tensors, starts, making)
    return _range(tensors, starts, making) if first.dim() == 1 and first.dtype != torch.bool else None


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


def _filled(tensors: Sequence[torch.Tensor], values: Sequence[Number], making: Making) -> Value:
    inputs = {"size": list(_sizes(tensors, making)), "fill_value": _common(values, making)}
    return _sized("aten::full", "", inputs, tensors, making)


def _range(tensors: Sequence[torch.Tensor], starts: Sequence[Number], making: Making) -> Value | None:
    """start, start + step, …: start and step may be others in each trace, if each shows them."""
    longest = max(tensors, key=torch.Tensor.numel)
    shown = [tensor[1].item() - tensor[0].item() if tensor.numel() > 1 else None for tensor in tensors]
    common = longest[1].item() - longest[0].item()
    steps = [common if step is None else step for step in shown]
    if longest.numel() < 3 or 0 in steps or (None in shown and len(set(steps)) > 1):
        return None
    if any(
        not torch.equal(t, _counted(*at, t)) for t, at in zip(tensors, zip(starts, steps, strict=True), strict=True)
    ):
        return None
    (length,) = _sizes(tensors, making)
    counted = _sized("aten::arange", "start_step", {"start": 0, "end": length, "step": 1}, tensors, making)
    dtype, shape = tensors[0].dtype, counted.shape
    if set(steps) != {1}:
        inputs = {"self": counted, "other": _common(steps, making)}
        counted = _one(making, "aten::mul", "Scalar", inputs, dtype, shape)
    if set(starts) != {0}:
        inputs = {"self": counted, "other": _common(starts, making), "alpha": 1}
        counted = _one(making, "aten::add", "Scalar", inputs, dtype, shape)
    return counted


def _common(numbers: Sequence[Number], making: Making) -> Argument:
    return numbers[0] if len(set(numbers)) == 1 else making.number(numbers)


def _counted(start: Number, step: Number, like: torch.Tensor) -> torch.Tensor:
    return torch.arange(like.numel(), dtype=like.dtype) * step + start


def _sizes(tensors: Sequence[torch.Tensor], making: Making) -> Iterator[Argument]:
    for lengths in zip(*(tensor.shape for tensor in tensors), strict=True):
        yield _common(lengths, making)


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
