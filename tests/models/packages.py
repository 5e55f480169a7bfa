"""The packages that the models come from. They are the extra `models`; onnxport itself needs none of them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

import torch

from tests.ops import torchvision_operators

# What torchvision asks for on import besides the operators that the tests implement.
MORE_SCHEMAS = ("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",)


def has_operators() -> bool:
    """Stands in for torchvision's own answer, also in what TorchScript compiles."""
    return True


def package(name: str) -> ModuleType:
    """Import a package. torchvision's compiled operators do not load beside torch for CPU: ours stand in for them."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if "torchvision" not in sys.modules and torchvision_operators.LIBRARY is not None:
        for schema in MORE_SCHEMAS:
            if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
                torchvision_operators.LIBRARY.define(schema)
    module = importlib.import_module(name)
    if torchvision_operators.LIBRARY is not None:
        # torchvision asks for its compiled file, not for its operators.
        for path in [path for path in sys.modules if path.startswith("torchvision.")]:
            if hasattr(sys.modules[path], "_has_ops"):
                sys.modules[path]._has_ops = has_operators  # type: ignore[attr-defined]
    return module


def missing(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]
