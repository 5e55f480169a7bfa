"""RNN, LSTM and GRU: layers, cells, and the packed sequences they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxport.graph import ir as captured
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter, entries
from onnxport.lower.value import AnySize, Value
from onnxport.ops.nn import recurrent_packing as packing
from onnxport.ops.nn.recurrent_layers import GRU, LSTM, RNN_RELU, RNN_TANH, Direction, Kind, Layer, projected, run_layer

Results = tuple[Value, ...]
ZEROS = frozenset({"aten::zeros", "aten::zeros_like", "aten::new_zeros"})


@dataclass(frozen=True)
class Network:
    """The settings that the layers of one call share, and the parameters of all directions, layer by layer."""

    kind: Kind
    all_directions: Sequence[Direction]
    num_layers: int
    bidirectional: bool
    dropout: float

    def directions(self, layer: int) -> Sequence[Direction]:
        count = 2 if self.bidirectional else 1
        return self.all_directions[layer * count : (layer + 1) * count]


def _directions(params: Sequence[Value], has_biases: bool, count: int) -> list[Direction]:
    """The parameters by direction, an equal number of them for each."""
    each = len(params) // count
    return [_direction(params[start * each : (start + 1) * each], has_biases) for start in range(count)]


def _direction(parameters: Sequence[Value], has_biases: bool) -> Direction:
    projection = parameters[-1] if len(parameters) % 2 else None
    biases = (parameters[2], parameters[3]) if has_biases else (None, None)
    return Direction(parameters[0], parameters[1], biases[0], biases[1], projection)


def run(
    g: Builder,
    network: Network,
    x: Value,
    states: Sequence[Value | None],
    lengths: packing.Lengths | None,
    batch_first: bool,
) -> Results:
    """All layers: the last one's output, then the last states of all, [layers * directions, batch, hidden]."""
    if batch_first:
        x = emit.transpose(g, x, [1, 0, 2])
    directions = 2 if network.bidirectional else 1
    parts = [_by_layer(g, state, network.num_layers, directions) for state in states]
    each, mask = (lengths.each, lengths.mask) if lengths else (None, None)
    last = []
    for index in range(network.num_layers):
        if index and network.dropout:
            x = emit.dropout(g, x, network.dropout)[0]
        layer = Layer(network.kind, network.directions(index), [part[index] for part in parts])
        is_last = index == network.num_layers - 1
        x, final = run_layer(g, layer, x, each, mask, batch_first and is_last)
        last.append(final)
    joined = [one[0] if len(one) == 1 else g.op("Concat", *one, axis=0) for one in zip(*last, strict=True)]
    return (x, *joined)


def _by_layer(g: Builder, state: Value | None, layers: int, directions: int) -> Sequence[Value | None]:
    return [None] * layers if state is None else emit.split(g, state, [directions] * layers, 0)


def given_states(g: Builder, hx: Value | Sequence[Value]) -> list[Value | None]:
    """The initial states, None for zeros that the model made: they are ONNX's default."""
    assert g.origin is not None
    made = captured.values_in(g.origin.inputs["hx"])
    states = [hx] if isinstance(hx, Value) else hx
    return [None if m.node is not None and m.node.op in ZEROS else v for m, v in zip(made, states, strict=True)]


def _over_input(kind: Kind) -> Callable[..., Results]:
    def convert(
        g: Builder, input: Value, hx: Value | list[Value], params: list[Value], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Results:  # fmt: skip
        """aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""  # noqa: E501
        directions = _directions(params, has_biases, num_layers * (2 if bidirectional else 1))
        network = Network(kind, directions, num_layers, bidirectional, dropout if train else 0.0)
        return run(g, network, input, given_states(g, hx), None, batch_first)

    return convert


def _over_packed(kind: Kind) -> Callable[..., Results]:
    def convert(
        g: Builder, data: Value, batch_sizes: Value, hx: Value | list[Value], params: list[Value], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
    ) -> Results:  # fmt: skip
        """aten::gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)"""  # noqa: E501
        directions = _directions(params, has_biases, num_layers * (2 if bidirectional else 1))
        network = Network(kind, directions, num_layers, bidirectional, dropout if train else 0.0)
        lengths = packing.read_lengths(g, batch_sizes, g.outputs[1].shape[1])
        padded = packing.padded_rows(g, data, lengths)
        output, *states = run(g, network, padded.value, given_states(g, hx), lengths, batch_first=False)
        return (packing.packed(g, packing.Padded(output, clean=True), lengths, g.outputs[0].shape), *states)

    return convert


KINDS = {"lstm": LSTM, "gru": GRU, "rnn_tanh": RNN_TANH, "rnn_relu": RNN_RELU}
INPUT = entries(_over_input, {f"aten::{name}.input": kind for name, kind in KINDS.items()})
PACKED = entries(_over_packed, {f"aten::{name}.data": kind for name, kind in KINDS.items()})


@converter("aten::_pack_padded_sequence")
def pack_padded_sequence(g: Builder, input: Value, lengths: Value, batch_first: bool) -> Results:
    """aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    g.require(9, "a packed sequence")
    if batch_first:
        input = emit.transpose(g, input, [1, 0, *range(2, input.rank)])
    assert input.shape is not None
    known = packing.lengths_of(g, lengths, input.shape[0])
    rows = packing.packed(g, packing.Padded(input, clean=False), known, g.outputs[0].shape)
    return rows, packing.batch_sizes_of(g, known, g.outputs[1].shape)


@converter("aten::_pad_packed_sequence")
def pad_packed_sequence(
    g: Builder, data: Value, batch_sizes: Value, batch_first: bool, padding_value: float, total_length: AnySize
) -> Results:
    """aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, SymInt total_length) -> (Tensor, Tensor)"""  # noqa: E501
    assert batch_sizes.shape is not None
    lengths = packing.read_lengths(g, batch_sizes, g.outputs[1].shape[0])
    padded = packing.padded_rows(g, data, lengths)
    result = packing.unpacked(g, padded, lengths, padding_value, batch_sizes.shape[0], total_length)
    if batch_first:
        result = g.op("Transpose", result, perm=[1, 0, *range(2, padded.value.rank)])
    return result, lengths.each


def _cell(kind: Kind) -> Callable[..., Results]:
    def convert(
        g: Builder, input: Value, hx: Value | list[Value], w_ih: Value, w_hh: Value,
        b_ih: Value | None = None, b_hh: Value | None = None,
    ) -> Results:  # fmt: skip
        """aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""  # noqa: E501
        return run_cell(g, kind, input, hx, Direction(w_ih, w_hh, b_ih, b_hh))

    return convert


def run_cell(g: Builder, kind: Kind, input: Value, hx: Value | Sequence[Value], direction: Direction) -> Results:
    """One step: the states after it."""
    given = [hx] if isinstance(hx, Value) else hx
    if not Layer(kind, [direction], []).is_native(input.dtype):
        return tuple(kind.step(g, projected(g, kind, input, direction), given, direction))
    before = [None if state is None else emit.unsqueeze(g, state, [0]) for state in given_states(g, given)]
    step = emit.unsqueeze(g, input, [0])
    _, states = run_layer(g, Layer(kind, [direction], before), step, None, None, batch_first=False)
    return tuple(emit.squeeze(g, state, [0]) for state in states)


CELLS = entries(_cell, {f"aten::{name}_cell": kind for name, kind in KINDS.items()})
