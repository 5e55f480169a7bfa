"""The discrete Fourier transforms of torch.fft."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import complexes, emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, Entry, Kind, converter
from onnxport.lower.value import AnySize, Value
from onnxport.ops.shape.repeat import roll
from onnxport.ops.signal.dft import Transform, complex_to_complex, complex_to_real, divisor_of, real_to_complex, resized

Sizes = Sequence[AnySize] | None
# The powers of the length that ATen's operators divide by, by their ``normalization`` argument.
DIVISORS = (0.0, 0.5, 1.0)


def _precision(g: Builder) -> torch.dtype:
    return g.outputs[0].dtype.to_real()


def _size(g: Builder, length: AnySize | None, default: Size) -> Size:
    """The length of the transform; None and -1 mean that of the tensor."""
    if length is None or length == -1:
        return default
    known = sizes.known(length)
    if known is None:
        g.unsupported("a data-dependent length of a Fourier transform")
    return known


def _real(g: Builder, x: Value) -> Value:
    return g.cast(x, _precision(g))


def _complex(g: Builder, x: Value) -> complexes.Complex:
    return complexes.cast(g, x, _precision(g).to_complex())


def _along(g: Builder, x: Value, axis: int, size: Size, forward: bool, divisor: float) -> complexes.Complex:
    """The transform of an axis; real numbers are not converted to complex ones first."""
    t = Transform(axis, size, forward, divisor)
    x = resized(g, x if isinstance(x, complexes.Complex) else _real(g, x), axis, size)
    if isinstance(x, complexes.Complex):
        return complex_to_complex(g, _complex(g, x), t)
    return real_to_complex(g, x, t, onesided=False)


def _to_half(g: Builder, x: Value, axis: int, size: Size, forward: bool, divisor: float) -> complexes.Complex:
    t = Transform(axis, size, forward, divisor)
    return real_to_complex(g, resized(g, _real(g, x), axis, size), t, onesided=True)


def _from_half(g: Builder, x: Value, axis: int, size: Size, forward: bool, divisor: float) -> Value:
    t = Transform(axis, size, forward, divisor)
    return complex_to_real(g, _complex(g, resized(g, _complex(g, x), axis, t.half)), t)


# Over one axis and over several


def _shape(x: Value) -> tuple[Size, ...]:
    assert x.shape is not None
    return x.shape


def _to_complex(forward: bool) -> Converter:
    def convert(g: Builder, self: Value, n: AnySize | None = None, dim: int = -1, norm: str | None = None) -> Value:
        axis = dim % self.rank
        return _along(g, self, axis, _size(g, n, _shape(self)[axis]), forward, divisor_of(norm, forward))

    return convert


def _half(forward: bool) -> Converter:
    def convert(g: Builder, self: Value, n: AnySize | None = None, dim: int = -1, norm: str | None = None) -> Value:
        axis = dim % self.rank
        return _to_half(g, self, axis, _size(g, n, _shape(self)[axis]), forward, divisor_of(norm, forward))

    return convert


def _real_again(forward: bool) -> Converter:
    def convert(g: Builder, self: Value, n: AnySize | None = None, dim: int = -1, norm: str | None = None) -> Value:
        axis = dim % self.rank
        size = _size(g, n, (_shape(self)[axis] - 1) * 2)
        return _from_half(g, self, axis, size, forward, divisor_of(norm, forward))

    return convert


def _axes(x: Value, s: Sizes, dim: Sequence[int] | None) -> list[int]:
    if dim is not None:
        return [axis % x.rank for axis in dim]
    return list(range(x.rank))[-len(s) :] if s is not None else list(range(x.rank))


def _over_all(forward: bool) -> Converter:
    def convert(
        g: Builder, self: Value, s: Sizes = None, dim: Sequence[int] | None = None, norm: str | None = None
    ) -> Value:
        result = self
        for axis, size in reversed(list(zip_longest(_axes(self, s, dim), s or ()))):
            length = _size(g, size, _shape(self)[axis])
            result = _along(g, result, axis, length, forward, divisor_of(norm, forward))
        return result if isinstance(result, complexes.Complex) else _complex(g, result)

    return convert


def _half_of_last(forward: bool) -> Converter:
    """Transform the last axis of real numbers first, then the others."""

    def convert(
        g: Builder, self: Value, s: Sizes = None, dim: Sequence[int] | None = None, norm: str | None = None
    ) -> Value:
        *others, (last, size) = zip_longest(_axes(self, s, dim), s or ())
        divisor = divisor_of(norm, forward)
        result: Value = _to_half(g, self, last, _size(g, size, _shape(self)[last]), forward, divisor)
        for axis, length in others:
            result = _along(g, result, axis, _size(g, length, _shape(self)[axis]), forward, divisor)
        return result

    return convert


def _real_from_last(forward: bool) -> Converter:
    """Transform the last axis last, with a real result."""

    def convert(
        g: Builder, self: Value, s: Sizes = None, dim: Sequence[int] | None = None, norm: str | None = None
    ) -> Value:
        *others, (last, size) = zip_longest(_axes(self, s, dim), s or ())
        divisor = divisor_of(norm, forward)
        length = _size(g, size, (_shape(self)[last] - 1) * 2)
        # Crop before the transform.
        result: Value = resized(g, _complex(g, self), last, length // 2 + 1)
        for axis, wanted in others:
            result = _along(g, result, axis, _size(g, wanted, _shape(self)[axis]), forward, divisor)
        return _from_half(g, result, last, length, forward, divisor)

    return convert


def _family(name: str, one: Converter, several: Converter, *kinds: Kind) -> list[Entry]:
    """``fft_fft``, ``fft_fft2`` and ``fft_fftn``."""

    def two(g: Builder, self: Value, s: Sizes = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Value:
        result: Value = several(g, self, s, dim, norm)
        return result

    named = ((f"aten::fft_{name}", one), (f"aten::fft_{name}2", two), (f"aten::fft_{name}n", several))
    return [Entry((operator,), function, kind) for kind in kinds for operator, function in named]


TO_COMPLEX = [
    *_family("fft", _to_complex(True), _over_all(True), Kind.COMPLEX),
    *_family("ifft", _to_complex(False), _over_all(False), Kind.COMPLEX),
    *_family("rfft", _half(True), _half_of_last(True), Kind.COMPLEX),
    *_family("ihfft", _half(False), _half_of_last(False), Kind.COMPLEX),
]
# Real arguments are treated as complex here, with a real result.
TO_REAL = [
    *_family("irfft", _real_again(False), _real_from_last(False), Kind.COMPLEX, Kind.REAL),
    *_family("hfft", _real_again(True), _real_from_last(True), Kind.COMPLEX, Kind.REAL),
]


# The operators that torch decomposes these to


@converter("aten::_fft_c2c", kind=Kind.COMPLEX)
def fft_c2c(g: Builder, self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    result = self
    for axis in dim:
        index = axis % self.rank
        result = _along(g, result, index, _shape(self)[index], forward, DIVISORS[normalization])
    return result


@converter("aten::_fft_r2c", kind=Kind.COMPLEX)
def fft_r2c(g: Builder, self: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    *others, last = (axis % self.rank for axis in dim)
    first = _to_half if onesided else _along
    result: Value = first(g, self, last, _shape(self)[last], True, DIVISORS[normalization])
    for axis in others:
        result = _along(g, result, axis, _shape(self)[axis], True, DIVISORS[normalization])
    return result


@converter("aten::_fft_c2r", kind=Kind.COMPLEX)
def fft_c2r(g: Builder, self: Value, dim: Sequence[int], normalization: int, last_dim_size: AnySize) -> Value:
    """aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    *others, last = (axis % self.rank for axis in dim)
    size = _size(g, last_dim_size, _shape(self)[last])
    result = self
    for axis in others:
        result = _along(g, result, axis, _shape(self)[axis], False, DIVISORS[normalization])
    return _from_half(g, result, last, size, False, DIVISORS[normalization])


# Shifts and frequencies


def _shift(extra: int) -> Converter:
    def convert(g: Builder, self: Value, dim: int | Sequence[int] | None = None) -> Value:
        axes = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
        shifts: list[AnySize] = [(_shape(self)[axis] + extra) // 2 for axis in axes]
        return roll(g, self, shifts, list(axes)) if self.rank else self

    return convert


SHIFTS = [Entry(("aten::fft_fftshift",), _shift(0)), Entry(("aten::fft_ifftshift",), _shift(1))]


@converter("aten::fft_fftfreq")
def fftfreq(g: Builder, n: AnySize, d: float = 1.0, **options: Any) -> Value:
    """aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    dtype = g.outputs[0].dtype
    if isinstance(n, int):
        return g.constant(torch.fft.fftfreq(n, d, dtype=dtype))
    length = sizes.scalar(g, n)
    indices = emit.counting(g, n)
    upper = g.op("Div", g.op("Add", length, 1), 2)
    signed = g.op("Where", g.op("Less", indices, upper), indices, g.op("Sub", indices, length))
    return _frequencies(g, signed, length, d)


@converter("aten::fft_rfftfreq")
def rfftfreq(g: Builder, n: AnySize, d: float = 1.0, **options: Any) -> Value:
    """aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501
    if isinstance(n, int):
        return g.constant(torch.fft.rfftfreq(n, d, dtype=g.outputs[0].dtype))
    return _frequencies(g, emit.counting(g, g.outputs[0].shape[0]), sizes.scalar(g, n), d)


def _frequencies(g: Builder, indices: Value, length: Value, spacing: float) -> Value:
    dtype = g.outputs[0].dtype
    return g.op("Div", g.cast(indices, dtype), g.op("Mul", g.cast(length, dtype), float(spacing)))
