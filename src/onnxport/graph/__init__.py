"""The captured graph: ATen operators with arguments bound by their schemas, the same form for every capture.

In: the calls that a capture found. Out: a `Graph` of `Node`s and `Value`s with sizes as expressions, without mutation
after `functionalize`. Imports `compat`.
"""

from onnxport.graph.ir import Block, Graph, Node, Source, TensorType, Value

__all__ = ["Block", "Graph", "Node", "Source", "TensorType", "Value"]
