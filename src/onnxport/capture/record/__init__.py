"""Records one run of a model.

In: a model and tensors. Out: a `Record` of ATen calls, with what Python did with sizes and contents in between.
Imports `model`, `graph`, `compat`.
"""
