"""The table of DESIGN.md: which part of the package may import which, and what of the outside."""

from __future__ import annotations

import ast

import pytest

from tests.policy.source import PACKAGE, ROOT, Import, Module, dotted, modules

OUTSIDE = ("onnx", "onnx_ir", "onnxruntime", "torch")

# What each part may import: other parts of onnxport, and of the packages in OUTSIDE.
# Everyone may import errors, tracebacks and itself. `api` and the modules beside it join the parts and are free.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "tracebacks": set(),
    "tolerances": set(),
    "progress": {"program"},
    "compat": {"torch"},
    "graph": {"torch"},
    "capture": {"graph", "compat", "torch"},
    "lower": {"graph", "onnx", "onnx_ir", "torch"},
    "ops": {"graph", "lower", "torch"},
    "symbolic": {"graph", "lower", "onnx", "onnx_ir", "torch"},
    "optimize": {"onnx_ir"},
    "save": {"onnx_ir", "onnx", "torch"},
    # What looks for the cause of a mismatch captures, translates and optimises again.
    "verify": {"capture", "compat", "graph", "lower", "optimize", "save", "tolerances"}
    | {"onnx", "onnx_ir", "onnxruntime", "torch"},
    "options": {"capture", "modes", "progress", "save", "verify", "torch"},
    "program": {"capture", "graph", "lower", "optimize", "options", "report", "save", "translation", "verify"}
    | {"onnx", "onnx_ir", "torch"},
    # No torch: `program` is its torch-free report, `optimize` the walk over onnx_ir's graphs.
    "report": {"optimize", "program", "onnx_ir"},
    "backend": {"graph", "symbolic", "onnx", "onnxruntime", "torch"},
}

# The flag behind torch.onnx.is_in_onnx_export(), which models ask.
IN_EXPORT_FLAG = "torch.onnx._internal.torchscript_exporter._globals.GLOBALS"

EVERY_MODULE = pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)


def imported_part(found: Import) -> str | None:
    """The part of onnxport, or the package in OUTSIDE, that an import reaches; None for what is free to all."""
    top, _, rest = found.module.partition(".")
    if top == PACKAGE:
        return rest.partition(".")[0] or PACKAGE
    return top if top in OUTSIDE else None


@EVERY_MODULE
def test_parts_import_only_what_the_design_allows(module: Module) -> None:
    if module.part not in MAY_IMPORT:
        return
    allowed = MAY_IMPORT[module.part] | {module.part, "errors", "tracebacks", None}
    wrong = [f"{module.name}:{i.line} imports {i.module}" for i in module.imports() if imported_part(i) not in allowed]
    assert not wrong, "\n".join([f"{module.part} may import {sorted(MAY_IMPORT[module.part])}", *wrong])


@EVERY_MODULE
def test_other_exporters_are_not_used(module: Module) -> None:
    allowed = {IN_EXPORT_FLAG} if module.name == "compat/__init__.py" else set()
    wrong = [
        f"{module.name}:{found.line} imports {found.module}"
        for found in module.imports()
        if (found.within("torch.onnx") or found.within("onnxscript")) and found.module not in allowed
    ]
    wrong += [
        f"{module.name}:{node.lineno} uses torch.onnx"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and dotted(node) == "torch.onnx"
    ]
    assert not wrong, "\n".join(wrong)


def test_every_folder_has_its_row() -> None:
    free = {"quant", "cli"}  # built around the exporter, on the public API
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= MAY_IMPORT.keys() | free
