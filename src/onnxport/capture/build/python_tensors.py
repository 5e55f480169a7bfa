"""Tensors that Python filled with numbers: ``torch.tensor([h, w])``, or a numpy array."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.build.building import Building
from onnxport.capture.record.record import Call
from onnxport.graph.ir import Argument, Node, ScalarType, TensorType, Value
from onnxport.graph.sizes import Size

# Tensors with more elements are not explained element by element where they differ between runs.
MAX_NUMBERS = 16
# Arguments of factory functions that do not affect the content.
NOWHERE = {"layout": None, "device": None, "pin_memory": None}

# Finds one expression for a number from its value on each path.
Choose = Callable[[Mapping[int, Any]], Any]


class PythonTensors:
    """Adds the nodes that make such tensors."""

    def __init__(self, builder: Building) -> None:
        self._builder = builder

    def chosen(self, tensors: Mapping[int, torch.Tensor], choose: Choose, call: Call) -> Value:
        """A tensor that differs between paths: few numbers, one number throughout, or a progression."""
        first = next(iter(tensors.values()))
        if are_few(list(tensors.values())):
            contents = {side: tensor.flatten().tolist() for side, tensor in tensors.items()}
            chosen = [choose({side: c[index] for side, c in contents.items()}) for index in range(first.numel())]
            return self.of_numbers([self._argument(n, call) for n in chosen], first.shape, first.dtype, call)
        if are_full(list(tensors.values())):
            number = choose({side: tensor.flatten()[0].item() for side, tensor in tensors.items()})
            shape = [choose({side: t.shape[axis] for side, t in tensors.items()}) for axis in range(first.dim())]
            return self._full(shape, number, first.dtype, call)
        found = {side: progression(tensor) for side, tensor in tensors.items()}
        parts = {side: part for side, part in found.items() if part is not None}
        start, length = (choose({side: part[i] for side, part in parts.items()}) for i in (0, 2))
        step = choose({side: step for side, (_, step, _) in parts.items() if step is not None})
        return self._progression(start, step, length, first.dtype, call)

    def of_numbers(self, numbers: Sequence[Argument], shape: Sequence[int], dtype: torch.dtype, call: Call) -> Value:
        """Each number becomes a tensor, and these are joined."""
        parts = [self.scalar(number, dtype, call) for number in numbers]
        if not shape:
            return parts[0]
        joined = self._add("aten::stack", {"tensors": parts, "dim": 0}, (len(parts),), dtype, call)
        if len(shape) == 1:
            return joined
        return self._add("aten::reshape", {"self": joined, "shape": list(shape)}, tuple(shape), dtype, call)

    def scalar(self, number: Argument, dtype: torch.dtype, call: Call) -> Value:
        if not isinstance(number, Value):
            return Value(TensorType(dtype, ()), data=torch.tensor(number, dtype=dtype))
        made = self._add("prim::NumToTensor", {"a": number}, (), dtype_of(number), call)
        made.size = number.size
        if made.dtype == dtype:
            return made
        inputs = {"self": made, "dtype": dtype, "non_blocking": False, "copy": False, "memory_format": None}
        return self._add("aten::to", inputs, (), dtype, call, "dtype")

    def _full(self, shape: Sequence[Size], number: Any, dtype: torch.dtype, call: Call) -> Value:
        size = [self._argument(length, call) for length in shape]
        inputs = {"size": size, "fill_value": self._argument(number, call), "dtype": dtype, **NOWHERE}
        return self._add("aten::full", inputs, tuple(shape), dtype, call)

    def _progression(self, start: Any, step: Any, length: Size, dtype: torch.dtype, call: Call) -> Value:
        """``start + step * arange(length)``."""
        inputs = {"end": self._argument(length, call), "dtype": dtype, **NOWHERE}
        made = self._add("aten::arange", inputs, (length,), dtype, call)
        if step != 1:
            inputs = {"self": made, "other": self._argument(step, call)}
            made = self._add("aten::mul", inputs, (length,), dtype, call, "Scalar")
        if start == 0:
            return made
        inputs = {"self": made, "other": self._argument(start, call), "alpha": 1}
        return self._add("aten::add", inputs, (length,), dtype, call, "Scalar")

    def _argument(self, number: Any, call: Call) -> Argument:
        return self._builder.number_value(number, call)

    def _add(
        self,
        op: str,
        inputs: dict[str, Argument],
        shape: tuple[Size, ...],
        dtype: torch.dtype,
        call: Call,
        overload: str = "",
    ) -> Value:
        made = Value(TensorType(dtype, shape))
        self._builder.nodes.append(Node(op, inputs, [made], overload=overload, scope=call.scope, source=call.source))
        return made


def dtype_of(number: Value) -> torch.dtype:
    assert isinstance(number.type, ScalarType)
    return {int: torch.int64, float: torch.float64, bool: torch.bool}[number.type.kind]


def is_explained(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors that Python filled can be computed in the graph: few elements, one number, or a progression."""
    return are_few(tensors) or are_full(tensors) or all(progression(tensor) is not None for tensor in tensors)


def are_few(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors have the same shape, and few elements."""
    first = tensors[0]
    same = all(tensor.shape == first.shape for tensor in tensors)
    return same and first.numel() <= MAX_NUMBERS and not first.is_complex()


def are_full(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors have the same rank, and each is filled with one number."""
    same = all(tensor.dim() == tensors[0].dim() and not tensor.is_complex() for tensor in tensors)
    return same and all(tensor.numel() and bool((tensor == tensor.flatten()[0]).all()) for tensor in tensors)


def progression(tensor: torch.Tensor) -> tuple[Any, Any, int] | None:
    """Start, step and length of a tensor that is an arithmetic progression; a single number has the step None."""
    if tensor.dim() != 1 or tensor.dtype == torch.bool or tensor.is_complex():
        return None
    numbers = tensor.tolist()
    steps = {right - left for left, right in itertools.pairwise(numbers)}
    if len(steps) > 1 or not numbers:
        return None
    return numbers[0], steps.pop() if steps else None, len(numbers)
