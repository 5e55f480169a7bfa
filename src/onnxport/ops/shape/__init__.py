"""Operators that only move elements: views, slices, concatenation, padding, lists of tensors.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.shape import (
    cat_split,
    padding,
    repeat,
    sequences,
    shape,
    slicing,
    strided,
    triangular,
    unfold,
)
