"""All models, by name."""

from __future__ import annotations

from tests.models import (
    audio,
    classics,
    dense,
    detection,
    diffusion,
    handwritten,
    points,
    tables,
    transformers_decoders,
    transformers_images,
    transformers_pairs,
    transformers_text,
    vision,
)
from tests.models.model import Model

FILES = (
    transformers_text,
    transformers_decoders,
    transformers_pairs,
    transformers_images,
    vision,
    dense,
    detection,
    points,
    tables,
    audio,
    classics,
    diffusion,
    handwritten,
)

MODELS: dict[str, Model] = {}
for file in FILES:
    for model in file.MODELS:
        if model.name in MODELS:
            raise ValueError(f"two models are named {model.name!r}")
        MODELS[model.name] = model
