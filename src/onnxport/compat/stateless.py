"""``torch.func.functional_call``, which refuses to run in a model that believes it is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils import stateless

from onnxport.compat import dispatch
from onnxport.compat.patches import replaced


def _call(
    module: nn.Module,
    parameters_and_buffers: Mapping[str, torch.Tensor],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with stateless._reparametrize_module(
        module, dict(parameters_and_buffers), tie_weights=tie_weights, strict=strict
    ):  # fmt: skip
        return module(*given, **(kwargs or {}))


def calls_run() -> contextlib.AbstractContextManager[None]:
    """Let it run: what it computes is recorded like anything else. Scripted modules have no such calls."""

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        own = dispatch.is_seen() and not isinstance(module, (torch.jit.ScriptModule, nn.DataParallel))
        return _call(module, *args, **kwargs) if own else NotImplemented

    return replaced(stateless, "_functional_call", call)
