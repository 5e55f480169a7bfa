"""Sizes of values at evaluation points: by shape functions, by operators on meta tensors, by guesses where data decide.

In: nodes of a graph that is being built. Out: types with sizes as expressions. Imports `graph`, `compat`.
"""
