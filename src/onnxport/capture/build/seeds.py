"""Random numbers from a seed that the model sets itself: the same in each run, so they are constants of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnxport.capture.build.contents import SHAPE_ONLY
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.interpret import writes
from onnxport.graph.ir import Node, TensorType, Value, schema_of
from onnxport.graph.sizes import SizeExpr


def seeded_node(
    node: Node, types: Sequence[TensorType], drawn: Sequence[Value], depends: Callable[[Value], bool]
) -> Node:
    """A node that gives what another one has ``drawn``; ``depends`` tells which values the inputs decide."""
    where = f"{node.source or 'the model'}: {node.op} draws from a seed that the model sets"
    if any(isinstance(size, SizeExpr) for kind in types for size in kind.shape):
        raise DynamicAxisError(
            f"{where}, and how many numbers it draws depends on a dynamic axis: the file could not draw the same ones. "
            "Draw them outside of the model and make them an input, or leave the axis static."
        )
    if any(depends(value) for value in _sources(node)):
        raise CaptureError(
            f"{where}, and what it gives depends on the input: the file could not draw the same numbers. Draw them "
            "from torch.rand, whose numbers are constants of the file then, or do not set the seed in the model."
        )
    if writes(node):
        inputs = {"self": node.inputs["self"], "src": drawn[0], "non_blocking": False}
        return Node("aten::copy_", inputs, (), scope=node.scope, source=node.source)
    return Node("aten::clone", {"self": drawn[0], "memory_format": None}, (), scope=node.scope, source=node.source)


def _sources(node: Node) -> list[Value]:
    """The values whose content decides what a node draws; what it fills is not among them."""
    if node.op in SHAPE_ONLY:
        return []
    schema = schema_of(node.op, node.overload)
    names = {parameter.name for parameter in schema.parameters} if schema is not None else set()
    filled = node.inputs.get("self") if writes(node) and "generator" in names and "training" not in names else None
    return [value for value in node.values() if value is not filled]
