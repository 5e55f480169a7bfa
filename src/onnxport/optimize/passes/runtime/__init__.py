"""Passes that choose among equal forms the one that ONNX Runtime runs fastest on the CPU. Each can be left out.

In: a simplified model. Out: the same model, changed in place.
"""
