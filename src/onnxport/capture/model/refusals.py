"""What a model raises when it does not take what it is given."""

from __future__ import annotations

import torch

from onnxport.errors import CaptureError, ExportError


class NoTensor(CaptureError):
    """A model that returns no tensor."""

    def __init__(self) -> None:
        super().__init__("the model returns no tensor: there is nothing to export")


# Anything else is the model's own bug and is passed on. Whatever scripted code raises is a torch.jit.Error.
# An ExportError, which is a RuntimeError too, is no refusal of the model's: who catches these lets it through.
REFUSALS = (
    RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError, ArithmeticError, AttributeError,
    StopIteration, torch.jit.Error,
)  # fmt: skip
# The same where it is run at other sizes than the example's: it may return, find or name nothing there.
REFUSALS_ELSEWHERE = (*REFUSALS, NoTensor, StopIteration, NameError)


def is_ours(error: BaseException) -> bool:
    """Whether an error is an ExportError of another kind than those that stand for a refusal at other sizes."""
    return isinstance(error, ExportError) and not isinstance(error, NoTensor)


class RefusalsIgnored:
    """Goes on after the block where the model refuses what it is given."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, REFUSALS) and not isinstance(error, ExportError)
