"""Convolutions over sequences as convolutions over images, which ONNX Runtime runs by faster kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxport.optimize.context import Context, only_use, operand, produced_by, rank, stays
from onnxport.optimize.rewrite import add_initializer, become, rewrite_nodes

_RANK = 3
_HEIGHT = 2
_AXES_ARE_INPUTS = 13
_LISTS = ("kernel_shape", "strides", "dilations")

# ONNX Runtime keeps images in blocks of 8 or 16 channels. Other numbers of channels are not blocked, or padded.
_BLOCK = 16

_ELEMENTWISE = (
    "Add", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Mul",
    "Neg", "Relu", "Sigmoid", "Sin", "Softplus", "Sqrt", "Sub", "Tanh",
)  # fmt: skip


class ConvolveRows(ir.passes.InPlacePass):
    """Writes a Conv of [batch, channels, length] as one of images, [batch, channels, 1, length].

    On the CPU ONNX Runtime has kernels for images that read blocks of channels. For sequences it copies each window of
    the input and multiplies matrices.

    Rules:
        1. The weights are a constant of float32, and the kernel is longer than one or reads such an image already.
           The channels of each group, in and out, are a multiple of the block, or each channel is convolved by itself.
        2. Squeeze is put behind elementwise operators whose other operands are single numbers or such images, so that
           the next Conv reads the image.

    Preserves: values up to the order in which a convolution sums; names of graph outputs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        rules = {"Conv": [_widen]} | {name: [_delay_squeeze] for name in _ELEMENTWISE}
        return ir.passes.PassResult(model, modified=rewrite_nodes(Context(model), rules))


def _widen(context: Context, node: ir.Node) -> bool:
    x, weight, result = operand(node, 0), operand(node, 1), node.outputs[0]
    if x is None or weight is None or rank(x) != _RANK or rank(result) != _RANK or node.graph is None:
        return False
    tensor = _blocked_weight(context, node)
    if tensor is None or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return False
    image = _image(context, x)
    if image is None:
        if tensor.shape.numpy()[-1] == 1:
            return False
        image = _unsqueezed(context, node, x)
    weight.const_value = ir.Tensor(np.expand_dims(tensor.numpy(), _HEIGHT), name=weight.name)
    weight.shape = weight.const_value.shape
    attributes = [_wide(attribute) for attribute in node.attributes.values()]
    _on_images(context, node, [image, *node.inputs[1:]], attributes)
    return True


def _blocked_weight(context: Context, node: ir.Node) -> ir.TensorProtocol | None:
    """The weights of a convolution that nobody else reads, if images of these channels are convolved by blocks."""
    weight, bias = node.inputs[1], operand(node, 2)
    tensor = context.tensor(weight)
    if weight is None or tensor is None or not weight.is_initializer() or not only_use(weight) or stays(weight):
        return None
    if tensor.dtype != ir.DataType.FLOAT or (bias is not None and context.tensor(bias) is None):
        return None
    channels_out, channels, _ = tensor.shape.numpy()
    groups = node.attributes.get_int("group", 1)
    if groups > 1 and channels == 1:
        return tensor if channels_out == groups else None
    return tensor if channels % _BLOCK == 0 and channels_out // groups % _BLOCK == 0 else None


def _wide(attribute: ir.Attr) -> ir.Attr:
    name = attribute.name
    if name in _LISTS:
        return ir.AttrInt64s(name, [1, *attribute.as_ints()])
    if name == "pads":
        begin, end = attribute.as_ints()
        return ir.AttrInt64s(name, [0, begin, 0, end])
    return attribute


def _delay_squeeze(context: Context, node: ir.Node) -> bool:
    if rank(node.outputs[0]) != _RANK:
        return False
    images = [_image(context, value) for value in node.inputs]
    if not any(images):
        return False
    for value, image in zip(node.inputs, images, strict=True):
        if value is not None and image is None and not _is_number(context, value):
            return False
    inputs = [value if image is None else image for value, image in zip(node.inputs, images, strict=True)]
    _on_images(context, node, inputs, list(node.attributes.values()))
    return True


def _is_number(context: Context, value: ir.Value) -> bool:
    tensor = context.tensor(value)
    return tensor is not None and tensor.size == 1 and len(tensor.shape) <= 1


def _image(context: Context, value: ir.Value | None) -> ir.Value | None:
    """The image of which a sequence is the only row."""
    squeeze = produced_by(value, "Squeeze")
    if squeeze is None or rank(squeeze.inputs[0]) != _RANK + 1 or context.ints(squeeze, "axes", 1) != (_HEIGHT,):
        return None
    return squeeze.inputs[0]


def _with_height(value: ir.Value) -> ir.Shape:
    assert value.shape is not None
    return ir.Shape([*value.shape[:_HEIGHT], 1, *value.shape[_HEIGHT:]])


def _unsqueezed(context: Context, node: ir.Node, x: ir.Value) -> ir.Value:
    made = _inserted(node, "Unsqueeze", *_axes(context, node, x))
    made.name = context.names.claim(f"{(node.name or '').rpartition('/')[0]}/Unsqueeze".lstrip("/"))
    image = made.outputs[0]
    image.name, image.type, image.shape = made.name, x.type, _with_height(x)
    return image


def _on_images(
    context: Context, node: ir.Node, inputs: Sequence[ir.Value | None], attributes: Sequence[ir.Attr]
) -> None:
    """A node on images takes over the name of this one, which becomes the Squeeze behind it and keeps its readers."""
    result, name = node.outputs[0], node.name
    made = _inserted(node, node.op_type, inputs, attributes)
    image = made.outputs[0]
    image.type, image.shape = result.type, _with_height(result)
    operands, axes = _axes(context, node, image)
    become(context, node, "Squeeze", operands, axes)
    made.name = name
    image.name = name if name and name != result.name else context.names.claim("image")


def _inserted(node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], attributes: Sequence[ir.Attr]) -> ir.Node:
    """A node before another one, of the same module and line."""
    made = ir.Node("", op_type, inputs, attributes, metadata_props=dict(node.metadata_props))
    made.doc_string = node.doc_string
    assert node.graph is not None
    node.graph.insert_before(node, made)
    return made


def _axes(context: Context, node: ir.Node, value: ir.Value) -> tuple[list[ir.Value], list[ir.Attr]]:
    """The inputs and attributes of a Squeeze or Unsqueeze of the height."""
    if context.opset < _AXES_ARE_INPUTS:
        return [value], [ir.AttrInt64s("axes", [_HEIGHT])]
    assert node.graph is not None
    return [value, add_initializer(node.graph, context.names.claim("axes"), ir.Tensor(np.array([_HEIGHT])))], []
