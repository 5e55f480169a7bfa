"""Products of vectors and matrices, and linear algebra."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from onnxport.graph.shapes.bound import axes_of, axis_of, length, replaced, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape, Size
from onnxport.graph.sizes.expr import smaller

PRODUCT = "the sizes of a product"


def matrices(*shapes: Shape, rank: int = 2) -> None:
    if any(len(shape) != rank for shape in shapes):
        raise NotKnown


def linear(require: Requirements, input: Shape, weight: Shape, bias: Any = None, **_: Any) -> Shape:
    if not input or len(weight) not in (1, 2):
        raise NotKnown
    require.equal(input[-1], weight[-1], PRODUCT)
    result = (*input[:-1], *weight[:-1])
    if bias is not None:
        require.expandable(tensor(bias), result)
    return result


def matmul(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    if not self or not other:
        raise NotKnown
    require.equal(self[-1], other[-2] if len(other) > 1 else other[0], PRODUCT)
    if len(self) == 1 or len(other) == 1:
        rows = self[:-1] if len(self) > 1 else other[:-2]
        return (*rows, *(other[-1:] if len(other) > 1 and len(self) == 1 else ()))
    return (*require.broadcast(self[:-2], other[:-2]), self[-2], other[-1])


def bmm(require: Requirements, self: Shape, mat2: Shape, **_: Any) -> Shape:
    matrices(self, mat2, rank=3)
    require.equal(self[0], mat2[0])
    require.equal(self[-1], mat2[-2], PRODUCT)
    return (*self[:-1], mat2[-1])


def mm(require: Requirements, self: Shape, mat2: Shape, **_: Any) -> Shape:
    matrices(self, mat2)
    require.equal(self[-1], mat2[0], PRODUCT)
    return (self[0], mat2[1])


def mv(require: Requirements, self: Shape, vec: Shape, **_: Any) -> Shape:
    matrices(self)
    matrices(vec, rank=1)
    require.equal(self[-1], vec[0], PRODUCT)
    return self[:1]


def dot(require: Requirements, **vectors: Any) -> Shape:
    shapes = [shape for shape in vectors.values() if type(shape) is tuple]
    matrices(*shapes, rank=1)
    require.same(shapes)
    return ()


def _added_to(require: Requirements, base: Shape, product: Shape) -> Shape:
    """The shape of a product that is added to a tensor, which broadcasts to it."""
    require.expandable(base, product)
    return product


def addmm(require: Requirements, self: Shape, mat1: Shape, mat2: Shape, **_: Any) -> Shape:
    return _added_to(require, self, mm(require, mat1, mat2))


def addmv(require: Requirements, self: Shape, mat: Shape, vec: Shape, **_: Any) -> Shape:
    result = mv(require, mat, vec)
    if self != result and 0 in require.at(result[0]):
        raise NotKnown  # torch returns one element then
    return _added_to(require, self, result)


def addr(require: Requirements, self: Shape, vec1: Shape, vec2: Shape, **_: Any) -> Shape:
    return _added_to(require, self, outer(require, vec1, vec2))


def baddbmm(require: Requirements, self: Shape, batch1: Shape, batch2: Shape, **_: Any) -> Shape:
    return _added_to(require, self, bmm(require, batch1, batch2))


def addbmm(require: Requirements, self: Shape, batch1: Shape, batch2: Shape, **_: Any) -> Shape:
    return _added_to(require, self, bmm(require, batch1, batch2)[1:])


def outer(require: Requirements, self: Shape, vec2: Shape, **_: Any) -> Shape:
    matrices(self, vec2, rank=1)
    return (*self, *vec2)


def inner(require: Requirements, self: Shape, other: Shape, **_: Any) -> Shape:
    if not self or not other:
        return self or other
    require.equal(self[-1], other[-1], PRODUCT)
    return (*self[:-1], *other[:-1])


def vecdot(require: Requirements, x: Shape, y: Shape, dim: int = -1, **_: Any) -> Shape:
    together = require.broadcast(x, y)
    return replaced(together, axis_of(dim, len(together)))


def cross(require: Requirements, self: Shape, other: Shape, dim: Any = None, **_: Any) -> Shape:
    """Vectors of 3 numbers; without ``dim`` it is the first axis of size 3."""
    together = require.broadcast(self, other)
    if dim is None or not self or len(self) != len(other):
        raise NotKnown
    for shape in (self, other):
        require.equal(shape[axis_of(dim, len(shape))], 3)
    return together


def tensordot(
    require: Requirements, self: Shape, other: Shape, dims_self: Sequence[int], dims_other: Sequence[int], **_: Any
) -> Shape:
    """Contracts pairs of axes; one axis of a pair may have size 1."""
    left, right = axes_of(list(dims_self), len(self)), axes_of(list(dims_other), len(other))
    if len(left) > len(self) or len(right) > len(other):
        raise NotKnown
    for first, second in zip(left, right, strict=True):
        require.broadcast_size(self[first], other[second])
    kept = [size for axis, size in enumerate(self) if axis not in left]
    return (*kept, *(size for axis, size in enumerate(other) if axis not in right))


def cdist(require: Requirements, x1: Shape, x2: Shape, **_: Any) -> Shape:
    if len(x1) < 2 or len(x2) < 2:
        raise NotKnown
    require.equal(x1[-1], x2[-1])
    return (*require.broadcast(x1[:-2], x2[:-2]), x1[-2], x2[-2])


def pdist(require: Requirements, self: Shape, **_: Any) -> Shape:
    matrices(self)
    return (self[0] * (self[0] - 1) // 2,)


def grouped_mm(require: Requirements, self: Shape, mat2: Shape, offs: Any = None, bias: Any = None, **_: Any) -> Shape:
    """A matrix for each group of rows, which end at the offsets; or a batch of matrices without offsets."""
    if bias is not None or len(mat2) != 3:
        raise NotKnown
    if len(self) == 3 and offs is None:
        return bmm(require, self, mat2)
    if len(self) != 2 or offs is None:
        raise NotKnown
    require.equal(self[-1], mat2[-2], PRODUCT)
    require.equal(tensor(offs)[0], mat2[0], "offsets and groups")
    return (self[0], mat2[-1])


# Einsum


def einsum(require: Requirements, equation: str, tensors: Sequence[Any], **_: Any) -> Shape:
    operands, arrow, wanted = equation.replace(" ", "").partition("->")
    terms, shapes = operands.split(","), [tensor(shape) for shape in tensors]
    if len(terms) != len(shapes):
        raise NotKnown
    sizes: dict[str, Size] = {}
    rest: Shape = ()
    for term, shape in zip(terms, shapes, strict=True):
        letters, free = _letters(term, shape)
        rest = require.broadcast(rest, free)
        own: dict[str, Size] = {}
        for letter, size in letters:
            own[letter] = require.equal(size, own.get(letter, size), "the sizes of one letter")
        for letter, size in own.items():
            sizes[letter] = require.broadcast_size(sizes.get(letter, 1), size)
    if not arrow:
        once = sorted(x for x in string.ascii_letters if operands.count(x) == 1)
        wanted = "..." * ("..." in operands) + "".join(once)
    found: list[Size] = []
    for part in wanted.replace("...", "."):
        found += rest if part == "." else [sizes[part]]
    return tuple(found)


def _letters(term: str, shape: Shape) -> tuple[list[tuple[str, Size]], Shape]:
    """The letters of one operand with their sizes, and the sizes of the ellipsis."""
    before, dots, after = term.partition("...")
    free = len(shape) - len(before) - len(after)
    if free < 0 or (free and not dots) or "." in before + after:
        raise NotKnown
    end = len(before) + free
    known = shape[: len(before)] + shape[end:]
    return list(zip(before + after, known, strict=True)), shape[len(before) : end]


# Matrices


def _square(require: Requirements, shape: Shape) -> Shape:
    if len(shape) < 2:
        raise NotKnown
    require.equal(shape[-1], shape[-2], "the rows and the columns")
    return shape


def of_square(require: Requirements, **arguments: Any) -> Shape:
    """Functions from a square matrix to one of the same size: inverse, powers, Cholesky factor."""
    return _square(require, next(tensor(argument) for argument in arguments.values() if type(argument) is tuple))


def determinant(require: Requirements, **arguments: Any) -> Shape:
    return of_square(require, **arguments)[:-2]


def slogdet(require: Requirements, **arguments: Any) -> list[Shape]:
    return [determinant(require, **arguments)] * 2


def inv_ex(require: Requirements, **arguments: Any) -> list[Shape]:
    """The inverse and an error code."""
    shape = of_square(require, **arguments)
    return [shape, shape[:-2]]


def pinv(require: Requirements, self: Shape, **_: Any) -> Shape:
    if len(self) < 2:
        raise NotKnown
    return (*self[:-2], self[-1], self[-2])


def eigvalsh(require: Requirements, **arguments: Any) -> Shape:
    return of_square(require, **arguments)[:-1]


def eigh(require: Requirements, **arguments: Any) -> list[Shape]:
    shape = of_square(require, **arguments)
    return [shape[:-1], shape]


def qr(require: Requirements, A: Shape, mode: str = "reduced", **_: Any) -> list[Shape]:
    if len(A) < 2 or mode not in ("reduced", "complete"):
        raise NotKnown
    *batch, rows, columns = A
    inner = smaller(rows, columns) if mode == "reduced" else rows
    return [(*batch, rows, inner), (*batch, inner, columns)]


def svd(require: Requirements, A: Shape, full_matrices: bool, **_: Any) -> list[Shape]:
    if len(A) < 2:
        raise NotKnown
    *batch, rows, columns = A
    inner = smaller(rows, columns)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    return [(*batch, rows, left), (*batch, inner), (*batch, right, columns)]


def svdvals(require: Requirements, A: Shape, **_: Any) -> Shape:
    return svd(require, A, full_matrices=False)[1]


def solve_triangular(require: Requirements, self: Shape, B: Shape, left: bool = True, **_: Any) -> Shape:
    _square(require, self)
    if len(B) < 2:
        raise NotKnown
    require.equal(self[-1], B[-2 if left else -1], "the sizes of an equation")
    return (*require.broadcast(self[:-2], B[:-2]), *B[-2:])


def solve(require: Requirements, A: Shape, B: Shape, left: bool = True, **_: Any) -> Shape:
    """The right-hand side is a matrix if it has the rank of the left-hand side, else a vector."""
    if len(A) != len(B):
        raise NotKnown
    return solve_triangular(require, A, B, left)


def vander(require: Requirements, x: Shape, N: Any = None, **_: Any) -> Shape:
    if not x:
        raise NotKnown
    return (*x, x[-1] if N is None else length(require, N))


def bilinear(require: Requirements, input1: Shape, input2: Shape, weight: Shape, **_: Any) -> Shape:
    matrices(weight, rank=3)
    if not input1 or not input2:
        raise NotKnown
    require.same([input1[:-1], input2[:-1]])
    for shape, size in zip((input1, input2), weight[1:], strict=True):
        require.equal(shape[-1], size, PRODUCT)
    return (*input1[:-1], weight[0])


def multi_dot(require: Requirements, tensors: Sequence[Any], **_: Any) -> Shape:
    """A chain of matrices; the first and the last may be vectors."""
    shapes = [tensor(shape) for shape in tensors]
    result = shapes[0]
    for shape in shapes[1:]:
        result = matmul(require, result, shape)
    return result
