"""Models with operators of their own, exported and run: in ONNX Runtime, or by onnx's reference with their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import onnxport

Symbolic = Callable[..., Any]


@contextmanager
def registered(name: str, symbolic: Symbolic, opset: int = 9) -> Iterator[None]:
    onnxport.register_custom_op_symbolic(name, symbolic, opset)
    try:
        yield
    finally:
        onnxport.unregister_custom_op_symbolic(name, opset)


@contextmanager
def operators(*schemas: tuple[str, Callable[..., Any]], namespace: str = "lab") -> Iterator[None]:
    """Operators of torch: each by its schema and what it computes."""
    library = torch.library.Library(namespace, "FRAGMENT")
    try:
        for schema, function in schemas:
            library.define(schema)
            library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
        yield
    finally:
        library._destroy()


def kernel(domain: str, name: str, compute: Callable[..., Any]) -> type[OpRun]:
    """A kernel for onnx's reference: ``compute(*arrays, **attributes)``."""

    def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        results = compute(*inputs, **attributes)
        return results if isinstance(results, tuple) else (results,)

    return type(name, (OpRun,), {"op_domain": domain, "_run": run})


def runner(*kernels: type[OpRun]) -> Callable[[onnx.ModelProto, dict[str, Any]], list[Any]]:
    """What runs a model with operators of other domains."""

    def run(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
        outputs: list[Any] = ReferenceEvaluator(model, new_ops=list(kernels)).run(None, inputs)
        return outputs

    return run


def export(model: Callable[..., Any], *args: Any, **options: Any) -> onnxport.Program:
    """Export; the program must have been checked against the model."""
    program = onnxport.export(model, args, **options)
    assert program.verification.passed, str(program.verification)
    return program


def check(program: onnxport.Program, model: Callable[..., Any], *args: torch.Tensor) -> None:
    """The program gives what the model gives, dtype and shape included."""
    torch.testing.assert_close(program(*args), model(*args), rtol=1e-4, atol=1e-5)


def check_with(
    program: onnxport.Program, kernels: Sequence[type[OpRun]], model: Callable[..., Any], *args: torch.Tensor
) -> None:
    """As `check`, in onnx's reference with these kernels."""
    proto = program.model_proto
    inputs = {entry.name: arg.numpy() for entry, arg in zip(proto.graph.input, args, strict=True)}
    outputs = runner(*kernels)(proto, inputs)
    expected = model(*args)
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for got, wanted in zip(outputs, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(np.asarray(got)), wanted, rtol=1e-4, atol=1e-5)


def ops(program: onnxport.Program) -> list[str]:
    return [
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph.all_nodes()
    ]
