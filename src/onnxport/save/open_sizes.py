"""Sizes of values between inputs and outputs that the file leaves open, so that ONNX Runtime does not plan by them."""

from __future__ import annotations

import onnx

SIZES_OPEN = "sizes_open"
"""The mark, in `meta`, of a model in whose file each value between inputs and outputs has one size that is open."""


def leave_sizes_open(graph: onnx.GraphProto) -> None:
    """Takes the name from the first named dimension of each value between inputs and outputs.

    Where ONNX Runtime can tell that two shapes with named dimensions are equal, it computes one result in the memory of
    another. On the CPU more memory is in use then, which is no longer in the cache, and some kernels take longer in
    place. With one size open it cannot tell.
    """
    for value in graph.value_info:
        if value.type.HasField("tensor_type"):
            named = (dim for dim in value.type.tensor_type.shape.dim if dim.HasField("dim_param"))
            first = next(named, None)
            if first is not None:
                first.ClearField("dim_param")
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                leave_sizes_open(subgraph)
