"""The names and dynamic axes of inputs and outputs, checked once it is known which ones the model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxport.errors import OptionError
from onnxport.options.options import Options


def input_axes(options: Options, names: Sequence[str], ranks: Sequence[int]) -> tuple[list[dict[int, str]], list[bool]]:
    """The declared axes of each input with a label for each, and whether the user gave the labels."""
    declared: list[dict[int, str]] = []
    named: list[bool] = []
    for name, rank in zip(names, ranks, strict=True):
        axes = options.dynamic_axes.get(name, {})
        _check_axes_in_range(name, axes, rank)
        if len({dim % rank for dim in axes}) < len(axes):
            raise OptionError(f"dynamic_axes[{name!r}]: {sorted(axes)} name the same axis twice")
        declared.append({dim % rank: label or f"{name}_dim_{dim % rank}" for dim, label in axes.items()})
        named.append(any(label is not None for label in axes.values()))
    return declared, named


def check_axis_names(options: Options, input_names: Sequence[str], output_names: Sequence[str]) -> None:
    """Each key of dynamic_axes is an input or an output."""
    known = {*input_names, *output_names}
    for name in options.dynamic_axes:
        if name not in known:
            raise OptionError(
                f"dynamic_axes: {name!r} is neither an input nor an output; the inputs are {list(input_names)}, "
                f"the outputs {list(output_names)}"
            )


def check_output_axes(options: Options, shapes: Mapping[str, Sequence[object]]) -> list[str]:
    """Warnings about axes of outputs that were declared dynamic and are static."""
    found = []
    for name, shape in shapes.items():
        axes = options.dynamic_axes.get(name, {})
        _check_axes_in_range(name, axes, len(shape))
        for dim, label in axes.items():
            if isinstance(shape[dim], int):
                found.append(
                    f"dynamic_axes[{name!r}]: {label!r}, axis {dim}, is {shape[dim]} at every size of the inputs' "
                    "dynamic axes, and so it is in the file"
                )
    return found


def check_output_names(options: Options, taken: Sequence[str]) -> None:
    """The names given for outputs are not those of inputs and parameters."""
    for argument, names in (
        ("output_names", options.output_names or ()),
        ("intermediate_outputs", options.intermediate_outputs),
    ):
        for name in names:
            if name in taken:
                raise OptionError(f"{argument}: {name!r} is the name of an input or a parameter, too")


def assign_names(
    argument: str,
    given: Sequence[str],
    defaults: Sequence[str],
    optional: Sequence[str] = (),
    taken: Sequence[str] = (),
) -> list[str]:
    """The given names in order, then defaults, with a suffix if a default is ``taken``.

    Names may also be given for ``optional`` values: parameters after inputs.
    """
    everything = [*defaults, *optional]
    if len(given) > len(everything):
        what = f"{len(defaults)} inputs and {len(optional)} parameters" if optional else f"{len(defaults)}"
        raise OptionError(f"{argument} has {len(given)} names, but the model has {what}: {list(given)}")
    names = list(given)
    known = {*names, *taken}
    for default in everything[len(given) :]:
        if default in known:
            others = {*known, *everything}
            default = next(n for i in range(1, len(others) + 2) if (n := f"{default}_{i}") not in others)
        names.append(default)
        known.add(default)
    return names


def _check_axes_in_range(name: str, axes: Mapping[int, Any], rank: int) -> None:
    for dim in axes:
        if not -rank <= dim < rank:
            raise OptionError(f"dynamic_axes[{name!r}]: axis {dim} is out of range, {name!r} has {rank} dimensions")
