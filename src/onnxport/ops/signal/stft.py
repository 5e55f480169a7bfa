"""Short-time Fourier transforms.

The transform of a frame is a product with a matrix, so that of frames at regular steps is a convolution; the inverse,
which sums overlapping frames, is a transposed convolution. As measured in ONNX Runtime 1.31, Conv is faster than STFT
for frames below `SHORTEST_STFT`, and STFT loses digits in float32 if the frame length is not a power of two.
"""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import complexes, emit
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex, from_joined, from_parts
from onnxport.lower.registry import Entry, Kind
from onnxport.lower.value import AnySize, Value
from onnxport.ops.shape.padding import MODES
from onnxport.ops.shape.unfold import windows_along
from onnxport.ops.signal.dft import (
    Transform,
    complex_matrix,
    complex_to_complex,
    each_form,
    half_matrix,
    is_power_of_two,
    real_matrix,
    real_to_complex,
    resized,
)

SHORTEST_STFT = 1024
# The longest frames with a stored kernel, if the length is not a power of two; beyond, STFT in float64.
LONGEST_KERNEL = 2048


def _centred(g: Builder, window: Value | None, length: int, size: int, dtype: torch.dtype) -> Value:
    """The window centred in a frame, padded with zeros; ones by default."""
    if isinstance(window, Complex):
        g.unsupported("a complex window")
    before = (size - length) // 2
    pads = (before, size - length - before)
    if window is None:
        return g.constant(torch.nn.functional.pad(torch.ones(length, dtype=dtype), pads))
    if window.data is not None:
        return g.constant(torch.nn.functional.pad(window.data.detach(), pads), dtype)
    return emit.pad(g, g.cast(window, dtype), list(pads))


def _weighted(g: Builder, kernel: torch.Tensor, window: Value) -> Value:
    """A kernel, with the frame as its last axis, multiplied by the window."""
    if window.data is not None:
        return g.constant(kernel * window.data.double(), window.dtype)
    return g.op("Mul", g.constant(kernel, window.dtype), window)


# Forward


def _stft(
    g: Builder,
    self: Value,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Value | None = None,
    center: bool = False,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Value:
    """aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor"""  # noqa: E501
    dtype = self.dtype.to_real()
    step, length = hop_length or n_fft // 4, win_length or n_fft
    half = onesided if onesided is not None else not isinstance(self, Complex)
    columns = n_fft // 2 + 1 if half else n_fft
    margin = n_fft // 2 if center else (n_fft - length) // 2 if align_to_window else 0
    after = n_fft - length - margin if align_to_window and not center else margin
    signal = _in_rows(g, self, margin, after, MODES[pad_mode] if center else "constant")
    view = _centred(g, window, length, n_fft, dtype)
    scale = n_fft**-0.5 if normalized else 1.0
    if _by_convolution(g, n_fft, dtype):
        result = _convolved(g, signal, n_fft, step, view, columns, scale)
    elif g.opset < 17:
        result = _framed(g, signal, n_fft, step, view, columns, scale)
    else:
        result = _by_stft(g, signal, n_fft, step, view, half, scale)
    if self.rank == 1:
        result = _without_batch(g, result)
    return result if g.outputs[0].dtype.is_complex else complexes.expanded(g, result, g.outputs[0].shape[:-1]).joined(g)


def _without_batch(g: Builder, x: Complex) -> Complex:
    single = each_form(g, x, lambda part: emit.squeeze(g, part, [0]))
    assert isinstance(single, Complex)
    return single


def _in_rows(g: Builder, x: Value, before: int, after: int, mode: str) -> Value:
    """Signals as rows, padded at both ends."""

    def change(part: Value) -> Value:
        row = emit.unsqueeze(g, part, [0]) if x.rank == 1 else part
        ends = [0] * (row.rank - 2)
        return emit.pad(g, row, [0, before, *ends, 0, after, *ends], mode)

    return each_form(g, x, change)


def _by_convolution(g: Builder, size: int, dtype: torch.dtype) -> bool:
    """Whether Conv is used; ONNX Runtime has none in float64."""
    if dtype == torch.float64:
        return False
    return g.opset < 17 or size < SHORTEST_STFT or (size <= LONGEST_KERNEL and not is_power_of_two(size))


def _frames(x: Value, size: int, step: int) -> Size:
    assert x.shape is not None
    return (x.shape[1] - size) // step + 1


def _convolved(g: Builder, x: Value, size: int, step: int, window: Value, columns: int, scale: float) -> Complex:
    """One Conv with the real and then the imaginary parts of all frequencies as channels."""
    t = Transform(1, size, True, 0.0)
    if isinstance(x, Complex):
        matrix = complex_matrix(t).reshape(2, size, size, 2)
        source = emit.transpose(g, x.joined(g), [0, 2, 1])
    else:
        matrix = real_matrix(t, columns).reshape(1, size, columns, 2)
        source = emit.unsqueeze(g, x, [1])
    kernel = matrix.permute(3, 2, 0, 1).flatten(0, 1) * scale
    assert x.shape is not None
    made = g.op("Conv", source, _weighted(g, kernel, window), kernel_shape=[size], strides=[step])
    g.typed(made, window.dtype, (x.shape[0], 2 * columns, _frames(x, size, step)))
    real, imag = emit.split_evenly(g, made, 2, 1)
    return from_parts(g, real, imag)


def _by_stft(g: Builder, x: Value, size: int, step: int, window: Value, half: bool, scale: float) -> Complex:
    assert x.shape is not None
    wide = window.dtype if is_power_of_two(size) else torch.float64
    view = g.cast(window if scale == 1.0 else g.op("Mul", window, scale), wide)
    source = x.joined(g) if isinstance(x, Complex) else emit.unsqueeze(g, x, [2])
    made = emit.stft(g, g.cast(source, wide), step, view, half)
    g.typed(made, wide, (x.shape[0], _frames(x, size, step), size // 2 + 1 if half else size, 2))
    return from_joined(g, emit.transpose(g, g.cast(made, window.dtype), [0, 2, 1, 3]))


def _framed(g: Builder, x: Value, size: int, step: int, window: Value, columns: int, scale: float) -> Complex:
    """Gather the frames, then transform each."""
    assert x.shape is not None
    count = _frames(x, size, step)
    positions = windows_along(g, x.shape[1], count, size, step)
    view = window if scale == 1.0 else g.op("Mul", window, scale)
    t = Transform(2, size, True, 0.0)

    def frames(part: Value) -> Value:
        taken = g.op("Gather", part, positions, axis=1)
        seen = view if part.rank == 2 else emit.unsqueeze(g, view, [1])
        return g.op("Mul", taken, seen)

    cut = each_form(g, x, frames)
    found = complex_to_complex(g, cut, t) if isinstance(cut, Complex) else real_to_complex(g, cut, t, columns < size)
    order = [0, 2, 1]
    return from_joined(g, emit.transpose(g, found.joined(g), [*order, 3]))


STFT = [Entry(("aten::stft",), _stft, kind) for kind in (Kind.REAL, Kind.COMPLEX)]


# Inverse


def _istft(
    g: Builder,
    self: Complex,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Value | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: AnySize | None = None,
    return_complex: bool = False,
) -> Value:
    """aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor"""  # noqa: E501
    assert self.shape is not None
    step = hop_length or n_fft // 4
    view = _centred(g, window, win_length or n_fft, n_fft, self.real_dtype)
    t = Transform(1, n_fft, False, 0.5 if normalized else 1.0)
    if return_complex:
        # Each row of the matrix, a part of a frequency, has the real parts of the frame, then the imaginary ones.
        kernel = complex_matrix(t).reshape(2 * n_fft, n_fft, 2).transpose(1, 2)
    else:
        kernel = half_matrix(t)[:, None, :]
    signal = _added_up(g, _channels(g, self, len(kernel) // 2), _weighted(g, kernel, view), step)
    count = self.shape[-1]
    weights = _envelope(g, view, count, step)
    start = n_fft // 2 if center else 0
    end = emit.INT64_MAX if length is not None or not center else -start
    if start:
        signal, weights = (emit.slice_(g, x, [start], [end], [2]) for x in (signal, weights))
    signal = g.op("Div", signal, weights)
    if length is not None:
        available = (count - 1) * step + n_fft - start
        g.typed(signal, signal.dtype, (*(signal.shape or (1, 1))[:2], available))
        signal = resized(g, signal, 2, length)
    parts = emit.split_evenly(g, signal, 2, 1) if return_complex else [signal]
    rows = [emit.squeeze(g, part, [1] if self.rank == 3 else [0, 1]) for part in parts]
    return from_parts(g, rows[0], rows[1]) if return_complex else rows[0]


def _channels(g: Builder, x: Complex, count: int) -> Value:
    """The real parts of this many frequencies, then the imaginary ones, as channels of a batch."""
    assert x.shape is not None
    batch = x if x.rank == 3 else each_form(g, x, lambda part: emit.unsqueeze(g, part, [0]))
    batch = resized(g, batch, 1, count)
    assert isinstance(batch, Complex) and batch.shape is not None
    if batch.has_parts:
        return g.op("Concat", *batch.parts(g), axis=1)
    parts = emit.transpose(g, batch.joined(g), [0, 3, 1, 2])
    return emit.reshape(g, parts, [batch.shape[0], 2 * count, batch.shape[2]])


def _added_up(g: Builder, x: Value, kernel: Value, step: int) -> Value:
    """Sum of overlapping frames; each column of channels is a frame."""
    assert x.shape is not None and kernel.shape is not None
    _, outputs, size = (int(extent) for extent in kernel.shape if isinstance(extent, int))
    total = (x.shape[2] - 1) * step + size
    if x.dtype != torch.float64:
        made = g.op("ConvTranspose", x, kernel, kernel_shape=[size], strides=[step])
        return g.typed(made, x.dtype, (x.shape[0], outputs, total))
    # Without ConvTranspose in float64: frames are split into pieces of one step, which are shifted and added.
    pieces = -(-size // step)
    flat = emit.reshape(g, kernel, [kernel.shape[0], outputs * size])
    frames = g.op("MatMul", emit.transpose(g, x, [0, 2, 1]), flat)
    frames = emit.reshape(g, frames, [x.shape[0], x.shape[2], outputs, size])
    frames = emit.pad(g, frames, [0] * 7 + [pieces * step - size])
    result: Value | None = None
    for piece in range(pieces):
        taken = emit.slice_(g, frames, [piece * step], [(piece + 1) * step], [3])
        shifted = emit.pad(g, taken, [0, piece, 0, 0, 0, pieces - 1 - piece, 0, 0])
        result = shifted if result is None else g.op("Add", result, shifted)
    assert result is not None
    rows = x.shape[2] + (pieces - 1)
    line = emit.transpose(g, result, [0, 2, 1, 3])
    line = emit.reshape(g, line, [x.shape[0], outputs, rows * step])
    return g.typed(emit.slice_(g, line, [0], [total], [2]), x.dtype, (x.shape[0], outputs, total))


def _envelope(g: Builder, window: Value, count: Size, step: int) -> Value:
    """The sum of the squared windows of all frames at each position."""
    if window.data is not None and isinstance(count, int):
        size = window.data.shape[0]
        squares = window.data.double().square().expand(count, size)
        total = torch.zeros((count - 1) * step + size, dtype=torch.float64)
        positions = (torch.arange(count) * step)[:, None] + torch.arange(size)
        total.index_put_((positions,), squares, accumulate=True)
        return g.constant(total[None, None], window.dtype)
    squares_ = g.constant(window.data.square()) if window.data is not None else g.op("Mul", window, window)
    ones = emit.filled(g, [1, 1, count], 1.0, window.dtype)
    return _added_up(g, ones, emit.unsqueeze(g, squares_, [0, 1]), step)


ISTFT = [Entry(("aten::istft",), _istft, Kind.COMPLEX)]
