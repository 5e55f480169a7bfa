"""Types of what ONNX nodes yield: dtype, shape and small contents, by our rules or by onnx's own inference.

In: an operator, its inputs and attributes. Out: types. Imports `graph` and onnx.
"""
