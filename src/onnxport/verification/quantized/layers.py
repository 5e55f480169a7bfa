"""What the packed layers of torch.ao give by their definition.

Their kernels differ from CPU to CPU: some add products in 16 bits, and saturate where inputs go beyond those that the
layer was calibrated with. So they are no reference for the integers of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional as F

Arguments = Mapping[str, Any]
Quantized = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
CONVOLUTIONS: Mapping[str, Callable[..., torch.Tensor]] = {"1": F.conv1d, "2": F.conv2d, "3": F.conv3d}


def _floats(x: torch.Tensor) -> torch.Tensor:
    return (x.int_repr().double() - x.q_zero_point()) * x.q_scale()


def _rounded(y: torch.Tensor, scale: float, zero: int, relu: bool) -> Quantized:
    """The numbers before they are rounded, integers, floats and the scale."""
    steps = (y.clamp(min=0) if relu else y) / scale + zero
    integers = steps.round().clamp(0, 255)
    return steps, integers, ((integers - zero) * scale).float(), torch.tensor(scale, dtype=torch.float64)


def _convolution(rank: str, relu: bool) -> Callable[[Arguments], Quantized]:
    def convolved(a: Arguments) -> Quantized:
        packed = a["packed_weight"] if "packed_weight" in a else a["weight"]
        weight, bias = packed.unpack()
        spatial = int(rank)
        # A 1D convolution is packed as a 2D one with one row.
        weight = weight.dequantize().double().reshape(*weight.shape[:2], *weight.shape[-spatial:])
        numbers = (list(getattr(packed, name)())[-spatial:] for name in ("stride", "padding", "dilation"))
        bias = None if bias is None else bias.double()
        y = CONVOLUTIONS[rank](_floats(a["qx"]), weight, bias, *numbers, packed.groups())
        return _rounded(y, a["output_scale"], a["output_zero_point"], relu)

    return convolved


def _linear(relu: bool) -> Callable[[Arguments], Quantized]:
    def multiplied(a: Arguments) -> Quantized:
        weight, bias = a["W_prepack"].unpack()
        y = F.linear(_floats(a["X"]), weight.dequantize().double(), None if bias is None else bias.double())
        return _rounded(y, a["Y_scale_i"], a["Y_zero_point_i"], relu)

    return multiplied


LAYERS: Mapping[str, Callable[[Arguments], Quantized]] = {
    **{f"quantized::conv{rank}d{act}": _convolution(rank, bool(act)) for rank in "123" for act in ("", "_relu")},
    **{f"quantized::linear{act}": _linear(bool(act)) for act in ("", "_relu")},
}
