"""The registration of symbolic functions in old projects: ``register_op("gelu", gelu, "", 11)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxport.symbolic.overlay import OVERLAY, register_custom_op_symbolic, unregister_custom_op_symbolic


def register_op(opname: str, op: Callable[..., Any], domain: str, version: int) -> None:
    """Register a function for an operator of a namespace; the empty one is torch's own."""
    register_custom_op_symbolic(f"{domain or 'aten'}::{opname}", op, version)


def unregister_op(opname: str, domain: str, version: int) -> None:
    """Undo the latest registration for this operator and opset."""
    unregister_custom_op_symbolic(f"{domain or 'aten'}::{opname}", version)


def is_registered_op(opname: str, domain: str, version: int) -> bool:
    """Whether a user's function is registered for an operator at an opset."""
    return f"{domain or 'aten'}::{opname}" in OVERLAY.snapshot(version)
