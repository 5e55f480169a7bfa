"""Random numbers from a seed that the model sets itself: they are the same in each run, so they become constants."""

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
    """A node that returns the ``drawn`` numbers of another; ``depends`` says which values depend on the inputs."""
    where = f"{node.source or 'the model'}: {node.op} draws from a seed that the model sets"
    if any(isinstance(size, SizeExpr) for kind in types for size in kind.shape):
        raise DynamicAxisError(
            f"{where}, and how many numbers it draws depends on a dynamic axis: a file cannot draw the same ones. "
            "Draw them outside of the model and make them an input, or leave the axis static."
        )
    if any(depends(value) for value in _sources(node)):
        raise CaptureError(
            f"{where}, and its result depends on the input: a file cannot draw the same numbers. Draw them with "
            "torch.rand, which makes them constants of the file, or do not set the seed in the model."
        )
    if writes(node):
        return node.like("aten::copy_", {"self": node.inputs["self"], "src": drawn[0], "non_blocking": False}, ())
    return node.like("aten::clone", {"self": drawn[0], "memory_format": None}, ())


def _sources(node: Node) -> list[Value]:
    """The arguments with content that decides what a node draws, without the tensor that it fills."""
    if node.op in SHAPE_ONLY:
        return []
    schema = schema_of(node.op, node.overload)
    names = {parameter.name for parameter in schema.parameters} if schema is not None else set()
    filled = node.inputs.get("self") if writes(node) and "generator" in names and "training" not in names else None
    return [value for value in node.values() if value is not filled]
