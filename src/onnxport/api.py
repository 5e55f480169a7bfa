"""The public call: from a PyTorch model to a checked ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from torch import nn

from onnxport.modes import OperatorExportTypes, TrainingMode
from onnxport.options.options import DynamicAxes, read_options
from onnxport.options.torch_options import check_torch_options
from onnxport.pipeline import run_export
from onnxport.program.program import Program
from onnxport.verify.runners import Verify


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
    and then nothing is written. ``example_outputs`` is accepted for the sake of old code; outputs are observed.
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
        aten=aten,
        export_raw_ir=export_raw_ir,
        retain_param_name=_retain_param_name,
    )
    return run_export(model, args, kwargs, options)
