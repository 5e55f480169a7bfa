"""Size expressions: numbers computed from the sizes of axes and values, exactly as the model's Python computed them.

``expr`` makes and evaluates them, ``canonical`` brings those that are equal to one form, ``bounds`` says how small or
large they can get, ``text`` writes them for a reader, ``shapes`` has what shapes need of them.
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
