"""Modules that users import under names of the package itself and that live in a room: ``onnxport.symbolic_opset11``.

The classic custom-operator surface has sixteen of them. A file of the room is loaded under the public name, when
that is imported. Nothing here imports torch.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = "onnxport"
SYMBOLIC_OPSETS = range(7, 21)

# The file of each, below the package's folder. One file serves every opset.
PUBLIC_MODULES = {
    "symbolic_helper": "symbolic/helpers/symbolic_helper.py",
    "symbolic_registry": "symbolic/helpers/symbolic_registry.py",
    **{f"symbolic_opset{opset}": "symbolic/helpers/symbolic_opset.py" for opset in SYMBOLIC_OPSETS},
}


class PublicModules:
    """Finds the modules of the table for the import statement; others are not its business."""

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


def load(name: str) -> ModuleType:
    """A module of the table, by its public name within the package."""
    return importlib.import_module(f"{PACKAGE}.{name}")
