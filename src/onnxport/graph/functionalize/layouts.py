"""The strides of tensors in the model's run, which decide whether ``reshape`` returned a view or a copy.

A new value is contiguous, with four exceptions: a parameter has its own strides, an operator that is given a memory
format has that, an elementwise operator keeps the order of its first operand, and a convolution or pooling keeps
``channels_last``. The strides of a view are torch's.
Inputs of the graph are taken as contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnxport.graph.interpret import evaluate, has_tag
from onnxport.graph.ir import Argument, Node, Value
from onnxport.graph.sizes import Shape, SizeExpr

Strides = tuple[int, ...]

# The axes of each format, the outermost in memory first.
CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}
# Views with bounds that may be tensors, which a probe cannot read; their strides are those of their source.
CUTS = frozenset({"aten::narrow", "aten::tensor_split", "aten::split", "aten::split_with_sizes"})
COPIES_IN_ORDER = frozenset(
    {"aten::clone", "aten::to", "aten::type_as", "aten::_to_copy", "aten::dropout"}
    | {f"aten::{kind}_like" for kind in ("empty", "zeros", "ones", "full", "rand", "randn")}
)
KEEPS_CHANNELS_LAST = frozenset(
    f"aten::{name}"
    for name in (
        "_convolution", "conv2d", "convolution", "batch_norm", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d",
        "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d",
    )
)  # fmt: skip


class Layouts:
    """The strides of the values that are not contiguous."""

    def __init__(self) -> None:
        self._strides: dict[Value, Strides] = {}

    def is_contiguous(self, value: Value, memory_format: object = torch.contiguous_format) -> bool:
        if memory_format in CHANNELS_LAST:
            return self._probe(value).is_contiguous(memory_format=memory_format)
        return self._of(value) is None

    def is_viewable(self, value: Value, shape: Shape) -> bool:
        """Whether torch can view the value in this shape without a copy."""
        if self._of(value) is None:
            return True
        try:
            self._probe(value).view(_sizes(shape))
        except RuntimeError:
            return False
        return True

    def order(self, value: Value) -> tuple[int, ...] | None:
        """The axes by decreasing stride; None with gaps or repeats."""
        strides = self._of(value)
        return tuple(range(len(value.shape))) if strides is None else _order(_sizes(value.shape), strides)

    def share(self, value: Value, other: Value) -> None:
        """Note that the value is the same tensor as the other."""
        strides = self._of(other)
        if strides is None:
            self._strides.pop(value, None)
        else:
            self._strides[value] = strides

    def view(self, node: Node, source: str) -> None:
        """Note the strides of the results of a view."""
        if node.op in CUTS:
            return self._cut(node, node.inputs[source])
        arguments = {name: self._argument(argument) for name, argument in node.inputs.items()}
        if node.op == "aten::select":
            arguments["index"] = 0  # any element has the same strides
        for output, result in zip(node.outputs, evaluate(node, arguments), strict=True):
            self._record(output, result)
        return None

    def _cut(self, node: Node, source: Value) -> None:
        strides = self._probe(source).stride()
        for output in node.outputs:
            self._record(output, torch.empty_strided(_sizes(output.shape), strides, device="meta"))

    def compute(self, node: Node) -> None:
        """Note the strides of the results of a node that is not a view."""
        if not node.outputs or not node.outputs[0].is_tensor:
            return
        output = node.outputs[0]
        memory_format = node.inputs.get("memory_format")
        if memory_format not in (None, torch.preserve_format):
            if memory_format in CHANNELS_LAST:
                self._record(output, _dense(output.shape, CHANNELS_LAST[memory_format]))
            return
        first = next((value for value in node.values() if value.is_tensor), None)
        strides = None if first is None else self._of(first)
        if first is None or strides is None:
            return
        if node.op in KEEPS_CHANNELS_LAST:
            if len(output.shape) == 4 and self.is_contiguous(first, torch.channels_last):
                self._record(output, _dense(output.shape, CHANNELS_LAST[torch.channels_last]))
        elif first.shape == output.shape and _keeps_order(node):
            order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
            self._record(output, _dense(output.shape, order))

    def _of(self, value: Value) -> Strides | None:
        if value.data is not None and not value.data.is_contiguous():
            return tuple(value.data.stride())
        return self._strides.get(value)

    def _record(self, value: Value, probe: torch.Tensor) -> None:
        if not probe.is_contiguous():
            self._strides[value] = probe.stride()

    def _probe(self, value: Value) -> torch.Tensor:
        """A meta tensor with the strides of the value."""
        shape, strides = _sizes(value.shape), self._of(value)
        # Quantized tensors without memory have no views; bytes lie like them.
        dtype = torch.uint8 if value.dtype in (torch.quint8, torch.qint8) else value.dtype
        if strides is None:
            return torch.empty(shape, dtype=dtype, device="meta")
        return torch.empty_strided(shape, strides, dtype=dtype, device="meta")

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, Value):
            if argument.is_tensor:
                return self._probe(argument)
            # The offset of a view does not change its strides.
            return argument.size.at[0] if isinstance(argument.size, SizeExpr) else argument.size or 0
        if isinstance(argument, (list, tuple)):
            return [self._argument(element) for element in argument]
        return argument


def _keeps_order(node: Node) -> bool:
    return node.op in COPIES_IN_ORDER or has_tag(node.op, node.overload, torch.Tag.pointwise)


def _sizes(shape: Shape) -> tuple[int, ...]:
    return tuple(size.at[0] if isinstance(size, SizeExpr) else size for size in shape)


def _dense(shape: Shape, order: Sequence[int]) -> torch.Tensor:
    """A dense tensor with its axes in this order in memory, the outermost first."""
    sizes = _sizes(shape)
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return torch.empty_strided(sizes, strides, device="meta")


def _order(sizes: Sequence[int], strides: Strides) -> tuple[int, ...] | None:
    order = sorted(range(len(sizes)), key=lambda axis: -strides[axis])
    step = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != step:
            return None
        step *= sizes[axis]
    return tuple(order)
