"""The way of a model through the code: capture, normalise, lower, optimise, save, verify."""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from onnxport import compat
from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes.axis import Axis
from onnxport.capture.axes.declared import declared_numbers, read_axes
from onnxport.capture.axes.sums import with_sums
from onnxport.capture.capture import capture_model
from onnxport.capture.captured import Capture
from onnxport.capture.definitions.decompose import decompose
from onnxport.capture.exported import ExportedModule, axes_of, opened
from onnxport.capture.model.inputs import Inputs, numbers_of, signature_of, split_keywords
from onnxport.capture.model.modules import cut_calls
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.model.stand_in import StandIns, filled, hollow_bytes, with_content
from onnxport.capture.paths.checks import has_loop
from onnxport.checking import ModelRun, unlike_plain
from onnxport.errors import (
    OptionError,
    OptionTypeError,
    VerificationWarning,
    of_no_model,
)
from onnxport.finish import finish
from onnxport.functions import function_names, settle_functions
from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.ir import Value
from onnxport.graph.precision import roundings
from onnxport.graph.randomness import unsure_outputs
from onnxport.graph.sizes import Shape
from onnxport.lower.walk import Lowering
from onnxport.modes import OperatorExportTypes
from onnxport.ops import REGISTRY
from onnxport.optimize import ShareEqual, optimize
from onnxport.optimize.traversal import all_nodes
from onnxport.options.options import (
    Options,
    assign_names,
    check_axis_names,
    check_output_axes,
    check_output_names,
    input_axes,
)
from onnxport.program.graph_text import print_graph
from onnxport.program.program import Interface, Program, Report
from onnxport.program.warnings import (
    judge,
    tell_frozen,
    tell_missing_domains,
    tell_sizes,
    tell_unchecked,
    tell_unlike_plain,
    tell_varying,
    warn,
)
from onnxport.save import Staged, check_graph, split, stage
from onnxport.symbolic.overlay import OVERLAY, Layered
from onnxport.translation import TorchSession, Translation
from onnxport.verify import Check, Mismatch, Sample, Verification, verify
from onnxport.verify.bisect import Evidence, Retranslation, diagnose
from onnxport.verify.memory import too_large_to_verify
from onnxport.verify.mismatch import Cause
from onnxport.verify.runners import foreign_operators, loader, told_of_missing_domains, why_not_run
from onnxport.verify.runtime import Session


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Graphs are many small objects that all stay: looking for cycles among them again and again finds nothing.

    What is left in the end counts as old: switched on again, the search would begin with all of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@dataclass(frozen=True)
class Call:
    """The model with its example, under the names that the graph will have."""

    runner: ModelRunner
    axes: list[Axis]
    input_names: list[str]
    parameter_names: list[str]


@contextmanager
def _by_itself() -> Iterator[None]:
    """Inside of a model that is being exported, nothing of an export belongs to that model."""
    with (
        of_no_model(),
        _garbage_collection_off(),
        compat.without_fake_mode(),
        compat.dispatch.unseen(),
        compat.patches.answering_as_traced(lambda asking, scripted: False),
    ):
        yield


def run_export(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    """From the call to the program, one phase after the other."""
    with _by_itself():
        model, args, kwargs = opened(model, args, kwargs)
        if options.export_params:
            return _run(model, args, kwargs, options)
        hollow = hollow_bytes(model)
        stand_ins = StandIns(roomy=too_large_to_verify(hollow) is None)
        given_args, given_kwargs = with_content((args, kwargs), stand_ins)
        with filled(model, stand_ins):
            program = _run(model, given_args, given_kwargs, options)
        return program.without_content() if hollow else program


def draft_export(model: Callable[..., Any], args: Any, options: Options) -> Draft:
    """From the call to the model that would be written, which nothing has checked."""
    with _by_itself():
        model, args, kwargs = opened(model, args, None)
        return _draft(prepare(model, args, kwargs, options), options, Report(options.opset))


def _run(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    report = Report(options.opset)
    call = prepare(model, args, kwargs, options)
    draft = _draft(call, options, report)
    with report.phase("save"):
        pieces = split(draft.model)
        if options.check:
            check_graph(pieces)
        # What is not written now is once the program is saved.
        staged = stage(pieces, options.target, None if options.target is None else options.external_data)
        report.file_size = staged.size
    with staged:
        with report.phase("verify"):
            failed: list[tuple[Check, Sample]] = []
            verification = _verify(staged, draft, options, failed, report)
            unlike = unlike_plain(call.runner) if call.runner.asked and options.verify is not False else None
        tell_frozen(draft.captured, report)
        tell_unlike_plain(unlike, report)
        tell_varying(draft.captured, call.runner.varying, report)
        tell_missing_domains(told_of_missing_domains(draft.foreign), report)
        if options.verbose:
            print_graph(draft.model, draft.captured.graph, call.parameter_names)
        with report.phase("verify"):
            mismatch = _diagnosed(*failed[0], staged, draft, options) if failed else None
        judge(verification, options, report, mismatch)
        tell_sizes(draft.captured, call.input_names, verification, report)
        with report.phase("save"):
            staged.commit()
    _measure(draft.model, report)
    interface = _interface(call, draft.captured, options)
    weights = dict(zip(call.parameter_names, _weights(call), strict=True))
    return Program(draft.model, interface, report, verification, weights, options.external_data)


@dataclass(frozen=True)
class Draft:
    """What was captured of a call, and the model that it became, on its way to the file.

    ``again`` can repeat the translation; ``foreign`` are the operators that ONNX Runtime does not know.
    """

    call: Call
    captured: Capture
    translation: Translation
    output_names: list[str]
    train: bool
    again: Retranslation
    model: ir.Model
    foreign: Sequence[str]


def _draft(call: Call, options: Options, report: Report) -> Draft:
    """From the call to the optimised model."""
    registry = Layered(REGISTRY, OVERLAY.snapshot(options.opset))
    translation = Translation(options.operators, registry)
    call.runner.keeps = _kept_functions(options.operators, registry)
    with report.phase("capture"):
        captured = capture_model(call.runner, call.axes)
    report.sizes_traced = captured.points
    with report.phase("normalise"):
        cut_calls(captured.graph)
        if not translation.is_raw:
            functionalize(captured.graph, registry.operators)
        if not translation.keeps_every:
            decompose(captured.graph, registry.of)
    output_names = _output_names(captured, call, options)
    with report.phase("lower"):
        train = _trains(call.runner)
        again = _retranslation(captured, call, translation, options, train, output_names)
        lowered = again.model()
        translation.settle(lowered)
        report.fallbacks += translation.fallbacks(captured.graph)
    with report.phase("optimise"):
        if not translation.is_raw:
            simplify = functools.partial(optimize, fold_constants=options.fold_constants, training=train)
            settle_functions(lowered, simplify if options.optimize else lambda model: None)
            if options.optimize:
                simplify(lowered)
                if not train and not options.keep_initializers_as_inputs:
                    ShareEqual()(lowered)
        finish(lowered, options, set(call.parameter_names))
    foreign = foreign_operators(lowered, translation.kept)
    return Draft(call, captured, translation, output_names, train, again, lowered, foreign)


def _kept_functions(kind: OperatorExportTypes, registry: Layered) -> Callable[[Any], bool]:
    """Which autograd Functions stay one node; the forward of the others is taken as if it had been called directly."""
    if kind in (OperatorExportTypes.ONNX, OperatorExportTypes.ONNX_ATEN_FALLBACK):
        return registry.keeps_function
    return lambda function: kind is not OperatorExportTypes.ONNX_ATEN


def prepare(model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Call:
    """Bind the arguments, name the inputs, and check what is declared on them."""
    model = compat.wrapped_module(model)
    if not callable(model):
        raise OptionTypeError(f"model must be a module or a function, not {type(model).__name__}")
    signature = signature_of(model)
    given = split_keywords(signature, args, kwargs)
    inputs = Inputs(signature, *given, numbers_of(model))
    numbers = declared_numbers(options.dynamic_shapes, inputs)
    if numbers:
        inputs = Inputs(signature, *given, numbers, read=True)
    runner = ModelRunner(model, inputs, options.train, options.intermediate_outputs)
    runner.module_calls = options.module_calls
    runner.keeps_stacks = not options.strip_doc_string
    runner.module_calls.check(runner.paths)
    for path in options.intermediate_outputs:
        if path not in runner.paths:
            raise OptionError(f"intermediate_outputs: the model has no submodule {path!r}")
    names = assign_names("input_names", options.input_names, inputs.names, [name for name, _ in runner.parameters])
    count = len(inputs.names)
    check_output_names(options, names)
    if options.output_names is not None:
        check_axis_names(options, names[:count], [*options.output_names, *options.intermediate_outputs])
    if isinstance(model, ExportedModule):
        inputs.call(model.check, inputs.tensors)
    return Call(runner, _axes(options, model, inputs, names[:count]), names[:count], names[count:])


def _axes(options: Options, model: Any, inputs: Inputs, names: Sequence[str]) -> list[Axis]:
    """The dynamic axes that the call declares; else those that an exported program was made with."""
    if options.dynamic_shapes is not None:
        return read_axes(options.dynamic_shapes, inputs, names)
    if not options.dynamic_axes and isinstance(model, ExportedModule):
        return axes_of(model, inputs, names)
    declared, named = input_axes(options, names, [tensor.dim() for tensor in inputs.tensors])
    return with_sums(sizes.find_axes(declared, named, inputs.tensors))


def _output_names(captured: Capture, call: Call, options: Options) -> list[str]:
    count = len(captured.output_names) - len(options.intermediate_outputs)
    defaults = [_present(name or "output") for name in captured.output_names[:count]]
    if options.output_names is None and all(name.isdigit() for name in defaults):
        defaults = [f"output_{name}" for name in defaults]
    taken = [*call.input_names, *call.parameter_names, *options.intermediate_outputs]
    names = assign_names("output_names", options.output_names or (), defaults, taken=taken)
    names += options.intermediate_outputs
    check_axis_names(options, call.input_names, names)
    shapes = [_shape(value) for value in captured.graph.block.outputs]
    captured.axis_warnings += check_output_axes(options, names, shapes)
    return names


def _present(name: str) -> str:
    """What a decoder is given as its past, it returns as its present: ``past_key_values.0.key``, ``present.0.key``."""
    past, dot, rest = name.partition(".")
    return f"present{dot}{rest}" if past == "past_key_values" else name


def _shape(value: Value) -> Shape:
    return value.shape if value.is_tensor else ()


def _trains(runner: ModelRunner) -> bool:
    """Whether some submodule is exported in training mode."""
    modes = (getattr(module, "training", False) for module in runner.paths.values())
    return any(mode if runner.train is None else runner.train for mode in modes)


def _retranslation(
    captured: Capture, call: Call, translation: Translation, options: Options, train: bool, output_names: list[str]
) -> Retranslation:
    """The translation to ONNX, which can be repeated where its result turns out wrong."""

    def make(kind: type[Lowering] = Lowering, *, flat: bool = False) -> Lowering:
        return kind(
            captured.graph,
            translation.converters,
            options.opset,
            bake_parameters=options.export_params,
            train=train,
            keep_unread=not options.optimize,
            sizes_as_captured=translation.keeps_every,
            function_names=None if flat else function_names(options.module_calls, call.runner.paths),
        )

    return Retranslation(captured.graph, make, call.input_names, call.parameter_names, output_names)


def _diagnosed(check: Check, sample: Sample, staged: Staged, draft: Draft, options: Options) -> Mismatch | None:
    """What is wrong at a sample that the file fails on, where all of it runs in ONNX Runtime."""
    if draft.translation.kept or draft.foreign:
        return None
    frozen = [value.message for value in draft.captured.frozen if not value.harmless]
    return diagnose(Evidence(draft.again, staged.source, check, sample, options.fold_constants, draft.train, frozen))


def _verify(
    staged: Staged, draft: Draft, options: Options, failed: list[tuple[Check, Sample]], report: Report
) -> Verification:
    """Run the file at several sizes; ``failed`` gets the samples that it fails on."""
    call, captured, translation = draft.call, draft.captured, draft.translation
    reason = translation.why_not_run() or _why_not_verified(call, options, draft.train)
    reason = reason or why_not_run(draft.foreign, options.verify)
    if reason is not None:
        return Verification(skipped=reason)
    parameters = {} if options.export_params else dict(zip(call.parameter_names, _weights(call), strict=True))
    frozen = any(not value.harmless for value in captured.frozen)
    run = ModelRun(call.runner, captured.axes, captured.constants, frozen=frozen)

    def samples() -> Iterator[Sample]:
        for sample in run.samples(captured.checks):
            yield dataclasses.replace(sample, inputs=[*sample.inputs, *parameters.values()])

    check = _check(draft, parameters)
    load = loader(options.verify, TorchSession if translation.kept else Session)

    def upheld(sample: Sample) -> bool:
        mismatch = _diagnosed(check, sample, staged, draft, options)
        return mismatch is None or mismatch.cause in (Cause.ROUNDING, Cause.RUNTIME)

    def fails(sample: Sample) -> None:
        failed.append((check, sample))

    verification = verify(staged.source, check, samples, fails, load, upheld)
    if verification.skipped is not None:
        warn(str(verification), VerificationWarning)
    loops = has_loop(captured.graph) and not compat.scripts.is_scripted(call.runner.model)
    tell_unchecked(captured.axes, verification, run.refused, report, only_larger=loops)
    return verification


def _check(draft: Draft, parameters: Mapping[str, torch.Tensor]) -> Check:
    """What is compared: names, which outputs depend on random numbers, and how coarsely each was rounded."""
    captured = draft.captured
    first = captured.points[0] if captured.points else {}
    unsure = unsure_outputs(captured.graph, sizes.resize(draft.call.runner.inputs.tensors, captured.axes, first))
    coarsest = roundings(captured.graph.block)
    known = {i: coarsest[value] for i, value in enumerate(captured.graph.block.outputs) if value in coarsest}
    return Check([*draft.call.input_names, *parameters], draft.output_names, unsure, known)


def _why_not_verified(call: Call, options: Options, train: bool) -> str | None:
    if options.verify is False:
        return "verify=False"
    if train:
        return "the model is exported in training mode"
    return too_large_to_verify(sum(tensor.numel() * tensor.element_size() for tensor in _weights(call)))


def _weights(call: Call) -> list[torch.Tensor]:
    return [tensor for _, tensor in call.runner.parameters]


def _interface(call: Call, captured: Capture, options: Options) -> Interface:
    parameters = {} if options.export_params else dict(zip(call.parameter_names, _weights(call), strict=True))
    outputs = enumerate(captured.graph.block.outputs)
    complex_outputs = frozenset(index for index, value in outputs if value.is_tensor and value.dtype.is_complex)
    returned = captured.structure, captured.constants, complex_outputs
    arguments = [name for name, _ in call.runner.inputs.arguments]
    return Interface(call.input_names, parameters, *returned, captured.axes, arguments, dict(call.runner.numbers))


def _measure(model: ir.Model, report: Report) -> None:
    report.nodes = sum(1 for _ in all_nodes(model.graph))
    report.weight_bytes = sum(
        value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None
    )
