"""The check itself: each part of the file on torch's integers, as written and optimised."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
import torch

from onnxport import compat
from onnxport.capture.model.refusals import REFUSALS
from onnxport.errors import ExportError
from onnxport.graph.equality import is_close
from onnxport.graph.ir import Graph
from onnxport.verification.bisect.diagnosis import as_captured
from onnxport.verification.bisect.walk import Refused
from onnxport.verification.cases import Outcome, run_case
from onnxport.verification.mismatch import Cause, Mismatch
from onnxport.verification.quantized.cutting import GIVEN, cut, cuttable, floats_of
from onnxport.verification.quantized.matching import Match
from onnxport.verification.quantized.quantizers import Rounding, distance, moved_by_roundings, watch
from onnxport.verification.results import Case
from onnxport.verification.runtime import RUNTIME_ERRORS, Loaded, MissingKernel, Session, real_form
from onnxport.verification.sample import Check, Sample
from onnxport.verification.statistics import Contrast, contrast

# How near to the boundary between two integers a number has to be for either of them to be right, in steps. Right files
# of two networks were within 0.0024; a scale that is off by 1 % is beyond it in thousands of elements.
NEAR_BOUNDARY = 0.01
WRITTEN, OPTIMISED = "as written", "as ONNX Runtime optimises it"
SATURATION = (
    "as written the file is right, and in ONNX Runtime's integer kernels it is not: without VNNI, which this CPU "
    "lacks, they saturate where a sum of two products does not fit 16 bits"
)


@dataclass(frozen=True)
class _Wrong:
    """A quantizer whose integers in the file are not torch's."""

    match: Match
    count: int
    contrast: Contrast

    def place(self, graph: Graph) -> str:
        source = self.match.node.source
        return f"{graph.scope_name(self.match.node.scope)}" + (f" at {source}" if source else "")


@dataclass
class _Part:
    """A cut file that is run on torch's integers, and gives the outputs that follow from them."""

    session: Loaded
    given: Mapping[str, torch.Tensor]
    outputs: Sequence[str]
    names: Sequence[str]
    integers: dict[str, torch.Tensor] = field(default_factory=dict)

    def run(self, inputs: Mapping[str, torch.Tensor], /) -> list[torch.Tensor]:
        """The outputs of the file; its integers are kept."""
        results = self.session.run({**inputs, **self.given})
        known = dict(zip(self.names, results, strict=True))
        self.integers = {name: known[name] for name in known if GIVEN.format(name) in self.given}
        return [known[name] for name in self.outputs]


def _as_floats(output: torch.Tensor) -> torch.Tensor:
    """A result as the file gives it: a quantized one of a script as its values."""
    return output.dequantize() if output.is_quantized else output


@dataclass(frozen=True)
class PartwiseCheck:
    """A file whose quantizers were found in the captured graph."""

    graph: Graph
    matches: Sequence[Match]
    dtypes: Mapping[str, torch.dtype]
    outputs: Sequence[str]
    names: Sequence[str]
    sessions: Mapping[str, Loaded]

    def outcome(self, check: Check, sample: Sample, whole: Case) -> Outcome | None:
        """The verdict on a sample, of which ``whole`` is the case end to end; None where torch's run does not tell."""
        watched = self._watched(sample)
        if watched is None:
            return None
        roundings, sample = watched
        cases: dict[str, Case] = {}
        wrong: dict[str, list[_Wrong]] = {}
        given = {
            GIVEN.format(match.name): rounding.given(None if match.floats else self.dtypes[match.name])
            for match, rounding in roundings
        }
        for kind, session in self.sessions.items():
            part = _Part(session, given, self.outputs, self.names)
            cases[kind] = run_case(part, check, sample)
            wrong[kind] = [found for pair in roundings if (found := _judged(*pair, part.integers)) is not None]
        return self._verdict(sample, whole, cases, wrong)

    def _watched(self, sample: Sample) -> tuple[list[tuple[Match, Rounding]], Sample] | None:
        """What torch's quantizers do and the results that follow, if the captured graph gives what the model gives."""
        block = self.graph.block
        inputs = [as_captured(x, value) for value, x in zip(block.inputs, sample.inputs, strict=False)]
        try:
            outputs, roundings = watch(block, inputs, {match.value: match.grid for match in self.matches})
        except ExportError:
            raise
        except (Refused, *REFUSALS):
            return None
        outputs = [_as_floats(torch.as_tensor(output)) for output in outputs]
        tensors = list(map(real_form, outputs))
        if len(tensors) < len(sample.expected):
            return None
        found = [(match, roundings[match.value]) for match in self.matches]
        if not all(map(is_close, sample.expected, tensors)):
            # The model may lay tensors out in memory in other ways, for which torch has kernels that round otherwise.
            apart = map(distance, sample.expected, tensors)
            moved = moved_by_roundings(block, inputs, outputs)
            if any(far > 2 * most for far, most in zip(apart, moved, strict=False)):
                return None
        return found, replace(sample, expected=tensors[: len(sample.expected)])

    def _verdict(
        self, sample: Sample, whole: Case, cases: Mapping[str, Case], wrong: Mapping[str, list[_Wrong]]
    ) -> Outcome:
        problems, caution = self._problems(cases, wrong), ""
        if problems and all(found.startswith(OPTIMISED) for found in problems) and compat.integer_kernels_saturate():
            problems, caution = [], SATURATION
        count = len({match.value for match in self.matches})
        note = f"{count} quantizers checked one by one; the error end to end is not judged"
        values = next((case.differences for case in cases.values() if case.differences), {})
        case = replace(whole, problems=tuple(problems), differences=values, arbitrated=(), parts=note, caution=caution)
        first = next((found for kind in wrong for found in wrong[kind]), None) if problems else None
        if first is None:
            return Outcome(case, sample if problems else None)
        return Outcome(case, None, self._mismatch(first, sample))

    def _problems(self, cases: Mapping[str, Case], wrong: Mapping[str, list[_Wrong]]) -> list[str]:
        """What is wrong: integers, or outputs that follow from the right ones."""
        problems = []
        for kind, case in cases.items():
            problems += [
                f"{kind}, the integers of the quantizer {found.match.name!r} in {found.place(self.graph)} differ: "
                f"{found.count} by more than a rounding"
                for found in wrong[kind]
            ]
            problems += [f"{kind}, from torch's integers: {problem}" for problem in case.problems]
        return problems

    def _mismatch(self, found: _Wrong, sample: Sample) -> Mismatch:
        node = found.match.node
        return Mismatch(
            Cause.QUANTIZER,
            dict(sample.sizes),
            operator=node.op,
            module=self.graph.scope_name(node.scope),
            location=node.location,
            contrast=found.contrast,
            detail=f"its integers are {found.match.name!r} in the file; those before it were given as torch has them",
        )


def _judged(match: Match, rounding: Rounding, integers: Mapping[str, torch.Tensor]) -> _Wrong | None:
    """Whether integers are wrong: off by more than one, or where the number was not near the boundary of the two."""
    if match.name not in integers:
        return None
    expected, actual = rounding.integers, integers[match.name].double()
    if match.floats and actual.shape == expected.shape:
        apart = actual - rounding.floats.double()
        actual = torch.where(actual == rounding.floats, expected, expected + (apart / rounding.scale).round())
    if actual.shape != expected.shape:
        return _Wrong(match, expected.numel(), contrast(expected, actual, 0))
    off = (actual != expected) & ~(actual.isnan() & expected.isnan())
    if not bool(off.any()):
        return None
    boundary = torch.minimum(actual, expected) + 0.5
    wrong = off & (((actual - expected).abs() > 1) | ((rounding.steps - boundary).abs() > NEAR_BOUNDARY))
    count = int(wrong.sum())
    return _Wrong(match, count, contrast(expected, torch.where(wrong, actual, expected), 0)) if count else None


def partwise_check(
    source: str | bytes, graph: Graph, matches: Sequence[Match], load: Callable[[str | bytes], Loaded] | None = None
) -> PartwiseCheck | None:
    """The check of a file, whose integers and quantizers are matched; None where there are none, or it is refused."""
    model = read_model(source)
    dtypes = cuttable(model)
    found = [cut_match for match in matches for cut_match in _cuts(model, match, dtypes)]
    if not found:
        return None
    names = list(dict.fromkeys(match.name for match in found))
    made = cut(model, names)
    sessions = _sessions(made, _folder_of_weights(source, model), load)
    if sessions is None:
        return None
    outputs = [output.name for output in model.graph.output]
    return PartwiseCheck(graph, found, dtypes, outputs, [output.name for output in made.graph.output], sessions)


def _sessions(
    model: onnx.ModelProto, folder: str | None, load: Callable[[str | bytes], Loaded] | None
) -> Mapping[str, Loaded] | None:
    """The runs of a cut file; None where the runtime refuses it."""
    content = model.SerializeToString()
    try:
        written: Loaded = Session(content, optimize=False, folder=folder)
        optimised: Loaded = Session(content, folder=folder) if load is None or folder else load(content)
    except (MissingKernel, *RUNTIME_ERRORS):
        return None
    return {WRITTEN: written, OPTIMISED: optimised}


def _cuts(model: onnx.ModelProto, match: Match, dtypes: Mapping[str, torch.dtype]) -> list[Match]:
    """Where the file is cut for a quantizer: at its integers; at the floats of integers of less than a byte."""
    if match.name in dtypes:
        return [match]
    return [replace(match, name=name, floats=True) for name in floats_of(model, match.name)]


def read_model(source: str | bytes) -> onnx.ModelProto:
    """A model without the weights that are in a file of their own."""
    if isinstance(source, bytes):
        return onnx.load_model_from_string(source)
    return onnx.load_model(source, load_external_data=False)


def _folder_of_weights(source: str | bytes, model: onnx.ModelProto) -> str | None:
    """The folder of the file that has a model's weights, if there is one."""
    external = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)
    return os.path.dirname(os.path.abspath(source)) if external and isinstance(source, str) else None
