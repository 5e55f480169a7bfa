"""The public calls: from a PyTorch model to a checked ONNX file, and the check of a file made earlier."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import onnx_ir as ir
from torch import nn

from onnxport.errors import InternalError
from onnxport.graph.ir import Graph
from onnxport.options.enums import OperatorExportTypes, TrainingMode
from onnxport.options.options import DynamicAxes, Options, read_options
from onnxport.options.torch_options import check_torch_options
from onnxport.pipeline import draft_export, run_export
from onnxport.program.attempt import attempted
from onnxport.program.internal_errors import internal_message, is_own_mistake
from onnxport.program.program import Program
from onnxport.report.progress import Progress
from onnxport.report.tracebacks import public
from onnxport.save import serialize
from onnxport.stages import observers_off
from onnxport.verification import Verification
from onnxport.verification.existing_file import verify_file
from onnxport.verification.runners import Verify


@public
def export(
    model: Callable[..., Any],
    args: Any = (),
    f: Any = None,
    export_params: bool = True,
    verbose: bool | None = False,
    training: TrainingMode | bool | None = TrainingMode.EVAL,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: OperatorExportTypes | None = None,
    opset_version: int | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: DynamicAxes | None = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[nn.Module]] = False,
    *,
    kwargs: Mapping[str, Any] | None = None,
    example_outputs: Any = None,
    strip_doc_string: bool = True,
    dynamic_shapes: Any = None,
    enable_onnx_checker: bool = True,
    use_external_data_format: bool | None = None,
    intermediate_outputs: Sequence[str] | None = None,
    modules_as_ops: Mapping[type[nn.Module], str] | None = None,
    verify: Verify = True,
    check_sizes: Sequence[Mapping[str, int]] = (),
    external_data: bool | None = None,
    weights: str | os.PathLike[str] | None = None,
    optimize: bool = True,
    skip_passes: Sequence[str] = (),
    exact_nan: bool = False,
    control_flow: Literal["merge", "trace"] = "merge",
    dynamo: bool | None = None,
    report: bool | str | os.PathLike[str] = False,
    progress: Progress = None,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    fallback: bool = False,
    custom_translation_table: Mapping[Any, Any] | None = None,
    autograd_inlining: bool = True,
    aten: bool | None = None,
    export_raw_ir: bool | None = None,
    _retain_param_name: bool | None = None,
) -> Program:
    """Export a model to ONNX, check it in ONNX Runtime, and write it to ``f``.

    Anything that cannot be delivered as asked is an `ExportError`, and then nothing is written. What the model itself
    raises is passed on. Errors show the frames of your own code; with the environment variable
    ``ONNXPORT_TRACEBACK=full`` those of this package as well.

    Args:
        model: A module, any function of tensors, or a program of torch.export.
        args: One tensor, or a tuple of arguments of any nesting. Tensors become inputs, all else is baked in.
        f: A path, a file object open for writing bytes, or None.
        kwargs: Keyword arguments of the model.
        export_params: False: parameters become inputs of the graph, after the model's own.
        verbose: Print the exported graph, one line per node.
        training: `TrainingMode.EVAL`, ``TRAINING``, or ``PRESERVE`` for each submodule's own mode.
        input_names: Names for the inputs, then for the parameters, in order; may be fewer.
        output_names: Names for the outputs.
        operator_export_type: What operators are written as, an `OperatorExportTypes`.
        opset_version: 7 to 26; 20 if it is not given.
        do_constant_folding: Compute what depends on parameters alone now.
        example_outputs: Accepted for the sake of old code; outputs are observed.
        strip_doc_string: False: each node's doc string names the source line that it comes from.
        dynamic_axes: ``{name: [axis, ...]}`` or ``{name: {axis: label}}``; equal labels are equal sizes.
        dynamic_shapes: The same as torch.export takes it, with ranges and derived sizes.
        keep_initializers_as_inputs: Parameters are initializers and inputs.
        custom_opsets: Domain to version, written into the file.
        enable_onnx_checker: Run onnx's checker over the graph.
        use_external_data_format: True is ``external_data=True``.
        intermediate_outputs: Paths of submodules whose result is an output too.
        modules_as_ops: ``{ModuleClass: "domain::Operator"}``: each call of such a module is one operator.
        export_modules_as_functions: True, or a set of module classes: their calls are calls of ONNX functions.
        verify: True: a mismatch is a `VerificationError`. ``"warn"``: a warning. False: no check. A function
            ``runner(model_proto, {name: array})`` or an ``onnxruntime.SessionOptions``: how the file is run.
        check_sizes: ``[{axis label: size}]``: sizes at which the file is checked besides those that are chosen.
        external_data: True: weights in a file beside the model's. False: one file. None: beside it above 2 GiB.
        weights: A safetensors file, or a folder with some, for a model on the meta device. The file refers to
            weights in it; with ``external_data=True`` it has a copy beside it.
        optimize: False: the graph as it was translated, with nothing folded, fused or removed.
        skip_passes: Names of passes that are left out. ``"AddBiasLast"``: adds a constant bias behind the residual
            connection, before a norm. ``"ShareHeads"``: multiplies heads once that are repeated for groups of queries.
            ``"AttendSequences"``: lets Attention take the heads from sequences. ``"ConvolveRows"``: writes convolutions
            over sequences as convolutions over images of one row. ``"LeaveSizesOpen"``: does not name the first dynamic
            dimension of values between inputs and outputs. ``"SqueezeOnes"``: writes a Squeeze without axes
            for an If of two.
        exact_nan: True: NaN is ordered as torch orders it also where ONNX leaves it open, with more nodes.
        control_flow: "merge": an `if` or `while` of the model that data decide is in the file, as an If or a Loop.
            "trace": it is decided once, as the example decides it, with a TraceWarning that names the line.
        report: A path, or True for one beside ``f``: an HTML page about the export, written also when it fails.
        progress: None: a bar on a terminal or in a notebook once an export lasts over a second. True: from the start.
            False: none. A ``function(phase, done, total)`` is called instead; what it raises stops the export.
        dynamo, artifacts_dir: Accepted for the sake of old code; they change nothing.
        profile, dump_exported_program, fallback, custom_translation_table, autograd_inlining: Arguments of torch's own
            exporter; what asks for something is an error that says what to do instead.
        aten, export_raw_ir, _retain_param_name: Deprecated.
    """
    check_torch_options(
        dynamo=dynamo, profile=profile, dump_exported_program=dump_exported_program, fallback=fallback,
        artifacts_dir=artifacts_dir, custom_translation_table=custom_translation_table,
        autograd_inlining=autograd_inlining,
    )  # fmt: skip
    options = read_options(
        f=f,
        export_params=export_params,
        verbose=verbose,
        training=training,
        input_names=input_names,
        output_names=output_names,
        operator_export_type=operator_export_type,
        opset_version=opset_version,
        do_constant_folding=do_constant_folding,
        strip_doc_string=strip_doc_string,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        custom_opsets=custom_opsets,
        enable_onnx_checker=enable_onnx_checker,
        use_external_data_format=use_external_data_format,
        intermediate_outputs=intermediate_outputs,
        modules_as_ops=modules_as_ops,
        export_modules_as_functions=export_modules_as_functions,
        verify=verify,
        check_sizes=check_sizes,
        external_data=external_data,
        weights=weights,
        optimize=optimize,
        skip_passes=skip_passes,
        exact_nan=exact_nan,
        control_flow=control_flow,
        progress=progress,
        report=report,
        deprecated=(aten, export_raw_ir, _retain_param_name),
    )
    return _exported(model, args, kwargs, options)


def _exported(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    with attempted(options) as attempt:
        try:
            return run_export(model, args, kwargs, attempt)
        except Exception as error:
            if not is_own_mistake(error):
                raise
            raise InternalError(internal_message(error)) from error


@public
def verify(
    exported: Program | str | bytes | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    sizes: Sequence[Mapping[str, int]] | None = None,
) -> Verification:
    """Check an exported model, or a file made earlier, against its torch model in evaluation mode.

    It is run on the arguments and at other sizes of its dynamic axes: those given as ``{axis label: size}``, or some
    that are chosen. Nothing is raised for a mismatch: look at ``passed`` and at the cases.
    """
    if isinstance(exported, Program):
        source: str | bytes = serialize(exported.model)
    else:
        source = exported if isinstance(exported, bytes) else os.fspath(exported)

    def translate(names: Sequence[str], axes: DynamicAxes, opset: int) -> tuple[Graph, ir.Model]:
        options = read_options(input_names=names, dynamic_axes=axes, opset_version=opset, verify=False)
        draft = draft_export(model, args, options, kwargs)
        return draft.captured.graph, draft.model

    with observers_off(model):
        return verify_file(source, model, args, kwargs, sizes, translate)
