"""Special functions: Bessel, gamma and error functions, polynomials.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.special import (
    bessel,
    error_function,
    gamma,
    polynomials,
    tabulated,
)
