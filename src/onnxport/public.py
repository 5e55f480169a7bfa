"""The public names that need torch, which `onnxport/__init__` imports when the first of them is asked for."""

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
