"""Branches and loops of the captured graph as ONNX's If and Loop; their bodies may read outer values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import Block, Node, ScalarType, SequenceType, TensorType, UnrankedType
from onnxport.lower import complexes
from onnxport.lower.builder import Builder
from onnxport.lower.subgraphs.lowering import NodeLowering
from onnxport.lower.value import Value

SCALAR_DTYPES: dict[type, torch.dtype] = {int: torch.int64, float: torch.float64, bool: torch.bool}
# The first opset with sequences as results of If and Loop.
CARRIES_SEQUENCES = 13
# The first opset whose If may have results with another number of dimensions in each branch.
HAS_UNRANKED_RESULTS = 11


def lower_branch(lowering: NodeLowering, node: Node) -> Sequence[Value]:
    g = lowering.builder
    _check_sequences(g, node)
    condition = _flag(g, lowering.argument(node.inputs["condition"]))
    graphs = [_body(lowering, node, block, []) for block in node.blocks]
    made = g.op("If", condition, outputs=len(node.outputs), then_branch=graphs[0], else_branch=graphs[1])
    return [_typed(g, output, value) for output, value in zip(node.outputs, made, strict=True)]


def lower_loop(lowering: NodeLowering, node: Node) -> Sequence[Value]:
    g = lowering.builder
    _check_sequences(g, node)
    limit, condition = (_given(lowering, node.inputs[name]) for name in ("limit", "condition"))
    limit = None if limit is None else g.constant(limit, torch.int64) if isinstance(limit, int) else g.realise(limit)
    condition = None if condition is True else _flag(g, condition)
    first = [complexes.plain(g, lowering.argument(value)) for value in node.inputs["carried"]]
    block = node.blocks[0]
    going_on = captured.Value(ScalarType(bool))
    body = _body(lowering, node, block, [block.inputs[0], going_on, *block.inputs[1:]])
    made = g.op("Loop", limit, condition, *first, outputs=len(node.outputs), body=body)
    return [_typed(g, output, value) for output, value in zip(node.outputs, made, strict=True)]


def _given(lowering: NodeLowering, argument: Any) -> Any:
    return lowering.argument(argument) if isinstance(argument, captured.Value) else argument


def _flag(g: Builder, value: Any) -> Value:
    return g.cast(g.realise(value), torch.bool) if isinstance(value, Value) else g.constant(bool(value), torch.bool)


def _check_sequences(g: Builder, node: Node) -> None:
    if any(isinstance(output.type, SequenceType) for output in node.outputs):
        before, g.origin = g.origin, node
        g.require(CARRIES_SEQUENCES, "a list of tensors that changes in a loop or a branch")
        g.origin = before


def _body(lowering: NodeLowering, node: Node, block: Block, inputs: Sequence[captured.Value]) -> ir.Graph:
    """A block as an ONNX graph. Sizes that are first needed inside it are computed inside it."""
    outer = lowering.builder
    inner = outer.nested()
    with lowering.inside(inner):
        entries = [_entry(lowering, inner, value) for value in inputs]
        lowering.lower_block(node, block)
        outputs = _own(inner, [_result(lowering, inner, value) for value in block.outputs])
    return ir.Graph(entries, outputs, nodes=inner.nodes, name=outer.context.unique("body"))


def _entry(lowering: NodeLowering, g: Builder, value: captured.Value) -> ir.Value:
    lowered = Value(ir.Value(name=g.context.unique("carried")), dtype_of(value.type), None, size=value.size)
    lowering.values[value] = _typed(g, value, lowered)
    if isinstance(value.type, ScalarType):
        g.context.numbers[value] = lowered
    assert lowered.ir is not None
    return lowered.ir


def _result(lowering: NodeLowering, g: Builder, value: captured.Value) -> Value:
    result = complexes.plain(g, lowering.argument(value))
    return result if isinstance(value.type, SequenceType) else g.cast(result, dtype_of(value.type).to_real())


def _own(g: Builder, results: Sequence[Value]) -> list[ir.Value]:
    """The results of a body, each as the output of a node in it; an Identity is added where needed."""
    made = {id(output) for node in g.nodes for output in node.outputs}
    own: list[ir.Value] = []
    for result in results:
        assert result.ir is not None
        if id(result.ir) not in made or any(result.ir is other for other in own):
            copied = _copied(g, result)
            assert copied.ir is not None
            copied.ir.type, copied.ir.shape = result.ir.type, result.ir.shape
            own.append(copied.ir)
        else:
            own.append(result.ir)
    return own


def _copied(g: Builder, result: Value) -> Value:
    """Identity accepts sequences from opset 14 on; before, an element is inserted and erased again."""
    assert result.ir is not None
    if not isinstance(result.ir.type, ir.SequenceType) or g.opset >= 14:
        return g.op("Identity", result)
    grown = g.op("SequenceInsert", result, g.constant(torch.zeros(0, dtype=result.dtype)))
    assert grown.ir is not None
    grown.ir.type, grown.ir.shape = result.ir.type, None
    return g.op("SequenceErase", grown, g.constant(-1, torch.int64))


def _typed(g: Builder, output: captured.Value, value: Value) -> Value:
    """A lowered value with the type of a captured one."""
    kind = output.type
    assert value.ir is not None
    value.dtype = dtype_of(kind)
    value.size = output.size
    if isinstance(kind, SequenceType):
        value.ir.type = ir.SequenceType(g.context.type_of(kind.element.dtype))
        value.ir.shape = None
        value.shape = None
        return value
    if isinstance(kind, UnrankedType):
        g.require(HAS_UNRANKED_RESULTS, "an output whose number of dimensions a condition decides")
        value.ir.type, value.ir.shape, value.shape = g.context.type_of(kind.dtype), None, None
        return value
    is_complex = value.dtype.is_complex
    shape = kind.shape if isinstance(kind, TensorType) else ()
    g.typed(value, value.dtype.to_real(), (*shape, 2) if is_complex else shape)
    g.carry(value)
    return complexes.from_joined(g, value) if is_complex else value


def bind_sequence(g: Builder, output: captured.Value, value: Value) -> Value:
    return _typed(g, output, value)


def declare_unranked(g: Builder, kind: UnrankedType, value: Value) -> None:
    """The type of an output whose number of dimensions differs. ONNX requires a shape: the one with the most."""
    assert value.ir is not None
    named = [None if size is None else g.context.shape_of((size,))[0] for size in kind.shape]
    value.ir.type, value.ir.shape = g.context.type_of(kind.dtype), ir.Shape(named)


def dtype_of(kind: captured.Type) -> torch.dtype:
    if isinstance(kind, ScalarType):
        return SCALAR_DTYPES[kind.kind]
    return kind.element.dtype if isinstance(kind, SequenceType) else kind.dtype
