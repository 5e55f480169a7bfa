"""Training in float with clamped weights and activations, from which a quantized model starts with small ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional

from onnxport.report.tracebacks import public

Model = TypeVar("Model", bound=nn.Module)

LAYERS = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Linear,
)


class _ClampedWeight(nn.Module):
    """A weight within some times its mean magnitude."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        bound = self.factor * weight.detach().abs().mean()
        return weight.clamp(-bound, bound)


class _ClampResult:
    """A hook that keeps what a layer gives within bounds."""

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def __call__(self, module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        return functional.hardtanh(result, -self.bound, self.bound)


@public
def constrain(model: Model, activations: float | None = 8.0, weight_factor: float | None = 7.0) -> Model:
    """Let convolutions and linear layers clamp what they give to ±activations, and their weights to ±weight_factor
    times the mean magnitude. The model is changed in place; `init` and `remove` store the clamped weights and end it.
    """
    for name, bound in (("activations", activations), ("weight_factor", weight_factor)):
        if bound is not None and not (isinstance(bound, (int, float)) and bound > 0):
            raise ValueError(f"{name} must be positive or None, not {bound!r}")
    layers = [module for module in model.modules() if isinstance(module, LAYERS)]
    if any(_is_constrained(layer) for layer in layers):
        raise ValueError("the model is already constrained: quant.remove(model) undoes it")
    for layer in layers:
        if weight_factor is not None:
            nn.utils.parametrize.register_parametrization(layer, "weight", _ClampedWeight(weight_factor))
        if activations is not None:
            layer.register_forward_hook(_ClampResult(activations))
    return model


def _is_constrained(layer: nn.Module) -> bool:
    hooks: Mapping[int, Any] = layer._forward_hooks
    return _clamps_weight(layer) or any(isinstance(hook, _ClampResult) for hook in hooks.values())


def _clamps_weight(layer: nn.Module) -> bool:
    if not nn.utils.parametrize.is_parametrized(layer, "weight"):
        return False
    return any(isinstance(module, _ClampedWeight) for module in layer.parametrizations.weight)  # type: ignore[union-attr]


def settle_constraints(model: nn.Module) -> None:
    """Store the clamped weights, and clamp nothing any more."""
    for layer in [module for module in model.modules() if isinstance(module, LAYERS)]:
        if _clamps_weight(layer):
            nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
        for key in [key for key, hook in layer._forward_hooks.items() if isinstance(hook, _ClampResult)]:
            del layer._forward_hooks[key]
