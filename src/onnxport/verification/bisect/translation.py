"""The captured graph translated again, this time with a record of which ONNX value holds which captured value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from onnxport.graph import ir as captured
from onnxport.graph.ir import Graph, Node
from onnxport.graph.sizes import SizeExpr
from onnxport.lower.complexes import Complex
from onnxport.lower.walk import Lowering
from onnxport.optimize.traversal import subgraphs_of


@dataclass(frozen=True)
class Retranslation:
    """A captured graph and its translation: to translate again gives the same ONNX graph, not yet optimised."""

    graph: Graph
    make: Callable[..., Lowering]
    input_names: Sequence[str]
    parameter_names: Sequence[str]
    output_names: Sequence[str]

    def model(self, *, flat: bool = False) -> ir.Model:
        """The ONNX graph; ``flat`` has no functions."""
        return self._run(self.make(flat=flat))

    def recorded(self) -> Recording:
        lowering = self.make(kind=_RecordingLowering, flat=True)
        assert isinstance(lowering, _RecordingLowering)
        return Recording(self._run(lowering), lowering)

    def _run(self, lowering: Lowering) -> ir.Model:
        return lowering.run(self.input_names, self.parameter_names, self.output_names)


class _RecordingLowering(Lowering):
    """Remembers how many ONNX nodes there were after each captured node."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.top = self.builder
        self.ends: list[int] = []
        self._steps = set(self.graph.block.nodes)

    def lower(self, node: Node) -> None:
        super().lower(node)
        if node not in self._steps:
            return
        for output in node.outputs:
            lowered = self.values[output]
            if isinstance(lowered, Complex):
                lowered.joined(self.top)
        self.ends.append(len(self.top.nodes))


class Recording:
    """The ONNX graph before optimisation, in steps: one per captured node.

    ``holders`` has the ONNX value of a captured one, ``constants`` the content where the translation is a constant.
    """

    def __init__(self, model: ir.Model, lowering: _RecordingLowering) -> None:
        self.model = model
        self.registry = lowering.registry
        self.nan_as_in_runtime = lowering.context.nan_as_in_runtime
        self.steps = list(lowering.graph.block.nodes)
        self.nodes = list(model.graph)
        # What follows the last step only names the outputs.
        self._ends = [*lowering.ends[:-1], len(self.nodes)] if self.steps else []
        self.holders: dict[captured.Value, ir.Value] = {}
        self.constants: dict[captured.Value, torch.Tensor] = {}
        made = {output: step for step in range(len(self.steps)) for node in self.range(step) for output in node.outputs}
        self.made = made
        self.weights = set(lowering.context.initializers.values())
        for value in (*lowering.graph.block.inputs, *(value for node in self.steps for value in node.outputs)):
            lowered = lowering.values[value]
            lowered = lowered.joined(lowering.top) if isinstance(lowered, Complex) else lowered
            if lowered.ir is None:
                continue
            if lowered.data is not None:
                self.constants[value] = lowered.data
            elif lowered.ir in made or lowered.ir.is_graph_input():
                self.holders[value] = lowered.ir
        self.late = self._late()
        self.last_need = self._last_needs()
        self.needed_last: dict[int, list[ir.Value]] = {}
        for holder, step in self.last_need.items():
            self.needed_last.setdefault(step, []).append(holder)
        self._uncut = self._between_steps_without_tensors()

    def range(self, first: int, last: int | None = None) -> list[ir.Node]:
        """The ONNX nodes of a step, or of all steps from one to another."""
        start = self._ends[first - 1] if first else 0
        return self.nodes[start : self._ends[first if last is None else last]]

    def _late(self) -> dict[int, list[captured.Value]]:
        """Sizes get their ONNX form where they are first needed: per step, the values of earlier steps made there."""
        own = {value: step for step, node in enumerate(self.steps) for value in node.outputs}
        late: dict[int, list[captured.Value]] = {}
        for value, holder in self.holders.items():
            if value in own and self.made.get(holder, -1) > own[value]:
                late.setdefault(self.made[holder], []).append(value)
        return late

    def _last_needs(self) -> dict[ir.Value, int]:
        """The last step that reads each ONNX value, or whose captured value it holds."""
        last: dict[ir.Value, int] = {}
        for step, node in enumerate(self.steps):
            for onnx_node in self.range(step):
                last.update(dict.fromkeys(reads(onnx_node), step))
            for value in node.outputs:
                holder = self.holders.get(value)
                if holder is not None:
                    last[holder] = max(last.get(holder, 0), step)
        last.update(dict.fromkeys(self.model.graph.outputs, len(self.steps)))
        return last

    def may_cut_before(self, step: int) -> bool:
        """Whether all that passes from the steps before to this one and later ones are tensors."""
        return step not in self._uncut

    def _between_steps_without_tensors(self) -> set[int]:
        spans = (
            (self.made[value], last)
            for value, last in self.last_need.items()
            if value in self.made and not is_tensor(value)
        )
        return {step for made, last in spans for step in range(made + 1, last + 1)}

    def bytes_of(self, step: int) -> int:
        """About what the results and weights of a step take, at the largest size that was captured."""
        outputs = (value for value in self.steps[step].outputs if value.is_tensor)
        weights = {value: None for node in self.range(step) for value in reads(node) if value.const_value is not None}
        return sum(_bytes(value) for value in outputs) + sum(_stored_bytes(value) for value in weights)


def reads(node: ir.Node) -> Iterator[ir.Value]:
    """The values that a node takes from the graph around it, those of its subgraphs included."""
    yield from (value for value in node.inputs if value is not None)
    for subgraph in subgraphs_of(node):
        inner = {value for nested in subgraph for value in nested.outputs} | set(subgraph.inputs)
        inner.update(subgraph.initializers.values())
        yield from (value for nested in subgraph for value in reads(nested) if value not in inner)
        yield from (value for value in subgraph.outputs if value not in inner)


def is_tensor(value: ir.Value) -> bool:
    return value.type is None or isinstance(value.type, ir.TensorType)


def _bytes(value: captured.Value) -> int:
    elements = 1
    for size in value.shape:
        elements *= max(size.at) if isinstance(size, SizeExpr) else size
    return elements * value.dtype.itemsize


def _stored_bytes(value: ir.Value) -> int:
    return value.const_value.nbytes if value.const_value is not None else 0
