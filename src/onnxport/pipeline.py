"""The steps of an export: capture, normalise, lower, optimise, save, verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxport import stages
from onnxport.capture.capture import capture_model
from onnxport.ops import REGISTRY
from onnxport.options.options import Options
from onnxport.program import warnings
from onnxport.program.attempt import Attempt
from onnxport.program.axis_report import axis_sizes, repaired_numbers
from onnxport.program.graph_text import print_graph
from onnxport.program.program import Program
from onnxport.program.warnings import Message
from onnxport.report.report import Report
from onnxport.save import check_graph, stage
from onnxport.symbolic.export_types import Translation
from onnxport.symbolic.overlay import OVERLAY, Layered
from onnxport.verification.checked import Checked


def run_export(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, attempt: Attempt) -> Program:
    """From the call to the program: translate the model, write it, check it, and move it to its target."""
    options, report = attempt.options, attempt.report
    weights = stages.weights_in_memory(model, args, kwargs, options)
    with stages.by_itself(), stages.observers_off(model), weights as given:
        draft = translate(given, attempt)
        with report.phase("save"):
            pieces = stages.pieces(draft, options)
        with attempt.phase("save", pieces.size()) as written:
            if options.check:
                check_graph(pieces)
            # If nothing is written now, the program may be saved later.
            staged = stage(pieces, options.target, None if options.target is None else options.external_data, written)
        report.note_file(staged.size)
        with staged:
            with attempt.phase("verify", 1 + len(options.check_sizes) + len(draft.captured.checks)) as advance:
                checked = stages.check_file(staged.source, draft, options, advance)
            attempt.note_trail(checked.trail)
            _fill_in(report, draft, checked)
            _tell(warnings.of_check(checked, draft.captured.axes), report)
            _tell(warnings.of_capture(draft.captured, draft.axis_warnings), report)
            _tell(warnings.of_results(draft.captured, draft.call.runner.varying, checked.unlike_plain), report)
            _tell(warnings.of_operators(draft.foreign), report)
            if options.verbose:
                print_graph(draft.model, draft.captured.graph, draft.call.parameter_names)
            _tell(warnings.of_verdict(checked, warn_only=options.verify == "warn"), report)
            attempt.write_page()
            with report.phase("save"):
                staged.commit()
        return stages.make_program(draft, options, report, checked.verification, has_weights=given.has_weights)


def draft_export(
    model: Callable[..., Any], args: Any, options: Options, kwargs: Mapping[str, Any] | None = None
) -> stages.Draft:
    """From the call to the model that would be written, which nothing has checked."""
    weights = stages.weights_in_memory(model, args, kwargs, options)
    with stages.by_itself(), stages.observers_off(model), weights as given:
        return translate(given, Attempt(options, Report(options.opset)))


def translate(given: stages.GivenCall, attempt: Attempt) -> stages.Draft:
    """From the call to the ONNX model."""
    options, report = attempt.options, attempt.report
    translation = Translation(options.operators, Layered(REGISTRY, OVERLAY.snapshot(options.opset)))
    call = stages.bind_call(given, options, translation.keeps_function)
    with attempt.phase("capture"):
        captured = capture_model(call.runner, call.axes)
    report.note_capture(captured.points)
    with attempt.phase("normalise"):
        stages.normalise(captured.graph, translation)
    with attempt.phase("lower", sum(1 for _ in captured.graph.block.all_nodes())):
        draft = stages.lower(captured, call, translation, options)
    with attempt.phase("optimise"):
        draft = stages.optimise(draft, options)
    attempt.note_graphs(draft.model, captured.graph)
    report.note_graph(*stages.measure(draft.model))
    return draft


def _tell(messages: Sequence[Message], report: Report) -> None:
    """Emit the warnings; the report has all messages."""
    texts = {kind: [message.text for message in messages if message.note is kind] for kind in (False, True)}
    report.note_messages(warnings=texts[False], notes=texts[True])
    warnings.emit(messages)


def _fill_in(report: Report, draft: stages.Draft, checked: Checked) -> None:
    """Add the result of the check and its sizes to the report."""
    verification, graph = checked.verification, draft.captured.graph
    passed = None if verification.skipped is not None else verification.passed
    decided = [case for case in verification.cases if case.passed and not case.undecided]
    report.note_check(passed, verification.cases, decided, checked.mismatch)
    report.note_fallbacks(draft.translation.fallbacks(graph))
    axes = [(axis.label, axis.input_dims) for axis in draft.captured.axes]
    rows = axis_sizes(axes, draft.call.input_names, report.sizes_traced, report.sizes_verified)
    report.note_sizes(rows, repaired_numbers(graph))
