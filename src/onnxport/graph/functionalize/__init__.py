"""Removal of mutation: a graph in which no node writes to its arguments, and which computes the same.

In: a captured graph. Out: the same graph, changed in place. Imports `graph` and torch.
"""

from onnxport.graph.functionalize.functionalize import functionalize

__all__ = ["functionalize"]
