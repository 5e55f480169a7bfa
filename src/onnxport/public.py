"""The public functions and classes that need torch, which `onnxport/__init__` imports when one is asked for."""

from onnxport.api import export
from onnxport.checking import verify
from onnxport.program.program import Program
from onnxport.program.report import Report
from onnxport.state import is_in_onnx_export, set_training
from onnxport.symbolic.overlay import converter, register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.verify import Case, Mismatch, Verification

__all__ = [
    "Case",
    "Mismatch",
    "Program",
    "Report",
    "Verification",
    "converter",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "set_training",
    "unregister_custom_op_symbolic",
    "verify",
]
