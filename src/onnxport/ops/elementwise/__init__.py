"""Operators on each element: arithmetic, comparisons, activations, casts, bits.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.elementwise import (
    activation,
    arithmetic,
    bitwise,
    bounds,
    cast,
    comparison,
    division,
    float_bits,
    gcd,
    unary,
)
