"""The operator library: a folder for each kind of operator, a file for each family, collected into one registry.

In: ATen nodes with arguments bound by their schemas. Out: ONNX values. Imports `lower` and `graph`.
"""

from onnxport.lower.registry import build, modules_in
from onnxport.ops import (
    complex,
    creation,
    elementwise,
    indexing,
    linalg,
    module_call,
    nn,
    onnx_operators,
    prims,
    quantization,
    reduction,
    script_scalars,
    shape,
    signal,
    special,
    vision,
)

ROOMS = (complex, creation, elementwise, indexing, linalg, nn, quantization, reduction, shape, signal, special, vision)

MODULES = [
    *(module for room in ROOMS for module in modules_in(room)),
    module_call,
    onnx_operators,
    prims,
    script_scalars,
]

REGISTRY = build(MODULES)
