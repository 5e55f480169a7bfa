"""onnxport turns PyTorch models into ONNX files: `export(model, args, "model.onnx", ...)`."""

from onnxport import operators
from onnxport.api import export
from onnxport.checking import verify
from onnxport.errors import (
    CaptureError,
    DynamicAxisError,
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
from onnxport.program import Program, Report
from onnxport.state import is_in_onnx_export, set_training
from onnxport.verify import Case, Verification

__version__ = "0.1.0"
__all__ = [
    "CaptureError",
    "Case",
    "DynamicAxisError",
    "ExportError",
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
    "export",
    "is_in_onnx_export",
    "operators",
    "set_training",
    "verify",
]
