"""Layers of torch.ao: their weights are packed in objects of torch's kernels, which tell the form of the layer."""

from __future__ import annotations

from typing import Any

from onnxport.graph.shapes import convolution, pointwise, products
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape

# Weight and layer by the names that the kernels have for their input.
INPUTS = ("qx", "X")
PACKED = ("packed_weight", "W_prepack")


def _of(arguments: dict[str, Any], names: tuple[str, ...]) -> Any:
    found = [arguments[name] for name in names if name in arguments]
    if not found:
        raise NotKnown
    return found[0]


def convolved(require: Requirements, **arguments: Any) -> Shape:
    packed = _of(arguments, PACKED)
    weight = tuple(packed.unpack()[0].shape)
    input = _of(arguments, INPUTS)
    # The weight of a 1D convolution is that of a 2D one with one row; its other numbers are for the second axis.
    spatial = len(input) - 2
    numbers = {
        name: list(getattr(packed, name)())[-spatial:] for name in ("stride", "padding", "dilation", "output_padding")
    }
    transposed = bool(packed.transpose())
    kernel = weight[2:][-spatial:]
    return convolution.convolution(
        require, input, (*weight[:2], *kernel), transposed=transposed, groups=packed.groups(), **numbers
    )


def linear(require: Requirements, **arguments: Any) -> Shape:
    weight = tuple(_of(arguments, PACKED).unpack()[0].shape)
    return products.linear(require, _of(arguments, INPUTS), weight)


def _names(*names: str) -> tuple[str, ...]:
    return tuple(f"quantized::{name}" for name in names)


SPATIAL = ("1d", "2d", "3d")
FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(_names(*(f"conv{n}{kind}" for n in SPATIAL for kind in ("", "_relu", "_dynamic"))), convolved),
    **dict.fromkeys(_names(*(f"conv_transpose{n}{kind}" for n in SPATIAL for kind in ("", "_dynamic"))), convolved),
    **dict.fromkeys(_names(*(f"linear{act}{kind}" for act in ("", "_relu") for kind in ("", "_dynamic"))), linear),
    **dict.fromkeys(_names("add", "add_relu", "mul", "mul_relu"), pointwise.pointwise),
    **dict.fromkeys(
        _names(
            "hardswish", "leaky_relu", "sigmoid", "elu", "celu", "relu6", "prelu", "dropout", "softmax", "add_scalar",
            "mul_scalar", "batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d", "batch_norm2d_relu",
            "batch_norm3d_relu", "layer_norm", "group_norm", "instance_norm",
        ),
        pointwise.like,
    ),
}  # fmt: skip
