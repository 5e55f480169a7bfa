"""What symbolic functions are given: the graph ``g``, values, nodes and blocks with the methods that they call on them.

In: a builder and values of `lower`. Out: `GraphContext`. Imports `graph`, `lower`.
"""
