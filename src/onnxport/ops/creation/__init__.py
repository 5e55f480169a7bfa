"""Operators that make tensors of sizes and numbers, random ones among them.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.creation import (
    creation,
    random,
)
