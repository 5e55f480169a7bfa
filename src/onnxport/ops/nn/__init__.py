"""Layers: convolution, pooling, normalization, attention, recurrent layers, interpolation, losses.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.nn import (
    adaptive_pooling,
    attention,
    convolution,
    ctc,
    dropout,
    fractional_pooling,
    fused_layers,
    interpolate,
    loss,
    margin_loss,
    normalization,
    pooling,
    recurrent,
    recurrent_layers,
    recurrent_packing,
)
