"""The model and its call, as they are given and given back.

In: a model with arguments of any nesting. Out: flat named tensors, runs on other tensors, and the model unchanged.
"""
