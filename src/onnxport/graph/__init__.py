"""The captured graph: ATen operators with arguments bound by their schemas, the one form of every capture.

In: what a capture found. Out: a `Graph` of `Node`s and `Value`s with sizes as expressions, without mutation once it
went through `functionalize`. Imports `compat`.
"""

from onnxport.graph.ir import Block, Graph, Node, Source, TensorType, Value

__all__ = ["Block", "Graph", "Node", "Source", "TensorType", "Value"]
