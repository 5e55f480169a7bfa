"""A decoder as a function of tensors: tokens and the cache so far in, logits and the cache then out."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch

from onnxport.errors import OptionError

BATCH, SEQUENCE, PAST = "batch_size", "sequence_length", "past_sequence_length"
TOTAL = f"{PAST} + {SEQUENCE}"
PAST_NAME, PRESENT_NAME = "past_key_values.{}.{}", "present.{}.{}"
PARTS = ("key", "value")

# A prompt with an empty cache, of one row and of several, and each token after it.
CHECKED = ({PAST: 0}, {PAST: 0, BATCH: 1, SEQUENCE: 1}, {SEQUENCE: 1})

# The example. A row begins with padding, so that the mask counts.
_ROWS, _TOKENS, _BEFORE, _PADDING = 2, 3, 5, 1


@dataclass(frozen=True)
class Decoder:
    """How a decoder is exported. ``layers`` has the heads and widths of the keys and values of each layer."""

    method: Callable[..., Any]
    example: Sequence[torch.Tensor]
    layers: Sequence[tuple[tuple[int, int], tuple[int, int]]]
    takes_positions: bool

    @staticmethod
    def of(model: Any) -> Decoder:
        """The decoder that a model of transformers is."""
        takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        layers = _layers_of(model)
        method = types.MethodType(_with_cache(takes_positions), model)
        return Decoder(method, _example(model, layers, takes_positions), layers, takes_positions)

    @property
    def input_names(self) -> list[str]:
        tokens = ["input_ids", "attention_mask", *(["position_ids"] if self.takes_positions else [])]
        return [*tokens, *self._cache_names(PAST_NAME)]

    @property
    def output_names(self) -> list[str]:
        return ["logits", *self._cache_names(PRESENT_NAME)]

    @property
    def axes(self) -> dict[str, dict[int, str]]:
        """The names of the dynamic axes, of inputs and outputs."""
        tokens = {name: {0: BATCH, 1: SEQUENCE} for name in (*self.input_names[: -2 * len(self.layers)], "logits")}
        past = {name: {0: BATCH, 2: PAST} for name in self._cache_names(PAST_NAME)}
        present = {name: {0: BATCH, 2: TOTAL} for name in self._cache_names(PRESENT_NAME)}
        return {**tokens, "attention_mask": {0: BATCH, 1: TOTAL}, **past, **present}

    def _cache_names(self, form: str) -> list[str]:
        return [form.format(layer, part) for layer in range(len(self.layers)) for part in PARTS]


def _with_cache(takes_positions: bool) -> Callable[..., list[torch.Tensor]]:
    """What runs the model on a cache that is given as tensors."""

    def decode(model: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        ids, mask, *rest = tensors
        positions = {"position_ids": rest.pop(0)} if takes_positions else {}
        cache = _cache(list(zip(rest[::2], rest[1::2], strict=True)))
        result = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **positions)
        kept = [tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return [result.logits, *kept]

    return decode


def _cache(past: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None) -> Any:
    """A cache that keeps everything, also in layers that look at the last tokens alone: those have a mask."""
    from transformers import DynamicCache  # noqa: PLC0415

    return DynamicCache(past)


def _layers_of(model: Any) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """What each layer keeps, from one run."""
    with torch.no_grad():
        result = model(input_ids=torch.zeros(1, 2, dtype=torch.int64), past_key_values=_cache(), use_cache=True)
    found = []
    for place, layer in enumerate(getattr(getattr(result, "past_key_values", None), "layers", ())):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if not (_is_cache(keys) and _is_cache(values)):
            raise OptionError(
                f"layer {place} of {type(model).__name__} keeps something else than keys and values of each token: "
                "such a cache cannot be an input yet"
            )
        found.append(((keys.shape[1], keys.shape[3]), (values.shape[1], values.shape[3])))
    if not found:
        raise OptionError(f"{type(model).__name__} keeps no keys and values: it is no decoder with a cache")
    return found


def _is_cache(kept: Any) -> TypeGuard[torch.Tensor]:
    """Whether a layer keeps something for each of the two tokens that it was given."""
    return isinstance(kept, torch.Tensor) and kept.dim() == 4 and kept.shape[2] == 2


def _example(model: Any, layers: Sequence[Any], takes_positions: bool) -> list[torch.Tensor]:
    """Tokens after others, of which some are padding."""
    generator = torch.Generator().manual_seed(0)
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = torch.randint(0, vocabulary, (_ROWS, _TOKENS), generator=generator)
    mask = torch.ones(_ROWS, _BEFORE + _TOKENS, dtype=torch.int64)
    mask[0, :_PADDING] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, _BEFORE:]
    past = [
        torch.randn(_ROWS, heads, _BEFORE, width, generator=generator).to(model.dtype)
        for layer in layers
        for heads, width in layer
    ]
    return [ids, mask, *([positions] if takes_positions else []), *past]
