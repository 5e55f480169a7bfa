"""Tensors that are made without an operator: parameters and subclasses, new data, memory that others gave."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.numbers.texts import text_of
from onnxport.capture.record.recording import Recording

TENSOR: Any = torch.Tensor
MAKE_SUBCLASS, AS_SUBCLASS = TENSOR._make_subclass, TENSOR.as_subclass


@contextlib.contextmanager
def made() -> Iterator[None]:
    """``nn.Parameter(x)`` and ``x.as_subclass(Kind)`` give other names to a value; what is compiled runs as it is."""
    with (
        compat.patches.replaced(TENSOR, "_make_subclass", _make_subclass, kind="static"),
        compat.patches.replaced(TENSOR, "as_subclass", _as_subclass),
        compat.compiled.run_eagerly(lambda: STATE.listener is not None),
    ):
        yield


def _make_subclass(kind: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """C++ gives a tensor that a handler has seen no second Python class: it is not to see this one."""
    if STATE.listener is None:
        return NotImplemented
    return _unseen(data, lambda: MAKE_SUBCLASS(kind, data, *args, **kwargs))


def _as_subclass(tensor: Any, kind: Any) -> Any:
    if STATE.listener is None:
        return NotImplemented
    return _unseen(tensor, lambda: AS_SUBCLASS(tensor, kind))


def _unseen(tensor: torch.Tensor, make: Any) -> Any:
    recorder: Any = STATE.listener
    with compat.dispatch.unseen(), compat.dispatch.unaided():
        result = make()
        recorder.note_alias(result, tensor)
    return result


def set_data(recorder: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``y.data = x``: from now on y lies in the memory of x."""
    with compat.dispatch.unseen():
        function(*args, **kwargs)
    recorder.note_alias(*args[:2])


def shown(recorder: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor as text. It is read as a whole, and none of the operators that this takes belongs to the model.

    What is more than a number is shown to be looked at, unless something else than a text is made of it; a number may
    be a part of a name, as in ``f"layer_{i}"``.
    """
    ref = recorder.ref(args[0])
    with compat.dispatch.unseen():
        text = function(*args, **kwargs)
    recorder.note_read(function.__name__, ref, text)
    if function.__name__ == "__format__" and not args[0].dim():
        return text
    reads = recorder.record.reads
    read = reads[-1]
    reads[-1] = looked_at = dataclasses.replace(read, by_torch=True)

    def lost() -> None:
        if looked_at in reads:
            reads[reads.index(looked_at)] = read

    return text_of(text, lost)
