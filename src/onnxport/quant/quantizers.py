"""The quantizers of a model: a module of it, so that they move, are saved and are loaded with it."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from onnxport.quant.quantizer import BiasQuantizer, Grid, Quantizer
from onnxport.quant.settings import Plan

NAME = "quantizers"


class Quantizers(nn.Module):
    """The quantizers of a model, by the paths of what they round. They are made when the model first runs."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.calibrating = False

    def forward(self, x: Any) -> Any:
        """As the last module of a Sequential it is called, too."""
        return x

    def get(self, name: str) -> nn.Module | None:
        return self._modules.get(_key(name))

    def add(self, name: str, quantizer: nn.Module, device: torch.device) -> None:
        self.add_module(_key(name), quantizer.to(device).train(self.training))
        if isinstance(quantizer, Quantizer):
            quantizer.calibrating = self.calibrating

    def named(self) -> dict[str, Quantizer]:
        """The quantizers of weights and activations."""
        return {_path(key): module for key, module in self._modules.items() if isinstance(module, Quantizer)}

    def calibrate(self, on: bool) -> None:
        self.calibrating = on
        for quantizer in self.named().values():
            quantizer.calibrating = on

    def train(self, mode: bool = True) -> Quantizers:
        """Where scales are learned, those of biases follow when training ends."""
        if not mode:
            for module in self._modules.values():
                if isinstance(module, BiasQuantizer) and module.pair is not None and module.scale.numel():
                    module.learn(*module.pair, module.nothing.numel())
        return super().train(mode)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Make the quantizers that a checkpoint has and the model has not yet; each then loads itself."""
        pattern = re.compile(re.escape(prefix) + r"([^.]+)\.scale")
        for key in [found[1] for entry in state_dict if (found := pattern.fullmatch(entry))]:
            if key in self._modules:
                continue
            form = state_dict.get(f"{prefix}{key}.form")
            scale = state_dict[f"{prefix}{key}.scale"]
            if form is None:
                self.add(_path(key), BiasQuantizer(), scale.device)
                continue
            settings = self.plan.of(_path(key).rpartition(".")[0]) or self.plan.default
            is_weight = _path(key).rpartition(".")[2].startswith("weight")
            self.add(_path(key), Quantizer(Grid.unpacked(form), settings, is_weight=is_weight), scale.device)


def _key(name: str) -> str:
    """Names of modules have no dots."""
    return name.replace(".", "/")


def _path(key: str) -> str:
    return key.replace("/", ".")
