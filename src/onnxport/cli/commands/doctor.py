"""`onnxport doctor`: what is installed, and how to get what is missing."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import platform
from pathlib import Path
from typing import Any

import onnxport
from onnxport.cli.answers import Answer
from onnxport.cli.screen import table

# By import name, with the requirement to install.
REQUIRED = {
    "torch": "torch", "numpy": "numpy", "onnx": "onnx", "onnx_ir": "onnx-ir", "onnxruntime": "onnxruntime",
    "typer": "typer", "rich": "rich",
}  # fmt: skip
OPTIONAL = {"transformers": "onnxport[hf]", "safetensors": "onnxport[hf]", "timm": "timm", "torchvision": "torchvision"}
TORCH_FREE = ("numpy", "onnx", "onnx_ir", "onnxruntime")
"""Packages with a __version__ that can be imported without torch."""


def doctor() -> Answer:
    """Show what is installed, and how to get what is missing."""
    found = {name: _version(name) for name in (*REQUIRED, *OPTIONAL)}
    missing = {name: f"pip install '{wanted}'" for name, wanted in {**REQUIRED, **OPTIONAL}.items() if not found[name]}
    required = [name for name in missing if name in REQUIRED]
    data = {
        "ok": not required,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {"onnxport": onnxport.__version__, **found},
        "missing": missing,
    }
    reason = f"{', '.join(required)} {'is' if len(required) == 1 else 'are'} missing" if required else None
    return Answer(not required, data, lambda console: _show(console, data), reason)


def _version(name: str) -> str | None:
    """The version of a package; None if it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    if name == "torch":
        return _torch_version(Path(spec.origin).with_name("version.py"))
    if name in TORCH_FREE:
        return str(importlib.import_module(name).__version__)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_version(file: Path) -> str | None:
    """What torch/version.py assigns to __version__, without importing torch."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if "__version__" in [target.id for target in targets if isinstance(target, ast.Name)]:
                return str(node.value.value)
    return None


def _show(console: Any, data: dict[str, Any]) -> None:
    rows = table("package", "version", "")
    rows.add_row("python", data["python"], data["platform"])
    for name, version in data["packages"].items():
        needed = "required" if name in REQUIRED else "for some sources of models"
        text = "" if version else f"{needed}: {data['missing'].get(name, '')}"
        rows.add_row(name, version or "missing", text)
    console.print(rows)
