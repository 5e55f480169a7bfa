"""What a row of the table of models is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

Axes = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Call:
    """A model and how it is exported: an example call and the axes that vary naturally."""

    model: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    axes: Axes | None = None
    shapes: Any = None
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    opset: int | None = None
    # Random numbers are drawn by the model itself: outputs are compared by shape and dtype.
    random: bool = False


@dataclass(frozen=True)
class Model:
    """``build`` makes it from a configuration, with random weights. ``fast`` ones are tests in CI."""

    name: str
    family: str
    build: Callable[[], Call]
    packages: tuple[str, ...] = ()
    fast: bool = False


@torch.no_grad()
def enliven(model: nn.Module) -> nn.Module:
    """In evaluation mode, with weights that make every part count.

    Freshly made models have zeros for biases and gates, ones for scales and tiny matrices: a part that is exported
    wrongly would hardly be seen. With tiny scales of normalizations the results do not even depend on the inputs.
    """
    for parameter in model.parameters():
        if not parameter.is_floating_point() or parameter.numel() < 2:
            continue
        spread = float(parameter.std())
        if parameter.dim() < 2:
            if spread == 0:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            continue
        wanted = 1 / math.sqrt(parameter[0].numel())
        if spread == 0:
            parameter.add_(torch.randn_like(parameter), alpha=wanted)
        elif spread < wanted / 2:
            parameter.mul_(wanted / spread)
    for module in model.modules():
        if isinstance(getattr(module, "running_var", None), torch.Tensor):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            if isinstance(module.weight, torch.Tensor) and float(module.weight.abs().max()) < 0.1:
                module.weight.add_(1)
    return model.eval()
