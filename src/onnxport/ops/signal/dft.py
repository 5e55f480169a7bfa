"""Fourier transforms along one axis: by DFT from opset 17, or by a product with the transform's matrix.

The matrix is faster for short axes, as measured in ONNX Runtime 1.31. DFT loses digits in float32 if the length is no
power of two: then it is computed in float64, which takes the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import complexes, emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex, from_joined, from_parts
from onnxport.lower.value import AnySize, Value

# The longest axes that are transformed by a matrix: for lengths that are powers of two, and for others.
LONGEST_REAL = (256, 1024)
LONGEST_COMPLEX = (16, 512)
# The longest before opset 17, without DFT: 128 MiB of float32.
LONGEST_STORED = 4096


@dataclass(frozen=True)
class Transform:
    """One transform: its axis and length, its direction, and the power of the length that divides the result."""

    axis: int
    size: Size
    forward: bool
    divisor: float

    @property
    def sign(self) -> int:
        return -1 if self.forward else 1

    @property
    def half(self) -> Size:
        """The number of frequencies that determine a real signal."""
        return self.size // 2 + 1


def divisor_of(norm: str | None, forward: bool) -> float:
    """The power of the length that torch divides by for a norm."""
    if norm == "ortho":
        return 0.5
    return 1.0 if (norm or "backward") == ("forward" if forward else "backward") else 0.0


def each_form(g: Builder, x: Value, change: Callable[[Value], Value]) -> Value:
    """Apply a function to a real tensor, or to the parts of a complex one. Axes count from the front."""
    if not isinstance(x, Complex):
        return change(x)
    if x.has_parts:
        return from_parts(g, *(change(part) for part in x.parts(g)))
    return from_joined(g, change(x.joined(g)))


def resized(g: Builder, x: Value, axis: int, size: AnySize) -> Value:
    """The axis cropped, or padded with zeros, to a size."""
    assert x.shape is not None
    have, want = x.shape[axis], sizes.known(size)
    if have == want:
        return x
    fixed = isinstance(have, int) and isinstance(want, int)
    # With a dynamic size: pad by more than is needed, and crop.
    grow = max(want - have, 0) if isinstance(have, int) and isinstance(want, int) else size
    cut = not fixed or grow == 0

    def change(part: Value) -> Value:
        pads: list[AnySize] = [0] * (2 * part.rank)
        pads[part.rank + axis] = grow
        padded = emit.pad(g, part, pads)
        result = emit.slice_(g, padded, [0], [size], [axis]) if cut else padded
        shape = None if want is None or part.shape is None else (*part.shape[:axis], want, *part.shape[axis + 1 :])
        return g.typed(result, part.dtype, shape)

    return each_form(g, x, change)


# Real to complex, complex to complex, complex to real


def real_to_complex(g: Builder, x: Value, t: Transform, onesided: bool) -> Complex:
    """All frequencies of a real signal, or the half that determines them."""
    count = t.half if onesided else t.size
    if _by_matrix(g, t.size, LONGEST_REAL):
        assert isinstance(count, int)
        return from_joined(g, _by_rows(g, x, t, real_matrix(t, count), (count, 2)))
    if g.opset < 17:
        return _by_computed_matrix(g, x, t, count)
    result = _dft(g, emit.unsqueeze(g, x, [x.rank]), t, inverse=False, onesided=onesided)
    return from_joined(g, _scaled(g, g.typed(result, x.dtype, _with(x, t.axis, count, 2)), t, not t.forward))


def complex_to_complex(g: Builder, x: Complex, t: Transform) -> Complex:
    if _by_matrix(g, t.size, LONGEST_COMPLEX):
        assert isinstance(t.size, int)
        return from_joined(g, _by_rows(g, x, t, complex_matrix(t), (t.size, 2)))
    if g.opset < 17:
        return _by_computed_matrix(g, x, t, t.size)
    joined = x.joined(g)
    exact = t.forward or x.real_dtype != torch.float64 or is_power_of_two(t.size)
    if exact:
        result = _dft(g, joined, t, inverse=not t.forward)
        left = t.divisor - (0.0 if t.forward else 1.0)
        return from_joined(g, _scaled(g, result, Transform(t.axis, t.size, t.forward, left)))
    # The runtime rounds the inverse's divisor to float32: use the forward transform with the sign of i changed.
    turned = g.op("Mul", joined, g.constant([1.0, -1.0], joined.dtype))
    return from_joined(g, _scaled(g, _dft(g, turned, t, inverse=False), t, conjugate=True))


def complex_to_real(g: Builder, x: Complex, t: Transform) -> Value:
    """The real signal with these ``t.half`` first frequencies."""
    if _by_matrix(g, t.size, (LONGEST_REAL[1], LONGEST_REAL[1])):
        assert isinstance(t.size, int)
        return _by_rows(g, x, t, half_matrix(t), (t.size,))
    if g.opset < 17 or x.real_dtype == torch.float64:
        return complex_to_complex(g, _mirrored(g, x, t), t).parts(g)[0]
    joined = x.joined(g)
    if t.forward:
        joined = g.op("Mul", joined, g.constant([1.0, -1.0], joined.dtype))
    result = _dft(g, joined, t, inverse=True, onesided=True, length=sizes.scalar(g, t.size))
    result = emit.squeeze(g, g.typed(result, joined.dtype, _with(x, t.axis, t.size, 1)), [x.rank])
    return _scaled(g, result, Transform(t.axis, t.size, t.forward, t.divisor - 1.0))


def _mirrored(g: Builder, x: Complex, t: Transform) -> Complex:
    """All frequencies from the first half: the second half is its conjugate in reverse order."""
    parts = []
    for part, sign in zip(x.parts(g), (1, -1), strict=True):
        tail = emit.slice_(g, part, [t.size - t.half], [0], [t.axis], [-1])
        after = tail if sign > 0 else g.op("Neg", tail)
        parts.append(g.typed(g.op("Concat", part, after, axis=t.axis), part.dtype, _with(x, t.axis, t.size)))
    return from_parts(g, parts[0], parts[1])


def _with(x: Value, axis: int, size: Size, *last: int) -> tuple[Size, ...]:
    assert x.shape is not None
    return (*x.shape[:axis], size, *x.shape[axis + 1 :], *last)


def is_power_of_two(size: Size) -> bool:
    return isinstance(size, int) and size & (size - 1) == 0


def _by_matrix(g: Builder, size: Size, longest: tuple[int, ...]) -> bool:
    if not isinstance(size, int):
        return False
    if g.opset < 17:
        if size > LONGEST_STORED:
            g.require(17, f"a Fourier transform of length {size}")
        return True
    return size <= longest[0 if is_power_of_two(size) else 1]


# By ONNX's DFT


def _dft(
    g: Builder, joined: Value, t: Transform, *, inverse: bool, onesided: bool = False, length: Value | None = None
) -> Value:
    dtype = joined.dtype if is_power_of_two(t.size) else torch.float64
    result = emit.dft(g, g.cast(joined, dtype), t.axis, inverse=inverse, onesided=onesided, length=length)
    if joined.shape is not None and joined.shape[-1] == 2 and not onesided:
        g.typed(result, dtype, joined.shape)
    return g.cast(result, joined.dtype)


def _scaled(g: Builder, x: Value, t: Transform, conjugate: bool = False) -> Value:
    """Divided by the power of the length, with the sign of i changed if requested."""
    if not t.divisor and not conjugate:
        return x
    signs = [1.0, -1.0] if conjugate else 1.0
    if isinstance(t.size, int):
        factors = torch.tensor(signs, dtype=torch.float64) * float(t.size) ** -t.divisor
        return g.op("Mul", x, g.constant(factors, x.dtype))
    if conjugate:
        x = g.op("Mul", x, g.constant(signs, x.dtype))
    if not t.divisor:
        return x
    length = g.cast(sizes.scalar(g, t.size), x.dtype)
    length = g.op("Sqrt", length) if abs(t.divisor) == 0.5 else length
    return g.op("Div" if t.divisor > 0 else "Mul", x, length)


# By matrices


def _turns(t: Transform, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of row index times column index, with the transform's sign and divisor."""
    assert isinstance(t.size, int)
    exponents = torch.outer(torch.arange(rows), torch.arange(columns)) % t.size
    angles = exponents.double() * (2 * math.pi / t.size)
    factor = float(t.size) ** -t.divisor
    return angles.cos() * factor, angles.sin() * factor * t.sign


def real_matrix(t: Transform, columns: int) -> torch.Tensor:
    assert isinstance(t.size, int)
    return torch.stack(_turns(t, t.size, columns), -1).flatten(1)


def complex_matrix(t: Transform) -> torch.Tensor:
    assert isinstance(t.size, int)
    cosine, sine = _turns(t, t.size, t.size)
    of_real, of_imag = torch.stack((cosine, sine), -1), torch.stack((-sine, cosine), -1)
    return torch.stack((of_real, of_imag)).flatten(0, 1).flatten(1)


def half_matrix(t: Transform) -> torch.Tensor:
    """Each frequency counts twice, except the first and, for even lengths, the last one."""
    assert isinstance(t.size, int) and isinstance(t.half, int)
    cosine, sine = _turns(t, t.half, t.size)
    weights = torch.full((t.half, 1), 2.0, dtype=torch.float64)
    weights[0] = 1.0
    if t.size % 2 == 0:
        weights[-1] = 1.0
    return torch.cat((cosine * weights, -sine * weights))


def _moved(g: Builder, x: Value, axis: int, target: int) -> Value:
    """One axis moved to another position."""
    order = [i for i in range(x.rank) if i != axis]
    order.insert(target, axis)
    return emit.transpose(g, x, order)


def _rows(g: Builder, x: Value, axis: int, matrix: torch.Tensor) -> tuple[Value, torch.Tensor]:
    """The axis moved last, with both parts of complex numbers along it, and the matrix in the same order.

    The matrix has all real parts before the imaginary ones.
    """
    if not isinstance(x, Complex):
        return _moved(g, x, axis, x.rank - 1), matrix
    if x.has_parts:
        return g.op("Concat", *(_moved(g, part, axis, x.rank - 1) for part in x.parts(g)), axis=x.rank - 1), matrix
    pairs = _moved(g, x.joined(g), axis, x.rank - 1)
    assert pairs.shape is not None
    rows = emit.reshape(g, pairs, [*pairs.shape[:-2], pairs.shape[-2] * 2])
    return rows, matrix.reshape(2, -1, matrix.shape[1]).transpose(0, 1).flatten(0, 1)


def _by_rows(g: Builder, x: Value, t: Transform, matrix: torch.Tensor, last: tuple[int, ...]) -> Value:
    """The product of the axis with a matrix: a tensor with the axis replaced by the matrix's other axes."""
    rows, matrix = _rows(g, x, t.axis, matrix)
    assert rows.shape is not None
    made = g.op("MatMul", rows, g.constant(matrix, rows.dtype))
    made = emit.reshape(g, g.typed(made, rows.dtype, (*rows.shape[:-1], math.prod(last))), [*rows.shape[:-1], *last])
    return _moved(g, made, x.rank - 1, t.axis)


def _by_computed_matrix(g: Builder, x: Value, t: Transform, count: Size) -> Complex:
    """A transform with a matrix that is computed at run time, for a length that is only known then."""
    dtype = x.real_dtype if isinstance(x, Complex) else x.dtype
    rows, columns = emit.unsqueeze(g, emit.counting(g, t.size), [1]), emit.counting(g, count)
    length = sizes.scalar(g, t.size)
    exponents = g.cast(emit.modulo(g, g.op("Mul", rows, columns), length), dtype)
    angles = g.op("Div", g.op("Mul", exponents, 2 * math.pi * t.sign), g.cast(length, dtype))
    cosine, sine = (g.typed(g.op(op, angles), dtype, (t.size, count)) for op in ("Cos", "Sin"))

    def by(part: Value, matrix: Value) -> Value:
        return _moved(g, g.op("MatMul", _moved(g, part, t.axis, x.rank - 1), matrix), x.rank - 1, t.axis)

    a, b = complexes.parts(g, x, dtype)
    real, imag = by(a, cosine), by(a, sine)
    if b is not None:
        real, imag = g.op("Sub", real, by(b, sine)), g.op("Add", imag, by(b, cosine))
    return from_parts(g, *(_scaled(g, part, t) for part in (real, imag)))
