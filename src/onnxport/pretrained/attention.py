"""Attention as transformers' own, in the form that is exported.

transformers repeats the keys and values of grouped heads where there is a mask, and leaves the mask out where its
values allow that. Here heads are grouped by the operator, and the mask is there always: one graph serves every mask.
"""

from __future__ import annotations

from typing import Any

import torch

IMPLEMENTATION = "onnxport"


def register(transformers: Any) -> None:
    """Has transformers know this kind of attention by its name."""

    def mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
        allowed = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        made: torch.Tensor | None = transformers.masking_utils.sdpa_mask(*args, **{**kwargs, **allowed})
        return made

    def attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        if attention_mask is None or kwargs.get("position_bias") is not None:
            own = transformers.integrations.sdpa_attention.sdpa_attention_forward
            found: tuple[torch.Tensor, None] = own(module, query, key, value, attention_mask, **kwargs)
            return found
        return _grouped(query, key, value, attention_mask, kwargs.get("scaling"))

    transformers.AttentionInterface.register(IMPLEMENTATION, attention)
    transformers.AttentionMaskInterface.register(IMPLEMENTATION, mask)


def _grouped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float | None
) -> tuple[torch.Tensor, None]:
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )
    return result.transpose(1, 2).contiguous(), None
