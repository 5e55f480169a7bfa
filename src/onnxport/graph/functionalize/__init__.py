"""Removal of mutation: no node of the resulting graph writes to its arguments, and its results are the same.

In: a captured graph. Out: the same graph, changed in place. Imports `graph` and torch.
"""

from onnxport.graph.functionalize.functionalize import functionalize

__all__ = ["functionalize"]
