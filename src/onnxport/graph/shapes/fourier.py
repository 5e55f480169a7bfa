"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxport.graph.ir import Node
from onnxport.graph.shapes.bound import axes_of, axis_of, number, replaced
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size

# Functions from one length to another: of the transform to the result's axis, and of the input's axis to the transform.
Length = Callable[[Size], Size]


def whole(size: Size) -> Size:
    return size


def half(size: Size) -> Size:
    """For real numbers only half of the frequencies are computed."""
    return size // 2 + 1


def twice(size: Size) -> Size:
    return (size - 1) * 2


def transform(points: Length, result: Length) -> Any:
    """Of one axis: ``points`` gives the length of the transform, ``result`` the size of the result."""

    def shape(require: Requirements, self: Shape, n: Any = None, dim: int = -1, **_: Any) -> Shape:
        axis = axis_of(dim, len(self))
        if not self:
            raise NotKnown
        count = points(self[axis]) if n is None else number(n)
        require.at_least(count, 1, "the number of points of a transform")
        return replaced(self, axis, result(count))

    return shape


def transforms(points: Length, result: Length) -> Any:
    """Of several axes; ``s`` has the lengths, -1 for the default. Only the last axis uses ``points`` and ``result``."""

    def shape(require: Requirements, self: Shape, s: Any = None, dim: Any = None, **_: Any) -> Shape:
        first = 0 if s is None else len(self) - len(s)
        axes = list(range(first, len(self))) if dim is None else axes_of(dim, len(self))
        lengths = [-1] * len(axes) if s is None else s
        if first < 0 or not self or not axes or len(set(axes)) != len(axes) or len(lengths) != len(axes):
            raise NotKnown
        found = self
        for axis, size in zip(axes, lengths, strict=True):
            is_last = axis == axes[-1]
            own = points(self[axis]) if is_last else self[axis]
            count = own if type(size) is int and size == -1 else number(size)
            require.at_least(count, 1, "the number of points of a transform")
            found = replaced(found, axis, result(count) if is_last else count)
        return found

    return shape


def stft(
    require: Requirements,
    node: Node,
    self: Shape,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    onesided: Any = None,
    return_complex: Any = None,
    **others: Any,
) -> Shape:
    """Frequencies of windows that begin a hop apart."""
    if others.get("center") or len(self) not in (1, 2) or others.get("align_to_window"):
        raise NotKnown
    width = number(n_fft)
    hop = width // 4 if hop_length is None else number(hop_length)
    require.at_least(width, 1, "the length of a window")
    require.at_least(hop, 1, "the hop")
    require.at_least(self[-1], width, "the length of a signal")
    _require_window(require, window, win_length, width)
    parts = [node.inputs["self"], *([] if window is None else [node.inputs["window"]])]
    is_complex = any(part.dtype.is_complex for part in parts)
    one_sided = not is_complex if onesided is None else onesided
    frames = (self[-1] - width) // hop + 1
    last = () if return_complex or (return_complex is None and is_complex) else (2,)
    return (*self[:-1], half(width) if one_sided else width, frames, *last)


def istft(
    require: Requirements,
    self: Shape,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    length: Any = None,
    onesided: Any = None,
    **_: Any,
) -> Shape:
    """The signal from the frequencies of overlapping windows."""
    if len(self) not in (2, 3):
        raise NotKnown
    width = number(n_fft)
    if onesided is None:
        onesided = require.at(self[-2])[0] != require.at(width)[0]
    hop = width // 4 if hop_length is None else number(hop_length)
    require.equal(self[-2], half(width) if onesided else width, "the frequencies")
    require.not_empty(self, "the input of a transform")
    _require_window(require, window, win_length, width)
    if length is not None:
        result = number(length)
    else:
        result = (self[-1] - 1) * hop + width - (width // 2 * 2 if center else 0)
    require.at_least(result, 1, "the length of a signal")
    return (*self[:-2], result)


def _require_window(require: Requirements, window: Shape | None, win_length: Any, width: Size) -> None:
    if window is not None:
        require.equal(window[0], width if win_length is None else number(win_length), "the length of a window")


def frequencies(result: Length) -> Any:
    def shape(require: Requirements, n: Any, **_: Any) -> Shape:
        count: Size = number(n)
        require.at_least(count, 0)
        return (result(count),)

    return shape
