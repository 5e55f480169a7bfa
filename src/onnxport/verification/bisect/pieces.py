"""The ONNX graph run in pieces, one after another, each on the results of those before.

So every value that stands for one of torch's is seen, each node is run once, and no more than the values of one piece
and what later pieces read is in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import onnx_ir as ir
import torch

from onnxport.errors import ExportError
from onnxport.graph import ir as captured
from onnxport.lower.dtypes import onnx_type
from onnxport.save import serialize
from onnxport.verification.bisect.translation import Recording, is_tensor, reads
from onnxport.verification.runtime import RUNTIME_ERRORS, MissingKernel, Session

# What the values and weights of one piece may take.
PIECE_BYTES = 256 * 2**20
# The first IR version in which an initializer need not be an input as well.
FREE_INITIALIZERS = 4

STOPS = (*RUNTIME_ERRORS, MissingKernel)


class Stopped(ExportError):
    """ONNX Runtime does not run the translation of one step."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(reason)
        self.step = step


class Pieces:
    """One run of a recorded graph; ``reach`` goes on to a step."""

    def __init__(self, recording: Recording, feeds: Mapping[str, torch.Tensor]) -> None:
        self.recording = recording
        inputs = {value.name: value for value in recording.model.graph.inputs}
        self.known: dict[ir.Value, Any] = {inputs[name]: tensor for name, tensor in feeds.items()}
        self._done = -1
        self._planned = list(reversed(_plan(recording)))

    def reach(self, step: int) -> None:
        """Run up to a step. What cannot run is halved until it is a single step, which is `Stopped`."""
        while self._done < step:
            first, last = self._planned.pop()
            try:
                self._run(first, last)
            except STOPS as error:
                cuts = [cut for cut in range(first + 1, last + 1) if self.recording.may_cut_before(cut)]
                if not cuts:
                    raise Stopped(last, str(error)) from error
                cut = cuts[len(cuts) // 2]
                self._planned += [(cut, last), (first, cut - 1)]

    def content(self, value: captured.Value) -> Any:
        """What ONNX Runtime has for a captured value, a tensor or a list of them; None where it has nothing (yet)."""
        holder = self.recording.holders.get(value)
        found = self.recording.constants.get(value) if holder is None else self.known.get(holder)
        if found is not None and value.is_tensor and value.dtype.is_complex:
            return torch.view_as_complex(found.contiguous())
        return found

    def outputs(self) -> list[torch.Tensor]:
        """The outputs of the graph. One without steps only hands on its inputs."""
        if not self.recording.steps:
            return self.evaluate(self.recording.model.graph.outputs)
        self.reach(len(self.recording.steps) - 1)
        return [self.known[value] for value in self.recording.model.graph.outputs]

    def evaluate(self, values: Sequence[ir.Value]) -> list[torch.Tensor]:
        """Values computed at once from the inputs of the graph, by the nodes that they depend on alone."""
        needed = set(values)
        nodes = []
        for node in reversed(self.recording.nodes):
            if any(output in needed for output in node.outputs):
                nodes.append(node)
                needed.update(reads(node))
        model, given = self._model(nodes[::-1], values)
        return Session(serialize(model), optimize=False).run(given)

    def step_model(self, step: int) -> tuple[bytes, dict[str, torch.Tensor]]:
        """The translation of one step as a model of its own, with its inputs as they are."""
        holders = (self.recording.holders.get(value) for value in self.recording.steps[step].outputs)
        made = [value for value in holders if value is not None and self.recording.made.get(value) == step]
        model, given = self._model(self.recording.range(step), made)
        return serialize(model), given

    def forget(self, step: int) -> None:
        """Let go of what no step after this one needs."""
        for value in self.recording.needed_last.get(step, ()):
            self.known.pop(value, None)

    def _run(self, first: int, last: int) -> None:
        nodes = self.recording.range(first, last)
        holders, need, step = set(self.recording.holders.values()), self.recording.last_need, self.recording.made
        made = (output for node in nodes for output in node.outputs)
        wanted = [
            value for value in made if value in holders or (is_tensor(value) and need.get(value, -1) > step[value])
        ]
        if wanted:
            model, given = self._model(nodes, wanted)
            results = Session(serialize(model), optimize=False).run(given)
            self.known.update(zip(wanted, results, strict=True))
        self._done = last

    def _model(self, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> tuple[ir.Model, dict[str, torch.Tensor]]:
        """A model of some nodes. Its inputs have no shapes: whether those fit is for the nodes to say."""
        made = {output for node in nodes for output in node.outputs}
        read = dict.fromkeys(value for node in nodes for value in reads(node) if value not in made)
        whole, stored = self.recording.model, self.recording.weights
        weights = [value for value in read if value in stored]
        given = {value: self.known[value] for value in read if value not in stored}
        view = ir.GraphView(
            [_entry(value, tensor) for value, tensor in given.items()],
            [ir.Value(name=value.name, type=value.type) for value in outputs],
            nodes=nodes,
            initializers=weights,
            opset_imports=whole.graph.opset_imports,
            name=whole.graph.name,
        )
        model = ir.Model(
            cast("ir.Graph", view),
            ir_version=max(whole.ir_version or 0, FREE_INITIALIZERS),
            functions=tuple(whole.functions.values()),
        )
        return model, {value.name or "": tensor for value, tensor in given.items()}


def _plan(recording: Recording) -> list[tuple[int, int]]:
    """The steps in runs that take no more than their share of memory each."""
    planned: list[tuple[int, int]] = []
    first, taken = 0, 0
    for step in range(len(recording.steps)):
        size = recording.bytes_of(step)
        if step > first and taken + size > PIECE_BYTES and recording.may_cut_before(step):
            planned.append((first, step - 1))
            first, taken = step, 0
        taken += size
    if recording.steps:
        planned.append((first, len(recording.steps) - 1))
    return planned


def _entry(value: ir.Value, tensor: Any) -> ir.Value:
    if isinstance(tensor, list):
        raise KeyError(value.name)  # pieces begin where there are tensors only
    return ir.Value(name=value.name, type=ir.TensorType(onnx_type(tensor.dtype)))
