"""What an export returns: the program with all that it takes to call it, and the figures of its report."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.traversal import all_nodes
from onnxport.options.options import Options
from onnxport.program.program import Interface, Program, Report
from onnxport.stages.translation import Draft
from onnxport.verification import Verification


def make_program(
    draft: Draft, options: Options, report: Report, verification: Verification, *, has_weights: bool
) -> Program:
    """The exported model. Without the content of its weights it can be saved, and not be called."""
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
    )


def measure(model: ir.Model) -> tuple[int, int]:
    """The number of nodes, and of bytes that the weights take."""
    stored = (value.const_value for value in model.graph.initializers.values())
    return sum(1 for _ in all_nodes(model.graph)), sum(tensor.nbytes for tensor in stored if tensor is not None)
