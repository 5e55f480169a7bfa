"""onnxport turns PyTorch models into ONNX files: `export(model, args, "model.onnx", ...)`."""

import importlib as _importlib
import typing as _typing

from onnxport.errors import (
    BackendError,
    CaptureError,
    CustomOperatorError,
    DynamicAxisError,
    DynamicAxisWarning,
    ExportError,
    NotYetSupportedError,
    OptionError,
    SaveError,
    TraceWarning,
    UnsupportedOperatorError,
    UnsupportedOpsetError,
    VerificationError,
    VerificationWarning,
)
from onnxport.modes import OperatorExportTypes, TrainingMode

if _typing.TYPE_CHECKING:
    from onnxport import (
        backend,
        operators,
        symbolic_helper,
        symbolic_opset9,
        symbolic_opset10,
        symbolic_opset11,
        symbolic_opset12,
        symbolic_opset13,
        symbolic_opset14,
        symbolic_opset15,
        symbolic_opset16,
        symbolic_opset17,
        symbolic_opset18,
        symbolic_opset19,
        symbolic_opset20,
        symbolic_registry,
    )
    from onnxport.public import *

__version__ = "0.1.0"
__all__ = [
    "BackendError",
    "CaptureError",
    "Case",
    "CustomOperatorError",
    "DynamicAxisError",
    "DynamicAxisWarning",
    "ExportError",
    "Mismatch",
    "NotYetSupportedError",
    "OperatorExportTypes",
    "OptionError",
    "Program",
    "Report",
    "SaveError",
    "TraceWarning",
    "TrainingMode",
    "UnsupportedOperatorError",
    "UnsupportedOpsetError",
    "Verification",
    "VerificationError",
    "VerificationWarning",
    "backend",
    "converter",
    "export",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
    "set_training",
    "symbolic_helper",
    "symbolic_opset9",
    "symbolic_opset10",
    "symbolic_opset11",
    "symbolic_opset12",
    "symbolic_opset13",
    "symbolic_opset14",
    "symbolic_opset15",
    "symbolic_opset16",
    "symbolic_opset17",
    "symbolic_opset18",
    "symbolic_opset19",
    "symbolic_opset20",
    "symbolic_registry",
    "unregister_custom_op_symbolic",
    "verify",
]

_MODULES = (
    "backend",
    "operators",
    "symbolic_helper",
    "symbolic_registry",
    *(f"symbolic_opset{n}" for n in range(9, 21)),
)


def __getattr__(name: str) -> _typing.Any:
    """What needs torch, when it is asked for, since importing torch takes seconds: a module, or all other names."""
    if name not in __all__:
        raise AttributeError(f"module 'onnxport' has no attribute {name!r}")
    if name in _MODULES:
        return _importlib.import_module(f"onnxport.{name}")
    public = _importlib.import_module("onnxport.public")
    globals().update({known: getattr(public, known) for known in public.__all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
