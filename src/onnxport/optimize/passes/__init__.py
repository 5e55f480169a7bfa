"""The passes over the ONNX graph, one in each file. Each states what it preserves.

In: an onnx_ir model. Out: the same model, changed in place. Imports onnx_ir and the rest of `optimize`.
"""
