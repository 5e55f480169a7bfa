"""Operators that read or write at indices: gather, scatter, masks, embeddings.

In: the builder and ATen arguments. Out: ONNX values. Imports `lower` and other rooms of `ops`.
"""

from onnxport.ops.indexing import (
    embedding,
    indexing,
    masking,
    scatter,
    select,
)
