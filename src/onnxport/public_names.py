"""The modules of public names that need torch, and are imported on first use.

Modules of the classic custom-operator surface are imported under names of the package itself and live in a room:
``onnxport.symbolic_opset11``. A file of the room is loaded under the public name. Nothing here imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "onnxport"
SYMBOLIC_OPSETS = range(7, 21)

# The file of each, below the package's folder. One file serves every opset.
PUBLIC_MODULES = {
    "operators": "compat/operators.py",
    "symbolic_helper": "symbolic/helpers/symbolic_helper.py",
    "symbolic_registry": "symbolic/helpers/symbolic_registry.py",
    **{f"symbolic_opset{opset}": "symbolic/helpers/symbolic_opset.py" for opset in SYMBOLIC_OPSETS},
}

# The module of the package that each name comes from; a module comes from itself.
PUBLIC_NAMES = {
    "Case": "verification",
    "JitScalarType": "symbolic.objects.types",
    "Mismatch": "verification",
    "ONNXProgram": "program.program",
    "Program": "program.program",
    "Report": "report.report",
    "TensorProtoDataType": "symbolic.objects.types",
    "Verification": "verification",
    "converter": "symbolic.overlay",
    "export": "api",
    "export_pretrained": "pretrained.export",
    "export_to_pretty_string": "utils",
    "is_in_onnx_export": "utils",
    "register_custom_op_symbolic": "symbolic.overlay",
    "select_model_mode_for_export": "utils",
    "set_training": "utils",
    "unregister_custom_op_symbolic": "symbolic.overlay",
    "verify": "api",
    **{module: module for module in ("backend", "quant", "utils", *PUBLIC_MODULES)},
}

# What a name is called where it comes from, if not the same.
OWN_NAMES = {"ONNXProgram": "Program"}


class PublicModules:
    """Finds the modules of the table for the import statement, and no others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        parent, _, child = name.rpartition(".")
        if parent != PACKAGE or child not in PUBLIC_MODULES:
            return None
        return importlib.util.spec_from_file_location(name, Path(__file__).parent / PUBLIC_MODULES[child])


def register() -> None:
    """Let the import statement find the modules of the table."""
    if PublicModules not in sys.meta_path:
        sys.meta_path.append(PublicModules)


def load(name: str) -> Any:
    """The object with a public name."""
    module = importlib.import_module(f"{PACKAGE}.{PUBLIC_NAMES[name]}")
    return module if PUBLIC_NAMES[name] == name else getattr(module, OWN_NAMES.get(name, name))
