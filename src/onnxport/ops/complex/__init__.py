"""Operators on complex tensors, which are pairs of real tensors in ONNX.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.complex import (
    complex_arithmetic,
    complex_functions,
    complex_movement,
    complex_statistics,
)
