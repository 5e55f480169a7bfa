"""Compares the written file with the torch model, and looks for the cause of a mismatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from onnxport import compat
from onnxport.backend.torch_session import TorchSession
from onnxport.capture.axes.axis import example_sizes, resize
from onnxport.capture.model.sides import SidesTaken
from onnxport.capture.paths.checks import has_loop
from onnxport.errors import OptionError
from onnxport.graph.precision import roundings
from onnxport.graph.randomness import unsure_outputs
from onnxport.options.options import Options
from onnxport.stages.translation import Draft
from onnxport.verification.bisect import Evidence, StepError, diagnose, error_trail
from onnxport.verification.cases import Comparison, Judge, compare_file
from onnxport.verification.checked import Checked
from onnxport.verification.memory import no_room_for_copies
from onnxport.verification.mismatch import Cause, Mismatch
from onnxport.verification.quantized import own_matches, partwise_check, rounds_inside
from onnxport.verification.reference import ModelRun, unlike_plain
from onnxport.verification.results import Verification
from onnxport.verification.runners import loader, why_not_run
from onnxport.verification.runtime import Loaded, Session
from onnxport.verification.sample import Check, Refusal, Sample


def check_file(source: str | bytes, draft: Draft, options: Options, advance: Callable[[int], None]) -> Checked:
    """Run the file at several sizes and compare; look for the cause of a mismatch. ``advance`` counts runs."""
    checked = _checked(source, draft, options, advance)
    runner = draft.call.runner
    unlike = unlike_plain(runner) if runner.asked_if_exported and options.verify is not False else None
    return replace(checked, unlike_plain=unlike)


def _checked(source: str | bytes, draft: Draft, options: Options, advance: Callable[[int], None]) -> Checked:
    reason = _why_not_checked(source, draft, options)
    if reason is not None:
        return Checked(Verification(skipped=reason), tried=False)
    weights = {} if options.export_params else draft.call.weights
    what = _compared(draft, weights)
    diagnosis = _Diagnosis(source, what, draft, options)
    load = loader(options.verify, TorchSession if draft.translation.kept else Session)
    judge = _judge(source, draft, options, load)
    sides = SidesTaken(draft.captured.graph) if draft.captured.branches_on_data else None
    samples = _samples(draft, weights, sides, options.check_sizes, advance)
    comparison = compare_file(source, what, samples, load, judge)
    comparison = comparison.decided(diagnosis.is_right).without_ties(diagnosis.tie)
    loops = has_loop(draft.captured.graph) and not compat.scripts.is_scripted(draft.call.runner.model)
    wrong = comparison.first_wrong
    mismatch = diagnosis.first(comparison)
    trail = diagnosis.trail(wrong) if wrong is not None and mismatch is not None and options.report is not None else ()
    untaken = () if sides is None else sides.missing
    return Checked(
        comparison.verification, mismatch, comparison.refusals, only_larger=loops, trail=trail, untaken=untaken
    )


def _judge(source: str | bytes, draft: Draft, options: Options, load: Callable[[str | bytes], Loaded]) -> Judge | None:
    """The check of a quantized model, part by part."""
    matches = own_matches(draft.model)
    plain = isinstance(options.verify, bool) or options.verify == "warn"
    parts = partwise_check(source, draft.captured.graph, matches, None if plain else load) if matches else None
    return None if parts is None else parts.outcome


def _why_not_checked(source: str | bytes, draft: Draft, options: Options) -> str | None:
    if reason := draft.translation.why_not_run():
        return reason
    if any(node.op.startswith("onnx_symbolic::") for node in draft.captured.graph.block.all_nodes()):
        return "torch has zeros where the model calls torch.onnx.ops.symbolic"
    if options.verify is False:
        return "verify=False"
    if draft.call.trains:
        return "the model is exported in training mode"
    return _too_large(source, draft) or why_not_run(draft.foreign, options.verify)


def _too_large(source: str | bytes, draft: Draft) -> str | None:
    """Why there is no memory for the check. The weights of a file are mapped; else the runtime copies them."""
    if isinstance(source, str) and not draft.translation.kept:
        return None
    weights = draft.call.weights.values()
    return no_room_for_copies(sum(tensor.numel() * tensor.element_size() for tensor in weights))


def _samples(
    draft: Draft,
    weights: Mapping[str, torch.Tensor],
    sides: SidesTaken | None,
    asked: Sequence[Mapping[str, int]],
    advance: Callable[[int], None],
) -> Iterator[Sample | Refusal]:
    """The model's results on the example and at other sizes; weights that are inputs of the file come last."""
    captured = draft.captured
    frozen = any(not value.harmless for value in captured.frozen)
    run = ModelRun(draft.call.runner, captured.axes, captured.constants, frozen=frozen, sides=sides)
    example = example_sizes(captured.axes)
    points = [{**example, **point} for point in asked]
    chosen = [point for point in captured.checks if point not in points]
    for sample in run.samples([*points, *chosen], captured.spare_checks):
        if isinstance(sample, Refusal) and sample.sizes in points:
            raise OptionError(f"check_sizes: the model does not take {dict(sample.sizes)}: {sample.reason}")
        yield replace(sample, inputs=[*sample.inputs, *weights.values()]) if isinstance(sample, Sample) else sample
        advance(1)


def _compared(draft: Draft, weights: Mapping[str, torch.Tensor]) -> Check:
    """What is compared: names, which outputs depend on random numbers, and how each was rounded."""
    captured = draft.captured
    first = captured.points[0] if captured.points else {}
    unsure = unsure_outputs(captured.graph, resize(draft.call.runner.inputs.tensors, captured.axes, first))
    coarsest = roundings(captured.graph.block)
    known = {i: coarsest[value] for i, value in enumerate(captured.graph.block.outputs) if value in coarsest}
    names = [*draft.call.input_names, *weights]
    return Check(names, draft.output_names, unsure, known, rounds_inside(captured.graph))


@dataclass(frozen=True)
class _Diagnosis:
    """Looks for the cause of a wrong result, if the whole file runs in ONNX Runtime."""

    source: str | bytes
    check: Check
    draft: Draft
    options: Options
    _found: dict[int, Mismatch | None] = field(default_factory=dict)  # by the samples, which are kept meanwhile

    def of(self, sample: Sample) -> Mismatch | None:
        if id(sample) not in self._found:
            self._found[id(sample)] = self._diagnosed(sample)
        return self._found[id(sample)]

    def _diagnosed(self, sample: Sample) -> Mismatch | None:
        if self.draft.translation.kept or self.draft.foreign:
            return None
        return diagnose(self._evidence(sample))

    def trail(self, sample: Sample) -> Sequence[StepError]:
        """The error along the model, for the report page."""
        return error_trail(self._evidence(sample))

    def _evidence(self, sample: Sample) -> Evidence:
        draft, fold = self.draft, self.options.fold_constants
        frozen = [value.message for value in draft.captured.frozen if not value.harmless]
        return Evidence(draft.lowering, self.source, self.check, sample, fold, draft.call.trains, frozen)

    def is_right(self, sample: Sample) -> bool:
        """Whether no operator is wrong, so that only rounding differs."""
        mismatch = self.of(sample)
        return mismatch is None or mismatch.cause in (Cause.ROUNDING, Cause.RUNTIME)

    def tie(self, sample: Sample) -> str:
        """Why a sample is undecided, if results differ only in the order of equal elements."""
        mismatch = self.of(sample)
        return str(mismatch) if mismatch is not None and mismatch.cause is Cause.TIES else ""

    def first(self, comparison: Comparison) -> Mismatch | None:
        """The cause of the first case that is wrong."""
        for outcome in comparison.outcomes:
            if not outcome.case.passed and (outcome.mismatch is not None or outcome.sample is not None):
                return outcome.mismatch or (self.of(outcome.sample) if outcome.sample is not None else None)
        return None
