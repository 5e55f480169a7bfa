"""How models of transformers are made and called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim

from tests.models.model import Call, enliven
from tests.models.packages import package

SMALL = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
}  # fmt: skip
TEXT = {0: "batch", 1: "sequence"}


def token_ids(batch: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(5, 90, (batch, length))


def make(kind: str, *, lively: bool = True, **config: Any) -> Any:
    """A model of transformers: ``kind`` is the name of its class.

    Not ``lively`` are those whose own rounding grows too large with larger weights.
    """
    library = package("transformers")
    cls = getattr(library, kind)
    made = cls.config_class(**config)
    made.use_cache = False
    return enliven(cls(made)) if lively else cls(made).eval()


def text(kind: str, length: int = 7, sequence: Any = "sequence", **config: Any) -> Callable[[], Call]:
    """Token ids and a mask in which the first row is padded at its end.

    ``sequence`` is the name of the second axis; a `Dim`, for models that only take some lengths; None if it is fixed.
    """

    def build() -> Call:
        ids = token_ids(2, length)
        mask = torch.ones_like(ids)
        mask[0, -2:] = 0
        kwargs = {"input_ids": ids, "attention_mask": mask}
        model = make(kind, **config)
        if isinstance(sequence, str):
            return Call(model, kwargs=kwargs, axes={name: {0: "batch", 1: sequence} for name in kwargs})
        return Call(model, kwargs=kwargs, shapes={name: {0: Dim("batch"), 1: sequence} for name in kwargs})

    return build
