"""Example inputs as torch tensors: random as `--input` describes them, or read from a file."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from onnxport.cli.ending import CommandError
from onnxport.cli.files import Array
from onnxport.cli.specs import FLOATS, InputSpec
from onnxport.report.near_names import near


def draw_inputs(specs: Iterable[InputSpec]) -> dict[str, torch.Tensor]:
    """Content that is the same each time: normal floats, integers 0 and 1, unless a range is given."""
    generator = torch.Generator().manual_seed(0)
    return {spec.name: _drawn(spec, generator) for spec in specs}


def _drawn(spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if spec.dtype in FLOATS:
        if spec.low is None or spec.high is None:
            return torch.randn(spec.shape, generator=generator).to(dtype)
        drawn = torch.rand(spec.shape, generator=generator, dtype=torch.float64)
        return (spec.low + (spec.high - spec.low) * drawn).to(dtype)
    if dtype.is_complex:
        return torch.randn(spec.shape, generator=generator, dtype=torch.complex64).to(dtype)
    low, high = (0, 2) if spec.low is None or spec.high is None else (int(spec.low), int(spec.high))
    if high <= low:
        raise CommandError(
            f"--input {spec.name}=…: the range has no number of dtype {spec.dtype}; HIGH is not included"
        )
    return torch.randint(low, high, spec.shape, generator=generator).to(dtype)


def from_arrays(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {name: _from_array(array) for name, array in arrays.items()}


def _from_array(array: Array) -> torch.Tensor:
    """A tensor from an array, also of a dtype that numpy itself lacks."""
    name = array.dtype.name
    if array.dtype.kind == "V" or name.startswith(("bfloat16", "float8")):
        return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, name))
    return torch.from_numpy(np.ascontiguousarray(array))


def argument_names(model: Any) -> list[str] | None:
    """The names of a model's arguments; None if it accepts any, or has no signature."""
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    if isinstance(model, torch.jit.ScriptModule):
        forward: Any = model.forward
        return [argument.name for argument in forward.schema.arguments[1:]]
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return None
    kinds = {parameter.kind for parameter in parameters.values()}
    if kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
        return None
    return list(parameters)


def check_arguments(model: Any, given: Sequence[str], option: str) -> None:
    """Each input must be an argument of the model."""
    known = argument_names(model)
    for name in given if known is not None else ():
        if name not in (known or ()):
            hint = near(name, known or ()) or f"; it takes {', '.join(known or ())}"
            raise CommandError(f"{option} {name}: the model has no such argument{hint}")
