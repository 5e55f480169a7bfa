"""Decoders of text, from transformers: without a cache, and with caches as inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import Dim

from tests.models.model import Call, Model, enliven
from tests.models.packages import package
from tests.models.transformers_base import SMALL, text

GROUPED = SMALL | {"num_key_value_heads": 2}
HEADS = GROUPED | {"head_dim": 8}
EXPERTS = GROUPED | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
CLASSIC = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4}


def decoders() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, class and configuration."""
    yield "gpt2", "GPT2LMHeadModel", CLASSIC
    yield "gptj", "GPTJForCausalLM", CLASSIC | {"rotary_dim": 4}
    yield "gpt-neo", "GPTNeoForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
        "attention_types": [[["global", "local"], 1]], "window_size": 4,
    }  # fmt: skip
    yield "gpt-neox", "GPTNeoXForCausalLM", SMALL
    yield "gpt-bigcode", "GPTBigCodeForCausalLM", CLASSIC
    yield "codegen", "CodeGenForCausalLM", CLASSIC | {"rotary_dim": 4}
    yield "openai-gpt", "OpenAIGPTLMHeadModel", CLASSIC
    yield "ctrl", "CTRLLMHeadModel", CLASSIC | {"dff": 64}
    yield "llama", "LlamaForCausalLM", GROUPED
    yield "llama-eager", "LlamaForCausalLM", GROUPED | {"attn_implementation": "eager"}
    yield "llama-yarn", "LlamaForCausalLM", GROUPED | {
        "rope_parameters": {
            "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0,
        },
        "max_position_embeddings": 128,
    }  # fmt: skip
    yield "mistral", "MistralForCausalLM", GROUPED | {"sliding_window": 4}
    yield "ministral", "MinistralForCausalLM", HEADS | {"sliding_window": 4}
    yield "qwen2", "Qwen2ForCausalLM", GROUPED
    yield "qwen3", "Qwen3ForCausalLM", HEADS
    yield "gemma", "GemmaForCausalLM", HEADS
    yield "gemma2", "Gemma2ForCausalLM", HEADS | {"sliding_window": 4}
    yield "gemma3", "Gemma3ForCausalLM", HEADS | {"sliding_window": 4}
    yield "phi", "PhiForCausalLM", SMALL
    yield "phi3", "Phi3ForCausalLM", GROUPED | {"pad_token_id": 0}
    yield "falcon", "FalconForCausalLM", SMALL
    yield "falcon-alibi", "FalconForCausalLM", SMALL | {"alibi": True}
    yield "opt", "OPTForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
        "word_embed_proj_dim": 32,
    }  # fmt: skip
    yield "bloom", "BloomForCausalLM", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    yield "mpt", "MptForCausalLM", {"vocab_size": 100, "d_model": 32, "n_layers": 2, "n_heads": 4}
    yield "stablelm", "StableLmForCausalLM", GROUPED
    yield "olmo", "OlmoForCausalLM", GROUPED
    yield "olmo2", "Olmo2ForCausalLM", GROUPED
    yield "cohere", "CohereForCausalLM", GROUPED
    yield "granite", "GraniteForCausalLM", GROUPED
    yield "glm", "GlmForCausalLM", HEADS | {"pad_token_id": 0}
    yield "glm4", "Glm4ForCausalLM", HEADS | {"pad_token_id": 0}
    yield "starcoder2", "Starcoder2ForCausalLM", GROUPED
    yield "persimmon", "PersimmonForCausalLM", SMALL
    yield "nemotron", "NemotronForCausalLM", GROUPED
    yield "smollm3", "SmolLM3ForCausalLM", GROUPED | {"pad_token_id": 0}
    yield "exaone4", "Exaone4ForCausalLM", HEADS | {"sliding_window": 4}
    yield "helium", "HeliumForCausalLM", HEADS | {"pad_token_id": 0}
    yield "ernie4.5", "Ernie4_5ForCausalLM", HEADS
    yield "biogpt", "BioGptForCausalLM", SMALL
    yield "xglm", "XGLMForCausalLM", {
        "vocab_size": 100, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64,
    }  # fmt: skip
    yield "bert-decoder", "BertLMHeadModel", SMALL | {"is_decoder": True}
    heads = GROUPED | {"head_dim": 8, "pad_token_id": 0}
    yield "apertus", "ApertusModel", heads
    yield "arcee", "ArceeForCausalLM", heads
    yield "bitnet", "BitNetModel", heads
    yield "diffllama", "DiffLlamaModel", heads
    yield "doge", "DogeModel", heads
    yield "hunyuan-dense", "HunYuanDenseV1Model", heads
    yield "nanochat", "NanoChatModel", heads
    yield "cohere2", "Cohere2Model", heads | {"sliding_window": 4}
    yield "cwm", "CwmModel", heads | {"sliding_window": 4}
    yield "olmo3", "Olmo3Model", heads | {"sliding_window": 4}
    yield "gpt-neox-japanese", "GPTNeoXJapaneseModel", SMALL


def experts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "mixtral", "MixtralForCausalLM", GROUPED | {"num_local_experts": 4}
    yield "qwen2-moe", "Qwen2MoeForCausalLM", EXPERTS | {"shared_expert_intermediate_size": 32}
    yield "qwen3-moe", "Qwen3MoeForCausalLM", EXPERTS | {"head_dim": 8}
    yield "olmoe", "OlmoeForCausalLM", GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}
    yield "phimoe", "PhimoeForCausalLM", GROUPED | {"num_local_experts": 4}
    yield "granite-moe", "GraniteMoeForCausalLM", GROUPED | {"num_local_experts": 4}
    yield "gpt-oss", "GptOssForCausalLM", HEADS | {"num_local_experts": 4, "sliding_window": 4}
    yield "deepseek-v2", "DeepseekV2ForCausalLM", SMALL | _latent()
    yield "deepseek-v3", "DeepseekV3ForCausalLM", SMALL | _latent()
    yield "jetmoe", "JetMoeForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_key_value_heads": 2, "kv_channels": 8,
        "intermediate_size": 32, "num_local_experts": 4,
    }  # fmt: skip


def _latent() -> dict[str, Any]:
    return {
        "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
        "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 2,
        "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1,
    }  # fmt: skip


def recurrent() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """State-space, recurrent and mixed ones.

    Some loop over the tokens in Python, which fixes their number; some cut them into chunks.
    """
    chunks = {"length": 8, "sequence": 4 * Dim("chunks", min=2)}
    yield "mamba", "MambaForCausalLM", {
        "vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "sequence": None,
    }  # fmt: skip
    yield "mamba2", "Mamba2ForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "num_heads": 8, "head_dim": 8,
        "n_groups": 2, "chunk_size": 4, **chunks,
    }  # fmt: skip
    yield "falcon-mamba", "FalconMambaForCausalLM", {
        "vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "sequence": None,
    }  # fmt: skip
    yield "recurrent-gemma", "RecurrentGemmaForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64,
        "lru_width": 32, "attention_window_size": 8, "sequence": None,
    }  # fmt: skip
    yield "rwkv", "RwkvForCausalLM", {
        "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32,
        "intermediate_size": 64, "sequence": None,
    }  # fmt: skip
    yield "lfm2", "Lfm2ForCausalLM", GROUPED | {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8}
    yield "qwen3-next", "Qwen3NextForCausalLM", HEADS | {
        "layer_types": ["linear_attention", "full_attention"], "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    }  # fmt: skip
    yield "jamba", "JambaForCausalLM", GROUPED | {
        "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4, "use_mamba_kernels": False, "pad_token_id": 0,
        "sequence": None,
    }  # fmt: skip
    yield "zamba2", "Zamba2ForCausalLM", SMALL | {
        "layers_block_type": ["mamba", "hybrid"], "num_mem_blocks": 1, "n_mamba_heads": 8, "mamba_d_state": 4,
        "mamba_headdim": 8, "mamba_ngroups": 1, "chunk_size": 4, "use_mamba_kernels": False, "num_key_value_heads": 4,
        "attention_hidden_size": 64, "attention_head_dim": 16, "adapter_rank": 4, **chunks,
    }  # fmt: skip
    yield "bamba", "BambaForCausalLM", GROUPED | {
        "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_chunk_size": 4,
        "pad_token_id": 0, **chunks,
    }  # fmt: skip


CACHE_AXES = {0: "batch", 2: "past"}


def cached(kind: str, mask: bool = True, **config: Any) -> Callable[[], Call]:
    """One step of generation: new tokens, a cache of the keys and values so far, and the cache with the new ones."""

    def build() -> Call:
        library = package("transformers")
        cls = getattr(library, kind)
        model = enliven(cls(cls.config_class(**config)))
        with torch.no_grad():
            cache = model(torch.randint(5, 90, (2, 5)), use_cache=True).past_key_values
        kwargs = {"input_ids": torch.randint(5, 90, (2, 3)), "past_key_values": cache}
        axes = {"input_ids": {0: "batch", 1: "sequence"}}
        if mask:
            kwargs["attention_mask"] = torch.ones(2, 8, dtype=torch.long)
            axes["attention_mask"] = {0: "batch", 1: "past + sequence"}
        for layer in range(len(cache.layers)):
            axes |= {f"past_key_values.{layer}.{part}": CACHE_AXES for part in ("key", "value")}
        return Call(model, kwargs=kwargs, axes=axes)

    return build


def without_window(config: dict[str, Any]) -> dict[str, Any]:
    """With a window that no example fills: a layer that has filled its own forgets how much it has seen."""
    return {name: value for name, value in config.items() if name != "sliding_window"}


CACHED = (
    "gpt2",
    "gpt-neox",
    "llama",
    "qwen3",
    "gemma2",
    "phi3",
    "falcon",
    "opt",
    "bloom",
    "olmo2",
    "mixtral",
    "qwen2-moe",
)
FAST = {"gpt2", "llama", "gemma3", "mixtral"}


def models() -> Iterator[Model]:
    for family, rows in (("decoders", decoders()), ("mixtures of experts", experts()), ("recurrent", recurrent())):
        for name, kind, config in rows:
            yield Model(name, family, text(kind, **config), ("transformers",), fast=name in FAST)
            if name in CACHED:
                fast = name == "llama"
                yield Model(
                    f"{name}-cached",
                    "cached decoders",
                    cached(kind, **without_window(config)),
                    ("transformers",),
                    fast=fast,
                )


MODELS = tuple(models())
