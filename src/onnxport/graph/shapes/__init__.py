"""Shape functions: the shapes of an operator's results as expressions of its arguments' sizes.

In: a node with typed arguments. Out: the shapes of its results, or None for an operator that has no function here.
Imports `graph`.
"""

from onnxport.graph.shapes.acceptance import accepts
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.shapes.result_shapes import result_shapes

__all__ = ["NotKnown", "Requirements", "accepts", "result_shapes"]
