"""The public calls: from a PyTorch model to a checked ONNX file, and the check of a file made earlier."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from torch import nn

from onnxport.errors import InternalError
from onnxport.graph.ir import Graph
from onnxport.options.enums import OperatorExportTypes, TrainingMode
from onnxport.options.options import DynamicAxes, Options, read_options
from onnxport.options.torch_options import check_torch_options
from onnxport.pipeline import draft_export, run_export
from onnxport.program.internal_errors import internal_message, is_own_mistake
from onnxport.program.program import Program
from onnxport.save import serialize
from onnxport.stages import observers_off
from onnxport.verification import Verification
from onnxport.verification.existing_file import verify_file
from onnxport.verification.runners import Verify


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
    external_data: bool | None = None,
    optimize: bool = True,
    exact_nan: bool = False,
    dynamo: bool | None = None,
    report: bool = False,
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

    See docs/export.md for what each argument does. Anything that cannot be delivered as asked is an `ExportError`,
    and then nothing is written. What the model itself raises is passed on. ``example_outputs`` is accepted for the
    sake of old code; outputs are observed.
    """
    check_torch_options(
        dynamo=dynamo,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        fallback=fallback,
        artifacts_dir=artifacts_dir,
        custom_translation_table=custom_translation_table,
        autograd_inlining=autograd_inlining,
    )
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
        external_data=external_data,
        optimize=optimize,
        exact_nan=exact_nan,
        aten=aten,
        export_raw_ir=export_raw_ir,
        retain_param_name=_retain_param_name,
    )
    return _exported(model, args, kwargs, options)


def _exported(model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options) -> Program:
    try:
        return run_export(model, args, kwargs, options)
    except Exception as error:
        if not is_own_mistake(error):
            raise
        raise InternalError(internal_message(error)) from error


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
