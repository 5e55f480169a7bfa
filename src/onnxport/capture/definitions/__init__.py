"""Operators without a converter, replaced by torch's own decompositions.

In: a node of the captured graph. Out: the nodes of its decomposition. Imports `record`, `sizes`, `build`, `graph`.
"""
