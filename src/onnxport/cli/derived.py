"""Models of timm and transformers, with inputs from their configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from onnxport.cli.ending import CommandError, SourceRun
from onnxport.report.near_names import near

BATCH = 2
LENGTH = 8
SAMPLES = 16000


def timm_model(timm: Any, name: str, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, torch.Tensor]]:
    """A timm model by name, with an image of its default size."""
    if not timm.is_model(name.partition(".")[0]):
        raise CommandError(f"timm:{name}: timm has no model {name!r}{near(name, timm.list_models())}")
    with SourceRun(f"timm:{name}: making the model failed"):
        model = timm.create_model(name, **arguments)
    first = next(iter(inspect.signature(model.forward).parameters))
    return model, {first: _drawn((BATCH, *timm.data.resolve_model_data_config(model)["input_size"]))}


def transformers_model(transformers: Any, folder: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model in a folder, by the class in its configuration; code in the folder is not run."""
    transformers.utils.logging.disable_progress_bar()
    with SourceRun(f"{folder} cannot be loaded by transformers"):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        names = getattr(config, "architectures", None) or ["AutoModel"]
        kind = getattr(transformers, names[0], transformers.AutoModel)
        model = kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    return model.eval(), _inputs(model, config)


def _inputs(model: Any, config: Any) -> dict[str, torch.Tensor]:
    """The model's main input, and the inputs that belong to it."""
    takes = inspect.signature(model.forward).parameters
    made = {
        "input_ids": lambda: _tokens(config),
        "pixel_values": lambda: _drawn((BATCH, *_image(config))),
        "input_values": lambda: _drawn((BATCH, SAMPLES)),
        "input_features": lambda: _drawn((BATCH, _of(config, "num_mel_bins"), 2 * _of(config, "max_source_positions"))),
    }
    main = model.main_input_name
    if main not in made:
        raise CommandError(f"no inputs are known for a model that takes {main}: give them with --input")
    wanted = [
        name for name in made if name == main or (name in takes and takes[name].default is inspect.Parameter.empty)
    ]
    if "input_ids" in takes and "pixel_values" in takes:
        wanted = ["input_ids", "pixel_values"]
    inputs = {name: made[name]() for name in wanted}
    if "input_ids" in inputs and "attention_mask" in takes:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        inputs["decoder_input_ids"] = _tokens(config)
    return inputs


def _is_required(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.default is parameter.empty


def _tokens(config: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, _of(config, "vocab_size"), (BATCH, LENGTH), generator=generator)


def _image(config: Any) -> tuple[int, int, int]:
    size = _of(config, "image_size")
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return _of(config, "num_channels"), height, width


def _of(config: Any, name: str) -> Any:
    """A number in the configuration, or in its part for text or images."""
    for part in (config, *(getattr(config, f"{kind}_config", None) for kind in ("text", "vision", "audio"))):
        if getattr(part, name, None) is not None:
            return getattr(part, name)
    raise CommandError(f"the configuration has no {name}: give the inputs with --input")


def _drawn(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
