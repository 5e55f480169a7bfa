"""Calls that stand for more than one operator: scripts, autograd Functions, modules, branches and loops.

In: such a call. Out: one call of a record, or calls between marks. Imports `record`, `model`, `compat`.
"""
