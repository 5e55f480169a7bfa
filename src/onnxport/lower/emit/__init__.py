"""ONNX operators that changed between opsets: each has one emitter, which knows the target opset.

In: the builder and values. Out: values. Converters call these and are written once. If an operator appeared later than
opset 7 and simpler ones compute the same, the emitter has both forms. Imports the builder.
"""

from onnxport.lower.emit.axes import reduce, shape, softmax, squeeze, transpose, unsqueeze
from onnxport.lower.emit.indices import gather_elements, not_negative, scatter_elements, scatter_nd, topk
from onnxport.lower.emit.selection import (
    clip,
    cumsum,
    dropout,
    equal,
    greater_or_equal,
    is_nan,
    less_or_equal,
    maximum,
    minimum,
    modulo,
    round_,
    where,
)
from onnxport.lower.emit.shaping import (
    INT64_MAX,
    counting,
    expand,
    filled,
    pad,
    range_,
    reshape,
    resize,
    slice_,
    split,
    split_evenly,
)
from onnxport.lower.emit.signal import dft, stft

__all__ = [
    "INT64_MAX",
    "clip",
    "counting",
    "cumsum",
    "dft",
    "dropout",
    "equal",
    "expand",
    "filled",
    "gather_elements",
    "greater_or_equal",
    "is_nan",
    "less_or_equal",
    "maximum",
    "minimum",
    "modulo",
    "not_negative",
    "pad",
    "range_",
    "reduce",
    "reshape",
    "resize",
    "round_",
    "scatter_elements",
    "scatter_nd",
    "shape",
    "slice_",
    "softmax",
    "split",
    "split_evenly",
    "squeeze",
    "stft",
    "topk",
    "transpose",
    "unsqueeze",
    "where",
]
