"""The types of errors and warnings. Each message says what is wrong, where in the user's model, and what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_MADE: ContextVar[list[ExportError] | None] = ContextVar("_MADE", default=None)


class ExportError(RuntimeError):
    """The model could not be exported as asked. Nothing was written.

    ``report`` is the `onnxport.Report` up to the error; None if there is none.
    """

    report: Any = None

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        made = _MADE.get()
        if made is not None:
            made.append(self)


# Its name in code for torch.onnx.
OnnxExporterError = ExportError


class KeptFromHandlers:
    """A call of the model: an ExportError raised inside it is raised again after it, even if the model caught it."""

    def __enter__(self) -> None:
        self._made: list[ExportError] = []
        self._token = _MADE.set(self._made)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        _MADE.reset(self._token)
        if self._made and (error is None or (isinstance(error, Exception) and not isinstance(error, ExportError))):
            raise self._made[0] from error


@contextlib.contextmanager
def of_no_model() -> Iterator[None]:
    """A nested export: its errors inside a model that is being exported are for that model to handle."""
    token = _MADE.set(None)
    try:
        yield
    finally:
        _MADE.reset(token)


class CheckerError(ExportError):
    """The graph is not valid ONNX."""


class OptionError(ExportError, ValueError):
    """An argument of the call is wrong; the message names it."""


class OptionTypeError(OptionError, TypeError):
    """An argument of the call has the wrong type; the message names it."""


class CaptureError(ExportError):
    """The model could not be captured: it raised an error, or returned something that is not a tensor."""


class DynamicAxisError(CaptureError):
    """The model is not the same at every size of an axis that was declared dynamic."""


class UnsupportedOperatorError(ExportError):
    """The model contains operators that have no translation; all of them are listed."""


class UnsupportedOpsetError(UnsupportedOperatorError):
    """Something has no form in the requested opset; the message names the lowest opset that has one."""


class CustomOperatorError(ExportError, TypeError):
    """A user's symbolic function or converter did something wrong; the message says what, and where."""


class SymbolicValueError(ExportError):
    """What a user's symbolic function raises of a value that it cannot translate."""

    def __init__(self, message: str, value: Any = None) -> None:
        super().__init__(message if value is None else f"{message} (the value: {value})")


class NotYetSupportedError(ExportError, NotImplementedError):
    """A documented feature that this version does not have."""


class SaveError(ExportError, OSError):
    """The file could not be written; an existing file is unchanged."""


class VerificationError(ExportError):
    """The exported model gives other results than the torch model.

    ``mismatch`` is an `onnxport.Mismatch`: the operator, its source line and the two values; None if it was not found.
    """

    def __init__(self, message: str, mismatch: Any = None) -> None:
        super().__init__(message)
        self.mismatch = mismatch


class InternalError(ExportError):
    """A bug in onnxport: ``__cause__`` is the error, the message has the line of the model, if known."""


class BackendError(RuntimeError):
    """A model that `onnxport.backend` cannot load or run as asked."""


class OnnxExporterWarning(UserWarning):
    """What an export warns of, whatever it is."""


class TraceWarning(OnnxExporterWarning):
    """A data-dependent value was frozen into the exported graph."""


class DynamicAxisWarning(OnnxExporterWarning):
    """An axis of ``dynamic_axes`` that the model requires to be static, or equal to another."""


class VerificationWarning(OnnxExporterWarning):
    """A failed check, with ``verify="warn"``."""
