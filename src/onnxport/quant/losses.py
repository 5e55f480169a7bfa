"""What quantization costs, layer by layer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.quant.model import quantizers_of
from onnxport.quant.quantizer import Quantizer
from onnxport.report.tracebacks import public


@dataclass(frozen=True)
class LayerLoss:
    """How far the results of a model move if this layer alone is quantized, as a part of their magnitude."""

    layer: str
    loss: float


@public
def report(model: nn.Module, inputs: Any) -> list[LayerLoss]:
    """The loss of each layer on some inputs (the arguments of a call), the largest first. Nothing is learned."""
    quantizers = quantizers_of(model)
    if not any(quantizer.has_data for quantizer in quantizers.named().values()):
        raise ValueError("no quantizer of the model has seen data: use quant.calibration(model), or train it")
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    layers: dict[str, list[Quantizer]] = {}
    for name, quantizer in quantizers.named().items():
        layers.setdefault(name.rpartition(".")[0] or name, []).append(quantizer)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad(), _all_off(quantizers.named()):
            plain = _results(model, args)
            losses = [LayerLoss(name, _moved(model, args, plain, own)) for name, own in layers.items()]
    finally:
        for module, mode in modes.items():
            module.training = mode
    return sorted(losses, key=lambda found: -found.loss)


@contextlib.contextmanager
def _all_off(quantizers: Mapping[str, Quantizer]) -> Iterator[None]:
    for quantizer in quantizers.values():
        quantizer.enabled = False
    try:
        yield
    finally:
        for quantizer in quantizers.values():
            quantizer.enabled = True


def _moved(model: nn.Module, args: tuple[Any, ...], plain: list[torch.Tensor], own: list[Quantizer]) -> float:
    for quantizer in own:
        quantizer.enabled = True
    results = _results(model, args)
    for quantizer in own:
        quantizer.enabled = False
    distance = sum(float((left - right).square().sum()) for left, right in zip(results, plain, strict=True))
    magnitude = sum(float(tensor.square().sum()) for tensor in plain)
    return (distance / magnitude) ** 0.5 if magnitude else 0.0


def _results(model: nn.Module, args: tuple[Any, ...]) -> list[torch.Tensor]:
    leaves = compat.leaves(model(*args))
    return [leaf.double() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
