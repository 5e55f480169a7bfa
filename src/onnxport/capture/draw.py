"""Other content for a model's inputs, drawn so that it stays within what the example shows."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def redraw(examples: Sequence[torch.Tensor], resized: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """New content for the resized inputs: elements of the example in another order, ids and masks among them.

    An example that holds one value throughout says nothing of its range: floating-point content is then drawn from a
    normal distribution around that value, a mask by coin, and an integer is the next or the one before.
    """
    generator = torch.Generator().manual_seed(seed)
    return [_redraw(example, tensor, generator) for example, tensor in zip(examples, resized, strict=True)]


def _redraw(example: torch.Tensor, resized: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    pool = example.detach().flatten()
    if pool.numel() == 0 or resized.numel() == 0:
        return resized
    if bool((pool == pool[0]).all()):
        return _around(pool[0], resized, generator)
    places = torch.randint(pool.numel(), (resized.numel(),), generator=generator)
    return in_order_of(example, pool[places].reshape(resized.shape))


def in_order_of(example: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, sorted if it is a list of integers whose example is: lengths fall and offsets rise."""
    if example.dim() != 1 or example.is_floating_point() or example.numel() < 2:
        return tensor
    steps = example[1:].long() - example[:-1].long()
    if bool((steps <= 0).all()) or bool((steps >= 0).all()):
        return tensor.sort(descending=bool(steps.sum() <= 0)).values
    return tensor


def _around(value: torch.Tensor, resized: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if value.dtype == torch.bool:
        return torch.rand(resized.shape, generator=generator) < 0.75
    if value.is_floating_point():
        return (value + torch.randn(resized.shape, generator=generator)).to(value.dtype)
    step = 1 - 2 * int(torch.randint(2, (), generator=generator))
    return torch.full_like(resized, max(int(value) + step, 0))


def last_bits_changed(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with each floating-point element moved by about one rounding error, up or down."""
    generator = torch.Generator().manual_seed(0)
    return [_moved(tensor, generator) if tensor.is_floating_point() else tensor for tensor in tensors]


def _moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    signs = torch.randint(2, tensor.shape, generator=generator) * 2 - 1
    return tensor * (1 + signs.to(tensor.dtype) * torch.finfo(tensor.dtype).eps)
