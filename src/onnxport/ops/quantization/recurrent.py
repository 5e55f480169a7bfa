"""Dynamically quantized LSTM, GRU and cells of torch.ao.

In torch each product of a step, of the input and of the state, quantizes what it takes by the range that this has
then. ONNX's recurrent operators cannot say that: such a layer is a Scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.lower.builder import Builder
from onnxport.lower.registry import entries
from onnxport.lower.value import Value
from onnxport.ops.nn.recurrent import KINDS, Network, Results, given_states, run, run_cell
from onnxport.ops.nn.recurrent_layers import Direction, Kind
from onnxport.ops.quantization.dynamic import half_weight, integer_product
from onnxport.ops.quantization.packed_weights import unpacked

INTEGERS, HALVES = "quantized_dynamic", "quantized_fp16"


@dataclass(frozen=True)
class IntegerDirection(Direction):
    """A direction whose weights are quantized tensors: ``input`` and ``hidden`` are their integers."""

    input_weight: torch.Tensor | None = None
    hidden_weight: torch.Tensor | None = None
    reduce_range: bool = True

    @property
    def is_native(self) -> bool:
        return False

    def of_input(self, g: Builder, x: Value) -> Value:
        assert self.input_weight is not None
        return integer_product(g, x, self.input_weight, reduce_range=self.reduce_range)

    def of_state(self, g: Builder, state: Value) -> Value:
        assert self.hidden_weight is not None
        return integer_product(g, state, self.hidden_weight, reduce_range=self.reduce_range)


def _direction(g: Builder, of_input: Any, of_state: Any, reduce_range: bool) -> Direction:
    """The parameters of a direction, as they are packed."""
    (weight, bias), (hidden, hidden_bias) = unpacked(of_input), unpacked(of_state)
    first, second = (None if given is None else g.constant(given.detach()) for given in (bias, hidden_bias))
    if not weight.is_quantized:
        return Direction(half_weight(g, weight), half_weight(g, hidden), first, second)
    return IntegerDirection(
        g.constant(weight.int_repr()),
        g.constant(hidden.int_repr()),
        first,
        second,
        input_weight=weight,
        hidden_weight=hidden,
        reduce_range=reduce_range,
    )


def _unpacked_direction(g: Builder, params: Any) -> Direction:
    """A direction of a layer: ``params`` is what torch.ao packs for one."""
    (kind, _, _, numbers, packed), *_ = params.__getstate__()
    if kind not in (INTEGERS, HALVES) or len(packed) != 2:
        g.unsupported(f"recurrent layers whose parameters are {kind}")
    return _direction(g, packed[0], packed[1], bool(numbers and numbers[0]))


def _layers(kind: Kind) -> Callable[..., Results]:
    def convert(
        g: Builder, input: Value, hx: Value | list[Value], params: Sequence[Any], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool, **options: Any,
    ) -> Results:  # fmt: skip
        """aten::quantized_gru.input(Tensor input, Tensor hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""  # noqa: E501
        directions = [_unpacked_direction(g, given) for given in params]
        network = Network(kind, directions, num_layers, bidirectional, dropout if train else 0.0)
        return run(g, network, input, given_states(g, hx), None, batch_first)

    return convert


def _cell(kind: Kind) -> Callable[..., Results]:
    def convert(
        g: Builder, input: Value, hx: Value | list[Value], w_ih: Any, w_hh: Any, **biases: Value
    ) -> Results:  # fmt: skip
        """quantized::quantized_gru_cell_dynamic(Tensor input, Tensor hx, __torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, __torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor b_ih, Tensor b_hh) -> Tensor

        torch takes the biases that are packed with the weights, and quantizes to 7 bits.
        """  # noqa: E501
        return run_cell(g, kind, input, hx, _direction(g, w_ih, w_hh, True))

    return convert


LAYERS = entries(_layers, {f"aten::quantized_{name}.input": KINDS[name] for name in ("lstm", "gru")})
CELLS = entries(_cell, {f"quantized::quantized_{name}_cell_dynamic": kind for name, kind in KINDS.items()})
