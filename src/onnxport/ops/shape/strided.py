"""as_strided. The elements of its argument are in memory order (see ``graph.functionalize.strided``)."""

from __future__ import annotations

import torch

from onnxport.graph.sizes import Shape, Size, SizeExpr, product, static_sizes
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import AnySize, Value


@converter("aten::as_strided")
def as_strided(
    g: Builder, self: Value, size: list[AnySize], stride: list[AnySize], storage_offset: AnySize | None = None
) -> Value:
    """aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)

    A Gather along one axis, after flattening all axes that the view changes.
    """
    assert self.shape is not None
    lengths, steps = _numbers(g, size), _numbers(g, stride)
    first = _numbers(g, [storage_offset or 0])[0]
    kept = _kept_in_front(self.shape, lengths, steps, first)
    trailing = _kept_trailing(self.shape, lengths, steps, first, kept)
    inner = product(self.shape[self.rank - trailing :])
    end = len(lengths) - trailing
    offsets = _offsets(g, lengths[kept:end], [step // inner for step in steps[kept:end]], first // inner)
    if self.rank - kept - trailing == 1:
        return g.op("Gather", self, offsets, axis=kept)
    merged = product(self.shape[kept : self.rank - trailing])
    rows = emit.reshape(g, self, [*self.shape[:kept], merged, *self.shape[self.rank - trailing :]])
    return g.op("Gather", rows, offsets, axis=kept)


@converter("aten::as_strided_scatter")
def as_strided_scatter(
    g: Builder,
    self: Value,
    src: Value,
    size: list[AnySize],
    stride: list[AnySize],
    storage_offset: AnySize | None = None,
) -> Value:
    """aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor"""  # noqa: E501
    first = _numbers(g, [storage_offset or 0])[0]
    offsets = emit.reshape(g, _offsets(g, _numbers(g, size), _numbers(g, stride), first), [-1])
    flat = emit.reshape(g, g.cast(src, self.dtype), [-1])
    return emit.reshape(g, emit.scatter_elements(g, g.op("Reshape", self, [-1]), offsets, flat, 0), self.shape or ())


def _numbers(g: Builder, numbers: list[AnySize]) -> list[Size]:
    known = [sizes.known(number) for number in numbers]
    found = [number for number in known if number is not None]
    if len(found) < len(known):
        g.unsupported("as_strided with sizes or strides that depend on data")
    return found


def _kept_in_front(shape: Shape, lengths: list[Size], steps: list[Size], first: Size) -> int:
    """The number of leading axes that the view keeps."""
    kept = 0
    while kept < min(len(shape) - 1, len(lengths)) and _is_same(shape, lengths, steps, kept, kept):
        kept += 1
    while kept and not _stays_within(product(shape[kept:]), lengths[kept:], steps[kept:], first):
        kept -= 1
    return kept


def _kept_trailing(shape: Shape, lengths: list[Size], steps: list[Size], first: Size, front: int) -> int:
    """The number of trailing axes that the view keeps; all other strides are multiples of them."""
    kept, limit = 0, min(len(shape) - front - 1, len(lengths) - front)
    while kept < limit and _is_same(shape, lengths, steps, len(shape) - kept - 1, len(lengths) - kept - 1):
        kept += 1
    while kept:
        inner, others = product(shape[len(shape) - kept :]), steps[front : len(lengths) - kept]
        if isinstance(inner, int) and inner and all(_is_zero(number % inner) for number in (*others, first)):
            break
        kept -= 1
    return kept


def _is_same(shape: Shape, lengths: list[Size], steps: list[Size], axis: int, of: int) -> bool:
    return lengths[of] == shape[axis] and steps[of] == product(shape[axis + 1 :])


def _is_zero(number: Size) -> bool:
    return number == 0


def _stays_within(elements: Size, lengths: list[Size], steps: list[Size], first: Size) -> bool:
    last = first
    for length, step in zip(lengths, steps, strict=True):
        last = last + (length - 1) * step
    rest = elements - last
    return min(rest.at if isinstance(rest, SizeExpr) else (rest,)) > 0


def _offsets(g: Builder, lengths: list[Size], steps: list[Size], first: Size) -> Value:
    """The offsets of the elements: a constant if all is known, else computed from the sizes."""
    fixed, fixed_steps = static_sizes(tuple(lengths)), static_sizes(tuple(steps))
    if fixed is not None and fixed_steps is not None and isinstance(first, int):
        offsets = torch.tensor(first)
        for axis, (count, distance) in enumerate(zip(fixed, fixed_steps, strict=True)):
            offsets = offsets + (torch.arange(count) * distance).reshape([-1] + [1] * (len(fixed) - axis - 1))
        return g.constant(offsets)
    total = sizes.scalar(g, first)
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True)):
        along = emit.counting(g, length)
        if step != 1:
            along = g.op("Mul", along, sizes.scalar(g, step))
        trailing = len(lengths) - axis - 1
        along = emit.unsqueeze(g, along, list(range(1, trailing + 1))) if trailing else along
        total = along if axis == 0 and first == 0 else g.op("Add", total, along)
    return total
