"""The example models by name, each with what an export of it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from examples.language import Encoder, WordLanguageModel
from examples.pillars import PillarFeatures
from examples.vision import AlexNet, DCGANGenerator, DenseNet121, ResNet50, SuperResolution

SEED = 0
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class Example:
    """A model, inputs for it, and what its inputs, outputs and free axes are called."""

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    dynamic_axes: Mapping[str, Mapping[int, str]]

    def build(self) -> tuple[nn.Module, tuple[Any, ...]]:
        """The model in evaluation mode with its example inputs, the same each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            model, inputs = self.module(), self.inputs()
            _settle(model, inputs)
        return model.eval(), inputs


def _settle(model: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Give batch norms the statistics and weights of a trained model, for values that mean something when compared."""
    norms = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
    if not norms:
        return
    for norm in norms:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.1)
        norm.momentum = None  # the running statistics become those of the one batch seen
    model.train()
    with torch.no_grad():
        model(*inputs)
    for norm in norms:
        norm.momentum = 0.1


def _image(name: str, module: Callable[[], nn.Module], *shape: int) -> Example:
    return Example(
        name,
        module,
        inputs=lambda: (torch.randn(2, *shape),),
        input_names=("input",),
        output_names=("output",),
        dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
    )


def _words(time: int = 35, batch: int = 4, size: int = 200, layers: int = 2) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    state = torch.randn(layers, batch, size), torch.randn(layers, batch, size)
    return torch.randint(0, 10_000, (time, batch)), state


def _sentences(batch: int = 1, time: int = 128) -> tuple[Tensor, Tensor]:
    mask = torch.ones(batch, time, dtype=torch.long)
    mask[:, -time // 8 :] = 0
    return torch.randint(1, 30_522, (batch, time)) * mask, mask


def _pillars(pillars: int = 200, points: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    counts = torch.randint(1, points + 1, (pillars,))
    cells = torch.stack(
        [torch.zeros(pillars, dtype=torch.long), torch.zeros(pillars, dtype=torch.long)]
        + [torch.randint(0, size, (pillars,)) for size in (496, 432)],
        dim=1,
    )
    return torch.randn(pillars, points, 4), counts, cells


ALEXNET = _image("AlexNet", AlexNet, 3, 224, 224)
RESNET50 = _image("ResNet-50", ResNet50, 3, 224, 224)
DENSENET121 = _image("DenseNet-121", DenseNet121, 3, 224, 224)
DCGAN = _image("DCGAN generator", DCGANGenerator, 100, 1, 1)
SUPER_RESOLUTION = _image("super-resolution", SuperResolution, 1, 224, 224)

WORD_LANGUAGE_MODEL = Example(
    "LSTM language model",
    WordLanguageModel,
    inputs=_words,
    input_names=("words", "hidden", "cell"),
    output_names=("log_probabilities", "hidden_after", "cell_after"),
    dynamic_axes={
        "words": {0: "time", 1: "batch"},
        "hidden": {1: "batch"},
        "cell": {1: "batch"},
        "log_probabilities": {0: "time", 1: "batch"},
        "hidden_after": {1: "batch"},
        "cell_after": {1: "batch"},
    },
)

PILLARS = Example(
    "point pillars",
    PillarFeatures,
    inputs=_pillars,
    input_names=("points", "counts", "cells"),
    output_names=("features",),
    dynamic_axes={name: {0: "pillars"} for name in ("points", "counts", "cells", "features")},
)

ENCODER = Example(
    "BERT-like encoder",
    Encoder,
    inputs=_sentences,
    input_names=("ids", "mask"),
    output_names=("hidden_states",),
    dynamic_axes={name: {0: "batch", 1: "time"} for name in ("ids", "mask", "hidden_states")},
)

CLASSIC = (ALEXNET, RESNET50, DCGAN, SUPER_RESOLUTION, WORD_LANGUAGE_MODEL, PILLARS)
ALL = (*CLASSIC, DENSENET121, ENCODER)
