"""Which inputs of which functions of torch are quantized."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from onnxport.quant.quantizer import BiasQuantizer, Quantizer


class Quantizing(Protocol):
    """What the rules need of a run of the model."""

    def activation(self, x: Any, role: str) -> tuple[Any, Quantizer | None]:
        """A tensor rounded, and what rounded it."""

    def weight(self, weight: Any, axis: int | None, *, grouped: bool = False) -> tuple[Any, Quantizer | None]:
        """A weight rounded, and what rounded it."""

    def bias(self, weight: Any) -> BiasQuantizer | None:
        """What rounds the bias of the layer that has this weight."""

    def bias_behind(self, x: Any) -> tuple[BiasQuantizer | None, Any]:
        """What rounded the bias of the layer that gave this tensor, and the bias."""

    def is_stored(self, tensor: Any) -> bool:
        """Whether a tensor is a parameter or buffer of the model."""

    def is_constant(self, tensor: Any) -> bool:
        """Whether a tensor depends on the model's parameters and buffers alone: it is computed when it is exported."""


@dataclasses.dataclass
class Call:
    """A call of a function, whose tensors are replaced by rounded ones. ``bias`` is its bias with what rounded it."""

    args: list[Any]
    kwargs: dict[str, Any]
    bias: tuple[BiasQuantizer, torch.Tensor | None] | None = None

    def get(self, place: int, name: str) -> Any:
        return self.args[place] if place < len(self.args) else self.kwargs.get(name)

    def set(self, place: int, name: str, value: Any) -> None:
        if place < len(self.args):
            self.args[place] = value
        else:
            self.kwargs[name] = value


Rule = Callable[[Quantizing, Call, str], None]


def layer(run: Quantizing, call: Call, name: str) -> None:
    """A layer with an input, a weight and perhaps a bias."""
    x, weight = call.get(0, "input"), call.get(1, "weight")
    transposed = name.startswith("conv_transpose")
    axis = 1 if transposed else 0
    rounded, of_input = run.activation(x, "input")
    narrow, of_weight = run.weight(weight, axis, grouped=name == "linear")
    call.set(0, "input", rounded)
    call.set(1, "weight", narrow)
    # The scales of a transposed convolution with groups are not those of the channels.
    if not transposed or (call.get(7, "groups") or 1) == 1:
        _add_bias(run, call, (2, "bias"), of_input, of_weight, weight, axis)


def added_product(run: Quantizing, call: Call, name: str) -> None:
    """A product of two matrices and what is added to it: a linear layer, if the second matrix is a parameter."""
    added, x, weight = call.get(0, "input"), call.get(1, "mat1"), call.get(2, "mat2")
    if not run.is_stored(weight):
        factors = Call([x, weight], {})
        product(run, factors, name)
        call.set(1, "mat1", factors.args[0])
        call.set(2, "mat2", factors.args[1])
        return
    rounded, of_input = run.activation(x, "input")
    narrow, of_weight = run.weight(weight, 1, grouped=True)
    call.set(1, "mat1", rounded)
    call.set(2, "mat2", narrow)
    is_plain = call.kwargs.get("beta", 1) == 1 == call.kwargs.get("alpha", 1)
    if is_plain and run.is_stored(added) and added.shape == weight.shape[1:]:
        _add_bias(run, call, (0, "input"), of_input, of_weight, weight, 1)


def _add_bias(
    run: Quantizing,
    call: Call,
    place: tuple[int, str],
    of_input: Quantizer | None,
    of_weight: Quantizer | None,
    weight: torch.Tensor,
    axis: int,
) -> None:
    """Round the bias of a call in steps of its products. ``axis`` is that of the weight's scales."""
    if of_input is None or of_weight is None or not of_input.has_data or not of_weight.has_data:
        return
    of_bias = run.bias(weight)
    if of_bias is None:
        return
    if of_bias.training or of_input.learns:
        of_bias.pair = (of_input, of_weight)
        of_bias.learn(of_input, of_weight, weight.shape[axis])
    bias = call.get(*place)
    if bias is not None or not of_bias.training:
        call.set(*place, of_bias(bias))
        call.bias = (of_bias, bias)


def norm(run: Quantizing, call: Call, name: str) -> None:
    """A batch norm behind a layer, in evaluation mode: the file has it in the layer's bias, which is rounded."""
    x, weight, shift, mean, variance, training = (call.args[place] for place in range(6))
    of_bias, bias = run.bias_behind(x)
    if of_bias is None or training or mean is None or weight is None or shift is None:
        return
    factor = weight / torch.sqrt(variance + call.args[7])
    present = torch.round(bias / of_bias.scale) * of_bias.scale if bias is not None else of_bias.nothing
    added = (present - mean) * factor + shift
    step = of_bias.scale * factor.abs()
    step = torch.where(step == 0, of_bias.scale, step)
    call.args[2] = shift + (torch.round(added / step) * step - added)


def product(run: Quantizing, call: Call, name: str) -> None:
    """A product of two matrices, either of which may be a parameter; of two constants it is a weight."""
    operands = []
    for place, (names, role) in enumerate(((("input", "self"), "0"), (("other", "mat2"), "1"))):
        keyword = next((key for key in names if key in call.kwargs), names[0])
        operands.append((place, keyword, call.get(place, keyword), role))
    if all(run.is_constant(operand) for _, _, operand, _ in operands):
        return
    for place, keyword, operand, role in operands:
        if run.is_stored(operand):
            axis = operand.dim() - 1 if operand.dim() == 2 and place == 1 else None
            call.set(place, keyword, run.weight(operand, axis, grouped=axis is not None)[0])
        else:
            call.set(place, keyword, run.activation(operand, f"{name}.{role}")[0])


def elementwise(run: Quantizing, call: Call, name: str) -> None:
    """A sum or product of two tensors that the model computed. With a number or a parameter it stays in float."""
    operands = [call.get(0, "input"), call.get(1, "other")]
    if not all(_is_computed(run, operand) for operand in operands) or call.kwargs.get("alpha", 1) != 1:
        return
    if all(map(run.is_constant, operands)):
        return
    for place, keyword in enumerate(("input", "other")):
        call.set(place, keyword, run.activation(operands[place], f"{name}.{place}")[0])


def _is_computed(run: Quantizing, operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and operand.dim() > 0 and not run.is_stored(operand)


def join(run: Quantizing, call: Call, name: str) -> None:
    """Tensors that are joined."""
    tensors = call.get(0, "tensors")
    if all(_is_computed(run, tensor) for tensor in tensors) and not all(map(run.is_constant, tensors)):
        call.set(0, "tensors", [run.activation(x, f"{name}.{place}")[0] for place, x in enumerate(tensors)])


def average(run: Quantizing, call: Call, name: str) -> None:
    """A mean over some axes."""
    x = call.get(0, "input")
    if not run.is_constant(x):
        call.set(0, "input", run.activation(x, f"{name}.input")[0])


def lookup(run: Quantizing, call: Call, name: str) -> None:
    """An embedding: rows of a weight."""
    call.set(0, "weight", run.weight(call.get(0, "weight"), None)[0])


def recurrent(run: Quantizing, call: Call, name: str) -> None:
    """LSTM, GRU and RNN: their matrices are stored as integers, and they compute in float."""
    place = next((at for at, given in enumerate(call.args) if _is_weights(given)), None)
    if place is not None:
        call.args[place] = [run.weight(w, 0)[0] if w.dim() > 1 else w for w in call.args[place]]


def _is_weights(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and len(given) > 1 and all(isinstance(w, nn.Parameter) for w in given)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "linear"), layer),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), layer),
    **dict.fromkeys(("matmul", "bmm", "mm"), product),
    "addmm": added_product,
    **dict.fromkeys(("add", "add_", "mul", "mul_"), elementwise),
    **dict.fromkeys(("cat", "concat", "concatenate"), join),
    **dict.fromkeys(("mean", "avg_pool1d", "avg_pool2d", "avg_pool3d"), average),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), average),
    "batch_norm": norm,
    "embedding": lookup,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), recurrent),
}
