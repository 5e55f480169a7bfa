"""The error along the model: at each step, how far ONNX Runtime's value is from the one that torch has there."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.refusals import REFUSALS
from onnxport.errors import ExportError
from onnxport.graph.ir import Block, Node, Value
from onnxport.graph.randomness import is_random
from onnxport.lower.complexes import stored
from onnxport.verification.bisect.diagnosis import Evidence, as_captured
from onnxport.verification.bisect.pieces import STOPS, Pieces
from onnxport.verification.bisect.walk import Refused, Replay
from onnxport.verification.compare import compare


@dataclass(frozen=True)
class StepError:
    """One step of the captured graph: the largest error of its results, and the error allowed there.

    The error is infinite where shapes, dtypes, NaN or infinities differ.
    """

    node: Node
    error: float
    allowed: float

    @property
    def is_wrong(self) -> bool:
        return self.error > self.allowed


def error_trail(evidence: Evidence) -> list[StepError]:
    """The errors at a sample that the file fails on, in the order of the steps, as far as both sides run."""
    graph = evidence.translation.graph
    feeds = {
        name: stored(tensor) for name, tensor in zip(evidence.check.input_names, evidence.sample.inputs, strict=True)
    }
    inputs = [
        as_captured(tensor, value) for value, tensor in zip(graph.block.inputs, evidence.sample.inputs, strict=False)
    ]
    with contextlib.suppress(ExportError, Refused, *STOPS, *REFUSALS), torch.no_grad(), compat.random_state():
        trail = Trail(Pieces(evidence.translation.recorded(), feeds))
        with contextlib.suppress(ExportError, Refused, *STOPS, *REFUSALS):
            trail.run(graph.block, inputs)
        return trail.errors
    return []


class Trail(Replay):
    """The captured graph by torch on its own values, beside the same values of ONNX Runtime's."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self._pieces = pieces
        self._places = {node: place for place, node in enumerate(pieces.recording.steps)}
        self._read: set[Value] = set()
        self.errors: list[StepError] = []

    def run(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        self._read = set(block.outer_values())
        return super().run(block, inputs)

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        results = super().step(node, arguments)
        place = self._places.get(node)
        if place is None:
            return results
        self._pieces.reach(place)
        pairs = [
            (result, actual)
            for value, result in zip(node.outputs, results, strict=True)
            if isinstance(result, torch.Tensor) and value in self._read
            if isinstance(actual := self._pieces.content(value), torch.Tensor)
        ]
        if pairs and not is_random(node):
            self.errors.append(_largest(node, pairs))
        self._pieces.forget(place)
        return results


def _largest(node: Node, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> StepError:
    """Of several results the one that is furthest from what is allowed."""
    found = [compare(stored(expected.detach().cpu()), stored(actual)) for expected, actual in pairs]
    errors = [
        StepError(node, one.error if one.problem is None or one.error > 0 else math.inf, one.allowed) for one in found
    ]
    return max(errors, key=lambda step: step.error / step.allowed if step.allowed else step.error)
