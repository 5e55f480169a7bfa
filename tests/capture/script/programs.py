"""Runs a scripted program through the exporter and compares it with torch on inputs that take every path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import onnxport
from onnxport.capture.model.structure import flatten

OPSETS = (11, 13, 17, 20)
Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A function or module, its example, and further inputs. ``axes`` are the dynamic axes of each input."""

    name: str
    model: Callable[..., Any]
    example: Inputs
    others: Sequence[Inputs] = ()
    axes: dict[str, dict[int, str]] = field(default_factory=dict)
    since: int = 11
    has: frozenset[str] = frozenset()


def table(programs: Sequence[Program]) -> Callable[..., None]:
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("program", programs, ids=lambda program: program.name)
    def test(program: Program, opset: int) -> None:
        check(program, opset)

    return test


def check(program: Program, opset: int) -> None:
    scripted = torch.jit.script(program.model)
    keywords: dict[str, Any] = {"opset_version": opset, "dynamic_axes": program.axes} if program.axes else {}
    keywords = {"opset_version": opset, **keywords}
    if program.axes:
        keywords["input_names"] = names(scripted, program.example)
    if opset < program.since:
        with pytest.raises(onnxport.UnsupportedOpsetError, match=str(program.since)):
            onnxport.export(scripted, program.example, **keywords)
        return
    exported = onnxport.export(scripted, program.example, **keywords)
    assert exported.verification.passed
    assert program.has <= {node.op_type for node in exported.model.graph.all_nodes()}
    session = onnxruntime.InferenceSession(exported.model_proto.SerializeToString())
    for inputs in (program.example, *program.others):
        outputs = run(session, inputs)
        compare(scripted(*copies(inputs)), outputs)
        check_declared(session, outputs)


def check_declared(session: onnxruntime.InferenceSession, outputs: list[Any]) -> None:
    """The shapes that the file declares hold for these outputs."""
    for entry, output in zip(session.get_outputs(), outputs, strict=True):
        if not isinstance(output, list) and entry.shape is not None:
            declared = [length for length in entry.shape if isinstance(length, int)]
            found = [b for a, b in zip(entry.shape, output.shape, strict=True) if isinstance(a, int)]
            assert declared == found, (entry.name, entry.shape, output.shape)


def names(scripted: Any, example: Inputs) -> list[str]:
    schema = scripted.schema if hasattr(scripted, "schema") else scripted.forward.schema
    arguments = [argument.name for argument in schema.arguments if argument.name != "self"]
    return [
        name if count == 1 else f"{name}.{index}"
        for name, value in zip(arguments, example, strict=False)
        for count in [len(tensors(value))]
        for index in range(count)
    ]


def tensors(inputs: Any) -> list[torch.Tensor]:
    leaves = flatten(inputs)[0]
    given = [leaf for leaf in leaves if isinstance(leaf, (torch.Tensor, bool, int, float))]
    return [torch.as_tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None) for leaf in given]


def copies(inputs: Inputs) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def run(session: onnxruntime.InferenceSession, inputs: Inputs) -> list[Any]:
    given = [tensor.numpy() for tensor in tensors(inputs)]
    feeds = dict(zip([entry.name for entry in session.get_inputs()], given, strict=True))
    return session.run(None, feeds)


def compare(expected: Any, actual: list[Any]) -> None:
    flat = [element for output in actual for element in (output if isinstance(output, list) else [output])]
    leaves = [leaf for leaf in flatten(expected)[0] if isinstance(leaf, (torch.Tensor, bool, int, float))]
    assert len(leaves) == len(flat)
    for leaf, found in zip(leaves, flat, strict=True):
        if isinstance(leaf, torch.Tensor):
            assert str(found.dtype) == str(leaf.dtype).removeprefix("torch."), (leaf.dtype, found.dtype)
            assert found.shape == tuple(leaf.shape)
        np.testing.assert_allclose(found, torch.as_tensor(leaf).detach().numpy(), rtol=1e-4, atol=1e-5)
