"""Axes with names that are sums of other axes' names: ``past + sequence``, ``past + 1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onnxport.capture.axes.axis import Axis, Form
from onnxport.errors import OptionError


@dataclass(frozen=True)
class _Sum:
    """A sum of names and a constant."""

    names: tuple[str, ...]
    offset: int


def with_sums(axes: Sequence[Axis]) -> list[Axis]:
    """The independent axes. The dimensions of a sum are added to those of its first axis."""
    known = {axis.label: axis for axis in axes}
    sums = {axis.label: found for axis in axes if (found := _read(axis.label, known)) is not None}
    result = {axis.label: axis for axis in axes if axis.label not in sums}
    for label, found in sums.items():
        _check(label, found, known)
        first = result[found.names[0]]
        input_dims = known[label].input_dims
        result[first.label] = replace(
            first,
            input_dims=first.input_dims + input_dims,
            forms={**first.forms, **{input_dim: _adds(found.offset) for input_dim in input_dims if found.offset}},
            plus={**first.plus, **{input_dim: found.names[1:] for input_dim in input_dims if found.names[1:]}},
        )
    return list(result.values())


def _read(label: str, known: Mapping[str, Axis]) -> _Sum | None:
    """The sum in a label; None if it is a name of its own."""
    terms = [term.strip() for term in label.split("+")]
    names = tuple(term for term in terms if not term.isdecimal())
    if len(terms) < 2 or not names or any(name not in known for name in names):
        return None
    return _Sum(names, sum(int(term) for term in terms if term.isdecimal()))


def _check(label: str, found: _Sum, known: Mapping[str, Axis]) -> None:
    expected = sum(known[name].size for name in found.names) + found.offset
    if known[label].size != expected:
        parts = ", ".join(f"{name} is {known[name].size}" for name in dict.fromkeys(found.names))
        raise OptionError(
            f"{label!r} names an axis of size {known[label].size} in the example, where {parts}: the size of an axis "
            "named by a sum has to be the sum of their sizes"
        )


def _adds(offset: int) -> Form:
    return lambda size: size + offset
