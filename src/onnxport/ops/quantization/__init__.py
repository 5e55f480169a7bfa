"""Quantization: whole numbers in place of floats, and floats rounded as if they had been such numbers.

In: the builder and ATen arguments. Out: ONNX values, in QuantizeLinear and DequantizeLinear. Imports `lower`.
"""

from onnxport.ops.quantization import (
    decomposed,
    dynamic,
    fake_quantize,
    quantized_activations,
    quantized_arithmetic,
    quantized_layers,
    quantized_tensors,
    recurrent,
)
