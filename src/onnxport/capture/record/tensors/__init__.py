"""Tensors that need more than the call of their operator: subclasses, transforms, autocast, resizing, parts of lists.

In: calls on such tensors. Out: calls of a record. Imports `record`, `compat`.
"""
