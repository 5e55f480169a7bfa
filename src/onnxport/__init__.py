"""onnxport turns PyTorch models into ONNX files: `export(model, args, "model.onnx", ...)`."""

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
from onnxport.api import export
from onnxport.checking import verify
from onnxport.errors import (
    BackendError,
    CaptureError,
    CustomOperatorError,
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
from onnxport.symbolic.overlay import converter, register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.verify import Case, Mismatch, Verification

__version__ = "0.1.0"
__all__ = [
    "BackendError",
    "CaptureError",
    "Case",
    "CustomOperatorError",
    "DynamicAxisError",
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
