"""The names of the inputs' dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.capture.axes.axis import Axis, InputDim, form_name
from onnxport.graph.sizes import Shape, SizeExpr


def input_labels(shapes: Sequence[Shape], axes: Sequence[Axis]) -> dict[SizeExpr, str]:
    """Names of sizes of inputs: those of the axes, and those given to sums of axes."""
    labels: dict[SizeExpr, str] = {}
    for axis in axes:
        for input_dim in axis.input_dims:
            size = shapes[input_dim[0]][input_dim[1]]
            if isinstance(size, SizeExpr):
                labels.setdefault(size, axis.aliases.get(input_dim) or _name(axis, input_dim))
    return labels


def _name(axis: Axis, input_dim: InputDim) -> str:
    own = form_name(axis.label, axis.forms[input_dim]) if input_dim in axis.forms else axis.label
    return " + ".join((own, *axis.plus.get(input_dim, ())))
