"""Tensors whose sizes carry expressions in C++, too: for what C++ computes with sizes while a model is recorded.

The rules of ``torch.vmap``, the formulas of gradients and the definitions of composite operators are written in C++ and
ask tensors for their sizes there. A `SizedTensor` holds a tensor of the run and answers with its expressions.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import mapped
from onnxport.capture.record.numbers.carriers import SYMBOLIC, carried, number_of
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.numbers.symbolic_node import SymbolicNode
from onnxport.capture.record.record import Number
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import running_line
from onnxport.errors import CaptureError

ATEN = torch.ops.aten
SIZES, COUNT, PLAIN_SIZES = ATEN.sym_size.default, ATEN.sym_numel.default, ATEN.size.default
# Zeros without memory, which C++ takes apart above: kernels would read from nowhere.
NO_MEMORY = ATEN._efficientzerotensor.default
# What C++ asks of the layout in memory, which the graph does not know: as it is in the run.
LAYOUT: dict[Any, str] = {
    ATEN.dim.default: "dim",
    ATEN.sym_stride.default: "stride",
    ATEN.stride.default: "stride",
    ATEN.sym_storage_offset.default: "storage_offset",
    ATEN.is_contiguous.default: "is_contiguous",
    ATEN.is_contiguous.memory_format: "is_contiguous",
    ATEN.sym_is_contiguous.default: "is_contiguous",
    ATEN.is_strides_like_format.default: "is_contiguous",
    ATEN.is_non_overlapping_and_dense.default: "is_contiguous",
}


class SizedTensor(torch.Tensor):
    """A tensor of the run, ``held``, below autograd and the transforms of ``torch.func``."""

    held: torch.Tensor
    __torch_function__ = compat.dispatch.NO_FUNCTION

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> SizedTensor:
        self: SizedTensor = compat.dispatch.wrapper_of(cls, held)
        self.held = held
        return self

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return call_below(op, args, kwargs or {})


class Below(compat.dispatch.DispatchMode):  # type: ignore[misc]
    """Every operator that C++ calls: what makes tensors of sizes alone is seen, too."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call_below(op, args, kwargs or {})


class Sizing(torch.autograd.Function):
    """A tensor whose gradient is asked for, made a `SizedTensor`; its gradient is that of the tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return SizedTensor(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        with compat.dispatch.unseen():  # the forward of a Function that is seen is all that there is of it
            return Unsizing.apply(gradient) if type(gradient) is SizedTensor else gradient  # type: ignore[no-untyped-call]


class Unsizing(torch.autograd.Function):
    """The way back, through which gradients of gradients go."""

    @staticmethod
    def forward(ctx: Any, tensor: SizedTensor) -> torch.Tensor:
        recorder: Any = STATE.listener
        with compat.dispatch.unseen():
            result = tensor.held.detach()
        if recorder is not None:
            recorder.values.alias(result, recorder.ref(tensor.held))
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return as_sized(gradient)


def call_below(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator as it arrives below autograd."""
    recorder: Any = STATE.listener
    if args and type(args[0]) is SizedTensor and (op in (SIZES, COUNT, PLAIN_SIZES) or op in LAYOUT):
        with compat.dispatch.unaided():  # sizes as they are
            return _asked(recorder, op, args[0].held)
    sized = {id(leaf.held): leaf for leaf in tensors_in((args, kwargs)) if type(leaf) is SizedTensor}
    args, kwargs = all_unsized(args), all_unsized(kwargs)
    if any(map(compat.dispatch.is_transformed, tensors_in((args, kwargs)))):
        raise CaptureError(
            f"{running_line() or 'the model'}: {op} on a tensor of an outer transform of torch.func: transforms that "
            "are nested like this are not followed. Write one of them with tensor operations."
        )
    if op is NO_MEMORY:
        op = ATEN.zeros.default
    with compat.dispatch.no_modes():
        if recorder is None:  # a tensor that the model kept
            result = op(*args, **kwargs)
        else:
            result = recorder.recorded_call(op, args, kwargs)
    return mapped(result, lambda leaf: sized[id(leaf)] if id(leaf) in sized else as_sized(leaf))


def _asked(recorder: Any, op: Any, held: torch.Tensor) -> Any:
    """What C++ asks a tensor for."""
    if op is SIZES:
        return [symbolic(recorder, held, axis) for axis in range(held.dim())]
    if op is COUNT:
        return symbolic(recorder, held)
    if op is not PLAIN_SIZES:
        return getattr(held, LAYOUT[op])()
    if recorder is not None:
        recorder.has_plain_sizes = True
    return list(held.shape)


def symbolic(recorder: Any, tensor: torch.Tensor, axis: int | None = None) -> Any:
    size = tensor.numel() if axis is None else tensor.shape[axis]
    # A size of 1 is one that never varies: a record is made where others are larger. C++ broadcasts by it.
    if recorder is None or not recorder.symbolic or size == 1:
        return size
    ref = recorder.ref(tensor)
    number = Number(size, "numel", (ref,)) if axis is None else Number(size, "size", (ref, axis))
    return torch.SymInt(SymbolicNode(number))  # type: ignore[no-untyped-call]


def as_sized(leaf: Any) -> Any:
    return SizedTensor(leaf) if isinstance(leaf, torch.Tensor) and type(leaf) is not SizedTensor else leaf


def unsized(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and compat.dispatch.is_transformed(leaf):
        leaf = compat.dispatch.unwrap_if_over(leaf)
    return leaf.held if type(leaf) is SizedTensor else leaf


def is_sized(tensor: torch.Tensor) -> bool:
    """Whether C++ tells the sizes of a tensor with their expressions; inside of a transform only it knows them."""
    return type(tensor) is SizedTensor or compat.dispatch.is_transformed(tensor)


def is_gradient(tensor: torch.Tensor) -> bool:
    """Whether it is a gradient of which another one may be asked for."""
    return type(tensor.grad_fn).__name__ == "UnsizingBackward"


def all_unsized(tree: Any) -> Any:
    return mapped(tree, unsized)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def collect(leaf: Any) -> None:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)

    mapped(tree, collect)
    return found


def as_carried(sizes: Any) -> Any:
    """What C++ says of sizes, as Python gets it."""
    if isinstance(sizes, (tuple, list)):
        return torch.Size([as_carried(size) for size in sizes])
    number = number_of(sizes) if type(sizes) in SYMBOLIC else sizes
    return carried(number.value, number.op, *number.operands) if isinstance(number, Number) else number


def is_known_to(recorder: Recording, tensor: torch.Tensor) -> bool:
    """Whether it was computed in the run, or given to it; no parameter nor another constant."""
    ref = recorder.values.known(tensor)
    return ref is not None and ref.number not in recorder.record.constants
