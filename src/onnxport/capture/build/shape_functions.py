"""How the sizes of an operator's results follow from those of its arguments, for operators that models use most.

What is said here is taken only where it agrees with the operator itself at every evaluation point: it gives a size its
expression, which names it and tells what it is at any other point. A size that nothing explains is read at run time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnxport.graph.dims import Size, larger, product, smaller
from onnxport.graph.ir import Node, Value

Sizes = Iterator[Any]


def candidates(node: Node, result: int, axis: int, points: Any) -> Sizes:
    """Expressions that the size of a result along an axis may be."""
    function = FUNCTIONS.get(node.op)
    if function is not None:
        yield from function(node, axis)
    yield from _general(node)


def _number(argument: Any) -> Size | None:
    if isinstance(argument, Value):
        return argument.size
    return argument if type(argument) is int else None


def _general(node: Node) -> Sizes:
    """Numbers among the arguments, products of neighbouring sizes, and quotients of all elements."""
    numbers = [n for given in node.inputs.values() for n in _numbers_in(given)]
    yield from numbers
    shapes = [value.shape for value in node.values() if value.is_tensor]
    for shape in shapes[:2]:
        for start, end in itertools.combinations(range(len(shape) + 1), 2):
            if end - start > 1:
                yield product(shape[start:end])
    if shapes:
        rest = product(n for n in numbers if not (type(n) is int and n < 0))
        yield product(shapes[0]) // rest if rest != 0 else 0
        for number, size in itertools.product([n for n in numbers if n != 0], shapes[0]):
            yield from (size * number, size // number, size + number, size - number)


def _numbers_in(argument: Any) -> Iterator[Size]:
    for given in argument if isinstance(argument, list) else [argument]:
        number = _number(given)
        if number is not None and type(number) is not bool:
            yield number


def _pick(given: Any, place: int, default: Size = 1) -> Size:
    """The number for one spatial axis: of a list, of a list of one, or a number for all."""
    if given is None or given == []:
        return default
    if not isinstance(given, list):
        given = [given]
    found = _number(given[place] if place < len(given) else given[0])
    return default if found is None else found


def _convolution(node: Node, axis: int) -> Sizes:
    source, weight = node.inputs["input" if "input" in node.inputs else "self"], node.inputs["weight"]
    rank = len(weight.shape) - 2
    place = axis - (len(source.shape) - rank)
    if place < 0:
        return
    size, kernel = source.shape[axis], weight.shape[place + 2]
    padding = node.inputs.get("padding")
    dilation, stride = _pick(node.inputs.get("dilation"), place), _pick(node.inputs.get("stride"), place)
    span = dilation * (kernel - 1) + 1
    if isinstance(padding, str):
        yield (size if padding == "same" else size - span + 1)
        return
    if node.inputs.get("transposed") or "transpose" in node.op:
        more = _pick(node.inputs.get("output_padding"), place, 0)
        yield (size - 1) * stride - 2 * _pick(padding, place, 0) + span + more
        return
    yield (size + 2 * _pick(padding, place, 0) - span) // stride + 1


def _pooling(node: Node, axis: int) -> Sizes:
    source = node.inputs["self"]
    kernels = node.inputs["kernel_size"]
    rank = int(node.op[-2])  # max_pool2d
    place = axis - (len(source.shape) - rank)
    if place < 0:
        return
    size, kernel = source.shape[axis], _pick(kernels, place)
    stride = _pick(node.inputs.get("stride"), place, kernel)
    padding, dilation = _pick(node.inputs.get("padding"), place, 0), _pick(node.inputs.get("dilation"), place)
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    yield room // stride + 1
    yield (room + stride - 1) // stride + 1


def _cat(node: Node, axis: int) -> Sizes:
    tensors = node.inputs["tensors"]
    if all(isinstance(tensor, Value) for tensor in tensors):
        yield _sum([tensor.shape[axis] for tensor in tensors if len(tensor.shape) > axis])


def _sum(sizes: Sequence[Size]) -> Size:
    total: Size = 0
    for size in sizes:
        total = total + size
    return total


def _slice(node: Node, axis: int) -> Sizes:
    size = node.inputs["self"].shape[axis]
    start, end = _number(node.inputs.get("start")), _number(node.inputs.get("end"))
    step = _number(node.inputs.get("step")) or 1
    starts = [0] if start is None else [smaller(start, size), larger(start + size, 0)]
    ends = [size] if end is None else [smaller(end, size), larger(end + size, 0), end]
    for first, last in itertools.product(starts, ends):
        length = last - first
        yield length
        yield larger(length, 0)
        yield (length + (step - 1)) // step
        yield larger((length + (step - 1)) // step, 0)


def _pad(node: Node, axis: int) -> Sizes:
    shape = node.inputs["self"].shape
    pads = node.inputs.get("pad", node.inputs.get("padding")) or []
    place = 2 * (len(shape) - 1 - axis)
    if place + 1 < len(pads):
        first, second = _number(pads[place]), _number(pads[place + 1])
        if first is not None and second is not None:
            yield shape[axis] + first + second


def _repeat(node: Node, axis: int) -> Sizes:
    shape, repeats = node.inputs["self"].shape, node.inputs.get("repeats", node.inputs.get("dims"))
    if isinstance(repeats, list) and axis < len(repeats):
        times = _number(repeats[axis])
        place = axis - (len(repeats) - len(shape))
        if times is not None:
            yield shape[place] * times if place >= 0 else times


def _range(node: Node, axis: int) -> Sizes:
    start, end = _number(node.inputs.get("start")), _number(node.inputs.get("end"))
    step = _number(node.inputs.get("step"))
    if end is not None:
        length = end - (start or 0)
        yield length
        if step:
            yield (length + (step - 1)) // step


def _unfold(node: Node, axis: int) -> Sizes:
    shape = node.inputs["self"].shape
    size, step = _number(node.inputs["size"]), _number(node.inputs["step"])
    if axis < len(shape) and size is not None and step:
        yield (shape[axis] - size) // step + 1


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution")
POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
FUNCTIONS: dict[str, Callable[[Node, int], Sizes]] = {
    **{f"aten::{name}": _convolution for name in (*CONVOLUTIONS, "_convolution")},
    **{f"aten::{name}": _pooling for name in POOLS},
    **{f"aten::{name}": _cat for name in ("cat", "concat", "concatenate")},
    "aten::slice": _slice,
    "aten::pad": _pad,
    "aten::constant_pad_nd": _pad,
    "aten::repeat": _repeat,
    "aten::tile": _repeat,
    "aten::arange": _range,
    "aten::unfold": _unfold,
}
