"""Products of matrices, linear layers, factorizations and solvers.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.linalg import (
    cholesky_qr,
    einsum,
    linalg,
    linear,
    lu,
    matmul,
    matrices,
    svd_eigh,
)
