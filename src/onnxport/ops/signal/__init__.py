"""Fourier transforms and short-time Fourier transforms.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.signal import (
    dft,
    fourier,
    stft,
    windows,
)
