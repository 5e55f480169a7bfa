"""The way of a model through the code: capture, normalise, lower, optimise, save, verify."""

from __future__ import annotations

import dataclasses
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from onnxport import compat
from onnxport.capture import sizes
from onnxport.capture.decompose import decompose
from onnxport.capture.frozen import FrozenValue
from onnxport.capture.inputs import Inputs, signature_of, split_keywords
from onnxport.capture.sizes import Axis
from onnxport.capture.trace import Capture, Tracer, capture
from onnxport.checking import ModelRun
from onnxport.errors import (
    DynamicAxisError,
    NotYetSupportedError,
    OptionError,
    OptionTypeError,
    TraceWarning,
    VerificationError,
    VerificationWarning,
)
from onnxport.finish import finish
from onnxport.graph.functional import functionalize
from onnxport.graph.precision import roundings
from onnxport.graph.randomness import random_values
from onnxport.lower.walk import Lowering
from onnxport.ops import REGISTRY
from onnxport.optimize import optimize
from onnxport.options import (
    Options,
    assign_names,
    check_axis_names,
    check_output_axes,
    check_output_names,
    input_axes,
)
from onnxport.printing import print_graph
from onnxport.program import Interface, Program, Report
from onnxport.save import Staged, check_graph, split, stage
from onnxport.verify import Check, Sample, Verification, verify
from onnxport.verify.memory import too_large_to_verify


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Graphs are many small objects that all stay: looking for cycles among them again and again finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Call:
    """The model with its example, under the names that the graph will have."""

    tracer: Tracer
    axes: list[Axis]
    input_names: list[str]
    parameter_names: list[str]


def run_export(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    """From the call to the program, one phase after the other."""
    with _garbage_collection_off():
        return _run(model, args, kwargs, options)


def _run(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    report = Report(options.opset)
    call = prepare(model, args, kwargs, options)
    with report.phase("capture"):
        captured = capture(call.tracer, call.axes)
    _tell_frozen(captured.frozen, report)
    report.sizes_traced = captured.points
    with report.phase("normalise"):
        functionalize(captured.graph)
        decompose(captured.graph, REGISTRY.find)
    output_names = _output_names(captured, call, options)
    with report.phase("lower"):
        train = _trains(call.tracer)
        lowering = Lowering(captured.graph, REGISTRY, options.opset, bake_parameters=options.export_params, train=train)
        lowered = lowering.run(call.input_names, call.parameter_names, output_names)
    with report.phase("optimise"):
        optimize(lowered, fold_constants=options.fold_constants, training=train)
        finish(lowered, options, set(call.parameter_names))
    if options.verbose:
        print_graph(lowered, captured.graph)
    with report.phase("save"):
        pieces = split(lowered)
        if options.check:
            check_graph(pieces)
        staged = stage(pieces, options.target, options.external_data)
        report.file_size = staged.size
    with staged:
        with report.phase("verify"):
            verification = _verify(staged, call, captured, output_names, options, train)
        _judge(verification, captured, options, report)
        with report.phase("save"):
            staged.commit()
    _measure(lowered, report)
    return Program(
        lowered, _interface(call, captured, options), report, verification, _weights(call), options.external_data
    )


def prepare(model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Call:
    """Bind the arguments, name the inputs, and check what is declared on them."""
    model = compat.wrapped_module(model)
    if compat.is_scripted(model):
        raise NotYetSupportedError("scripted models are not yet supported: export the module before torch.jit.script")
    if not callable(model):
        raise OptionTypeError(f"model must be a module or a function, not {type(model).__name__}")
    signature = signature_of(model)
    inputs = Inputs(signature, *split_keywords(signature, args, kwargs))
    tracer = Tracer(model, inputs, options.train, options.intermediate_outputs)
    for path in options.intermediate_outputs:
        if path not in tracer.paths:
            raise OptionError(f"intermediate_outputs: the model has no submodule {path!r}")
    names = assign_names("input_names", options.input_names, inputs.names, [name for name, _ in tracer.parameters])
    count = len(inputs.names)
    check_output_names(options, names)
    if options.output_names is not None:
        check_axis_names(options, names[:count], [*options.output_names, *options.intermediate_outputs])
    declared, named = input_axes(options, names[:count], [tensor.dim() for tensor in inputs.tensors])
    return Call(tracer, sizes.find_axes(declared, named, inputs.tensors), names[:count], names[count:])


def _output_names(captured: Capture, call: Call, options: Options) -> list[str]:
    count = len(captured.output_names) - len(options.intermediate_outputs)
    defaults = [name or "output" for name in captured.output_names[:count]]
    if options.output_names is None and all(name.isdigit() for name in defaults):
        defaults = [f"output_{name}" for name in defaults]
    taken = [*call.input_names, *call.parameter_names, *options.intermediate_outputs]
    names = assign_names("output_names", options.output_names or (), defaults, taken=taken)
    names += options.intermediate_outputs
    check_axis_names(options, call.input_names, names)
    check_output_axes(options, names, [value.shape for value in captured.graph.block.outputs])
    return names


def _tell_frozen(frozen: Sequence[FrozenValue], report: Report) -> None:
    for value in frozen:
        if value.harmless or value.source is None:
            report.notes.append(f"{value.source}: {value.value!r} was read while tracing")
            continue
        report.warnings.append(value.message)
        warnings.warn_explicit(value.message, TraceWarning, value.source.file, value.source.line)


def _trains(tracer: Tracer) -> bool:
    """Whether some submodule is exported in training mode."""
    return any(module.training if tracer.train is None else tracer.train for module in tracer.paths.values())


def _verify(
    staged: Staged, call: Call, captured: Capture, output_names: list[str], options: Options, train: bool
) -> Verification:
    reason = _why_not_verified(call, options, train)
    if reason is not None:
        if captured.disputed:
            raise DynamicAxisError(f"{captured.disputed[0].reason} It could not be checked there: {reason}.")
        return Verification(skipped=reason)
    random = random_values(captured.graph.block)
    unsure = frozenset(i for i, value in enumerate(captured.graph.block.outputs) if value in random)
    parameters = {} if options.export_params else dict(zip(call.parameter_names, _weights(call), strict=True))
    run = ModelRun(call.tracer, captured.axes, captured.constants, frozen=any(not f.harmless for f in captured.frozen))

    def samples() -> Iterator[Sample]:
        points = sizes.check_points(captured.axes, captured.points)
        for sample in run.samples([*points, *(dispute.point for dispute in captured.disputed)]):
            yield dataclasses.replace(sample, inputs=[*sample.inputs, *parameters.values()])

    coarsest = roundings(captured.graph.block)
    known = {i: coarsest[value] for i, value in enumerate(captured.graph.block.outputs) if value in coarsest}
    check = Check([*call.input_names, *parameters], output_names, unsure, known)
    verification = verify(staged.source, check, samples)
    if verification.skipped is not None:
        warnings.warn(str(verification), VerificationWarning, stacklevel=4)
    return verification


def _why_not_verified(call: Call, options: Options, train: bool) -> str | None:
    if options.verify is False:
        return "verify=False"
    if train:
        return "the model is exported in training mode"
    if options.custom_opsets:
        return "the model uses operators of other domains"
    return too_large_to_verify(sum(tensor.numel() * tensor.element_size() for tensor in _weights(call)))


def _judge(verification: Verification, captured: Capture, options: Options, report: Report) -> None:
    if verification.skipped is not None:
        report.notes.append(str(verification))
        return
    if verification.passed:
        return
    wrong_at = [case.sizes for case in verification.cases if not case.passed]
    reasons = [dispute.reason for dispute in captured.disputed if dispute.point in wrong_at]
    message = "\n".join(["the exported model does not compute what the model computes", str(verification), *reasons])
    if options.verify == "warn":
        report.warnings.append(message)
        warnings.warn(message, VerificationWarning, stacklevel=4)
    else:
        raise VerificationError(message)


def _weights(call: Call) -> list[torch.Tensor]:
    return [tensor for _, tensor in call.tracer.parameters]


def _interface(call: Call, captured: Capture, options: Options) -> Interface:
    parameters = {} if options.export_params else dict(zip(call.parameter_names, _weights(call), strict=True))
    return Interface(call.input_names, parameters, captured.structure, captured.constants)


def _measure(model: ir.Model, report: Report) -> None:
    report.nodes = sum(1 for _ in model.graph.all_nodes())
    report.weight_bytes = sum(
        value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None
    )
