"""The program that an export returns, and the figures of its report."""

from __future__ import annotations

import os
from pathlib import Path

import onnx_ir as ir

from onnxport.optimize.traversal import all_nodes
from onnxport.options.options import Options
from onnxport.program.program import Interface, Program
from onnxport.report.report import Report, count_operators
from onnxport.save import SplitModel, split
from onnxport.stages.translation import Draft
from onnxport.verification import Verification


def pieces(draft: Draft, options: Options) -> SplitModel:
    """The model as it is written: weights that are in files below its folder stay there, where that is asked for."""
    if draft.call.references is None:
        return split(draft.model)
    return split(draft.model, draft.call.references, Path(os.path.realpath(os.fsdecode(options.target))).parent)


def make_program(
    draft: Draft, options: Options, report: Report, verification: Verification, *, has_weights: bool
) -> Program:
    """The exported program. Without the content of its weights it can be saved, but not called."""
    interface = _interface(draft, options)
    program = Program(draft.model, interface, report, verification, draft.call.weights, options.external_data)
    return program if has_weights else program.without_content()


def _interface(draft: Draft, options: Options) -> Interface:
    call, captured = draft.call, draft.captured
    parameters = {} if options.export_params else call.weights
    outputs = enumerate(captured.graph.block.outputs)
    complex_outputs = frozenset(index for index, value in outputs if value.is_tensor and value.dtype.is_complex)
    return Interface(
        call.input_names,
        parameters,
        captured.structure,
        captured.constants,
        complex_outputs,
        captured.axes,
        arguments=[name for name, _ in call.runner.inputs.arguments],
        numbers=dict(call.runner.numbers),
        number_arguments=call.runner.inputs.numbers,
    )


def measure(model: ir.Model) -> tuple[dict[str, int], int]:
    """The number of nodes of each operator, and the size of the weights."""
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    stored = (value.const_value for value in model.graph.initializers.values())
    operators = count_operators(node for graph in graphs for node in all_nodes(graph))
    return operators, sum(tensor.nbytes for tensor in stored if tensor is not None)
