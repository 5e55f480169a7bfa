"""What the benchmark runs: models at the width they are used at, with random weights and fewer layers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A model, its inputs at the sizes it is exported with, and at others."""

    module: nn.Module
    args: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    axes: Mapping[str, Mapping[int, str]]

    def __post_init__(self) -> None:
        # Also what wraps the model: exporters give it back in the mode in which they got it.
        self.module.eval()


@dataclass(frozen=True)
class Model:
    name: str
    family: str
    build: Callable[[], Case]


def _package(name: str) -> Any:
    # torchvision's compiled operators do not load beside torch for CPU; the tests have what stands in for them.
    return importlib.import_module("tests.models.packages").package(name)


def _enliven(module: nn.Module) -> nn.Module:
    enlivened: nn.Module = importlib.import_module("tests.models.model").enliven(module)
    return enlivened


class Called(nn.Module):
    """Tensors in by position, a tuple of tensors out: what each of the exporters takes."""

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None = None, outputs: int = 1, **fixed: Any) -> None:
        super().__init__()
        self.model, self.names, self.outputs, self.fixed = model, names, outputs, fixed

    def forward(self, *args: Tensor) -> Any:
        if self.names is None:
            result = self.model(*args, **self.fixed)
        else:
            result = self.model(**dict(zip(self.names, args, strict=True)), **self.fixed)
        if isinstance(result, Tensor):
            return result
        parts = list(result.values()) if isinstance(result, dict) else list(result)
        return tuple(parts[: self.outputs])


class Cached(nn.Module):
    """A decoder: token ids, a mask and the keys and values of each layer in; logits and the longer caches out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.cache = _package("transformers").DynamicCache

    def forward(self, ids: Tensor, mask: Tensor, *past: Tensor) -> Any:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        result = self.model(
            input_ids=ids, attention_mask=mask, past_key_values=self.cache(pairs, self.model.config), use_cache=True
        )
        layers = result.past_key_values.layers
        return (result[0], *(part for layer in layers for part in (layer.keys, layer.values)))


class Detector(nn.Module):
    """One image of torchvision's detectors in; boxes, labels and scores out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> Any:
        found = self.model([image])[0]
        return found["boxes"], found["labels"], found["scores"]


def image(library: str, kind: str, size: int = 224, *, sizes: bool = False, **config: Any) -> Callable[[], Case]:
    """A model of images of torchvision or timm; the other sizes are another batch, or also another height and width."""

    def build() -> Case:
        torch.manual_seed(0)
        if library == "timm":
            made = _package("timm").create_model(kind, pretrained=False, **config)
        else:
            made = getattr(_package(library), kind)(weights=None, **config)
        height, width = (size + 64, size - 32) if sizes else (size, size)
        axes = {0: "batch", 2: "height", 3: "width"} if sizes else {0: "batch"}
        inputs = (torch.randn(2, 3, size, size),), (torch.randn(1, 3, height, width),)
        return Case(Called(_enliven(made)), *inputs, {"image": axes})

    return build


def detector(kind: str, size: int, **config: Any) -> Callable[[], Case]:
    def build() -> Case:
        torch.manual_seed(0)
        library = _package("torchvision.models.detection")
        made = _enliven(getattr(library, kind)(weights=None, weights_backbone=None, **config))
        for name, layer in made.named_modules():
            if name.endswith(("bbox_pred", "cls_score", "cls_logits", "bbox_reg")) and hasattr(layer, "weight"):
                layer.weight.data.mul_(0.02)
        # A static size: the three exporters differ in what they let vary here.
        example = torch.rand(3, size, size)
        return Case(Detector(made), (example,), (torch.rand(3, size, size),), {"image": {}})

    return build


def _transformer(kind: str, config: Mapping[str, Any]) -> nn.Module:
    cls = getattr(_package("transformers"), kind)
    settings = cls.config_class(**config)
    settings.use_cache = False
    return _enliven(cls(settings))


def _tokens(batch: int, length: int) -> tuple[Tensor, Tensor]:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length - length // 8 :] = 0
    return torch.randint(5, 900, (batch, length)), mask


def text(kind: str, length: int = 128, **config: Any) -> Callable[[], Case]:
    """Token ids and a mask."""

    def build() -> Case:
        torch.manual_seed(0)
        axes = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
        module = Called(_transformer(kind, config), tuple(axes))
        return Case(module, _tokens(2, length), _tokens(1, length // 4), axes)

    return build


def cached(kind: str, heads: int, head_size: int, past: int = 128, **config: Any) -> Callable[[], Case]:
    """One step of generation; the other sizes read a prompt behind a short cache."""

    def build() -> Case:
        torch.manual_seed(0)
        model = _transformer(kind, config)
        layers = int(config.get("num_hidden_layers", config.get("n_layer", config.get("num_layers", 0))))
        names = [f"past.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
        axes: dict[str, dict[int, str]] = {
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "total"},
            **{name: {0: "batch", 2: "past"} for name in names},
        }

        def inputs(batch: int, length: int, before: int) -> tuple[Tensor, ...]:
            caches = (torch.randn(batch, heads, before, head_size) for _ in names)
            mask = torch.ones(batch, before + length, dtype=torch.int64)
            return torch.randint(5, 900, (batch, length)), mask, *caches

        return Case(Cached(model), inputs(2, 2, past), inputs(1, 48, 16), axes)

    return build


def pair(kind: str, length: int = 64, **config: Any) -> Callable[[], Case]:
    """An encoder-decoder: a source with a mask, and a target."""

    def build() -> Case:
        torch.manual_seed(0)
        source, target = {0: "batch", 1: "source"}, {0: "batch", 1: "target"}
        axes = {"input_ids": source, "attention_mask": source, "decoder_input_ids": target}
        module = Called(_transformer(kind, config), tuple(axes), use_cache=False)

        def inputs(batch: int, length: int, target: int) -> tuple[Tensor, ...]:
            return *_tokens(batch, length), torch.randint(5, 900, (batch, target))

        return Case(module, inputs(2, length, 32), inputs(1, length // 2, 16), axes)

    return build


def tensors(
    library: str,
    kind: str,
    inputs: Mapping[str, tuple[Sizes, Sizes]],
    axes: Mapping[str, Mapping[int, str]],
    *,
    config: Mapping[str, Any],
    method: str = "",
    integers: Mapping[str, int] | None = None,
    outputs: int = 1,
    **fixed: Any,
) -> Callable[[], Case]:
    """A model of transformers or diffusers whose inputs are tensors of these shapes, here and at the other sizes."""

    def build() -> Case:
        torch.manual_seed(0)
        if library == "transformers":
            made = _transformer(kind, config)
        else:
            made = _enliven(getattr(_package(library), kind)(**config))
        module = Called(Method(made, method) if method else made, tuple(inputs), outputs, **fixed)

        def filled(which: int) -> tuple[Tensor, ...]:
            return tuple(
                torch.randint(1, (integers or {})[name], shapes[which])
                if name in (integers or {})
                else torch.randn(shapes[which])
                for name, shapes in inputs.items()
            )

        return Case(module, filled(0), filled(1), axes)

    return build


class Method(nn.Module):
    """A method of a model as a model."""

    def __init__(self, model: nn.Module, method: str) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.model, self.method)(*args, **kwargs)
