"""The names of the inputs' dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from onnxport.capture.axes.axis import Axis, Place, form_name
from onnxport.graph.sizes import Shape, SizeExpr


def input_labels(shapes: Sequence[Shape], axes: Sequence[Axis]) -> dict[SizeExpr, str]:
    """The names of the axes, and those that were given to sums of them, by the sizes that inputs have."""
    labels: dict[SizeExpr, str] = {}
    for axis in axes:
        for place in axis.places:
            size = shapes[place[0]][place[1]]
            if isinstance(size, SizeExpr):
                labels.setdefault(size, axis.aliases.get(place) or _name(axis, place))
    return labels


def _name(axis: Axis, place: Place) -> str:
    own = form_name(axis.label, axis.forms[place]) if place in axis.forms else axis.label
    return " + ".join((own, *axis.plus.get(place, ())))
