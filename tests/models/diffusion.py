"""U-Nets, autoencoders and transformers of diffusion models, from diffusers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.models.model import Call, Model, enliven
from tests.models.packages import package

IMAGE = {0: "batch", 2: "height", 3: "width"}
BATCH = {0: "batch"}


def make(kind: str, **config: Any) -> Any:
    return enliven(getattr(package("diffusers"), kind)(**config))


def latent(batch: int = 2, channels: int = 4, size: int = 16) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)


def steps(batch: int = 2) -> torch.Tensor:
    return torch.randint(1, 900, (batch,))


def unet_conditioned() -> Call:
    model = make(
        "UNet2DConditionModel", sample_size=16, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=4, norm_num_groups=4,
    )  # fmt: skip
    kwargs = {"sample": latent(), "timestep": steps(), "encoder_hidden_states": torch.randn(2, 7, 16)}
    axes = {"sample": IMAGE, "timestep": BATCH, "encoder_hidden_states": {0: "batch", 1: "tokens"}}
    return Call(model, kwargs=kwargs, axes=axes)


def unet() -> Call:
    model = make(
        "UNet2DModel", sample_size=16, in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4, norm_num_groups=4,
    )  # fmt: skip
    kwargs = {"sample": latent(channels=3), "timestep": steps()}
    return Call(model, kwargs=kwargs, axes={"sample": IMAGE, "timestep": BATCH})


def controlnet() -> Call:
    model = make(
        "ControlNetModel", block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=16, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=4,
        conditioning_embedding_out_channels=(4, 8),
    )  # fmt: skip
    kwargs = {
        "sample": latent(size=8),
        "timestep": steps(),
        "encoder_hidden_states": torch.randn(2, 7, 16),
        "controlnet_cond": torch.randn(2, 3, 16, 16),
    }
    axes = {"encoder_hidden_states": {0: "batch", 1: "tokens"}}
    return Call(model, kwargs=kwargs, axes={**axes, **dict.fromkeys(("sample", "timestep", "controlnet_cond"), BATCH)})


def autoencoder_kl() -> Call:
    model = make(
        "AutoencoderKL", block_out_channels=(8, 16), norm_num_groups=4, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return Call(model, kwargs={"sample": latent(channels=3)}, axes={"sample": IMAGE})


def autoencoder_tiny() -> Call:
    model = make(
        "AutoencoderTiny", encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1),
    )  # fmt: skip
    return Call(model, kwargs={"sample": latent(channels=3)}, axes={"sample": IMAGE})


def vq() -> Call:
    model = make(
        "VQModel", block_out_channels=(8, 16), norm_num_groups=4, latent_channels=4, num_vq_embeddings=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return Call(model, kwargs={"sample": latent(channels=3)}, axes={"sample": IMAGE})


def dit() -> Call:
    model = make(
        "DiTTransformer2DModel", num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8,
        num_layers=2, sample_size=8, num_embeds_ada_norm=1000,
    )  # fmt: skip
    kwargs = {"hidden_states": latent(size=8), "timestep": steps(), "class_labels": torch.randint(0, 900, (2,))}
    return Call(model, kwargs=kwargs, axes=dict.fromkeys(kwargs, BATCH))


def pixart() -> Call:
    model = make(
        "PixArtTransformer2DModel", num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8,
        num_layers=2, sample_size=8, cross_attention_dim=16, caption_channels=16, use_additional_conditions=False,
    )  # fmt: skip
    kwargs = {"hidden_states": latent(size=8), "encoder_hidden_states": torch.randn(2, 7, 16), "timestep": steps()}
    axes = {"hidden_states": BATCH, "encoder_hidden_states": {0: "batch", 1: "tokens"}, "timestep": BATCH}
    return Call(model, kwargs=kwargs, axes=axes)


def sd3() -> Call:
    model = make(
        "SD3Transformer2DModel", sample_size=16, patch_size=2, in_channels=4, out_channels=4, num_layers=2,
        attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
        pooled_projection_dim=16, pos_embed_max_size=16,
    )  # fmt: skip
    kwargs = {
        "hidden_states": latent(),
        "encoder_hidden_states": torch.randn(2, 7, 16),
        "pooled_projections": torch.randn(2, 16),
        "timestep": steps(),
    }
    axes = {"hidden_states": BATCH, "encoder_hidden_states": {0: "batch", 1: "tokens"}}
    return Call(model, kwargs=kwargs, axes={**axes, "pooled_projections": BATCH, "timestep": BATCH})


def flux() -> Call:
    model = make(
        "FluxTransformer2DModel", in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8),
    )  # fmt: skip
    kwargs = {
        "hidden_states": torch.randn(2, 12, 4),
        "encoder_hidden_states": torch.randn(2, 7, 16),
        "pooled_projections": torch.randn(2, 16),
        "timestep": torch.rand(2),
        "img_ids": torch.randint(0, 5, (12, 3)).float(),
        "txt_ids": torch.zeros(7, 3),
    }
    axes = {
        "hidden_states": {0: "batch", 1: "pixels"}, "encoder_hidden_states": {0: "batch", 1: "tokens"},
        "pooled_projections": BATCH, "timestep": BATCH, "img_ids": {0: "pixels"}, "txt_ids": {0: "tokens"},
    }  # fmt: skip
    return Call(model, kwargs=kwargs, axes=axes)


def wan() -> Call:
    model = make(
        "WanTransformer3DModel", patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4,
        out_channels=4, text_dim=16, freq_dim=16, ffn_dim=32, num_layers=2, rope_max_seq_len=32,
    )  # fmt: skip
    kwargs = {
        "hidden_states": torch.randn(2, 4, 2, 8, 8),
        "timestep": steps(),
        "encoder_hidden_states": torch.randn(2, 7, 16),
    }
    axes = {"hidden_states": BATCH, "timestep": BATCH, "encoder_hidden_states": {0: "batch", 1: "tokens"}}
    return Call(model, kwargs=kwargs, axes=axes)


def temporal_unet() -> Call:
    model = make(
        "UNetSpatioTemporalConditionModel", sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 32),
        layers_per_block=1, cross_attention_dim=16, num_attention_heads=(2, 2), addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=24,
        down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
        up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
    )  # fmt: skip
    kwargs = {
        "sample": torch.randn(2, 3, 4, 16, 16),
        "timestep": steps(),
        "encoder_hidden_states": torch.randn(2, 1, 16),
        "added_time_ids": torch.rand(2, 3),
    }
    return Call(model, kwargs=kwargs, axes=dict.fromkeys(kwargs, BATCH))


def rows() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "unet2d-conditioned", unet_conditioned
    yield "unet2d", unet
    yield "controlnet", controlnet
    yield "autoencoder-kl", autoencoder_kl
    yield "autoencoder-tiny", autoencoder_tiny
    yield "vq-model", vq
    yield "dit", dit
    yield "pixart", pixart
    yield "sd3", sd3
    yield "flux", flux
    yield "wan", wan
    yield "unet-spatio-temporal", temporal_unet


FAST = {"flux"}
MODELS = tuple(
    Model(name, "diffusion", build, ("diffusers", "transformers"), fast=name in FAST) for name, build in rows()
)
