"""One recurrent layer: an LSTM, GRU or RNN node, or a Scan where these do not support it.

ONNX's operators have no projection, and ONNX Runtime computes them only in float32: an LSTM with ``proj_size``, layers
in float64 and dynamically quantized ones are a Scan over the sequence, with one step in plain operators as body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.graph.sizes import Shape
from onnxport.lower import emit
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value

FIRST_SCAN = 9


@dataclass(frozen=True)
class Direction:
    """The parameters of one direction of a layer, gates in torch's order."""

    input: Value
    hidden: Value
    input_bias: Value | None = None
    hidden_bias: Value | None = None
    projection: Value | None = None

    @property
    def is_native(self) -> bool:
        """Whether ONNX's recurrent operators can say it."""
        return self.projection is None

    def of_input(self, g: Builder, x: Value) -> Value:
        """The product of the input and its weight."""
        return g.op("MatMul", x, emit.transpose(g, self.input, [1, 0]))

    def of_state(self, g: Builder, state: Value) -> Value:
        """The product of the state and its weight."""
        return g.op("MatMul", state, emit.transpose(g, self.hidden, [1, 0]))


Step = Callable[[Builder, Value, Sequence[Value], Direction], list[Value]]


@dataclass(frozen=True)
class Kind:
    """A kind of recurrent layer: its ONNX operator, torch's gates in ONNX's order, and a function for one step."""

    op: str
    gates: tuple[int, ...]
    step: Step
    activation: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def states(self) -> int:
        return 2 if self.op == "LSTM" else 1


@dataclass(frozen=True)
class Layer:
    """The directions of a layer and its initial states; None is a state of zeros."""

    kind: Kind
    directions: Sequence[Direction]
    states: Sequence[Value | None]

    @property
    def hidden(self) -> int:
        rows = self.directions[0].hidden.shape
        assert rows is not None and isinstance(rows[0], int)
        return rows[0] // len(self.kind.gates)

    def is_native(self, dtype: torch.dtype) -> bool:
        return self.directions[0].is_native and dtype != torch.float64


def run_layer(
    g: Builder, layer: Layer, x: Value, lengths: Value | None, mask: Value | None, batch_first: bool
) -> tuple[Value, list[Value]]:
    """The output of each step, with the directions concatenated, and the last states, [directions, batch, hidden].

    ``x`` is [sequence, batch, features]; the output likewise, or with the batch first.
    """
    if layer.is_native(x.dtype):
        outputs, states = _native(g, layer, x, lengths)
        return _side_by_side(g, outputs, batch_first), states
    g.require(FIRST_SCAN, "a recurrent layer with a projection, in float64 or in integers")
    runs = [_scanned(g, layer, x, mask, index) for index in range(len(layer.directions))]
    output = _concat(g, [outputs for outputs, _ in runs], 2)
    finals = zip(*(last for _, last in runs), strict=True)
    states = [_concat(g, [emit.unsqueeze(g, state, [0]) for state in each], 0) for each in finals]
    return emit.transpose(g, output, [1, 0, 2]) if batch_first else output, states


def _native(g: Builder, layer: Layer, x: Value, lengths: Value | None) -> tuple[Value, list[Value]]:
    kind, directions, hidden = layer.kind, layer.directions, layer.hidden
    count = len(directions)
    biases = [bias for d in directions for bias in (d.input_bias, d.hidden_bias) if bias is not None]
    results = g.op(
        kind.op,
        x,
        _stacked(g, kind, [d.input for d in directions], count),
        _stacked(g, kind, [d.hidden for d in directions], count),
        _stacked(g, kind, biases, count) if biases else None,
        None if lengths is None else g.cast(lengths, torch.int32),
        *layer.states,
        outputs=1 + kind.states,
        hidden_size=hidden,
        direction="bidirectional" if count == 2 else "forward",
        activations=None if kind.activation is None else [kind.activation] * count,
        **kind.attributes,
    )
    sequence, batch = _dims(x)[:2]
    output = g.typed(results[0], x.dtype, (sequence, count, batch, hidden))
    return output, [g.typed(state, x.dtype, (count, batch, hidden)) for state in results[1:]]


def _stacked(g: Builder, kind: Kind, parts: Sequence[Value], directions: int) -> Value:
    """Weights or biases as [directions, rows, ...], gates in ONNX's order; a direction's biases follow each other."""
    joined = _concat(g, parts, 0)
    total, *rest = _dims(joined)
    assert isinstance(total, int)
    if len(kind.gates) == 1:
        return emit.reshape(g, joined, (directions, total // directions, *rest))
    blocks = len(kind.gates) * len(parts)
    rows = torch.arange(total).view(len(parts), len(kind.gates), total // blocks)[:, list(kind.gates)]
    return g.op("Gather", joined, g.constant(rows.reshape(directions, -1)), axis=0)


def _side_by_side(g: Builder, outputs: Value, batch_first: bool) -> Value:
    """[sequence, directions, batch, hidden] with the directions concatenated along the last dimension."""
    sequence, directions, batch, hidden = _dims(outputs)
    if directions == 1:
        output = emit.squeeze(g, outputs, [1])
        return emit.transpose(g, output, [1, 0, 2]) if batch_first else output
    swapped = emit.transpose(g, outputs, [2, 0, 1, 3] if batch_first else [0, 2, 1, 3])
    lead = (batch, sequence) if batch_first else (sequence, batch)
    return emit.reshape(g, swapped, (*lead, directions * hidden))


def _scanned(g: Builder, layer: Layer, x: Value, mask: Value | None, index: int) -> tuple[Value, list[Value]]:
    """One direction as a Scan. Where the mask is false, a sequence has ended: states stay and outputs are 0."""
    sequence, batch = _dims(x)[:2]
    states = [
        _state(g, state, index, (batch, width), x.dtype)
        for state, width in zip(layer.states, state_widths(layer), strict=True)
    ]
    scanned = [projected(g, layer.kind, x, layer.directions[index])]
    if mask is not None:
        scanned.append(emit.unsqueeze(g, mask, [2]))
    directions = [1] * len(scanned) if index else None
    results = g.op(
        "Scan",
        *states,
        *scanned,
        outputs=len(states) + 1,
        body=_body(g, layer, states, scanned, index),
        num_scan_inputs=len(scanned),
        scan_input_directions=directions,
        scan_output_directions=[1] if index else None,
    )
    last = [g.typed(result, x.dtype, state.shape) for result, state in zip(results, states, strict=False)]
    return g.typed(results[-1], x.dtype, (sequence, *_dims(states[0]))), last


def state_widths(layer: Layer) -> list[int]:
    """The sizes of the output state, which a projection changes, and of the cell state."""
    projection = layer.directions[0].projection
    output = layer.hidden if projection is None else _dims(projection)[0]
    assert isinstance(output, int)
    return [output, layer.hidden][: layer.kind.states]


def _state(g: Builder, state: Value | None, direction: int, shape: Shape, dtype: torch.dtype) -> Value:
    if state is None:
        return emit.filled(g, shape, 0.0, dtype)
    count = _dims(state)[0]
    assert isinstance(count, int)
    return emit.squeeze(g, emit.split(g, state, [1] * count, 0)[direction], [0])


def _body(g: Builder, layer: Layer, states: Sequence[Value], scanned: Sequence[Value], index: int) -> Any:
    """One step: the states after it and the output. Where a sequence has ended, states stay and the output is 0."""

    def step(inner: Builder, inputs: list[Value]) -> list[Value]:
        before, slices = inputs[: len(states)], inputs[len(states) :]
        after = layer.kind.step(inner, slices[0], before, layer.directions[index])
        if len(slices) == 1:
            return [*after, inner.op("Identity", after[0])]
        output = emit.where(inner, slices[1], after[0], 0, after[0].dtype)
        kept = [inner.op("Where", slices[1], new, old) for new, old in zip(after, before, strict=True)]
        return [*kept, output]

    entries = [(state.dtype, _dims(state)) for state in states]
    return g.subgraph("step", [*entries, *((value.dtype, _dims(value)[1:]) for value in scanned)], step)


def projected(g: Builder, kind: Kind, x: Value, direction: Direction) -> Value:
    """The part of the gates from the input. GRU's reset gate applies to the second bias, which stays in the step."""
    gates = direction.of_input(g, x)
    if direction.input_bias is None:
        return gates
    bias = direction.input_bias
    if kind.op != "GRU":
        assert direction.hidden_bias is not None
        bias = g.op("Add", bias, direction.hidden_bias)
    return g.op("Add", gates, bias)


def _gates(g: Builder, x: Value, count: int) -> tuple[Value, ...]:
    width = _dims(x)[-1]
    assert isinstance(width, int)
    return emit.split(g, x, [width // count] * count, x.rank - 1)


def _lstm_step(g: Builder, x: Value, states: Sequence[Value], direction: Direction) -> list[Value]:
    i, f, c, o = _gates(g, g.op("Add", x, direction.of_state(g, states[0])), 4)
    kept = g.op("Mul", g.op("Sigmoid", f), states[1])
    cell = g.op("Add", kept, g.op("Mul", g.op("Sigmoid", i), g.op("Tanh", c)))
    output = g.op("Mul", g.op("Sigmoid", o), g.op("Tanh", cell))
    if direction.projection is not None:
        output = g.op("MatMul", output, emit.transpose(g, direction.projection, [1, 0]))
    return [output, cell]


def _gru_step(g: Builder, x: Value, states: Sequence[Value], direction: Direction) -> list[Value]:
    hidden = direction.of_state(g, states[0])
    if direction.hidden_bias is not None:
        hidden = g.op("Add", hidden, direction.hidden_bias)
    (xr, xz, xn), (hr, hz, hn) = _gates(g, x, 3), _gates(g, hidden, 3)
    reset, update = g.op("Sigmoid", g.op("Add", xr, hr)), g.op("Sigmoid", g.op("Add", xz, hz))
    new = g.op("Tanh", g.op("Add", xn, g.op("Mul", reset, hn)))
    return [g.op("Add", new, g.op("Mul", update, g.op("Sub", states[0], new)))]


def _rnn_step(activation: str) -> Step:
    def step(g: Builder, x: Value, states: Sequence[Value], direction: Direction) -> list[Value]:
        return [g.op(activation, g.op("Add", x, direction.of_state(g, states[0])))]

    return step


def _concat(g: Builder, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=axis)


def _dims(value: Value) -> Shape:
    assert value.shape is not None
    return value.shape


LSTM = Kind("LSTM", (0, 3, 1, 2), _lstm_step)
GRU = Kind("GRU", (1, 0, 2), _gru_step, attributes={"linear_before_reset": 1})
RNN_TANH = Kind("RNN", (0,), _rnn_step("Tanh"))
RNN_RELU = Kind("RNN", (0,), _rnn_step("Relu"), activation="Relu")
