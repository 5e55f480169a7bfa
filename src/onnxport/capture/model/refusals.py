"""The exceptions that a model raises for inputs that it does not accept."""

from __future__ import annotations

import torch

from onnxport.errors import CaptureError, ExportError


class NoTensor(CaptureError):
    """A model that returns no tensor."""

    def __init__(self) -> None:
        super().__init__("the model returns no tensor, so there is nothing to export; return one from its forward")


# Anything else is a bug of the model and is passed on. Scripted code raises only torch.jit.Error.
# An ExportError is a RuntimeError too, but not a refusal of the model: handlers of these have to let it through.
REFUSALS = (
    RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError, ArithmeticError, AttributeError,
    StopIteration, torch.jit.Error,
)  # fmt: skip
# The same at sizes other than the example's, where the model may return or find nothing.
REFUSALS_ELSEWHERE = (*REFUSALS, NoTensor, StopIteration, NameError)


def is_ours(error: BaseException) -> bool:
    """Whether an error is an ExportError other than those that mean a refusal at other sizes."""
    return isinstance(error, ExportError) and not isinstance(error, NoTensor)


class RefusalsIgnored:
    """Suppresses the exceptions of a model that refuses its inputs."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, REFUSALS) and not isinstance(error, ExportError)
