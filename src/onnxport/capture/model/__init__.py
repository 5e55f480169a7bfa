"""The user's model and its call.

In: a model with arguments of any nesting. Out: flat named tensors, runs on other tensors, and the model unchanged.
"""
