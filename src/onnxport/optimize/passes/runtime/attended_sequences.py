"""Attention that reads its heads from sequences, without transposing them first."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxport.optimize.context import Context, only_use, permutation, produced_by, rank, same_dim
from onnxport.optimize.rewrite import become, rewrite_nodes

_HEADS_FIRST = [0, 2, 1, 3]
_PARTS_FIRST = [2, 0, 3, 1, 4]
_OPERANDS = 3


@dataclass(frozen=True)
class _Sequence:
    """[batch, length, heads * width], or one of the parts that lie side by side in [batch, length, parts * ...]."""

    value: ir.Value
    heads: int
    part: int = 0
    parts: int = 1


class AttendSequences(ir.passes.InPlacePass):
    """Writes Attention of transposed heads as Attention of the sequences that they are taken from.

    Given the number of heads, the node reads [batch, length, heads * width] itself. ONNX Runtime does so head by head,
    without copies.

    Rules:
        1. Query, key and value are each a Transpose of the Reshape of a sequence, or a Gather from the Transpose of the
           Reshape of a sequence in which they lie side by side. That one is split.
        2. The result is transposed and reshaped back to a sequence, for nobody else.

    Preserves: values up to the order in which a product sums; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), {"Attention": [_read_sequences]}))


def _read_sequences(context: Context, node: ir.Node) -> bool:
    if "q_num_heads" in node.attributes or any(output.uses() for output in node.outputs[1:]):
        return False
    found = [_sequence(context, value) for value in node.inputs[:_OPERANDS]]
    sequences = [sequence for sequence in found if sequence is not None]
    joined = _joined(node.outputs[0])
    if len(sequences) < _OPERANDS or joined is None or joined.graph is not node.graph:
        return False
    query, key, value = sequences
    if key.heads != value.heads:
        return False
    inputs = [*_parts(context, node, sequences), *node.inputs[_OPERANDS:]]
    heads = [ir.AttrInt64("q_num_heads", query.heads), ir.AttrInt64("kv_num_heads", key.heads)]
    become(context, joined, "Attention", inputs, [*node.attributes.values(), *heads])
    return True


def _sequence(context: Context, value: ir.Value | None) -> _Sequence | None:
    """The sequence that has the heads of a value of four dimensions."""
    transpose = produced_by(value, "Transpose")
    if transpose is not None and list(permutation(transpose) or ()) == _HEADS_FIRST:
        return _reshaped(transpose.inputs[0])
    gather = produced_by(value, "Gather")
    transpose = None if gather is None else produced_by(gather.inputs[0], "Transpose")
    if gather is None or transpose is None or list(permutation(transpose) or ()) != _PARTS_FIRST:
        return None
    part = context.array(gather.inputs[1])
    if gather.attributes.get_int("axis", 0) or part is None or part.ndim:
        return None
    return _reshaped(transpose.inputs[0], int(part))


def _reshaped(value: ir.Value | None, part: int | None = None) -> _Sequence | None:
    """The sequence whose last axis is reshaped to heads and their width, or to parts of those."""
    reshape = produced_by(value, "Reshape")
    source = None if reshape is None else reshape.inputs[0]
    if source is None or value is None or source.shape is None or value.shape is None or len(source.shape) != 3:
        return None
    *inner, heads, width = value.shape[2:]
    if len(inner) != (part is not None) or not _same_length(source, value):
        return None
    parts = inner[0] if inner else 1
    if not isinstance(parts, int) or not isinstance(heads, int) or not isinstance(width, int):
        return None
    if source.shape[2] != parts * heads * width:
        return None
    return _Sequence(source, heads, (part or 0) % parts, parts)


def _same_length(left: ir.Value, right: ir.Value) -> bool:
    assert left.shape is not None and right.shape is not None
    return all(same_dim(left.shape[axis], right.shape[axis]) for axis in (0, 1))


def _joined(result: ir.Value) -> ir.Node | None:
    """The Reshape that puts the heads of a result side by side again."""
    if not only_use(result):
        return None
    ((transpose, _),) = result.uses()
    if transpose.op_type != "Transpose" or list(permutation(transpose) or ()) != _HEADS_FIRST:
        return None
    heads_last = transpose.outputs[0]
    if not only_use(heads_last) or heads_last.shape is None:
        return None
    ((reshape, _),) = heads_last.uses()
    joined = reshape.outputs[0]
    if reshape.op_type != "Reshape" or rank(joined) != 3 or not _same_length(heads_last, joined):
        return None
    return reshape


def _parts(context: Context, node: ir.Node, sequences: list[_Sequence]) -> list[ir.Value]:
    """The sequences, each of the joined ones split once."""
    split: dict[ir.Value, ir.Node] = {}
    for sequence in sequences:
        if sequence.parts > 1 and sequence.value not in split:
            split[sequence.value] = _split(context, node, sequence.value, sequence.parts)
    return [
        sequence.value if sequence.parts == 1 else split[sequence.value].outputs[sequence.part]
        for sequence in sequences
    ]


def _split(context: Context, node: ir.Node, value: ir.Value, parts: int) -> ir.Node:
    name = context.names.claim(f"{(node.name or '').rpartition('/')[0]}/Split".lstrip("/"))
    attributes = [ir.AttrInt64("axis", 2), ir.AttrInt64("num_outputs", parts)]
    made = ir.Node("", "Split", [value], attributes, num_outputs=parts, name=name)
    made.metadata_props.update(node.metadata_props)
    made.doc_string = node.doc_string
    assert value.shape is not None and node.graph is not None
    width = value.shape[2]
    assert isinstance(width, int)
    for index, output in enumerate(made.outputs):
        output.name, output.type = context.names.claim(f"{name}.{index}"), value.type
        output.shape = ir.Shape([*value.shape[:2], width // parts])
    node.graph.insert_before(node, made)
    return made
