"""Complex arithmetic and comparisons, computed on the real and imaginary parts: ONNX has no complex operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from onnxport.graph.sizes import is_static, product
from onnxport.lower import complexes, emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex, Parts, both, from_joined, from_parts, parts
from onnxport.lower.registry import Converter, Entry, Function, Kind, converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.complex.complex_movement import as_list, outputs_as, real_output
from onnxport.ops.elementwise.arithmetic import atan2

Number: TypeAlias = "Operand | complex"


def for_complex(*operators: str) -> Callable[[Function], Function]:
    return converter(*operators, kind=Kind.COMPLEX)


def real_dtype(g: Builder, *operands: Number) -> torch.dtype:
    """The dtype of the parts: that of the complex result, or that of the operands."""
    if g.outputs[0].dtype.is_complex:
        return g.outputs[0].dtype.to_real()
    dtypes = [operand.dtype for operand in operands if isinstance(operand, Value)]
    widest = max((dtype for dtype in dtypes if dtype.is_complex), key=lambda dtype: dtype.itemsize)
    return widest.to_real()


# Complex numbers from parts, and their parts


@for_complex("aten::complex")
def complex_(g: Builder, real: Value, imag: Value) -> Value:
    """aten::complex(Tensor real, Tensor imag) -> Tensor"""
    return from_parts(g, real, imag)


@for_complex("aten::polar")
def polar(g: Builder, abs: Value, angle: Value) -> Value:
    """aten::polar(Tensor abs, Tensor angle) -> Tensor"""
    size = None if abs.data is not None and g.is_constant(abs) and bool((abs.data == 1).all()) else abs
    turned = g.op("Cos", angle), g.op("Sin", angle)
    return from_parts(g, *(part if size is None else g.op("Mul", size, part) for part in turned))


@for_complex("aten::view_as_real", "aten::view_as_real_copy")
def view_as_real(g: Builder, self: Complex) -> Value:
    """aten::view_as_real(Tensor(a) self) -> Tensor(a)"""
    return self.joined(g)


@for_complex("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(g: Builder, self: Value) -> Value:
    """aten::view_as_complex(Tensor(a) self) -> Tensor(a)"""
    return from_joined(g, g.realise(self))


@for_complex("aten::real")
def real(g: Builder, self: Complex) -> Value:
    """aten::real(Tensor(a) self) -> Tensor(a)"""
    return self.parts(g)[0]


@for_complex("aten::imag")
def imag(g: Builder, self: Complex) -> Value:
    """aten::imag(Tensor(a) self) -> Tensor(a)"""
    return self.parts(g)[1]


@for_complex("aten::conj", "aten::_conj", "aten::conj_physical", "aten::_conj_physical", "aten::_conj_copy")
def conj(g: Builder, self: Complex) -> Complex:
    """aten::conj(Tensor(a) self) -> Tensor(a)"""
    if not self.has_parts:
        return from_joined(g, g.op("Mul", self.joined(g), g.constant([1.0, -1.0], self.real_dtype)))
    first, second = self.parts(g)
    return from_parts(g, first, g.op("Neg", second))


def _transposing(conjugate: bool, last_two: bool) -> Converter:
    def convert(g: Builder, self: Complex) -> Complex:
        axes = list(range(self.rank))
        order = [*axes[:-2], *axes[-2:][::-1]] if last_two else axes[::-1]
        x = conj(g, self) if conjugate else self
        if x.has_parts:
            return from_parts(g, *(emit.transpose(g, part, order) for part in x.parts(g)))
        return from_joined(g, emit.transpose(g, x.joined(g), [*order, self.rank]))

    return convert


TRANSPOSED = [
    Entry(("aten::t", "aten::t_copy", "aten::mT"), _transposing(False, True), Kind.COMPLEX),
    Entry(("aten::mH", "aten::matrix_H", "aten::adjoint"), _transposing(True, True), Kind.COMPLEX),
    Entry(("aten::numpy_T",), _transposing(False, False), Kind.COMPLEX),
]


@for_complex("aten::to", "aten::_to_copy", "aten::type_as")
def to(g: Builder, self: Value, **options: Any) -> Value:
    """aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""  # noqa: E501
    dtype = g.outputs[0].dtype
    if dtype.is_complex:
        return complexes.cast(g, self, dtype)
    if not isinstance(self, Complex):
        return g.cast(self, dtype)
    return nonzero(g, self) if dtype == torch.bool else g.cast(self.parts(g)[0], dtype)


@for_complex("aten::size")
def size(g: Builder, self: Complex, dim: int | None = None) -> Value:
    """aten::size.int(Tensor self, int dim) -> int"""
    assert self.shape is not None
    return sizes.vector(g, self.shape) if dim is None else sizes.scalar(g, self.shape[dim])


@for_complex("aten::numel")
def numel(g: Builder, self: Complex) -> Value:
    """aten::numel(Tensor self) -> int"""
    assert self.shape is not None
    if is_static(self.shape):
        return g.constant(product(self.shape), torch.int64)
    return g.op("Size", self.parts(g)[0])


# Sums, products and quotients


def _both_joined(left: Number, right: Number, dtype: torch.dtype) -> bool:
    """Whether two operands can be added without conversion."""
    return all(
        isinstance(x, Complex) and not x.has_parts and x.real_dtype == dtype and x.rank > 0 for x in (left, right)
    )


def added(g: Builder, left: Number, right: Number, op: str = "Add") -> Complex:
    dtype = real_dtype(g, left, right)
    if _both_joined(left, right, dtype):
        assert isinstance(left, Complex) and isinstance(right, Complex)
        return from_joined(g, g.op(op, left.joined(g), right.joined(g)))
    (a, b), (c, d) = parts(g, left, dtype), parts(g, right, dtype)
    first = g.op(op, a, c)
    if b is None and d is not None:
        b, d = (d, None) if op == "Add" else (g.op("Neg", d), None)
    second = b if d is None or b is None else g.op(op, b, d)
    return from_parts(g, first, second if second is not None else complexes.zeros(g, first))


@for_complex("aten::add")
def add(g: Builder, self: Number, other: Number, alpha: Number = 1) -> Complex:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return added(g, self, _scaled(g, other, alpha))


@for_complex("aten::sub", "aten::subtract")
def sub(g: Builder, self: Number, other: Number, alpha: Number = 1) -> Complex:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return added(g, self, _scaled(g, other, alpha), "Sub")


@for_complex("aten::rsub")
def rsub(g: Builder, self: Number, other: Number, alpha: Number = 1) -> Complex:
    """aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return added(g, other, _scaled(g, self, alpha), "Sub")


def _scaled(g: Builder, x: Number, factor: Number) -> Number:
    return x if not isinstance(factor, Value) and factor == 1 else times(g, x, factor)


def times(g: Builder, left: Number, right: Number) -> Complex:
    dtype = real_dtype(g, left, right)
    if isinstance(right, Complex) and not right.has_parts and not isinstance(left, (Complex, complex)):
        left, right = right, left
    if isinstance(left, Complex) and not left.has_parts and not isinstance(right, (Complex, complex)):
        return _joined_by(g, "Mul", left, right, dtype)
    return from_parts(g, *_product(g, parts(g, left, dtype), parts(g, right, dtype)))


def _joined_by(g: Builder, op: str, x: Complex, factor: Operand, dtype: torch.dtype) -> Complex:
    """Multiply or divide both parts at once by a real number."""
    scale = g.cast(factor, dtype)
    scale = emit.unsqueeze(g, scale, [scale.rank]) if scale.rank else scale
    return from_joined(g, g.op(op, g.cast(x.joined(g), dtype), scale))


def _product(g: Builder, left: Parts, right: Parts) -> tuple[Value, Value]:
    (a, b), (c, d) = left, right
    first = g.op("Mul", a, c)
    if b is None or d is None:
        second = (
            g.op("Mul", a, d) if d is not None else g.op("Mul", b, c) if b is not None else complexes.zeros(g, first)
        )
        return first, second
    if left is right or (a is c and b is d):
        cross = g.op("Mul", a, b)
        return g.op("Sub", first, g.op("Mul", b, b)), g.op("Add", cross, cross)
    return g.op("Sub", first, g.op("Mul", b, d)), g.op("Add", g.op("Mul", a, d), g.op("Mul", b, c))


@for_complex("aten::mul", "aten::multiply")
def mul(g: Builder, self: Number, other: Number) -> Complex:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return times(g, self, other)


@for_complex("aten::square")
def square(g: Builder, self: Complex) -> Complex:
    """aten::square(Tensor self) -> Tensor"""
    return times(g, self, self)


@for_complex("aten::div", "aten::divide", "aten::true_divide")
def div(g: Builder, self: Number, other: Number, rounding_mode: str | None = None) -> Complex:
    """aten::div.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = real_dtype(g, self, other)
    if isinstance(self, Complex) and not self.has_parts and not isinstance(other, (Complex, complex)):
        return _joined_by(g, "Div", self, other, dtype)
    (a, b), (c, d) = parts(g, self, dtype), parts(g, other, dtype)
    if d is None:
        assert b is not None
        return from_parts(g, g.op("Div", a, c), g.op("Div", b, c))
    # The divisor is scaled by its larger part, as in torch: its square may overflow.
    scale = emit.maximum(g, g.op("Abs", c), g.op("Abs", d))
    c, d = g.op("Div", c, scale), g.op("Div", d, scale)
    size = g.op("Mul", g.op("Add", g.op("Mul", c, c), g.op("Mul", d, d)), scale)
    first, second = _product(g, Parts(a, b), Parts(c, g.op("Neg", d)))
    return from_parts(g, g.op("Div", first, size), g.op("Div", second, size))


@for_complex("aten::reciprocal")
def reciprocal(g: Builder, self: Complex) -> Complex:
    """aten::reciprocal(Tensor self) -> Tensor"""
    return div(g, 1.0, self)


@for_complex("aten::vdot")
def vdot(g: Builder, self: Complex, other: Complex) -> Complex:
    """aten::vdot(Tensor self, Tensor other) -> Tensor"""
    return _inner(g, self, other, 0)


@for_complex("aten::linalg_vecdot")
def vecdot(g: Builder, x: Complex, y: Complex, dim: int = -1) -> Complex:
    """aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor"""
    return _inner(g, x, y, dim)


def _inner(g: Builder, x: Complex, y: Complex, dim: int) -> Complex:
    terms = times(g, conj(g, x), y).parts(g)
    return from_parts(g, *(emit.reduce(g, "ReduceSum", part, [dim % part.rank], False) for part in terms))


# Absolute value, angle and truth


def magnitude(g: Builder, x: Complex) -> Value:
    if not x.has_parts:
        return emit.reduce(g, "ReduceL2", x.joined(g), [x.rank], False)
    first, second = x.parts(g)
    return g.op("Sqrt", g.op("Add", g.op("Mul", first, first), g.op("Mul", second, second)))


@for_complex("aten::abs", "aten::absolute")
def abs_(g: Builder, self: Complex) -> Value:
    """aten::abs(Tensor self) -> Tensor"""
    return magnitude(g, self)


@for_complex("aten::angle")
def angle(g: Builder, self: Complex) -> Value:
    """aten::angle(Tensor self) -> Tensor"""
    first, second = self.parts(g)
    return atan2(g, second, first)


@for_complex("aten::sgn")
def sgn(g: Builder, self: Complex) -> Complex:
    """aten::sgn(Tensor self) -> Tensor"""
    size = magnitude(g, self)
    divisor = emit.where(g, emit.equal(g, size, 0.0), 1.0, size, dtype=size.dtype)
    return from_parts(g, *(g.op("Div", part, divisor) for part in self.parts(g)))


def nonzero(g: Builder, x: Complex) -> Value:
    return g.op("Or", *(g.cast(part, torch.bool) for part in x.parts(g)))


@for_complex("aten::eq")
def eq(g: Builder, self: Number, other: Number) -> Value:
    """aten::eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = real_dtype(g, self, other)
    sides = zip(both(g, self, dtype), both(g, other, dtype), strict=True)
    return g.op("And", *(emit.equal(g, left, right) for left, right in sides))


@for_complex("aten::ne", "aten::not_equal")
def ne(g: Builder, self: Number, other: Number) -> Value:
    """aten::ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.op("Not", eq(g, self, other))


def _either(combine: str) -> Converter:
    """A condition on one part or on both."""

    def convert(real: Converter, g: Builder, self: Complex) -> Value:
        return g.op(combine, *(as_list(real(g, self=part))[0] for part in self.parts(g)))

    return convert


TESTS = [
    Entry(("aten::isnan", "aten::isinf"), _either("Or"), Kind.BY_PARTS),
    Entry(("aten::isfinite", "aten::logical_not"), _either("And"), Kind.BY_PARTS),
]


@for_complex("aten::isreal")
def isreal(g: Builder, self: Complex) -> Value:
    """aten::isreal(Tensor self) -> Tensor"""
    return emit.equal(g, self.parts(g)[1], 0.0)


def _on_truth(real: Converter, g: Builder, self: Complex, **arguments: Any) -> Value:
    return as_list(real(g, self=nonzero(g, self), **arguments))[0]


def _on_magnitude(real: Converter, g: Builder, self: Complex, dtype: Any = None, **arguments: Any) -> Value:
    with outputs_as(g, real_output):
        return as_list(real(g, self=magnitude(g, self), **arguments))[0]


BY_TRUTH = [Entry(("aten::any", "aten::all", "aten::count_nonzero", "aten::nonzero"), _on_truth, Kind.BY_PARTS)]
NORMS = [Entry(("aten::norm", "aten::linalg_vector_norm", "aten::frobenius_norm"), _on_magnitude, Kind.BY_PARTS)]
