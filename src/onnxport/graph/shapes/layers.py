"""Norms, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.graph.shapes.bound import number, tensor
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.sizes import Shape
from onnxport.graph.sizes.shapes import product

# Norms


def normalised(require: Requirements, input: Shape, normalized_shape: Sequence[Any], **_: Any) -> Shape:
    """``normalized_shape`` are the sizes of the last axes."""
    if len(normalized_shape) > len(input):
        raise NotKnown
    last = input[len(input) - len(normalized_shape) :]
    for size, wanted in zip(last, normalized_shape, strict=True):
        require.equal(size, number(wanted))
    return input


def native_layer_norm(require: Requirements, input: Shape, normalized_shape: Sequence[Any], **_: Any) -> list[Shape]:
    normalised(require, input, normalized_shape)
    first = len(input) - len(normalized_shape)
    kept = (*input[:first], *[1] * len(normalized_shape))
    return [input, kept, kept]


def channel_norm(require: Requirements, input: Shape, **arguments: Any) -> Shape:
    """Parameters of batch norms and instance norms have one element per channel."""
    if len(input) < 2:
        raise NotKnown
    for shape in arguments.values():
        if type(shape) is tuple:
            require.equal(input[1], product(shape), "the channels")
    return input


def batch_norm(require: Requirements, input: Shape, **arguments: Any) -> Shape:
    """torch checks nothing for empty inputs."""
    return channel_norm(require.where(_no_zeros, *input), input, **arguments)


def _no_zeros(*sizes: int) -> bool:
    return 0 not in sizes


def group_norm(require: Requirements, input: Shape, num_groups: Any, **arguments: Any) -> Shape:
    channel_norm(require, input, **arguments)
    require.multiple(input[1], number(num_groups), "the channels")
    return input


# Attention


def attention(
    require: Requirements,
    query: Shape,
    key: Shape,
    value: Shape,
    attn_mask: Any = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Shape:
    if min(len(query), len(key), len(value)) < 2:
        raise NotKnown
    sizes = (*query, *key, *value)
    # For empty tensors torch checks nothing, and the result has the size of the query.
    require = require.where(_no_zeros, *sizes)
    require.equal(query[-1], key[-1])
    require.equal(key[-2], value[-2])
    if enable_gqa:
        key, value = (_with_heads_of(require, query, shape) for shape in (key, value))
    batch = require.broadcast(query[:-2], key[:-2])
    if attn_mask is not None:
        require.expandable(tensor(attn_mask), (*batch, query[-2], key[-2]))
    batch = require.broadcast(batch, value[:-2])
    if batch != query[:-2] and any(0 in require.at(size) for size in sizes):
        raise NotKnown
    return (*batch, query[-2], value[-1])


def _with_heads_of(require: Requirements, query: Shape, shape: Shape) -> Shape:
    """Several heads of the query share one of the key and the value."""
    if min(len(query), len(shape)) < 3:
        raise NotKnown
    require.multiple(query[-3], shape[-3], "the heads of a query")
    return (*shape[:-3], query[-3], *shape[-2:])


# Recurrent layers


def recurrent(states: int) -> Any:
    """``lstm`` has two states, the others one. Modules only pass states with the batch size of the input."""

    def shapes(
        require: Requirements,
        input: Shape,
        hx: Any,
        params: Sequence[Any],
        bidirectional: bool,
        batch_first: bool,
        **_: Any,
    ) -> list[Shape]:
        states_in = [tensor(shape) for shape in (hx if isinstance(hx, list) else [hx])]
        weights = [tensor(shape) for shape in params]
        if len(states_in) != states or len(input) != 3 or not weights or any(len(shape) != 3 for shape in states_in):
            raise NotKnown
        batch = input[0 if batch_first else 1]
        for shape in states_in:
            require.equal(batch, shape[1], "the batches")
        require.equal(input[-1], weights[0][-1])
        require.at_least(input[1 if batch_first else 0], 1, "the length of a sequence")
        return [(*input[:-1], states_in[0][-1] * (2 if bidirectional else 1)), *states_in]

    return shapes


def lstm_cell(require: Requirements, input: Shape, hx: Sequence[Any], w_ih: Shape, **_: Any) -> list[Shape]:
    hidden, cell = (_state(require, input, tensor(state), w_ih) for state in hx)
    return [hidden, cell]


def cell(require: Requirements, input: Shape, hx: Shape, w_ih: Shape, **_: Any) -> Shape:
    return _state(require, input, hx, w_ih)


def _state(require: Requirements, input: Shape, state: Shape, weight: Shape) -> Shape:
    if len(input) != 2 or len(state) != 2:
        raise NotKnown
    require.equal(input[0], state[0], "the batches")
    require.equal(input[1], weight[-1])
    return state
