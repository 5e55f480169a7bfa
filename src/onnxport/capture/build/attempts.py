"""Errors of operators that the model handles, as conditions on sizes."""

from __future__ import annotations

from onnxport.capture.sizes.record_points import RecordPoints
from onnxport.errors import DynamicAxisError
from onnxport.graph.ir import Node
from onnxport.graph.shapes import accepts
from onnxport.graph.sizes import Operand, SizeExpr


def acceptance(node: Node, taken: bool, points: RecordPoints) -> Operand | None:
    """Whether an operator accepts the arguments of a node; None if their content decides.

    ``taken`` is whether it did in the run. An error in the run that has to do with neither sizes nor content is raised
    at all sizes.
    """
    expression = accepts(node, points.count)
    if expression is not None and (expression.at[0] if isinstance(expression, SizeExpr) else expression) == taken:
        return expression
    if taken:
        return True
    errors = points.errors(node)
    if errors[0] is None:
        return None
    if expression is None and len(set(errors)) > 1:
        raise DynamicAxisError(
            f"{node.source or 'the model'}: {node.op} raises an error here that the model handles ({errors[0]}), and "
            "at which sizes it does is not known. Compare the sizes instead, or leave the axis static."
        )
    return False
