"""What a model raises when it does not take what it is given."""

from __future__ import annotations

import torch

from onnxport.errors import CaptureError


class NoTensor(CaptureError):
    """A model that returns no tensor."""

    def __init__(self) -> None:
        super().__init__("the model returns no tensor: there is nothing to export")


# Anything else is the model's own bug and is passed on. Whatever scripted code raises is a torch.jit.Error.
REFUSALS = (
    RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError, ArithmeticError, AttributeError,
    StopIteration, torch.jit.Error,
)  # fmt: skip
# The same where it is run at other sizes than the example's: it may return, find or name nothing there.
REFUSALS_ELSEWHERE = (*REFUSALS, NoTensor, StopIteration, NameError)
