"""Nodes that create, extend and read ONNX sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph.sizes import Shape
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value


def sequence(g: Builder, op_type: str, *inputs: Value | None, dtype: torch.dtype, **attributes: Any) -> Value:
    """A node with a sequence of tensors of this dtype as result."""
    made: Value = g.op(op_type, *inputs, **attributes)
    assert made.ir is not None
    made.dtype, made.shape = dtype, None
    made.ir.type, made.ir.shape = ir.SequenceType(g.context.type_of(dtype)), None
    return made


def length(g: Builder, sequence: Value) -> Value:
    return g.typed(g.op("SequenceLength", sequence), torch.int64, ())


def empty(g: Builder, dtype: torch.dtype) -> Value:
    made = g.op("SequenceEmpty", dtype=dtype)
    assert made.ir is not None
    made.ir.type, made.ir.shape = ir.SequenceType(g.context.type_of(dtype)), None
    return made


def picked(g: Builder, begin: Value, source: Value, count: Value, position: Callable[[Builder, Value], Value]) -> Value:
    """``begin`` followed by elements of another sequence: in iteration ``i`` the one at ``position(i)``."""
    g.require(13, "a list of tensors that is concatenated from others")
    inner = g.nested()
    names = [ir.Value(name=g.context.unique(f"round_{part}")) for part in ("index", "condition", "list")]
    index, condition = (Value(name, torch.int64, ()) for name in names[:2])
    inner.typed(index, torch.int64, ())
    inner.typed(condition, torch.bool, ())
    names[2].type = ir.SequenceType(g.context.type_of(source.dtype))
    element = inner.op("SequenceAt", source, position(inner, index))
    grown = sequence(inner, "SequenceInsert", Value(names[2], source.dtype, None), element, dtype=source.dtype)
    again = inner.op("Identity", condition)
    assert grown.ir is not None and again.ir is not None
    body = ir.Graph(names, [again.ir, grown.ir], nodes=inner.nodes, name=g.context.unique("body"))
    return g.op("Loop", count, None, begin, outputs=1, body=body)[0]


def optional(g: Builder, present: Value, tensor: Value, sizes: Shape) -> Value:
    """An optional with the tensor if it is present; then it has these sizes."""
    kind, shape = ir.OptionalType(g.context.type_of(tensor.dtype)), g.context.shape_of(sizes)

    def typed(made: Value) -> Value:
        assert made.ir is not None
        made.ir.type, made.ir.shape = kind, shape
        made.dtype, made.shape = tensor.dtype, sizes
        return made

    absent = ir.AttrTypeProto("type", ir.TypeAndShape(kind.elem_type, shape))
    there = g.subgraph("present", [], lambda inner, _: [typed(inner.op("Optional", tensor))])
    nothing = g.subgraph("absent", [], lambda inner, _: [typed(inner.op("Optional", type=absent))])
    return typed(g.op("If", present, then_branch=there, else_branch=nothing))
