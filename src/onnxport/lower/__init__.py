"""From the captured graph to ONNX: the walk, the builder for converters, and the differences between opsets.

In: a functional `Graph` and the converters of `ops`. Out: an onnx_ir model. Imports `graph`.
"""

from onnxport.lower.builder import Builder
from onnxport.lower.registry import Registry, converter
from onnxport.lower.value import Value
from onnxport.lower.walk import Lowering

__all__ = ["Builder", "Lowering", "Registry", "Value", "converter"]
