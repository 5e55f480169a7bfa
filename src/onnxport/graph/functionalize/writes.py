"""Operators that write to their arguments, and operators that compute the same without writing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.graph.interpret import evaluate, has_tag
from onnxport.graph.ir import Argument, Node, ScalarType, Schema, TensorType, Value, schema_of, schemas_of

# In-place operators with a functional form that is not their name without the underscore.
RENAMED = {
    "aten::zero_": "aten::zeros_like",
    "aten::normal_": "aten::normal_functional",
    "aten::__iand__": "aten::bitwise_and",
    "aten::__ior__": "aten::bitwise_or",
    "aten::__ixor__": "aten::bitwise_xor",
    "aten::__ilshift__": "aten::bitwise_left_shift",
    "aten::__irshift__": "aten::bitwise_right_shift",
}
# The operator that returns what this one writes, if it has another name; it may have further results.
NAMESAKES = {"aten::fused_moving_avg_obs_fake_quant": "aten::_fused_moving_avg_obs_fq_helper_functional"}
# In-place operators with a ``self`` that is ``input`` in the functional form.
SELF_IS_INPUT = frozenset(
    {"aten::dropout_", "aten::alpha_dropout_", "aten::feature_dropout_", "aten::feature_alpha_dropout_"}
)
# Operators that insert elements into their first argument, and keep its dtype.
PLACES_ELEMENTS = frozenset(
    f"aten::{name}"
    for name in (
        "zeros_like", "fill", "masked_fill", "masked_scatter", "put", "index_put", "index_add", "index_copy",
        "index_fill", "index_reduce", "scatter", "scatter_add", "scatter_reduce", "tril", "triu", "embedding_renorm",
    )
)  # fmt: skip
# Change the shape or strides of a tensor object, not its content.
VIEWS_IN_PLACE = frozenset(
    f"aten::{name}_"
    for name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "as_strided", "detach")
)
# Make a tensor object a view of another tensor: the argument that is that tensor.
REBINDS = {"aten::set_": "source", "aten::set_data": "new_data"}
INDICES = frozenset({"index", "indices"})


@dataclass(frozen=True, slots=True)
class Form:
    """The functional form of a writing operator: its results are the new contents of ``targets``, in order.

    ``parameters`` maps parameter names of the writing operator to those of the functional form. Before the new contents
    it has ``results`` other results: those that the writing operator returns, and then masks of the first one's shape.
    """

    op: str
    overload: str
    parameters: dict[str, str]
    targets: tuple[str, ...]
    results: int = 0


@functools.cache
def functional_form(op: str, overload: str) -> Form | None:
    """The operator that computes what this one writes; None if torch has none."""
    schema = schema_of(op, overload)
    assert schema is not None
    in_place = op.endswith("_")
    targets = _targets(schema, in_place)
    if targets is None:
        return _functional_namesake(op, schema)
    name = RENAMED.get(op, op.removesuffix("_"))
    kept = [p for p in schema.parameters if in_place or p.name not in targets]
    names = {p.name: "input" if p.name == "self" and op in SELF_IS_INPUT else p.name for p in kept}
    wanted = {names[p.name]: p.type for p in kept}
    matching = [(o, s) for o, s in schemas_of(name) if _takes(s, wanted)]
    if not matching:
        return None
    # A candidate may have further parameters with defaults; the closest one is taken, preferably of the same name.
    found, _ = min(matching, key=lambda candidate: (len(candidate[1].parameters), candidate[0] != overload))
    return Form(name, found, names, targets)


def _functional_namesake(op: str, schema: Schema) -> Form | None:
    """The operator that returns the new contents after the results of this one."""
    name = NAMESAKES.get(op, f"{op}_functional")
    found = schema_of(name)
    written = tuple(parameter.name for parameter in schema.written())
    results = len(found.returns) - len(written) if found is not None else 0
    if results < len(schema.returns) or (results > len(schema.returns) and op not in NAMESAKES):
        return None
    return Form(name, "", {p.name: p.name for p in schema.parameters}, written, results)


def _targets(schema: Schema, in_place: bool) -> tuple[str, ...] | None:
    """The written parameters in the order of the results that replace them."""
    written = {parameter.name: parameter.alias for parameter in schema.written()}
    if in_place:
        return tuple(written) if len(written) == 1 else None
    returned = [next((n for n, alias in written.items() if alias & result.alias), None) for result in schema.returns]
    targets = tuple(name for name in returned if name is not None)
    return targets if len(targets) == len(returned) == len(written) else None


def _takes(schema: Schema, wanted: dict[str, str]) -> bool:
    """Whether an operator does not write and accepts arguments with these names and types."""
    taken = {parameter.name: parameter.type for parameter in schema.parameters}
    others_optional = all(p.name in wanted or not p.required for p in schema.parameters)
    return not schema.mutates and others_optional and wanted.items() <= taken.items()


def dtype_of_factory(node: Node, targets: list[Value]) -> dict[str, torch.dtype]:
    """The dtype argument of a factory function: with ``out=`` torch computes in the dtype of the target."""
    schema = schema_of(node.op, node.overload)
    takes_dtype = schema is not None and any(p.name == "dtype" for p in schema.parameters)
    if not takes_dtype or any(value.is_tensor for value in node.values()):
        return {}
    return {"dtype": targets[0].dtype}


def result_dtypes(node: Node, targets: list[Value]) -> list[torch.dtype]:
    """The dtypes of the results of a functional form before they are stored in the targets."""
    if dtype_of_factory(node, targets):
        return [target.dtype for target in targets]
    if node.op in PLACES_ELEMENTS or has_tag(node.op, node.overload, torch.Tag.nondeterministic_seeded):
        return [target.dtype for target in targets]
    operands = tuple((name, _operand(argument)) for name, argument in node.inputs.items())
    return _promoted(node.op, node.overload, operands)


@dataclass(frozen=True, slots=True)
class _Operand:
    """The properties of a tensor that type promotion depends on."""

    dtype: torch.dtype
    rank: int


@dataclass(frozen=True, slots=True)
class _Number:
    """A number with its kind: 1, 1.0 and True are equal, but promote differently."""

    kind: type[bool] | type[int] | type[float]
    number: bool | int | float


def _operand(argument: Argument) -> Any:
    """The properties of an argument that the dtype of the result depends on, as a hashable object."""
    if isinstance(argument, Value):
        if isinstance(argument.type, TensorType):
            return _Operand(argument.dtype, argument.type.rank)
        assert isinstance(argument.type, ScalarType), argument
        return _Number(argument.type.kind, 1)
    if isinstance(argument, torch.Tensor):
        return _Operand(argument.dtype, argument.dim())
    if isinstance(argument, (list, tuple)):
        return tuple(map(_operand, argument))
    return _Number(type(argument), argument) if isinstance(argument, (bool, int, float)) else argument


@functools.cache
def _promoted(op: str, overload: str, operands: tuple[tuple[str, Any], ...]) -> list[torch.dtype]:
    """The dtypes of the results, from a call with tensors of one element."""
    results = evaluate(Node(op, {}, (), overload=overload), {name: _unit(given, name) for name, given in operands})
    return [result.dtype for result in results]


def _unit(operand: Any, name: str) -> Any:
    if isinstance(operand, _Operand) and operand.dtype in (torch.quint8, torch.qint8):
        return torch.quantize_per_tensor(torch.ones([1] * operand.rank), 1.0, 0, operand.dtype)
    if isinstance(operand, _Operand):
        return torch.full([1] * operand.rank, 0 if name in INDICES else 1, dtype=operand.dtype)
    if isinstance(operand, _Number):
        return operand.kind(operand.number)
    if isinstance(operand, tuple):
        return [_unit(element, name) for element in operand]
    return operand
