"""The dynamic axes of a model's inputs, and the example's tensors at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.model.other_data import in_order_of
from onnxport.errors import OptionError

# A point: axis label to size.
Sizes = dict[str, int]
# The index of an input and one of its dimensions.
InputDim = tuple[int, int]
# How the size of a dimension follows from that of the axis, such as 2 * n from n.
Form = Callable[[int], int]


@dataclass(frozen=True)
class Axis:
    """All dimensions of inputs with one label: they change together.

    An ``optional`` axis becomes static if the model does not accept other sizes. ``plus`` has the labels of further
    axes that are added to the size of a dimension, as in ``past + sequence``.
    """

    label: str
    input_dims: tuple[InputDim, ...]
    size: int
    named: bool
    low: int = 1
    high: int | None = None
    forms: Mapping[InputDim, Form] = field(default_factory=dict)
    optional: bool = False
    plus: Mapping[InputDim, tuple[str, ...]] = field(default_factory=dict)
    promised: bool = False  # declared with a range, which the model has to accept
    aliases: Mapping[InputDim, str] = field(default_factory=dict)  # the names of dimensions before axes were related

    def length(self, input_dim: InputDim, point: Mapping[str, int]) -> int:
        """The size of one of its dimensions at a point."""
        size = point[self.label]
        own = self.forms[input_dim](size) if input_dim in self.forms else size
        return own + sum(point[label] for label in self.plus.get(input_dim, ()))

    def takes(self, size: int) -> bool:
        """Whether a size lies in the range that the user gave."""
        return self.low <= size and (self.high is None or size <= self.high)

    @property
    def leads(self) -> bool:
        """Whether it is the first dimension of all its inputs, as a batch is."""
        return all(dim == 0 for _, dim in self.input_dims)


def find_axes(
    declared: Sequence[Mapping[int, str]], named: Sequence[bool], tensors: Sequence[torch.Tensor]
) -> list[Axis]:
    """The axes declared on the inputs: per input, dimension to label."""
    input_dims: dict[str, list[tuple[int, int]]] = {}
    by_name: dict[str, bool] = {}
    for index, (dims, is_named) in enumerate(zip(declared, named, strict=True)):
        for dim, label in dims.items():
            input_dims.setdefault(label, []).append((index, dim))
            by_name[label] = is_named
    axes = []
    for label, where in input_dims.items():
        lengths = {tensors[index].shape[dim] for index, dim in where}
        if len(lengths) > 1:
            raise OptionError(
                f"dynamic_axes: {label!r} names axes that have the sizes {sorted(lengths)} in the example; axes with "
                "one name have to be equal. Give them different names."
            )
        axes.append(Axis(label, tuple(where), lengths.pop(), by_name[label]))
    return axes


def shapes_at(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], point: Mapping[str, int]) -> list[list[int]]:
    """The shapes of the inputs at a point; an axis that is not in it has its size in the example."""
    shapes = [list(tensor.shape) for tensor in tensors]
    whole = {**example_sizes(axes), **point}
    for axis in axes:
        for input_dim in axis.input_dims:
            shapes[input_dim[0]][input_dim[1]] = axis.length(input_dim, whole)
    return shapes


def form_name(label: str, form: Form) -> str:
    """The text of an affine function, such as ``2*n + 1``."""
    offset, factor = form(0), form(1) - form(0)
    product = label if factor == 1 else f"{factor}*{label}"
    return f"{product} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else product


def example_sizes(axes: Sequence[Axis]) -> Sizes:
    return {axis.label: axis.size for axis in axes}


def resize(tensors: Sequence[torch.Tensor], axes: Sequence[Axis], sizes: Sizes) -> list[torch.Tensor]:
    """The example's tensors with each axis at its new size. Content is repeated or cut, so values stay in range."""
    result = list(tensors)
    for axis in axes:
        for index, dim in axis.input_dims:
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
