"""Random content for a model's inputs, within the range of the example's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

# The number of elements from which the example's distribution is taken.
MANY_ELEMENTS = 4096


def redraw(
    examples: Sequence[torch.Tensor], resized: Sequence[torch.Tensor], seed: int, *, keep_masks: bool = False
) -> list[torch.Tensor]:
    """New content for the resized inputs: elements of the example in another order, or interpolated if continuous.

    If all elements of an example are equal, floats are drawn from a normal distribution around that value, masks at
    random, and integers differ by one. With ``keep_masks`` the pattern of other masks stays, so that there is no mask
    that no model would get, such as one with an empty row.
    """
    generator = torch.Generator().manual_seed(seed)
    return [
        tensor if keep_masks and _is_mask(example) else _redraw(example, tensor, generator)
        for example, tensor in zip(examples, resized, strict=True)
    ]


def other_data(examples: Sequence[torch.Tensor], resized: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """New content that shows which integers and which variety a model reads.

    All integers of an input are its smallest one, then its largest: an integer that is read differs from the example in
    one of the two. Then all rows of floats are equal: what depends on rows varies as little as possible.
    """
    for seed, extreme in enumerate((torch.min, torch.max)):
        drawn = redraw(examples, resized, seed, keep_masks=True)
        yield [
            tensor
            if _is_inexact(tensor) or _is_mask(example) or example.numel() == 0 or tensor.numel() == 0
            else torch.full_like(tensor, extreme(torch.cat([example.flatten(), tensor.flatten()])).item())
            for example, tensor in zip(examples, drawn, strict=True)
        ]
    drawn = redraw(examples, resized, 2, keep_masks=True)
    yield [_with_one_row(tensor) if _is_inexact(tensor) and tensor.numel() else tensor for tensor in drawn]


def _with_one_row(tensor: torch.Tensor) -> torch.Tensor:
    rows = tensor.flatten(0, -2) if tensor.dim() > 1 else tensor.flatten()
    return rows[0].expand(tensor.shape).clone()


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_mask(example: torch.Tensor) -> bool:
    """Whether a tensor is bool, or has two or more axes and only zeros and ones, both of them."""
    if example.is_floating_point() or example.is_complex() or example.numel() == 0:
        return False
    low, high = int(example.min()), int(example.max())
    return (low, high) == (0, 1) and (example.dtype == torch.bool or example.dim() > 1)


def fitted(
    examples: Sequence[torch.Tensor], resized: Sequence[torch.Tensor], sizes: Mapping[int, int]
) -> list[torch.Tensor]:
    """The resized inputs with lengths that fit: integers up to the size of an axis scale with it.

    ``sizes`` maps the sizes of the example to the new ones.
    """
    result = []
    for example, tensor in zip(examples, resized, strict=True):
        is_integer = not (example.is_floating_point() or example.is_complex() or example.dtype == torch.bool)
        most = int(example.max()) if is_integer and example.numel() and tensor.numel() else 0
        if most in sizes and most > 0 and int(example.min()) >= 0:
            scaled = (tensor.long() * sizes[most]) // most
            tensor = torch.where(tensor > 0, scaled.clamp(min=1), tensor.long()).to(tensor.dtype)
        result.append(tensor)
    return result


def _redraw(example: torch.Tensor, resized: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    pool = example.detach().flatten()
    if pool.numel() == 0 or resized.numel() == 0:
        return resized
    if bool((pool == pool[0]).all()):
        return _around(pool[0], resized, generator)
    if pool.is_floating_point():
        rising = pool[:: -(-pool.numel() // MANY_ELEMENTS)].cpu().double().sort().values
        if _is_continuous(rising):
            return in_order_of(example, _between(rising, resized.shape, generator).to(pool))
    indices = torch.randint(pool.numel(), (resized.numel(),), generator=generator)
    return in_order_of(example, pool[indices].reshape(resized.shape))


def _is_continuous(rising: torch.Tensor) -> bool:
    """Whether most of these numbers are distinct, and some are fractional."""
    if rising.numel() < 2 or not bool(rising.isfinite().all()) or bool((rising == rising.round()).all()):
        return False
    return 2 * int((rising[1:] > rising[:-1]).sum()) >= rising.numel() - 1


def _between(rising: torch.Tensor, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Numbers between neighbours, so that few are equal: torch does not define the order of equal elements."""
    indices = torch.randint(rising.numel() - 1, shape, generator=generator)
    part = torch.rand(shape, generator=generator, dtype=rising.dtype)
    return torch.lerp(rising[indices], rising[indices + 1], part)


def in_order_of(example: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with sorted rows if those of its example are sorted: lengths fall, offsets and bin edges rise.

    Two numbers are always in an order, so it takes three floats in a row to see one.
    """
    if example.dim() == 0 or example.is_complex() or example.shape[-1] < 2 + example.is_floating_point():
        return tensor
    if example.element_size() == 1 if example.is_floating_point() else example.dim() > 1:
        return tensor  # numbers of 8 bits have no order in torch; integers in rows are tokens and positions
    later, earlier = example[..., 1:], example[..., :-1]
    if bool((later <= earlier).all()):
        return tensor.sort(descending=True).values
    return tensor.sort().values if bool((later >= earlier).all()) else tensor


def _around(value: torch.Tensor, resized: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if value.dtype == torch.bool:
        return torch.rand(resized.shape, generator=generator) < 0.75
    if value.is_floating_point() or value.is_complex():
        kind = torch.complex64 if value.is_complex() else torch.float32
        return (value + torch.randn(resized.shape, generator=generator, dtype=kind)).to(value.dtype)
    step = 1 - 2 * int(torch.randint(2, (), generator=generator))
    return torch.full_like(resized, max(int(value) + step, 0))


def last_bits_changed(tensors: Sequence[torch.Tensor], errors: int = 1) -> list[torch.Tensor]:
    """The tensors with each floating-point element changed by so many rounding errors, up or down.

    Which go up depends on the number.
    """
    generator = torch.Generator().manual_seed(errors - 1)
    inexact = [tensor.is_floating_point() or tensor.is_complex() for tensor in tensors]
    return [
        _moved(tensor, generator, errors) if moves else tensor for tensor, moves in zip(tensors, inexact, strict=True)
    ]


def _moved(tensor: torch.Tensor, generator: torch.Generator, errors: int) -> torch.Tensor:
    signs = torch.randint(2, tensor.shape, generator=generator) * 2 - 1
    return tensor * (1 + signs.to(tensor.dtype) * errors * torch.finfo(tensor.dtype).eps)
