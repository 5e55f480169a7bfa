"""Fourier transforms, whole and short-time.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.signal import (
    dft,
    fourier,
    stft,
    windows,
)
