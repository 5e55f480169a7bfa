"""From the captured graph to the ONNX model: normalise, lower, optimise, finalise."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
from torch import nn

from onnxport import compat
from onnxport.capture.captured import Capture
from onnxport.capture.definitions.decompose import decompose
from onnxport.capture.model.modules import ModuleCalls, cut_calls
from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.ir import Graph, UnrankedType
from onnxport.lower.subgraphs.function_calls import FunctionName, FunctionNames
from onnxport.lower.walk import Lowering
from onnxport.optimize import ShareEqual, optimize
from onnxport.optimize.context import CONSTANT, IN_FILE
from onnxport.optimize.finalize import finalize
from onnxport.optimize.functions import settle_functions
from onnxport.options.names_and_axes import assign_names, check_axis_names, check_output_axes
from onnxport.options.options import Options
from onnxport.options.producer import producer_name, producer_version
from onnxport.save import SIZES_OPEN
from onnxport.stages.binding import BoundCall
from onnxport.symbolic.export_types import Translation
from onnxport.symbolic.objects.functions import users_functions
from onnxport.verification.bisect import Retranslation
from onnxport.verification.runners import foreign_operators


@dataclass(frozen=True)
class Draft:
    """A captured call and its ONNX model, not yet written.

    ``lowering`` can repeat the translation. ``axis_warnings`` name output axes that were declared dynamic and are
    not. ``foreign`` are the operators that ONNX Runtime does not have.
    """

    call: BoundCall
    captured: Capture
    translation: Translation
    lowering: Retranslation
    model: ir.Model
    axis_warnings: Sequence[str]
    foreign: Sequence[str] = ()

    @property
    def output_names(self) -> Sequence[str]:
        return self.lowering.output_names


def normalise(graph: Graph, translation: Translation) -> None:
    """Remove mutation, and replace operators without a converter by torch's decompositions."""
    cut_calls(graph)
    if not translation.is_raw:
        functionalize(graph, translation.known.operators)
    if not translation.keeps_every:
        decompose(graph, translation.known.of, translation.known.operators)


def lower(captured: Capture, call: BoundCall, translation: Translation, options: Options) -> Draft:
    """Translate the captured graph to ONNX."""
    names, axis_warnings = _output_names(captured, call, options)
    lowering = _retranslation(captured, call, translation, options, names)
    model = lowering.model()
    weights = set(call.parameter_names)
    for value in model.graph.initializers.values():
        value.meta[CONSTANT] = value.name not in weights
        if call.references is not None:
            value.meta[IN_FILE] = call.references.has(value.const_value)
    translation.settle(model)
    return Draft(call, captured, translation, lowering, model, axis_warnings)


def optimise(draft: Draft, options: Options) -> Draft:
    """Simplify the model in place, and give it its requested form."""
    if not draft.translation.is_raw:
        simplify = functools.partial(
            optimize, fold_constants=options.fold_constants, training=draft.call.trains, skip=options.skip_passes
        )
        settled = simplify if options.optimize else lambda model: None
        settle_functions(draft.model, settled, users_functions(draft.model))
        if options.optimize:
            simplify(draft.model)
            if not draft.call.trains and not options.keep_initializers_as_inputs:
                ShareEqual()(draft.model)
            draft.model.meta[SIZES_OPEN] = not draft.call.trains and "LeaveSizesOpen" not in options.skip_passes
    finalize(
        draft.model,
        set(draft.call.parameter_names),
        initializers_as_inputs=options.keep_initializers_as_inputs,
        output_axes=options.dynamic_axes,
        custom_opsets=options.custom_opsets,
        doc_strings=not options.strip_doc_string,
        producer=(producer_name, producer_version),
    )
    return replace(draft, foreign=foreign_operators(draft.model, draft.translation.kept))


def _output_names(captured: Capture, call: BoundCall, options: Options) -> tuple[list[str], list[str]]:
    """The names of the outputs, and warnings about the axes that were declared on them."""
    count = len(captured.output_names) - len(options.intermediate_outputs)
    defaults = [_present(name or "output") for name in captured.output_names[:count]]
    if options.output_names is None and all(name.isdigit() for name in defaults):
        defaults = [f"output_{name}" for name in defaults]
    taken = [*call.input_names, *call.parameter_names, *options.intermediate_outputs]
    names = assign_names("output_names", options.output_names or (), defaults, taken=taken)
    names += options.intermediate_outputs
    check_axis_names(options, call.input_names, names)
    outputs = captured.graph.block.outputs
    unranked = [name for name, value in zip(names, outputs, strict=True) if isinstance(value.type, UnrankedType)]
    shapes = {name: value.shape if value.is_tensor else () for name, value in zip(names, outputs, strict=True)}
    found = check_output_axes(options, {name: shape for name, shape in shapes.items() if name not in unranked})
    return names, [*found, *map(_unranked, unranked)]


def _unranked(name: str) -> str:
    return (
        f"the output {name!r} has one number of dimensions at some sizes or on some data, and another at others. ONNX "
        "requires that a tensor is declared with one: the file has the larger. If a squeeze is the reason: name the "
        "axes to drop, as in squeeze(-1), or give the axis a range without 1 (torch.export.Dim(..., min=2))"
    )


def _present(name: str) -> str:
    """Names for a decoder's cache: the input ``past_key_values.0.key`` is returned as ``present.0.key``."""
    past, dot, rest = name.partition(".")
    return f"present{dot}{rest}" if past == "past_key_values" else name


def _retranslation(
    captured: Capture, call: BoundCall, translation: Translation, options: Options, output_names: list[str]
) -> Retranslation:
    """The translation to ONNX, to be repeated while looking for the cause of a mismatch."""

    def make(kind: type[Lowering] = Lowering, *, flat: bool = False) -> Lowering:
        return kind(
            captured.graph,
            translation.converters,
            options.opset,
            bake_parameters=options.export_params,
            train=call.trains,
            fold_constants=_folds_constants(call, translation, options),
            exact_nan=options.exact_nan,
            weights_stay=options.weights_stay,
            keep_unread=not options.optimize,
            sizes_as_captured=translation.keeps_every,
            function_names=None if flat else _function_names(options.module_calls, call.runner.paths),
        )

    return Retranslation(captured.graph, make, call.input_names, call.parameter_names, output_names)


def _folds_constants(call: BoundCall, translation: Translation, options: Options) -> bool:
    """Whether the content of parameters may go into results: nobody changes it later, or asks for the nodes."""
    is_final = options.export_params and not call.trains and not options.keep_initializers_as_inputs
    return is_final and options.optimize and options.fold_constants and not translation.keeps_torch


def _function_names(calls: ModuleCalls, paths: Mapping[str, nn.Module]) -> FunctionNames:
    """The function for each module: named after its class, in a domain named after the class's Python module."""
    return {
        path: FunctionName(*compat.scripts.class_of(module), _made_with(module))
        for path, module in paths.items()
        if path and isinstance(module, calls.apart)
    }


def _made_with(module: nn.Module) -> dict[str, int | float | str]:
    """The numbers and strings among a module's ``__init__`` arguments that it has as attributes."""
    parameters = list(inspect.signature(type(module).__init__).parameters)[1:]
    found = {name: module.__dict__[name] for name in parameters if name in module.__dict__}
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}
