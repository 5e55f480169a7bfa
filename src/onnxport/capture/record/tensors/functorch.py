"""Transforms of ``torch.func`` and gradients inside of a model: the operators that they come to are recorded.

The handler sees calls above them. It passes such calls down on tensors whose sizes carry expressions, and what arrives
below is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import mapped
from onnxport.capture.record.numbers.carriers import SYMBOLIC, number_of
from onnxport.capture.record.numbers.carriers import plain as plain_number
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.tensors.sized_tensors import (
    Below,
    SizedTensor,
    Sizing,
    all_unsized,
    as_sized,
    is_gradient,
    is_known_to,
    tensors_in,
    unsized,
)

dispatch = compat.dispatch
# How autograd makes room for the gradient of a leaf.
NEW_STRIDED, LIKE = torch.ops.aten.new_empty_strided.default, torch.ops.aten.empty_like.default


def handled(recorder: Recording, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call where tensors may be wrapped, or need a gradient."""
    tensors = tensors_in((args, kwargs))
    transformed = dispatch.transforms() > 0 or dispatch.is_in_backward()
    if not transformed and not (torch.is_grad_enabled() and any(_needs_gradient(recorder, t) for t in tensors)):
        result = recorder.recorded_call(op, all_unsized(args), all_unsized(kwargs))
        return mapped(result, as_sized) if recorder.sized else result
    _see_sized(recorder)
    if op is NEW_STRIDED and list(args[1]) == list(args[0].shape):
        op, args, kwargs = LIKE, args[:1], {}

    def down(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and dispatch.is_transformed(leaf):
            leaf = dispatch.unwrap_if_over(leaf)
        if not isinstance(leaf, torch.Tensor) or type(leaf) is SizedTensor or dispatch.is_transformed(leaf):
            return leaf
        needs = leaf.requires_grad and not transformed
        return Sizing.apply(leaf) if needs else SizedTensor(leaf)  # type: ignore[no-untyped-call]

    if transformed:
        args = _numbers_as_tensors(recorder, op, args, tensors)
    with Below():
        result = op(*mapped(args, down), **{name: mapped(value, down) for name, value in kwargs.items()})
    return result if transformed else mapped(result, _plain_without_gradient)


def _numbers_as_tensors(
    recorder: Recording, op: Any, args: tuple[Any, ...], tensors: list[torch.Tensor]
) -> tuple[Any, ...]:
    """``x * 3`` with 3 as a tensor: C++ makes it one that a transform keeps, and that Python cannot be given."""

    def made(argument: Any, parameter: Any) -> Any:
        is_number = isinstance(argument, (int, float)) or type(argument) in SYMBOLIC
        if not (is_number and tensors and isinstance(parameter.type, torch.TensorType)):
            return argument
        number = plain_number(argument)
        with dispatch.unseen(), dispatch.unaided():
            tensor = torch.tensor(number, dtype=torch.result_type(tensors[0], number))
            while dispatch.is_transformed(tensor):
                tensor = dispatch.unwrapped(tensor)
        return SizedTensor(recorder.note_tensor_of(tensor, [number_of(argument)]))

    given = [made(argument, parameter) for argument, parameter in zip(args, op._schema.arguments, strict=False)]
    return tuple(given)


def _needs_gradient(recorder: Recording, tensor: torch.Tensor) -> bool:
    """Whether a gradient may be asked for; that of parameters alone is for training."""
    if not tensor.requires_grad:
        return False
    if type(tensor) is SizedTensor or is_gradient(tensor):
        return True
    return tensor.is_leaf and is_known_to(recorder, tensor)


def _plain_without_gradient(leaf: Any) -> Any:
    return leaf.held if type(leaf) is SizedTensor and not leaf.requires_grad else leaf


def gradient(recorder: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.autograd.grad(outputs, inputs, grad_outputs)``: gradients that are given tell C++ their sizes, too."""
    if not recorder.has_sized:
        return NotImplemented

    def given(leaf: Any) -> Any:
        return as_sized(leaf) if isinstance(leaf, torch.Tensor) and not dispatch.is_transformed(leaf) else leaf

    args = (*args[:2], *(mapped(argument, given) for argument in args[2:]))
    if "grad_outputs" in kwargs:
        kwargs = {**kwargs, "grad_outputs": mapped(kwargs["grad_outputs"], given)}
    return function(*args, **kwargs)


def _see_sized(recorder: Recording) -> None:
    if not recorder.has_sized:
        dispatch.see_dispatching_tensors()
        recorder.has_sized = True


@contextlib.contextmanager
def entered() -> Iterator[None]:
    """Tensors that enter a transform have sizes with expressions."""
    with contextlib.ExitStack() as stack:
        for holder, name, instead in ENTRIES:
            stack.enter_context(compat.patches.replaced(holder, name, instead))
        yield


def _entering(original: Any) -> Any:
    def instead(tensor: Any, *args: Any) -> Any:
        recorder: Any = STATE.listener
        plain = isinstance(tensor, torch.Tensor) and not dispatch.is_transformed(tensor)
        if recorder is None or not plain or type(tensor) is SizedTensor:
            return NotImplemented
        _see_sized(recorder)
        return original(SizedTensor(tensor), *args)

    return instead


ENTRIES = [(holder, name, _entering(getattr(holder, name))) for holder, name in dispatch.TRANSFORM_ENTRIES]


@contextlib.contextmanager
def sized(recorder: Recording) -> Iterator[None]:
    """C++ gets sizes with expressions of everything that is computed inside."""
    outer = recorder.sized, recorder.has_sized
    _see_sized(recorder)
    recorder.sized = True
    try:
        yield
    finally:
        recorder.sized, recorder.has_sized = outer


def left(result: Any) -> Any:
    """Results without what is only needed inside."""
    return mapped(result, unsized)
