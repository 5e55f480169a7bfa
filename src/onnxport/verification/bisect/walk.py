"""The walk: torch computes each step on the values that ONNX Runtime has, so that each is judged by itself.

An error of an earlier step is then in the inputs of both sides, and rounding does not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.model.other_data import last_bits_changed
from onnxport.capture.model.refusals import REFUSALS
from onnxport.graph.interpret import Interpreter, evaluate
from onnxport.graph.ir import Block, Node, ScalarType, Value
from onnxport.graph.randomness import is_random
from onnxport.verification.bisect.pieces import Pieces
from onnxport.verification.bisect.ties import OPEN_ORDER, is_open_choice
from onnxport.verification.compare import Difference, compare


@dataclass(frozen=True)
class Suspect:
    """A step whose result differs from torch's on the same inputs. ``content`` is the result as torch would have it."""

    step: int
    node: Node
    output: Value
    arguments: dict[str, Any]
    expected: torch.Tensor
    actual: torch.Tensor
    content: Any
    difference: Difference


class Refused(Exception):
    """torch does not compute a step of the captured graph."""

    def __init__(self, node: Node, error: Exception) -> None:
        super().__init__(str(error))
        self.node = node


class Convicted(Exception):
    """The walk is over: this one is it."""

    def __init__(self, suspect: Suspect) -> None:
        super().__init__()
        self.suspect = suspect


class Replay(Interpreter):
    """The captured graph by torch, with the results that are given in place of its own."""

    def __init__(self, given: Mapping[Value, Any] | None = None) -> None:
        super().__init__()
        self._given = given or {}

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        try:
            results = super().step(node, arguments)
        except REFUSALS as error:
            raise Refused(node, error) from error
        if len(results) != len(node.outputs):
            known = f"{len(results)} results, not {len(node.outputs)} as when the model was recorded"
            raise Refused(node, ValueError(f"it gives {known}"))
        if not self._given:
            return results
        return [self._given.get(value, result) for value, result in zip(node.outputs, results, strict=True)]


class Walk(Replay):
    """One walk over the graph. ``judge`` decides whether a suspect explains the mismatch; then it is `Convicted`.

    ``arguments`` are those of the step at hand, ``strain`` the largest error so far as a part of what is allowed.
    """

    def __init__(self, pieces: Pieces, judge: Callable[[Suspect], bool]) -> None:
        super().__init__()
        self._pieces = pieces
        self._judge = judge
        self._step_of = {node: step for step, node in enumerate(pieces.recording.steps)}
        self._read: set[Value] = set()
        self._sizes: dict[Value, Any] = {}
        self._arguments_of: dict[Node, dict[str, Any]] = {}
        self.arguments: dict[str, Any] = {}
        self.suspects: list[Suspect] = []
        self.open_choices: list[Node] = []  # those that chose otherwise among equal elements
        self._is_open = False
        self.strain: tuple[float, Node | None] = (0.0, None)

    def run(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        self._read = set(block.outer_values())
        results = super().run(block, inputs)
        self._pieces.reach(len(self._step_of) - 1)
        return results

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        step = self._step_of.get(node)
        if step is None:
            return super().step(node, arguments)
        self.arguments = arguments
        self._pieces.reach(step)
        for value in self._pieces.recording.late.get(step, ()):
            self._check_late(value)
        expected = super().step(node, arguments)
        self._is_open = self._chooses_otherwise(node, arguments, expected)
        results = [self._settled(step, node, arguments, index, result) for index, result in enumerate(expected)]
        self._pieces.forget(step)
        return results

    def _chooses_otherwise(self, node: Node, arguments: dict[str, Any], expected: Sequence[Any]) -> bool:
        """Whether ONNX Runtime took others of equal elements than torch: the later steps follow its choice."""
        if node.op not in OPEN_ORDER:
            return False
        actual = [self._pieces.content(value) for value in node.outputs]
        if not is_open_choice(node, arguments, expected, actual):
            return False
        pairs = zip(expected, actual, strict=True)
        if any(got is not None and not torch.equal(want, got) for want, got in pairs):
            self.open_choices.append(node)
        return True

    def _settled(self, step: int, node: Node, arguments: dict[str, Any], index: int, result: Any) -> Any:
        """What the later steps are given: ONNX Runtime's value, if it has one. What nobody reads may be anything."""
        value = node.outputs[index]
        actual = self._pieces.content(value)
        if actual is None:
            if isinstance(value.type, ScalarType):
                self._sizes[value] = result
                self._arguments_of[node] = _changed(arguments, _hollow)
            return result
        if value in self._read and not is_random(node) and not self._is_open:
            for expected, found in _pairs(result, actual):
                self._compare(step, node, arguments, index, expected, found)
        return actual if value.is_tensor or isinstance(actual, list) else actual.item()

    def _check_late(self, value: Value) -> None:
        """A size that ONNX computes only now, where it is first needed as a tensor."""
        actual, node = self._pieces.content(value), value.node
        if actual is None or node is None or value not in self._sizes:
            return
        index = node.outputs.index(value)
        self._compare(self._step_of[node], node, self._arguments_of[node], index, self._sizes[value], actual)

    def _compare(
        self, step: int, node: Node, arguments: dict[str, Any], index: int, result: Any, actual: torch.Tensor
    ) -> None:
        expected = _tensor(result, actual)
        rounding = _coarsest([*_tensors(arguments), expected])
        found = compare(_real(expected), _real(actual), rounding=rounding)
        if found.problem and 0 < found.error < float("inf"):
            noise = _noise(node, arguments, index, expected)
            found = compare(_real(expected), _real(actual), rounding=rounding, noise=noise)
        if found.problem is None:
            self._note_strain(found, node)
            return
        value = node.outputs[index]
        content = self._pieces.content(value)
        content = content.item() if isinstance(value.type, ScalarType) else content
        suspect = Suspect(step, node, value, arguments, _real(expected), _real(actual), content, found)
        self.suspects.append(suspect)
        if self._judge(suspect):
            raise Convicted(suspect)

    def _note_strain(self, found: Difference, node: Node) -> None:
        strain = found.error / found.allowed if found.allowed else 0.0
        if strain > self.strain[0]:
            self.strain = (strain, node)


def _noise(node: Node, arguments: dict[str, Any], index: int, expected: torch.Tensor) -> float:
    """How far rounding may move a result: by torch's own error against double precision, and by that which a change in
    the last bits of the inputs makes."""
    moved = 0.0
    if not expected.is_floating_point() or node.blocks:
        return moved
    for change in (lambda tensors: [tensor.double() for tensor in tensors], last_bits_changed):
        try:
            other = evaluate(node, _changed(arguments, change))[index]
        except REFUSALS:
            continue
        distance = (other.double() - expected.double()).abs() if other.shape == expected.shape else torch.zeros(1)
        finite = distance[distance.isfinite()]
        moved = max(moved, float(finite.max()) if finite.numel() else 0.0)
    return moved


def _pairs(expected: Any, actual: Any) -> list[tuple[Any, torch.Tensor]]:
    """What is to be compared: two tensors, the elements of two lists, or the lengths of lists that differ in them."""
    if not isinstance(actual, list):
        return [(expected, actual)]
    if len(expected) != len(actual):
        return [(len(expected), torch.tensor(len(actual)))]
    return list(zip(expected, actual, strict=True))


def _hollow(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of which only the shape counts, without their memory."""
    return [tensor.new_zeros(()).expand(tensor.shape) for tensor in tensors]


def _changed(argument: Any, change: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]) -> Any:
    if isinstance(argument, torch.Tensor):
        return change([argument])[0] if argument.is_floating_point() else argument
    if isinstance(argument, dict):
        return {name: _changed(element, change) for name, element in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [_changed(element, change) for element in argument]
    return argument


def _tensors(argument: Any) -> list[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        return [argument]
    elements = (
        argument.values() if isinstance(argument, dict) else argument if isinstance(argument, (list, tuple)) else ()
    )
    return [tensor for element in elements for tensor in _tensors(element)]


def _coarsest(tensors: Sequence[torch.Tensor]) -> torch.dtype | None:
    dtypes = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _tensor(result: Any, like: torch.Tensor) -> torch.Tensor:
    """A result of torch's; a Python number in the dtype that it has in ONNX."""
    return result.detach() if isinstance(result, torch.Tensor) else torch.tensor(result, dtype=like.dtype)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
