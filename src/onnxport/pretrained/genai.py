"""What onnxruntime-genai reads beside a decoder's file: its names, and how tokens are searched for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnxport.errors import SaveError
from onnxport.pretrained.decoder import PARTS, PAST_NAME, PRESENT_NAME, Decoder

FILE = "genai_config.json"


def write_config(file: Path, config: Any, decoder: Decoder) -> None:
    """Write the configuration beside the model's file."""
    text = json.dumps(genai_config(file.name, config, decoder), indent=4) + "\n"
    try:
        (file.parent / FILE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SaveError(f"could not write {file.parent / FILE}: {error.strerror or error}") from error


def genai_config(filename: str, config: Any, decoder: Decoder) -> dict[str, Any]:
    """The configuration of a model with a cache that grows."""
    text = config.get_text_config(decoder=True)
    length = text.max_position_embeddings
    (heads, width), _ = decoder.layers[0]
    tokens = {name: name for name in decoder.input_names[: -2 * len(decoder.layers)]}
    return {
        "model": {
            **{name: value for name, value in _tokens(config, text).items() if value is not None},
            "context_length": length,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": filename,
                "head_size": width,
                "hidden_size": text.hidden_size,
                "inputs": {**tokens, **_cache_names("past", PAST_NAME)},
                "outputs": {"logits": "logits", **_cache_names("present", PRESENT_NAME)},
                "num_attention_heads": text.num_attention_heads,
                "num_hidden_layers": len(decoder.layers),
                "num_key_value_heads": heads,
            },
            "type": text.model_type,
            "vocab_size": text.vocab_size,
        },
        "search": {"max_length": length, "past_present_share_buffer": False, "do_sample": False},
    }


def _tokens(config: Any, text: Any) -> dict[str, Any]:
    """The special tokens. A text is padded with its end where it has no token for that."""
    found = {name: getattr(config, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    found = {name: getattr(text, name, None) if value is None else value for name, value in found.items()}
    ends = found["eos_token_id"]
    if found["pad_token_id"] is None:
        found["pad_token_id"] = ends[0] if isinstance(ends, list) else ends
    return found


def _cache_names(prefix: str, form: str) -> dict[str, str]:
    return {f"{prefix}_{part}_names": form.format("%d", part) for part in PARTS}
