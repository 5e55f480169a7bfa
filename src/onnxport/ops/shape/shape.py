"""Operators that permute or reshape."""

from __future__ import annotations

from onnxport.graph.sizes import Shape, SizeExpr
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, converter, entries
from onnxport.lower.value import AnySize, Value


def target_shape(shape: Shape, requested: list[AnySize]) -> list[AnySize]:
    """The result's shape, with the model's own value for each size that it computed."""
    lead = len(shape) - len(requested)
    return [
        *shape[:lead],
        *(size if isinstance(size, Value) else d for d, size in zip(shape[lead:], requested, strict=True)),
    ]


def _reshaped(g: Builder, x: Value, requested: list[AnySize]) -> Value:
    """Reshape; -1 beside sizes that are only known at run time stays -1."""
    target = target_shape(g.outputs[0].shape, requested)
    if any(isinstance(size, Value) for size in requested):
        pairs = zip(target, requested, strict=True)
        target = [-1 if size == -1 and isinstance(d, SizeExpr) and d not in g.carriers else d for d, size in pairs]
    return emit.reshape(g, x, target)


@converter("aten::view", "aten::view_copy", "aten::_unsafe_view", "aten::_reshape_alias", "aten::_reshape_copy")
def view(g: Builder, self: Value, size: list[AnySize], stride: object = None) -> Value:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return _reshaped(g, self, size)


@converter("aten::reshape")
def reshape(g: Builder, self: Value, shape: list[AnySize]) -> Value:
    """aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"""
    return _reshaped(g, self, shape)


@converter("aten::view_as", "aten::reshape_as", "aten::ravel", "aten::unflatten")
def reshape_to_result(g: Builder, self: Value, **requested: object) -> Value:
    """aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return emit.reshape(g, self, g.outputs[0].shape)


@converter("aten::flatten.using_ints")
def flatten(g: Builder, self: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    rank = max(self.rank, 1)
    start, end = start_dim % rank, end_dim % rank
    two_dims = len(g.outputs[0].shape) == 2 and rank > 2
    if two_dims and g.runs("Flatten", self.dtype):
        return g.op("Flatten", self, axis=start if end == rank - 1 else end + 1)
    return emit.reshape(g, self, g.outputs[0].shape)


@converter("aten::permute", "aten::permute_copy")
def permute(g: Builder, self: Value, dims: list[int]) -> Value:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return emit.transpose(g, self, [dim % self.rank for dim in dims])


@converter("aten::transpose.int", "aten::transpose_copy.int")
def transpose(g: Builder, self: Value, dim0: int, dim1: int) -> Value:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return _swapped(g, self, dim0, dim1)


@converter("aten::swapdims")
def swapdims(g: Builder, self: Value, dim0: int, dim1: int) -> Value:
    """aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    return _swapped(g, self, dim0, dim1)


@converter("aten::swapaxes")
def swapaxes(g: Builder, self: Value, axis0: int, axis1: int) -> Value:
    """aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)"""
    return _swapped(g, self, axis0, axis1)


@converter("aten::t", "aten::t_copy", "aten::mT", "aten::mH", "aten::matrix_H", "aten::adjoint")
def matrix_transpose(g: Builder, self: Value) -> Value:
    """aten::mT(Tensor(a) self) -> Tensor(a)"""
    if self.dtype.is_complex:
        g.unsupported("ONNX has no operators on complex numbers")
    return self if self.rank < 2 else _swapped(g, self, -2, -1)


@converter("aten::numpy_T")
def numpy_t(g: Builder, self: Value) -> Value:
    """aten::numpy_T(Tensor(a) self) -> Tensor(a)"""
    return emit.transpose(g, self, list(range(self.rank))[::-1])


@converter("aten::movedim", "aten::moveaxis")
def movedim(g: Builder, self: Value, source: int | list[int], destination: int | list[int]) -> Value:
    """aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    rank = max(self.rank, 1)
    sources = [dim % rank for dim in ([source] if isinstance(source, int) else source)]
    targets = [dim % rank for dim in ([destination] if isinstance(destination, int) else destination)]
    rest = iter([dim for dim in range(self.rank) if dim not in sources])
    moved = dict(zip(targets, sources, strict=True))
    return emit.transpose(g, self, [moved[i] if i in moved else next(rest) for i in range(self.rank)])


@converter("aten::squeeze", "aten::squeeze_copy")
def squeeze(g: Builder, self: Value, dim: int | list[int] | None = None) -> Value:
    """aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)

    The rank of the result says whether axes of a dynamic size are dropped, where a branch is for those of size 1.
    """
    assert self.shape is not None
    dims = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = sorted({axis % self.rank for axis in dims}) if self.rank else []
    ones = [axis for axis in axes if self.shape[axis] == 1]
    dropped = self.rank - len(g.outputs[0].shape)
    return emit.squeeze(g, self, ones if dropped == len(ones) else axes)


@converter("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(g: Builder, self: Value, dim: AnySize) -> Value:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    if not isinstance(dim, int):
        position = emit.not_negative(g, sizes.scalar(g, dim), self.rank + 1)
        shape = sizes.shape_vector(g, self)
        parts = emit.slice_(g, shape, [0], [position], [0]), emit.slice_(g, shape, [position], [emit.INT64_MAX], [0])
        return g.op("Reshape", self, g.op("Concat", parts[0], [1], parts[1], axis=0))
    return emit.unsqueeze(g, self, [dim % (self.rank + 1)])


@converter("aten::expand", "aten::expand_copy", "aten::broadcast_to")
def expand(g: Builder, self: Value, size: list[AnySize], implicit: bool = False) -> Value:
    """aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return emit.expand(g, self, target_shape(g.outputs[0].shape, size))


@converter("aten::expand_as")
def expand_as(g: Builder, self: Value, other: Value) -> Value:
    """aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return emit.expand(g, self, g.outputs[0].shape)


@converter("aten::broadcast_tensors")
def broadcast_tensors(g: Builder, tensors: list[Value]) -> list[Value]:
    """aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    return [emit.expand(g, tensor, output.shape) for tensor, output in zip(tensors, g.outputs, strict=True)]


def at_least(g: Builder, x: Value, rank: int) -> Value:
    """Leading axes of size 1, and a trailing one for atleast_3d of a vector or matrix."""
    axes: dict[int, list[int]] = {0: list(range(rank)), 1: [0, 2][: rank - 1], 2: [2] if rank == 3 else []}
    return emit.unsqueeze(g, x, axes.get(x.rank, []))


def _at_least(rank: int) -> Converter:
    def convert(g: Builder, self: Value | None = None, tensors: list[Value] | None = None) -> Value | list[Value]:
        if self is not None:
            return at_least(g, self, rank)
        return [at_least(g, tensor, rank) for tensor in tensors or ()]

    return convert


AT_LEAST = entries(_at_least, {"aten::atleast_1d": 1, "aten::atleast_2d": 2, "aten::atleast_3d": 3})


def _swapped(g: Builder, x: Value, first: int, second: int) -> Value:
    perm = list(range(x.rank))
    if perm:
        perm[first], perm[second] = perm[second], perm[first]
    return emit.transpose(g, x, perm)
