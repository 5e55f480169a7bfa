"""What the passes on quantized models ask of a QuantizeLinear or DequantizeLinear."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Array, Context, is_op, operand, rank

DEFAULT_AXIS = 1


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Scale and zero point of a node, where they are constant. With an axis they are vectors along it."""

    scale: Array
    zero: Array
    axis: int | None

    def spread(self, array: Array, total_rank: int) -> Array:
        """One of the two in a shape that broadcasts with a tensor of this rank."""
        if self.axis is None:
            return array.reshape(())
        return array.reshape([-1 if index == self.axis else 1 for index in range(total_rank)])


def parameters(context: Context, node: ir.Node) -> Parameters | None:
    """The parameters of a QuantizeLinear or DequantizeLinear; None if they are not constant, or are for blocks."""
    scale, zero = context.tensor(node.inputs[1]), context.tensor(operand(node, 2))
    if scale is None or (zero is None and operand(node, 2) is not None) or "block_size" in node.attributes:
        return None
    total_rank, steps = rank(node.inputs[0]), scale.numpy()
    zeros = np.zeros(steps.shape, np.int32) if zero is None else zero.numpy().astype(np.int32)
    if steps.ndim == 0:
        return Parameters(steps, zeros.reshape(()), None)
    if total_rank is None or steps.ndim != 1:
        return None
    return Parameters(steps, zeros, node.attributes.get_int("axis", DEFAULT_AXIS) % total_rank)


def readers(value: ir.Value) -> list[ir.Node]:
    """The nodes that read a value."""
    return [use.node for use in value.uses()]


def same_parameters(left: ir.Node, right: ir.Node) -> bool:
    """Whether two nodes surely have the same scale and zero point, for the whole tensor."""
    same = left.inputs[1] is right.inputs[1] and operand(left, 2) is operand(right, 2)
    return same and rank(left.inputs[1]) == 0


def is_dequantize(node: ir.Node) -> bool:
    return is_op(node, "DequantizeLinear")
