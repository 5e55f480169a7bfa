"""Branches of an If and bodies of a Loop or Scan that symbolic functions write by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import CustomOperatorError
from onnxport.lower import value as lower
from onnxport.lower.builder import Builder
from onnxport.symbolic.objects.values import GraphObject, Type, Value

BLOCKS = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def names_of_blocks(op_type: str) -> tuple[str, ...]:
    if op_type not in BLOCKS:
        raise CustomOperatorError(f"ONNX's {op_type} has no blocks; {', '.join(BLOCKS)} have")
    return BLOCKS[op_type]


def block_types(op_type: str, attributes: Mapping[str, Any]) -> list[Type]:
    """The output types of a node with blocks, from its blocks. Only those of an If have known sizes."""
    blocks = [value for value in attributes.values() if isinstance(value, Block)]
    if not blocks or op_type not in BLOCKS:
        return []
    columns = zip(*([b.graph.wrap(result).type() for result in b.results] for b in blocks), strict=False)
    results = [
        column[0] if all(kind == column[0] for kind in column) else column[0].with_sizes(None) for column in columns
    ]
    if op_type == "If":
        return results
    return [kind.with_sizes(None) for kind in (results[1:] if op_type == "Loop" else results)]


class Block:
    """One block under construction. It has the methods of the graph object; its nodes are inside."""

    def __init__(self, outer: GraphObject, *, before: ir.Node | None = None) -> None:
        self.outer = outer
        self.before = before
        inner = Builder(outer.builder.context, self._realise)
        inner.origin, inner.outputs = outer.builder.origin, outer.builder.outputs
        inner.carriers = dict(outer.builder.carriers)
        self.graph = outer.inner(inner)
        self.entries: list[lower.Value] = []
        self.results: list[lower.Value] = []
        self._closed: ir.Graph | None = None

    @property
    def block(self) -> Block:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)

    def add_input(self, kind: Type | None = None) -> Value:
        """Add an input to the block. Those of an existing Loop have the types of its arguments."""
        kind = kind or self._type_of_entry(len(self.entries))
        context = self.graph.builder.context
        dtype, known = kind.dtype(), kind.sizes()
        entry = lower.Value(
            ir.Value(name=context.unique("entry")),
            dtype or torch.get_default_dtype(),
            None if known is None else tuple(known),
            guessed=dtype is None,
        )
        if dtype is not None:
            self.graph.builder.typed(entry, dtype)
        self.entries.append(entry)
        return self.graph.wrap(entry)

    def add_output(self, value: Any) -> int:
        """Add a result to the block; returns its index."""
        result = self.graph.tensor(value)
        assert result.ir is not None
        inside = {id(output) for node in self.graph.builder.nodes for output in node.outputs}
        if id(result.ir) not in inside:
            # The results of a block must be outputs of its nodes.
            result = self.graph.builder.op("Identity", result)
        self.results.append(result)
        self._type_output(len(self.results) - 1, result)
        return len(self.results) - 1

    def close(self) -> ir.Graph:
        """The block as a graph."""
        if self._closed is None:
            self.graph.close()
            sides = [[value.ir for value in side if value.ir is not None] for side in (self.entries, self.results)]
            name = self.graph.builder.context.unique("block")
            self._closed = ir.Graph(*sides, nodes=self.graph.builder.nodes, name=name)
        return self._closed

    # By the names of TorchScript.

    def inputs(self) -> Iterator[Value]:
        return (self.graph.wrap(entry) for entry in self.entries)

    def outputs(self) -> Iterator[Value]:
        return (self.graph.wrap(result) for result in self.results)

    def addInputToBlock(self, name: str = "") -> Value:
        return self.add_input()

    def registerOutput(self, value: Any) -> int:
        return self.add_output(value)

    def _realise(self, value: lower.Value) -> lower.Value:
        """Compute sizes outside, before the node of the block."""
        nodes = self.outer.builder.nodes
        if self.before is None or self.before not in nodes:
            return self.outer.builder.realise(value)
        count = len(nodes)
        made = self.outer.builder.realise(value)
        added = nodes[count:]
        del nodes[count:]
        index = nodes.index(self.before)
        nodes[index:index] = added
        return made

    def _type_of_entry(self, index: int) -> Type:
        if self.before is None or self.before.op_type != "Loop":
            return Type("TensorType")
        if index == 0:
            return Type("TensorType", torch.int64, [])
        if index == 1:
            return Type("TensorType", torch.bool, [])
        given = self.before.inputs[index] if index < len(self.before.inputs) else None
        return self.graph.value_of(given).type()

    def _type_output(self, index: int, result: lower.Value) -> None:
        """Set the types of an existing If or Loop's results from its first block."""
        if self.before is None or result.guessed:
            return
        index = index - 1 if self.before.op_type == "Loop" else index
        if 0 <= index < len(self.before.outputs):
            made = self.outer.value_of(self.before.outputs[index]).lowered
            assert made is not None
            made.guessed = False
            self.outer.state(made, self.graph.wrap(result).type().with_sizes(None))
