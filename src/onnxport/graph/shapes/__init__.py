"""How the shapes of an operator's results follow from its arguments, as expressions.

In: a node with typed arguments. Out: the shapes of its results, or None for an operator that has no function here.
Imports `graph`.
"""

from onnxport.graph.shapes.functions import result_shapes
from onnxport.graph.shapes.requirements import NotKnown, Requirements

__all__ = ["NotKnown", "Requirements", "result_shapes"]
