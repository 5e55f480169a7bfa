"""Element types that an ONNX operator accepts at an opset, by its schema and by the runtime's kernels."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx.defs
import torch

from onnxport.lower.dtypes import SCHEMA_NAMES, WIDER
from onnxport.lower.inference.kernels import KERNELS
from onnxport.lower.value import Value

OPEN_ENDED = 999


@dataclass(frozen=True, slots=True)
class Signature:
    """The type variable of each input and output, and the element types that each variable may take."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic: bool
    in_schema: dict[str, frozenset[str]]
    in_runtime: dict[str, frozenset[str]]

    def input_variable(self, index: int) -> str:
        return self.inputs[min(index, len(self.inputs) - 1) if self.variadic else index]


@functools.cache
def signature(op: str, opset: int) -> Signature:
    schema = onnx.defs.get_schema(op, opset)
    variables = {
        constraint.type_param_str: frozenset(
            name[len("tensor(") : -1] for name in constraint.allowed_type_strs if name.startswith("tensor(")
        )
        for constraint in schema.type_constraints
    }
    # A kernel without a last opset is for the version of the operator that it names, not for newer ones.
    rows = [
        row for first, last, row in KERNELS.get(op, ())
        if first <= schema.since_version <= (last if last < OPEN_ENDED else first)
    ]  # fmt: skip
    runtime = {name: frozenset(types.split()) for name, types in rows[0].items()} if rows else {}
    composite = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]
    if op in KERNELS and not rows and not composite:
        runtime = dict.fromkeys(variables, frozenset())
    variadic = bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        tuple(formal.type_str for formal in schema.inputs),
        tuple(formal.type_str for formal in schema.outputs),
        variadic,
        variables,
        runtime,
    )


@functools.cache
def exists(op: str, opset: int) -> bool:
    return onnx.defs.has(op, "") and _since(op) <= opset


@functools.cache
def _since(op: str) -> int:
    version: int = onnx.defs.get_schema(op).since_version
    while version > 1:
        try:
            version = onnx.defs.get_schema(op, version - 1).since_version
        except onnx.defs.SchemaError:
            return version
    return version


def since(op: str) -> int:
    """The opset in which an operator first appeared."""
    return _since(op)


def takes(op: str, opset: int, variable: str, dtype: torch.dtype) -> bool:
    """Whether schema and runtime accept this element type. The runtime widens float16 by itself."""
    found = signature(op, opset)
    name = SCHEMA_NAMES.get(dtype)
    if variable not in found.in_schema or name is None:
        return True
    if name not in found.in_schema[variable]:
        return False
    kernel = found.in_runtime.get(variable)
    if not kernel or name in kernel:
        return True
    return (dtype == torch.float16 and "float" in kernel) or dtype not in WIDER


def runs(op: str, opset: int, variable: str, dtype: torch.dtype) -> bool:
    """Whether schema and runtime support this element type without widening, except for float16."""
    found = signature(op, opset)
    name = SCHEMA_NAMES.get(dtype, "")
    kernel = found.in_runtime.get(variable, found.in_schema.get(variable, frozenset()))
    wide = "float" if dtype == torch.float16 else name
    return name in found.in_schema.get(variable, frozenset()) and (name in kernel or wide in kernel)


def casts(op: str, opset: int, inputs: Sequence[Value | None]) -> Mapping[str, torch.dtype]:
    """For each type variable with an element type that is not accepted: the one to compute in instead."""
    return _casts(op, opset, tuple([None if value is None else value.dtype for value in inputs]))


@functools.lru_cache(maxsize=10_000)
def _casts(op: str, opset: int, dtypes: tuple[torch.dtype | None, ...]) -> Mapping[str, torch.dtype]:
    found = signature(op, opset)
    needed: dict[str, torch.dtype] = {}
    for index, dtype in enumerate(dtypes):
        if dtype is None or (index >= len(found.inputs) and not found.variadic):
            continue
        variable = found.input_variable(index)
        if variable in needed or takes(op, opset, variable, dtype):
            continue
        options = [wider for wider in WIDER.get(dtype, ()) if takes(op, opset, variable, wider)]
        if options:
            needed[variable] = next((wider for wider in options if runs(op, opset, variable, wider)), options[0])
    return needed
