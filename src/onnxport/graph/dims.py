"""Sizes by the name that they had: see ``onnxport.graph.sizes``."""

from onnxport.graph.sizes.expr import ROOT, Shape, Size, SizeExpr, larger, root, smaller
from onnxport.graph.sizes.shapes import OPERATORS, is_static, product, size, static_sizes, values

Dim = SizeExpr

__all__ = [
    "OPERATORS",
    "ROOT",
    "Dim",
    "Shape",
    "Size",
    "SizeExpr",
    "is_static",
    "larger",
    "product",
    "root",
    "size",
    "smaller",
    "static_sizes",
    "values",
]
