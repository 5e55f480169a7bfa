"""A symbolic function of a public kind with a model that needs it: exported, checked, and run on other arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from onnx.reference.op_run import OpRun

import onnxport
from onnxport import symbolic_helper
from tests.symbolic.harness import check, check_with, operators, ops, registered, runner

N_OF_X = {"dynamic_axes": {"x": {0: "n"}}}


@dataclass(frozen=True)
class Kind:
    """A model, arguments for it, and others for the finished file.

    ``symbolics`` are registered for the time of the export. ``kernels`` run the operators of other domains, without
    them ONNX Runtime runs the file. ``expected`` are operators that the file must have.
    """

    model: Callable[..., Any]
    args: Sequence[torch.Tensor]
    others: Sequence[torch.Tensor]
    expected: Sequence[str]
    symbolics: dict[str, Callable[..., Any]] = field(default_factory=dict)
    kernels: Sequence[type[OpRun]] = ()
    options: dict[str, Any] = field(default_factory=dict)
    operators: Sequence[tuple[str, Callable[..., Any]]] = ()


def function(name: str, forward: Callable[..., Any], symbolic: Callable[..., Any]) -> Any:
    members = {"forward": staticmethod(forward), "symbolic": staticmethod(symbolic)}
    return type(name, (torch.autograd.Function,), members)


def check_kind(kind: Kind) -> None:
    """Export the model, have it checked, and run the file on both lists of arguments."""
    options = dict(kind.options)
    if kind.kernels:
        options["verify"] = runner(*kind.kernels)
    with operators(*kind.operators):
        with ExitStack() as stack:
            for symbol, symbolic in kind.symbolics.items():
                stack.enter_context(registered(symbol, symbolic))
            program = onnxport.export(kind.model, tuple(kind.args), **options)
        assert program.verification.passed, str(program.verification)
        assert set(kind.expected) <= set(ops(program))
        for args in (kind.args, kind.others):
            if kind.kernels:
                check_with(program, kind.kernels, kind.model, *args)
            else:
                check(program, kind.model, *args)


@symbolic_helper.parse_args("v", "is", "is")
def roll(g: Any, self: Any, shifts: list[int], dims: list[int]) -> Any:
    """The symbolic function of a roll by slices, as public projects write it."""
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        tail = symbolic_helper._slice_helper(g, result, axes=[dim], starts=[-shift], ends=[2**31 - 1])
        head = symbolic_helper._slice_helper(g, result, axes=[dim], starts=[0], ends=[-shift])
        result = g.op("Concat", tail, head, axis_i=dim)
    return result
