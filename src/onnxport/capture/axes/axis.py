"""The dynamic axes of a model's inputs, and the example's tensors at other sizes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.model.other_data import in_order_of
from onnxport.errors import OptionError

# Axis label to size: one point at which the model is run.
Sizes = dict[str, int]
# An input and one of its dimensions, and how the size there follows from the axis's, as 2 * n does from n.
Place = tuple[int, int]
Form = Callable[[int], int]


@dataclass(frozen=True)
class Axis:
    """All dimensions of inputs that carry one label: they change together.

    An ``optional`` one is static if the model does not take other sizes. At the places in ``plus`` the sizes of other
    axes are added.
    """

    label: str
    places: tuple[Place, ...]
    size: int
    named: bool
    low: int = 1
    high: int | None = None
    forms: Mapping[Place, Form] = field(default_factory=dict)
    optional: bool = False
    plus: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    promised: bool = False  # declared with a range, which the model has to take
    aliases: Mapping[Place, str] = field(default_factory=dict)  # the names that places had before they were related

    def length(self, place: Place, point: Mapping[str, int]) -> int:
        """The size of one of its places at a point."""
        size = point[self.label]
        own = self.forms[place](size) if place in self.forms else size
        return own + sum(point[label] for label in self.plus.get(place, ()))

    def takes(self, size: int) -> bool:
        """Whether a size lies in the range that the user gave."""
        return self.low <= size and (self.high is None or size <= self.high)

    @property
    def leads(self) -> bool:
        """Whether it is the first dimension wherever it stands, as a batch is."""
        return all(dim == 0 for _, dim in self.places)


def find_axes(
    declared: Sequence[Mapping[int, str]], named: Sequence[bool], tensors: Sequence[torch.Tensor]
) -> list[Axis]:
    """The axes declared on the inputs: per input, dimension to label."""
    places: dict[str, list[tuple[int, int]]] = {}
    by_name: dict[str, bool] = {}
    for index, (dims, is_named) in enumerate(zip(declared, named, strict=True)):
        for dim, label in dims.items():
            places.setdefault(label, []).append((index, dim))
            by_name[label] = is_named
    axes = []
    for label, where in places.items():
        lengths = {tensors[index].shape[dim] for index, dim in where}
        if len(lengths) > 1:
            raise OptionError(
                f"dynamic_axes: {label!r} is the name of axes that have the sizes {sorted(lengths)} in the example; "
                "axes of one name are equal"
            )
        axes.append(Axis(label, tuple(where), lengths.pop(), by_name[label]))
    return axes


def shapes_at(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Mapping[str, int]) -> list[list[int]]:
    """The shapes of the inputs at a point; an axis that it leaves out is as in the example."""
    shapes = [list(tensor.shape) for tensor in tensors]
    whole = {**example_sizes(axes), **point}
    for axis in axes:
        for place in axis.places:
            shapes[place[0]][place[1]] = axis.length(place, whole)
    return shapes


def form_name(label: str, form: Form) -> str:
    """``2*n + 1`` of the function that gives it."""
    offset, factor = form(0), form(1) - form(0)
    product = label if factor == 1 else f"{factor}*{label}"
    return f"{product} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else product


def example_sizes(axes: Sequence[Axis]) -> Sizes:
    return {axis.label: axis.size for axis in axes}


def resize(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], sizes: Sizes) -> list[torch.Tensor]:
    """The example's tensors with each axis at its new size: content repeated or cut, so that it stays in its range."""
    result = list(tensors)
    for axis in axes:
        for index, dim in axis.places:
            old, new = result[index].shape[dim], axis.length((index, dim), sizes)
            if old == 0:
                shape = list(result[index].shape)
                shape[dim] = new
                result[index] = result[index].new_zeros(shape)
            elif old != new:
                repeated = result[index].index_select(dim, torch.arange(new) % old)
                result[index] = in_order_of(tensors[index], repeated)
    return result


def shown(point: Sizes) -> str:
    return ", ".join(f"{label}={length}" for label, length in point.items())
