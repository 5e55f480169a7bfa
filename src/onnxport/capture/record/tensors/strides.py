"""Which axes of a tensor lie inside of which."""

from __future__ import annotations

import torch


def inner_axes(tensor: torch.Tensor) -> list[tuple[int, ...]] | None:
    """For each axis those that lie inside of it, whose sizes multiply to its stride; None where there are gaps."""
    sizes, strides = tuple(tensor.shape), tensor.stride()
    order = sorted(range(len(sizes)), key=lambda axis: (strides[axis], -axis))
    inner: list[tuple[int, ...]] = [()] * len(sizes)
    expected = 1
    for index, axis in enumerate(order):
        if strides[axis] != expected:
            return None
        inner[axis] = tuple(order[:index])
        expected *= sizes[axis]
    return inner
