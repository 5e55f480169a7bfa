"""From a failed check to its cause."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.refusals import REFUSALS
from onnxport.errors import ExportError
from onnxport.graph.ir import Node, PythonCall, Value
from onnxport.graph.python_nodes import PYTHON_OP
from onnxport.graph.source_paths import shown_path
from onnxport.lower.complexes import stored
from onnxport.verification.bisect.passes import find_pass
from onnxport.verification.bisect.pieces import STOPS, Pieces, Stopped
from onnxport.verification.bisect.translation import Retranslation
from onnxport.verification.bisect.walk import Convicted, Refused, Replay, Suspect, Walk
from onnxport.verification.compare import differences
from onnxport.verification.mismatch import Cause, Mismatch
from onnxport.verification.reproducer import Reproducer
from onnxport.verification.runtime import Session
from onnxport.verification.sample import Check, Sample
from onnxport.verification.statistics import contrast

# How many suspects are tried for whether they alone explain the mismatch; each costs a run of the model.
TRIALS = 8


@dataclass(frozen=True)
class Evidence:
    """A sample that the file failed on, and all that it takes to look for the reason."""

    translation: Retranslation
    source: str | bytes
    check: Check
    sample: Sample
    fold_constants: bool
    train: bool = False
    frozen: Sequence[str] = ()


def diagnose(evidence: Evidence) -> Mismatch | None:
    """The first place where the exported model goes wrong; None where it cannot be found."""
    with contextlib.suppress(ExportError, Refused, *STOPS, *REFUSALS), torch.no_grad(), compat.random_state():
        return _Diagnosis(evidence).run()
    return None


class _Diagnosis:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.graph = evidence.translation.graph
        self.sample, self.check = evidence.sample, evidence.check
        names = evidence.check.input_names
        self.feeds = {name: stored(tensor) for name, tensor in zip(names, evidence.sample.inputs, strict=True)}
        self.inputs = [
            as_captured(tensor, value)
            for value, tensor in zip(self.graph.block.inputs, evidence.sample.inputs, strict=False)
        ]
        self.trials = 0
        self._moved: dict[int, list[torch.Tensor]] = {}

    def run(self) -> Mismatch | None:
        """The causes that are cheap to test and explain most come first."""
        if self._runs_right_step_by_step():
            return self._mismatch(Cause.RUNTIME)
        self.pieces = Pieces(self.evidence.translation.recorded(), self.feeds)
        return self._in_capture() or self._in_steps() or self._in_passes()

    def _is_right(self, outputs: Sequence[Any]) -> bool:
        tensors = [stored(torch.as_tensor(output)) for output in outputs]
        expected = [stored(tensor) for tensor in self.sample.expected]
        sample = Sample(self.sample.sizes, self.sample.inputs, expected, self._again)
        return all(found.problem is None for found in differences(self.check, sample, tensors))

    def _again(self, errors: int) -> list[torch.Tensor]:
        if errors not in self._moved:
            self._moved[errors] = [stored(tensor) for tensor in self.sample.again(errors)]
        return self._moved[errors]

    def _runs_right_step_by_step(self) -> bool:
        try:
            return self._is_right(Session(self.evidence.source, optimize=False).run(self.feeds))
        except STOPS:
            return False

    # The causes

    def _in_capture(self) -> Mismatch | None:
        """The captured graph by torch itself is not what the model gives."""
        try:
            outputs = Replay().run(self.graph.block, self.inputs)
        except Refused as refused:
            detail = "\n".join([f"torch refuses it: {refused}", *self.evidence.frozen])
            return self._mismatch(Cause.CAPTURE, refused.node, detail=detail)
        if self._is_right(outputs):
            return None
        reproducer = self._whole({"model.onnx": _content(self.evidence.source)})
        # Where content was frozen, the graph may part from the model.
        return self._mismatch(Cause.CAPTURE, detail="\n".join(self.evidence.frozen), reproducer=reproducer)

    def _in_steps(self) -> Mismatch | None:
        """The translation of an operator gives something else than torch."""
        walk = Walk(self.pieces, self._explains)
        try:
            walk.run(self.graph.block, self.inputs)
        except Convicted as convicted:
            return self._convict(convicted.suspect)
        except Stopped as stopped:
            if walk.suspects:
                return self._convict(walk.suspects[0])
            return self._stopped(stopped, walk.arguments)
        if self._is_right(self.pieces.outputs()):
            return None
        if walk.suspects:
            return self._convict(walk.suspects[0])
        if walk.open_choices:
            return self._mismatch(Cause.TIES, walk.open_choices[0])
        return self._mismatch(Cause.ROUNDING, walk.strain[1])

    def _explains(self, suspect: Suspect) -> bool:
        """Whether torch, given this one result of the runtime's, is wrong in the end: others may not matter."""
        self.trials += 1
        if self.trials > TRIALS:
            return False
        try:
            return not self._is_right(Replay({suspect.output: suspect.content}).run(self.graph.block, self.inputs))
        except (Refused, ValueError):
            return True

    def _in_passes(self) -> Mismatch | None:
        """The graph is right before optimisation."""
        translation = self.evidence.translation
        broken = find_pass(
            functools.partial(translation.model, flat=True),
            self.feeds,
            self._is_right,
            fold=self.evidence.fold_constants,
            training=self.evidence.train,
        )
        if broken is None:
            return None
        reproducer = self._whole({"before.onnx": broken.before, "after.onnx": broken.after})
        values = contrast(*broken.values, 0.0) if broken.values else None
        return self._mismatch(
            Cause.OPTIMISATION, broken.origin, translation=broken.name, contrast=values, reproducer=reproducer
        )

    # What is said of them

    def _convict(self, suspect: Suspect) -> Mismatch:
        return self._mismatch(
            Cause.CONVERTER,
            suspect.node,
            translation=self._converter(suspect.node),
            detail=self._about_nan(suspect),
            contrast=contrast(suspect.expected, suspect.actual, suspect.difference.allowed),
            reproducer=self._single(suspect.step, suspect.node, suspect.arguments, [suspect.expected]),
        )

    def _about_nan(self, suspect: Suspect) -> str:
        """What to do where NaN is ordered as the runtime has it, and there is one."""
        if suspect.node not in self.pieces.recording.nan_as_in_runtime:
            return ""
        if not any(_has_nan(argument) for argument in suspect.arguments.values()):
            return ""
        return "there is NaN among its inputs, which ONNX leaves open: exact_nan=True orders it as torch does"

    def _stopped(self, stopped: Stopped, arguments: dict[str, Any]) -> Mismatch:
        node = self.pieces.recording.steps[stopped.step]
        return self._mismatch(
            Cause.STOPS,
            node,
            translation=self._converter(node),
            detail=str(stopped),
            reproducer=self._single(stopped.step, node, arguments, []),
        )

    def _mismatch(self, cause: Cause, node: Node | None = None, **known: Any) -> Mismatch:
        return Mismatch(
            cause,
            dict(self.sample.sizes),
            operator=_name(node) if node is not None else None,
            module=self.graph.scope_name(node.scope) if node is not None else "",
            location=node.location if node is not None else None,
            **known,
        )

    def _converter(self, node: Node) -> str | None:
        call = node.inputs.get("call")
        function: Any = getattr(getattr(call, "function", None), "symbolic", None) if node.op == PYTHON_OP else None
        function = function or self.pieces.recording.registry.of(node)
        while isinstance(function, functools.partial):
            function = function.func
        function = inspect.unwrap(function) if function is not None else None
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        return f"{function.__module__}.{function.__qualname__} ({shown_path(code.co_filename)}:{code.co_firstlineno})"

    def _single(
        self, step: int, node: Node, arguments: dict[str, Any], expected: Sequence[torch.Tensor]
    ) -> Reproducer | None:
        """The translation of one step and its inputs."""
        try:
            model, feeds = self.pieces.step_model(step)
        except KeyError:
            return None  # sizes that were made and let go before
        schema = node.schema is not None and node.schema.parameters and not node.blocks and arguments
        namespace, _, name = node.op.partition("::")
        function = f"torch.ops.{namespace}.{name}.{node.overload or 'default'}" if schema else None
        title = f"{node.full_name} in torch, and its translation to ONNX, on the inputs on which they differ."
        return Reproducer(title, {"operator.onnx": model}, feeds, expected, function, arguments)

    def _whole(self, models: Mapping[str, bytes]) -> Reproducer:
        title = "A whole model on the inputs on which it does not give what torch gives."
        return Reproducer(title, models, self.feeds, [stored(tensor) for tensor in self.sample.expected])


def _name(node: Node) -> str:
    """The operator; of an autograd Function its name as well."""
    call = node.inputs.get("call")
    return f"{node.op}.{call.function.__name__}" if isinstance(call, PythonCall) else node.op


def _has_nan(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.is_floating_point() and bool(argument.isnan().any())


def as_captured(tensor: torch.Tensor, value: Value) -> torch.Tensor:
    """An input of the file as the captured graph takes it: complex numbers as such."""
    tensor = tensor.detach()
    if value.dtype.is_complex and not tensor.is_complex():
        return torch.view_as_complex(tensor.contiguous())
    return tensor


def _content(source: str | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    with open(source, "rb") as file:
        return file.read()
