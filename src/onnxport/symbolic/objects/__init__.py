"""The arguments of symbolic functions: the graph ``g``, values, nodes and blocks, with the classic methods.

In: a builder and values of `lower`. Out: `GraphContext`. Imports `graph`, `lower`.
"""
