"""Operators of detection models and image warping.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.vision import (
    boxes,
    deformable,
    grid_sample,
)
