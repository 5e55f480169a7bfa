"""Size expressions: numbers computed from the sizes of axes and values, exactly as Python computes them.

``expr`` makes and evaluates them, ``canonical`` brings equal ones to the same form, ``bounds`` computes their range,
``text`` writes them for readers, ``shapes`` has helpers for shapes.
"""

from onnxport.graph.sizes.canonical import exact
from onnxport.graph.sizes.expr import (
    Operand,
    Shape,
    Size,
    SizeExpr,
    apply,
    axis,
    compare,
    evaluate,
    larger,
    leaves_of,
    number_of,
    root,
    size_of,
    smaller,
    structure,
    substitute,
    where,
)
from onnxport.graph.sizes.shapes import is_static, product, size, static_sizes, values

__all__ = [
    "Operand",
    "Shape",
    "Size",
    "SizeExpr",
    "apply",
    "axis",
    "compare",
    "evaluate",
    "exact",
    "is_static",
    "larger",
    "leaves_of",
    "number_of",
    "product",
    "root",
    "size",
    "size_of",
    "smaller",
    "static_sizes",
    "structure",
    "substitute",
    "values",
    "where",
]
