"""onnxport turns PyTorch models into ONNX files: `export(model, args, "model.onnx", ...)`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from onnxport import public_names
from onnxport.errors import (
    BackendError,
    CaptureError,
    CheckerError,
    CustomOperatorError,
    DynamicAxisError,
    DynamicAxisWarning,
    ExportError,
    InternalError,
    NotYetSupportedError,
    OnnxExporterError,
    OptionError,
    SaveError,
    TraceWarning,
    UnsupportedOperatorError,
    UnsupportedOpsetError,
    VerificationError,
    VerificationWarning,
)
from onnxport.options.enums import ExportTypes, OperatorExportTypes, TrainingMode
from onnxport.options.producer import producer_name, producer_version

if TYPE_CHECKING:
    from onnxport import backend, quant, utils
    from onnxport.api import export, verify
    from onnxport.compat import operators
    from onnxport.pretrained.export import export_pretrained
    from onnxport.program.program import Program
    from onnxport.program.program import Program as ONNXProgram
    from onnxport.report.report import Report
    from onnxport.symbolic.helpers import symbolic_helper, symbolic_registry
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset7
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset8
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset9
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset10
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset11
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset12
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset13
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset14
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset15
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset16
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset17
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset18
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset19
    from onnxport.symbolic.helpers import symbolic_opset as symbolic_opset20
    from onnxport.symbolic.objects.types import JitScalarType, TensorProtoDataType
    from onnxport.symbolic.overlay import converter, register_custom_op_symbolic, unregister_custom_op_symbolic
    from onnxport.utils import (
        export_to_pretty_string,
        is_in_onnx_export,
        select_model_mode_for_export,
        set_training,
    )
    from onnxport.verification import Case, Mismatch, Verification

__version__ = producer_version
__all__ = [
    "BackendError",
    "CaptureError",
    "Case",
    "CheckerError",
    "CustomOperatorError",
    "DynamicAxisError",
    "DynamicAxisWarning",
    "ExportError",
    "ExportTypes",
    "InternalError",
    "JitScalarType",
    "Mismatch",
    "NotYetSupportedError",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "OptionError",
    "Program",
    "Report",
    "SaveError",
    "TensorProtoDataType",
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
    "export_pretrained",
    "export_to_pretty_string",
    "is_in_onnx_export",
    "operators",
    "producer_name",
    "producer_version",
    "quant",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_training",
    "symbolic_helper",
    "symbolic_opset7",
    "symbolic_opset8",
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
    "utils",
    "verify",
]

public_names.register()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What needs torch, when it is first asked for, since importing torch takes seconds."""
        if name not in public_names.PUBLIC_NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        found = globals()[name] = public_names.load(name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
