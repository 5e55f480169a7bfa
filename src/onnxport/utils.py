"""``is_in_onnx_export`` and other functions that old code imports from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from onnxport import compat
from onnxport.api import export
from onnxport.capture.model.state import training_mode
from onnxport.errors import OptionError
from onnxport.graph.ir import Graph
from onnxport.options.enums import ExportTypes, OperatorExportTypes, TrainingMode
from onnxport.options.options import DynamicAxes, read_options, read_training, switch_of
from onnxport.pipeline import draft_export
from onnxport.program.graph_text import format_graph, print_graph
from onnxport.report.tracebacks import public
from onnxport.save import to_proto
from onnxport.symbolic.overlay import register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "export",
    "export_to_pretty_string",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_training",
    "unconvertible_ops",
    "unregister_custom_op_symbolic",
]


def is_in_onnx_export() -> bool:
    """Whether the calling code is being exported."""
    return compat.is_in_onnx_export()


@contextmanager
def set_training(model: nn.Module, mode: bool | TrainingMode | None) -> Iterator[None]:
    """Put the model and all its submodules into training or evaluation mode; each gets its own mode back afterwards."""
    with training_mode([model], None if mode is None else switch_of(read_training(mode))):
        yield


@contextmanager
def select_model_mode_for_export(model: nn.Module, mode: TrainingMode | bool | None) -> Iterator[None]:
    """The model in the mode of an export with ``training=mode``; restored afterwards."""
    with set_training(model, read_training(mode)):
        yield


@public
def export_to_pretty_string(
    model: Callable[..., Any],
    args: Any,
    export_params: bool = True,
    verbose: bool = False,
    training: TrainingMode | bool | None = TrainingMode.EVAL,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: OperatorExportTypes | None = OperatorExportTypes.ONNX,
    export_type: str | None = None,
    google_printer: bool = False,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    add_node_names: bool = True,
    do_constant_folding: bool = True,
    dynamic_axes: DynamicAxes | None = None,
) -> str:
    """The model that `export` would write, as text, which ``verbose`` prints too. It is not checked.

    With ``google_printer`` it is the whole protobuf message with its weights. Nodes always have their names.
    """
    if export_type not in (None, ExportTypes.PROTOBUF_FILE):
        raise OptionError(f"export_type={export_type!r}: there is one form of file, ExportTypes.PROTOBUF_FILE")
    options = read_options(
        verify=False,
        export_params=export_params,
        verbose=verbose,
        training=training,
        input_names=input_names,
        output_names=output_names,
        operator_export_type=operator_export_type,
        opset_version=opset_version,
        do_constant_folding=do_constant_folding,
        dynamic_axes=dynamic_axes,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        custom_opsets=custom_opsets,
    )
    draft = draft_export(model, args, options)
    if options.verbose:
        print_graph(draft.model, draft.captured.graph, draft.call.parameter_names)
    if google_printer:
        return str(to_proto(draft.model))
    return format_graph(draft.model, draft.captured.graph, draft.call.parameter_names)


@public
def unconvertible_ops(
    model: Callable[..., Any],
    args: Any,
    training: TrainingMode | bool | None = TrainingMode.EVAL,
    opset_version: int | None = None,
) -> tuple[Graph, list[str]]:
    """The captured graph, and the operators in it that cannot be written at an opset, one name for each."""
    kept = OperatorExportTypes.ONNX_ATEN_FALLBACK
    options = read_options(training=training, opset_version=opset_version, operator_export_type=kept, verify=False)
    draft = draft_export(model, args, options)
    return draft.captured.graph, list(dict.fromkeys(node.op for node in draft.translation.kept))
