"""Singular values and the eigenvalues of symmetric matrices, by Jacobi rotations.

Pairs of columns of a matrix are rotated until all are orthogonal: their norms are then the singular values. Each
iteration of a Loop rotates half of the columns against the other half. Then the columns move on as players
do in a round-robin tournament, so that each column meets every other once per sweep. The signs of singular vectors are
arbitrary: they may differ from torch's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnxport.graph.sizes import Size
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.loops import Step, loop
from onnxport.lower.registry import converter
from onnxport.lower.value import Operand, Value
from onnxport.ops.linalg import matrices as m
from onnxport.ops.linalg.cholesky_qr import orthogonal, reflected

MAX_SWEEPS = 40


@dataclass(frozen=True)
class Turned:
    """``columns`` = matrix · ``vectors``, orthogonal columns with decreasing norms, and these norms."""

    columns: Value
    vectors: Value
    lengths: Value


def _static(g: Builder, size: Size, what: str) -> int:
    if not isinstance(size, int):
        g.unsupported(f"{what} of matrices whose size is only known at run time: declare their last two axes static")
    return size


def _round_robin(count: int) -> torch.Tensor:
    """The column that each one is replaced by between two iterations: all but the first rotate by one."""
    half = count // 2
    if half < 2:
        return torch.arange(count)
    top, bottom = list(range(half)), list(range(half, count))
    return torch.tensor([0, bottom[0], *top[1:-1], *bottom[1:], top[-1]])


def orthogonal_columns(g: Builder, a: Value) -> Turned:
    """Rotate the columns of a matrix with at least as many rows as columns."""
    count, rows = _static(g, m.width(a), "singular values"), m.height(a)
    batch = m.dims(a)[:-2]
    below = m.identity(g, count, count, a.dtype, batch)
    both = g.op("Concat", a, below, axis=a.rank - 2)
    even = count + count % 2
    if even != count:
        both = emit.pad(g, both, [0] * (2 * a.rank - 1) + [1])
    if count > 1:
        both = _rotated(g, both, rows, even)
    both = m.columns_from(g, both, 0, count) if even != count else both
    columns = m.rows_until(g, both, rows)
    lengths = emit.reduce(g, "ReduceL2", columns, [a.rank - 2], keepdims=False)
    lengths, order = emit.topk(g, lengths, count, a.rank - 2)
    return Turned(_reordered(g, columns, order), _reordered(g, _rows_from(g, both, rows), order), lengths)


def _rows_from(g: Builder, a: Value, start: Size) -> Value:
    cut = emit.slice_(g, a, [start], [m.height(a)], [a.rank - 2])
    return g.typed(cut, a.dtype, (*m.dims(a)[:-2], m.height(a) - start, m.width(a)))


def _reordered(g: Builder, a: Value, order: Value) -> Value:
    """The columns permuted, for each matrix by its own order."""
    indices = emit.expand(g, emit.unsqueeze(g, order, [a.rank - 2]), m.dims(a))
    return emit.gather_elements(g, a, indices, a.rank - 1)


def _rotated(g: Builder, both: Value, rows: Size, count: int) -> Value:
    """``both`` has the matrix in its first rows; the other rows are rotated with it."""
    axis, half = both.rank - 2, count // 2
    tolerance = 4 * torch.finfo(both.dtype).eps
    order, steps_per_sweep = g.constant(_round_robin(count)), max(count - 1, 1)

    def step(g: Builder, iteration: Value, states: list[Value]) -> Step:
        both, worst = states
        left, right = emit.split(g, both, [half, half], axis + 1)
        first, second = m.rows_until(g, left, rows), m.rows_until(g, right, rows)
        mixed = emit.reduce(g, "ReduceSum", g.op("Mul", first, second), [axis], keepdims=True)
        alpha, beta = (emit.reduce(g, "ReduceSumSquare", x, [axis], keepdims=True) for x in (first, second))
        size = g.op("Abs", mixed)
        allowed = g.op("Mul", g.op("Sqrt", g.op("Mul", alpha, beta)), tolerance)
        crooked = g.op("Greater", size, allowed)
        zeta = g.op("Div", g.op("Sub", beta, alpha), g.op("Mul", mixed, 2))
        root = g.op("Sqrt", g.op("Add", g.op("Mul", zeta, zeta), 1))
        sign = g.op("Where", g.op("Less", zeta, 0), g.constant(-1, both.dtype), g.constant(1, both.dtype))
        tangent = m.chosen(g, crooked, g.op("Div", sign, g.op("Add", g.op("Abs", zeta), root)))
        cosine = g.op("Reciprocal", g.op("Sqrt", g.op("Add", g.op("Mul", tangent, tangent), 1)))
        sine = g.op("Mul", cosine, tangent)
        new_left = g.op("Sub", g.op("Mul", left, cosine), g.op("Mul", right, sine))
        new_right = g.op("Add", g.op("Mul", left, sine), g.op("Mul", right, cosine))
        moved = g.op("Gather", m.beside(g, new_left, new_right), order, axis=axis + 1)
        # A sweep without a rotation is the last one.
        starts = g.op("Equal", emit.modulo(g, iteration, steps_per_sweep), 0)
        still = g.op("Where", starts, g.constant(0, torch.int64), worst)
        worst = g.op("Add", still, emit.reduce(g, "ReduceSum", g.cast(crooked, torch.int64), None, keepdims=False))
        ends = g.op("Equal", emit.modulo(g, iteration, steps_per_sweep), steps_per_sweep - 1)
        done = g.op("And", ends, g.op("Equal", worst, 0))
        return Step([moved, worst], goes_on=g.op("Not", done))

    (both, _), _ = loop(g, MAX_SWEEPS * steps_per_sweep, [both, g.constant(0, torch.int64)], step)
    return both


def scaled(g: Builder, a: Value) -> tuple[Value, Value]:
    """The matrix divided by its largest element, so that squares do not overflow, and that element."""
    largest = emit.reduce(g, "ReduceMax", g.op("Abs", a), [a.rank - 2, a.rank - 1], keepdims=True)
    scale = g.op("Where", emit.equal(g, largest, 0), g.constant(1, a.dtype), largest)
    return g.op("Div", a, scale), scale


# Singular values


@converter("aten::_linalg_svd", "aten::linalg_svd")
def linalg_svd(
    g: Builder, A: Value, full_matrices: bool = True, compute_uv: bool = True, driver: str | None = None
) -> list[Value]:
    """aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)"""  # noqa: E501
    if m.is_empty(m.dims(A)):
        return _of_nothing(g)
    rows, columns = (_static(g, size, "singular values") for size in m.dims(A)[-2:])
    wide = rows < columns
    a, scale = scaled(g, m.turned(g, A) if wide else A)
    found = orthogonal_columns(g, a)
    values = g.op("Mul", found.lengths, emit.squeeze(g, scale, [A.rank - 1]))
    if not compute_uv:
        nothing = g.constant(torch.zeros(0), A.dtype)
        return [nothing, values, nothing]
    packed, factors = reflected(g, found.columns)
    left = orthogonal(g, packed, factors, max(rows, columns) if full_matrices else min(rows, columns))
    left = _signed(g, left, m.diagonal(g, packed))
    right = found.vectors
    if wide:
        return [right, values, m.turned(g, left)]
    return [left, values, m.turned(g, right)]


def _signed(g: Builder, q: Value, diagonal: Value) -> Value:
    """The columns of Q with the signs of the factorised columns."""
    signs = g.op("Where", g.op("Less", diagonal, 0), g.constant(-1, q.dtype), g.constant(1, q.dtype))
    missing = m.width(q) - m.dims(diagonal)[-1]
    if missing != 0:
        signs = emit.pad(g, signs, [0] * (2 * signs.rank - 1) + [missing], value=1.0)
    return g.op("Mul", q, emit.unsqueeze(g, signs, [signs.rank - 1]))


def _of_nothing(g: Builder) -> list[Value]:
    """The results for an empty matrix: empty, or the identity."""
    results = []
    for output in g.outputs:
        if len(output.shape) > 1 and not m.is_empty(output.shape):
            rows, columns = output.shape[-2:]
            results.append(m.identity(g, rows, columns, output.dtype, output.shape[:-2]))
        else:
            results.append(emit.filled(g, output.shape, 0, output.dtype))
    return results


@converter("aten::svd")
def svd(g: Builder, self: Value, some: bool = True, compute_uv: bool = True) -> list[Value]:
    """aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"""
    u, s, vh = linalg_svd(g, self, full_matrices=not some, compute_uv=compute_uv)
    if compute_uv:
        return [u, s, m.turned(g, vh)]
    return [emit.filled(g, g.outputs[i].shape, 0, self.dtype) if i != 1 else s for i in range(3)]


@converter("aten::linalg_svdvals")
def svdvals(g: Builder, A: Value, driver: str | None = None) -> Value:
    """aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    if m.is_empty(m.dims(A)):
        return _of_nothing(g)[0]
    return linalg_svd(g, A, compute_uv=False)[1]


# Symmetric matrices


@converter("aten::_linalg_eigh", "aten::linalg_eigh", "aten::linalg_eigvalsh")
def eigh(
    g: Builder, A: Value | None = None, UPLO: str = "L", compute_v: bool = True, self: Value | None = None
) -> list[Value]:
    """aten::_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    a = A if A is not None else self
    assert a is not None
    if m.is_empty(m.dims(a)):
        return _of_nothing(g)
    values, vectors = symmetric(g, a, UPLO)
    if not compute_v:
        vectors = g.constant(torch.zeros(0), a.dtype)
    return [values, vectors][: len(g.outputs)]


def symmetric(g: Builder, a: Value, triangle: str = "L") -> tuple[Value, Value]:
    """Eigenvalues, the smallest first, and eigenvectors, of the matrix that one triangle describes.

    With a number added to its diagonal the matrix is positive, and its right singular vectors are the eigenvectors.
    """
    size = _static(g, m.width(a), "eigenvalues")
    rows, columns = torch.arange(size).unsqueeze(1), torch.arange(size)
    kept = g.constant(columns <= rows if triangle.upper() == "L" else columns >= rows)
    whole, scale = scaled(g, g.op("Where", kept, a, m.turned(g, a)))
    bound = emit.reduce(g, "ReduceL1", whole, [a.rank - 1], keepdims=True)
    shift = g.op("Mul", emit.reduce(g, "ReduceMax", bound, [a.rank - 2], keepdims=True), 2)
    raised = g.op("Add", whole, g.op("Mul", shift, m.identity(g, size, size, a.dtype)))
    found = orthogonal_columns(g, raised)
    backwards = g.constant(torch.arange(size - 1, -1, -1))
    vectors = g.op("Gather", found.vectors, backwards, axis=a.rank - 1)
    along = g.op("Mul", vectors, g.op("MatMul", whole, vectors))
    values = emit.reduce(g, "ReduceSum", along, [a.rank - 2], keepdims=False)
    return g.op("Mul", values, emit.squeeze(g, scale, [a.rank - 1])), vectors


# Least squares


@converter("aten::linalg_pinv", "aten::pinverse")
def pinv(
    g: Builder,
    self: Value,
    rcond: Operand | None = None,
    hermitian: bool = False,
    atol: Operand | None = None,
    rtol: Operand | None = None,
) -> Value:
    """aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor"""  # noqa: E501
    if m.is_empty(m.dims(self)):
        return emit.filled(g, g.outputs[0].shape, 0, self.dtype)
    relative = rtol if rtol is not None else rcond
    if relative is None:
        sides = [_static(g, size, "the pseudo-inverse") for size in m.dims(self)[-2:]]
        relative = 0.0 if atol is not None and _positive(atol) else max(sides) * torch.finfo(self.dtype).eps
    if hermitian:
        values, vectors = symmetric(g, self)
        kept = _kept(g, g.op("Abs", values), relative, atol)
        inverse = g.op("Mul", vectors, emit.unsqueeze(g, _inverse_where(g, kept, values), [self.rank - 2]))
        return g.op("MatMul", inverse, m.turned(g, vectors))
    return pseudo_inverse(g, self, relative, atol)[0]


def _positive(number: Operand) -> bool:
    return bool(number.data is not None and (number.data > 0).all()) if isinstance(number, Value) else number > 0


def pseudo_inverse(
    g: Builder, a: Value, relative: Operand, absolute: Operand | None = None
) -> tuple[Value, Value, Value]:
    """The pseudo-inverse, the singular values, and a mask of those above the tolerance."""
    rows, columns = (_static(g, size, "the pseudo-inverse") for size in m.dims(a)[-2:])
    wide = rows < columns
    small, scale = scaled(g, m.turned(g, a) if wide else a)
    found = orthogonal_columns(g, small)
    lengths = g.op("Mul", found.lengths, emit.squeeze(g, scale, [a.rank - 1]))
    kept = _kept(g, lengths, relative, absolute)
    inverse = _inverse_where(g, kept, g.op("Mul", found.lengths, lengths))
    right = g.op("Mul", found.vectors, emit.unsqueeze(g, inverse, [a.rank - 2]))
    if wide:
        return g.op("MatMul", found.columns, m.turned(g, right)), lengths, kept
    return g.op("MatMul", right, m.turned(g, found.columns)), lengths, kept


def _inverse_where(g: Builder, kept: Value, values: Value) -> Value:
    one = g.constant(1, values.dtype)
    return m.chosen(g, kept, g.op("Div", one, g.op("Where", kept, values, one)))


def _kept(g: Builder, sizes: Value, relative: Operand, absolute: Operand | None) -> Value:
    """The singular values above the tolerance."""
    largest = emit.reduce(g, "ReduceMax", sizes, [sizes.rank - 1], keepdims=True)
    limit = g.op("Mul", largest, _bound(g, relative, sizes))
    if absolute is not None:
        limit = emit.maximum(g, limit, _bound(g, absolute, sizes))
    return g.op("Greater", sizes, limit)


def _bound(g: Builder, bound: Operand, like: Value) -> Value:
    """A tolerance: one number, or one for each matrix."""
    if not isinstance(bound, Value):
        return g.constant(float(bound), like.dtype)
    return emit.unsqueeze(g, g.cast(bound, like.dtype), [bound.rank] if bound.rank else [])


@converter("aten::linalg_lstsq")
def lstsq(g: Builder, self: Value, b: Value, rcond: float | None = None, driver: str | None = None) -> list[Value]:
    """aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)"""  # noqa: E501
    if m.is_empty(m.dims(self)):
        return _of_nothing(g)
    rows, columns = (_static(g, size, "least squares") for size in m.dims(self)[-2:])
    relative = torch.finfo(self.dtype).eps * max(rows, columns) if rcond is None or rcond < 0 else rcond
    inverse, lengths, kept = pseudo_inverse(g, self, 0.0 if driver == "gels" else relative)
    vector = self.rank - 1 == b.rank
    right = emit.unsqueeze(g, b, [b.rank]) if vector else b
    solution = g.op("MatMul", inverse, right)
    rank = emit.reduce(g, "ReduceSum", g.cast(kept, torch.int64), [kept.rank - 1], keepdims=False)
    error = g.op("Sub", right, g.op("MatMul", self, solution))
    residuals = emit.reduce(g, "ReduceSumSquare", error, [error.rank - 2], keepdims=False)
    if vector:
        solution, residuals = (emit.squeeze(g, x, [x.rank - 1]) for x in (solution, residuals))
    return [_or_nothing(g, value, index) for index, value in enumerate((solution, residuals, rank, lengths))]


def _or_nothing(g: Builder, value: Value, output: int) -> Value:
    """The value, if torch returns one for these sizes and this driver."""
    wanted = g.outputs[output]
    return emit.filled(g, wanted.shape, 0, wanted.dtype) if m.is_empty(wanted.shape) else value
