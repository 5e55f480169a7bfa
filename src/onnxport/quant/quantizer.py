"""One quantizer: what it has seen of a tensor, the scale and zero point that follow, and the rounding."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn

from onnxport.quant.settings import Settings

# The part of the range so far that each step of training replaces, as torch's own observers have it.
AVERAGING = 0.01
# The part of the magnitudes that the observer "percentile" keeps.
KEPT = 0.999
INT32 = (-(2**31), 2**31 - 1)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The integers of a quantizer, and the axis that its scales are along; ``group`` weights share a scale."""

    low: int
    high: int
    symmetric: bool
    axis: int | None = None
    group: int | None = None

    @staticmethod
    def of_weight(settings: Settings, axis: int | None, grouped: bool) -> Grid:
        """Without the lowest integer, which has no opposite: a norm behind the layer may turn signs."""
        high = 2 ** (settings.weight_bits - 1) - 1
        group = settings.group if grouped else None
        return Grid(-high, high, True, axis if settings.per_channel or group is not None else None, group)

    @staticmethod
    def of_activation(settings: Settings) -> Grid:
        assert settings.activation_bits is not None
        count = 2**settings.activation_bits
        symmetric = settings.has_symmetric_activations
        return Grid(-count // 2 if symmetric else 0, count // 2 - 1 if symmetric else count - 1, symmetric)

    def groups(self, weight: torch.Tensor) -> torch.Tensor:
        """The weights that share a scale, in a row each. ``axis`` is that of the layer's outputs."""
        assert self.group is not None
        return (weight.t() if self.axis == 1 else weight).reshape(-1, self.group)

    def ungrouped(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """A weight from the rows of `groups`."""
        return rows.view_as(weight.t()).t() if self.axis == 1 else rows.view_as(weight)

    def packed(self) -> torch.Tensor:
        """What a checkpoint says of it."""
        numbers = [self.low, self.high, int(self.symmetric), self.axis, self.group]
        return torch.tensor([-1 if number is None else number for number in numbers])

    @staticmethod
    def unpacked(content: torch.Tensor) -> Grid:
        low, high, symmetric, axis, group = content.tolist()
        return Grid(low, high, bool(symmetric), None if axis < 0 else axis, None if group < 0 else group)


class Quantizer(nn.Module):
    """Rounds a tensor to what integers hold. It learns in training and calibration, and passes floats on before.

    ``is_weight`` says that it sees one tensor that changes slowly: its range is that of the present content.
    """

    def __init__(self, grid: Grid, settings: Settings, *, is_weight: bool) -> None:
        super().__init__()
        self.grid = grid
        self.observer = settings.observer
        self.power_of_two = settings.power_of_two
        self.is_weight = is_weight
        self.calibrating = False
        self.enabled = True
        for name in ("scale", "minimum", "maximum"):
            self.register_buffer(name, torch.empty(0))
        self.register_buffer("zero_point", torch.empty(0, dtype=torch.int32))
        self.register_buffer("form", grid.packed())

    @property
    def has_data(self) -> bool:
        return self.scale.numel() > 0

    @property
    def learns(self) -> bool:
        return (self.training and self.observer != "learned") or self.calibrating

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.enabled:
            return x
        if self.learns or (self.training and not self.has_data):
            if self._runs_fused(x):
                return self._fused(x)
            self._learn(x.detach())
        return self._rounded(x) if self.has_data else x

    def _rounded(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.grid.low, self.grid.high
        if self.grid.group is not None:
            rows = self.grid.groups(x)
            rounded = torch.fake_quantize_per_channel_affine(rows, self.scale, self.zero_point, 0, low, high)
            return self.grid.ungrouped(rounded, x)
        if isinstance(self.scale, nn.Parameter):
            return self._learned(x)
        if self.grid.axis is None:
            return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, low, high)
        return torch.fake_quantize_per_channel_affine(x, self.scale, self.zero_point, self.grid.axis, low, high)

    def _learned(self, x: torch.Tensor) -> torch.Tensor:
        """With gradients of scale and zero point, as torch's kernel has them; small enough not to drown the others."""
        low, high = self.grid.low, self.grid.high
        with torch.no_grad():
            if self.training:
                self.scale.clamp_(min=torch.finfo(self.scale.dtype).eps)
        factor = 1 / (max(x.numel(), 1) * max(high, 1)) ** 0.5
        aten = torch.ops.aten
        parameters = (x, self.scale, self.zero_point)
        if self.grid.axis is None:
            rounded = aten._fake_quantize_learnable_per_tensor_affine(*parameters, low, high, factor)
        else:
            rounded = aten._fake_quantize_learnable_per_channel_affine(*parameters, self.grid.axis, low, high, factor)
        return torch.as_tensor(rounded)

    # What is learned

    def _runs_fused(self, x: torch.Tensor) -> bool:
        """Whether torch's kernel that observes and rounds at once does what is asked."""
        plain = self.observer == "minmax" and not self.power_of_two and not self.grid.symmetric
        return plain and self.grid.axis is None and self.training and not self.calibrating and not self.is_weight

    def _fused(self, x: torch.Tensor) -> torch.Tensor:
        if not self.has_data:
            self.minimum, self.maximum = x.new_tensor([float("inf")]), x.new_tensor([float("-inf")])
            self.scale, self.zero_point = x.new_ones(1), torch.zeros(1, dtype=torch.int32, device=x.device)
        on = torch.ones(1, dtype=torch.int64, device=x.device)
        low, high = self.grid.low, self.grid.high
        return torch.fused_moving_avg_obs_fake_quant(
            x, on, on, self.minimum, self.maximum, self.scale, self.zero_point, AVERAGING, low, high, -1
        )

    def _learn(self, x: torch.Tensor) -> None:
        low, high = _range(x, self.grid, self.observer)
        if self.minimum.numel() and not self.is_weight:
            if self.calibrating:
                low, high = torch.minimum(low, self.minimum), torch.maximum(high, self.maximum)
            else:
                low, high = self.minimum.lerp(low, AVERAGING), self.maximum.lerp(high, AVERAGING)
        self.minimum, self.maximum = low, high
        scale, zero = _parameters(low, high, self.grid, power_of_two=self.power_of_two)
        if self.observer != "learned":
            self.scale, self.zero_point = scale, zero
        elif not isinstance(self.scale, nn.Parameter):
            self._make_learned(scale, zero)
        else:
            self.scale.data, self.zero_point.data = scale, zero.float()

    def _make_learned(self, scale: torch.Tensor, zero: torch.Tensor) -> None:
        del self.scale, self.zero_point
        self.scale = nn.Parameter(scale)
        self.zero_point = nn.Parameter(zero.float(), requires_grad=not self.grid.symmetric)

    # Checkpoints

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool, missing: list[str], *rest: Any
    ) -> None:
        """Take what a checkpoint has, whatever its shape. A float one has nothing for quantizers."""
        stored = {name: state_dict.get(prefix + name) for name in ("form", "minimum", "maximum", "scale", "zero_point")}
        known = {name: content for name, content in stored.items() if content is not None}
        if known:
            missing += [prefix + name for name in stored if name not in known]
        if len(known) < len(stored):
            return
        tensors = {name: content.detach().clone().to(self.form.device) for name, content in known.items()}
        self.grid = Grid.unpacked(tensors["form"])
        if self.observer == "learned" and tensors["scale"].numel() and not isinstance(self.scale, nn.Parameter):
            self._make_learned(tensors["scale"], tensors["zero_point"])
        for name, content in tensors.items():
            if isinstance(getattr(self, name), nn.Parameter):
                getattr(self, name).data = content.float()
            else:
                setattr(self, name, content.to(torch.int32) if name == "zero_point" else content)


def _range(x: torch.Tensor, grid: Grid, observer: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The lowest and highest element that count, of the tensor or of each channel."""
    if grid.group is not None:
        rows = grid.groups(x)
    else:
        rows = x.reshape(1, -1) if grid.axis is None else x.transpose(0, grid.axis).flatten(1)
    if observer != "percentile":
        return rows.amin(1), rows.amax(1)
    most = max(round(KEPT * rows.shape[1]), 1)
    kept = rows.abs().kthvalue(most, 1).values
    return torch.maximum(rows.amin(1), -kept), torch.minimum(rows.amax(1), kept)


def _parameters(
    low: torch.Tensor, high: torch.Tensor, grid: Grid, *, power_of_two: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and zero point for a range, in which 0 is always exact."""
    low, high = low.clamp(max=0).float(), high.clamp(min=0).float()
    if grid.symmetric:
        scale = torch.maximum(-low, high) / grid.high
    else:
        scale = (high - low) / (grid.high - grid.low)
    scale = scale.clamp(min=torch.finfo(torch.float32).eps)
    if power_of_two:
        scale = scale.log2().ceil().exp2()
    if grid.symmetric:
        return scale, torch.zeros_like(scale, dtype=torch.int32)
    zero = (grid.low - low / scale).round().clamp(grid.low, grid.high)
    return scale, zero.to(torch.int32)


class BiasQuantizer(nn.Module):
    """Rounds a bias to 32 bits in steps of what it is added to: the scale of a layer's input times its weight's.

    ``nothing`` is the bias of a layer that has none; a norm behind the layer may give it one in the file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pair: tuple[Quantizer, Quantizer] | None = None
        self.register_buffer("scale", torch.empty(0))
        self.register_buffer("zero_point", torch.empty(0, dtype=torch.int32), persistent=False)
        self.register_buffer("nothing", torch.empty(0), persistent=False)

    def learn(self, x: Quantizer, weight: Quantizer, channels: int) -> None:
        """Take the scales of a layer's input and weight as they are."""
        with torch.no_grad():
            scale = x.scale.detach() * weight.scale.detach()
            self._set(scale, channels)

    def _set(self, scale: torch.Tensor, channels: int) -> None:
        self.scale = scale
        self.zero_point = torch.zeros(scale.shape, dtype=torch.int32, device=scale.device)
        self.nothing = torch.zeros(channels, device=scale.device)

    def forward(self, bias: torch.Tensor | None) -> torch.Tensor | None:
        if not self.scale.numel():
            return bias
        bias = self.nothing if bias is None else bias
        if self.scale.numel() == 1 and bias.numel() > 1:
            return torch.fake_quantize_per_tensor_affine(bias, self.scale, self.zero_point, *INT32)
        return torch.fake_quantize_per_channel_affine(bias, self.scale, self.zero_point, 0, *INT32)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        scale = state_dict.get(f"{prefix}scale")
        if scale is not None:
            self._set(scale.detach().clone().to(self.scale.device), max(scale.numel(), self.nothing.numel()))
