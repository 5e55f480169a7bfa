"""Sums of products over labelled axes: einsum, tensordot, inner, bilinear."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

from onnxport.graph.sizes import Size, product
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value

Labels = tuple[str, ...]


@converter("aten::einsum")
def einsum(g: Builder, equation: str, tensors: list[Value], path: list[int] | None = None) -> Value:
    """aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    return contract(g, g.promoted(*tensors), *_parse(equation, [tensor.rank for tensor in tensors]))


@converter("aten::tensordot")
def tensordot(g: Builder, self: Value, other: Value, dims_self: list[int], dims_other: list[int]) -> Value:
    """aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor"""
    left = list(string.ascii_letters[: self.rank])
    right = list(string.ascii_letters[self.rank : self.rank + other.rank])
    for mine, its in zip(dims_self, dims_other, strict=True):
        right[its] = left[mine]
    shared = set(left) & set(right)
    result = tuple(label for label in left + right if label not in shared)
    return contract(g, [self, other], [tuple(left), tuple(right)], result)


@converter("aten::inner")
def inner(g: Builder, self: Value, other: Value) -> Value:
    """aten::inner(Tensor self, Tensor other) -> Tensor"""
    if not self.rank or not other.rank:
        return g.op("Mul", *g.promoted(self, other))
    return tensordot(g, self, other, [-1], [-1])


@converter("aten::bilinear")
def bilinear(g: Builder, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    """aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"""
    lead = tuple(string.ascii_uppercase[: input1.rank - 1])
    labels = [(*lead, "i"), ("o", "i", "j"), (*lead, "j")]
    result = contract(g, [input1, weight, input2], labels, (*lead, "o"))
    return result if bias is None else g.op("Add", result, bias)


def contract(g: Builder, tensors: Sequence[Value], operands: Sequence[Labels], result: Labels) -> Value:
    """One Einsum (from opset 12), or simpler operators if they are as short."""
    tensors, operands = _without_broadcasting(g, tensors, operands)
    if any(len(set(labels)) < len(labels) for labels in operands):
        g.require(12, "an einsum with a diagonal")
        return _einsum(g, tensors, operands, result)
    if len(tensors) == 1:
        return _arranged(g, *_summed(g, tensors[0], operands[0], result), result)
    if len(tensors) == 2 and _is_matmul(operands[0], operands[1], result):
        return g.op("MatMul", *tensors)
    # ONNX Runtime's Einsum refuses scalars, and crashes with a division by zero on empty tensors.
    unfit = not all(operands) or any(0 in (tensor.shape or ()) for tensor in tensors)
    if g.opset < 12 or unfit or _is_gemm(tensors, operands, result):
        return _composed(g, tensors, operands, result)
    return _einsum(g, tensors, operands, result)


def _einsum(g: Builder, tensors: Sequence[Value], operands: Sequence[Labels], result: Labels) -> Value:
    equation = ",".join("".join(labels) for labels in operands) + "->" + "".join(result)
    return g.op("Einsum", *tensors, equation=equation)


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes and of the result's; axes under an ellipsis get labels of their own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    covered = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    hidden = free[: max(covered)]
    operands = [_labels(term, hidden[len(hidden) - count :]) for term, count in zip(terms, covered, strict=True)]
    if arrow:
        return operands, _labels(right, hidden)
    once = sorted(label for label in set(left) if label.isalpha() and left.count(label) == 1)
    return operands, (*hidden, *once)


def _labels(term: str, hidden: Sequence[str]) -> Labels:
    before, dots, after = term.partition("...")
    return (*before, *(hidden if dots else ()), *after)


def _without_broadcasting(
    g: Builder, tensors: Sequence[Value], operands: Sequence[Labels]
) -> tuple[list[Value], list[Labels]]:
    """Drop axes of size 1 that meet a larger one of the same label: torch broadcasts them, ONNX does not."""
    large = set(_sizes(tensors, operands, skip_ones=True))
    kept_tensors, kept_labels = [], []
    for tensor, labels in zip(tensors, operands, strict=True):
        assert tensor.shape is not None
        axes = [axis for axis, label in enumerate(labels) if tensor.shape[axis] == 1 and label in large]
        kept_tensors.append(emit.squeeze(g, tensor, axes))
        kept_labels.append(tuple(label for axis, label in enumerate(labels) if axis not in axes))
    return kept_tensors, kept_labels


def _sizes(tensors: Sequence[Value], operands: Sequence[Labels], skip_ones: bool = False) -> dict[str, Size]:
    found: dict[str, Size] = {}
    for tensor, labels in zip(tensors, operands, strict=True):
        assert tensor.shape is not None
        found |= {label: size for label, size in zip(labels, tensor.shape, strict=True) if not skip_ones or size != 1}
    return found


def _is_matmul(left: Labels, right: Labels, result: Labels) -> bool:
    """Whether it is a MatMul: the last axis of one operand is contracted with the second last of the other."""
    if not left or not right or left[-1] != right[-2:][0] or left[-1] in result:
        return False
    if len(left) == 1 or len(right) <= 2:
        return result == (*left[:-1], *right[:-2], *right[-1:][: len(right) - 1])
    longer, shorter = sorted((left[:-2], right[:-2]), key=len, reverse=True)
    return longer[len(longer) - len(shorter) :] == shorter and result == (*longer, left[-2], right[-1])


def _is_gemm(tensors: Sequence[Value], operands: Sequence[Labels], result: Labels) -> bool:
    """Whether it is a product of matrices, possibly transposed, which becomes one Gemm."""
    if len(operands) != 2 or not tensors[0].is_float or any(len(labels) != 2 for labels in operands):
        return False
    shared = set(operands[0]) & set(operands[1])
    return len(shared) == 1 and not shared & set(result) and len(result) == 2


def _composed(g: Builder, tensors: Sequence[Value], operands: Sequence[Labels], result: Labels) -> Value:
    """From left to right, two at a time."""
    sizes = _sizes(tensors, operands)
    if len(tensors) == 2 and result and result[0] not in operands[0]:
        tensors, operands = tensors[::-1], operands[::-1]
    value, labels = tensors[0], operands[0]
    for index in range(1, len(tensors)):
        needed = {label for later in (*operands[index + 1 :], result) for label in later}
        value, labels = _pair(g, (value, labels), (tensors[index], operands[index]), needed, sizes)
    return _arranged(g, value, labels, result)


def _pair(
    g: Builder, left: tuple[Value, Labels], right: tuple[Value, Labels], needed: set[str], sizes: dict[str, Size]
) -> tuple[Value, Labels]:
    """The product of two operands, summed over the labels that no other operand and not the result has."""
    x, x_labels = _summed(g, *left, {*right[1], *needed})
    y, y_labels = _summed(g, *right, {*left[1], *needed})
    batch = tuple(label for label in x_labels if label in y_labels and label in needed)
    inner = tuple(label for label in x_labels if label in y_labels and label not in needed)
    rows = tuple(label for label in x_labels if label not in y_labels)
    columns = tuple(label for label in y_labels if label not in x_labels)
    if not inner:
        x = emit.unsqueeze(g, _arranged(g, x, x_labels, batch + rows), _new_axes(len(batch + rows), columns))
        y = emit.unsqueeze(g, _arranged(g, y, y_labels, batch + columns), _new_axes(len(batch), rows))
        return g.op("Mul", x, y), batch + rows + columns

    def grouped(value: Value, labels: Labels, *groups: Labels) -> Value:
        arranged = _arranged(g, value, labels, sum(groups, batch))
        shape = [sizes[label] for label in batch]
        return emit.reshape(g, arranged, [*shape, *(product(sizes[label] for label in group) for group in groups)])

    result = g.op("MatMul", grouped(x, x_labels, rows, inner), grouped(y, y_labels, inner, columns))
    labels = batch + rows + columns
    return emit.reshape(g, result, [sizes[label] for label in labels]), labels


def _new_axes(start: int, labels: Labels) -> range:
    return range(start, start + len(labels))


def _summed(g: Builder, x: Value, labels: Labels, keep: Iterable[str]) -> tuple[Value, Labels]:
    kept = set(keep)
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    return emit.reduce(g, "ReduceSum", x, axes, False), tuple(label for label in labels if label in kept)


def _arranged(g: Builder, x: Value, labels: Labels, wanted: Labels) -> Value:
    return emit.transpose(g, x, [labels.index(label) for label in wanted])
