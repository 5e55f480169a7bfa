"""Vision, vision-language and time-series models, from transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import Dim

from tests.models.model import Call, Model
from tests.models.transformers_base import TEXT, make, token_ids

LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
PATCHES = LAYERS | {"image_size": 32, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
BATCH = {0: "batch"}
ANY_SIZE = {0: "batch", 2: "height", 3: "width"}
DECODER = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 5,
}  # fmt: skip


def resnet() -> dict[str, Any]:
    return {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "out_features": ["stage2"],
    }


def image(kind: str, size: int = 32, axes: dict[int, str] | None = None, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        model = make(kind, **config)
        return Call(model, kwargs={"pixel_values": torch.randn(2, 3, size, size)}, axes={"pixel_values": axes or BATCH})

    return build


def vision() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "vit", image("ViTForImageClassification", **PATCHES)
    yield "deit", image("DeiTModel", **PATCHES)
    yield "beit", image("BeitModel", use_relative_position_bias=True, **PATCHES)
    yield "data2vec-vision", image("Data2VecVisionModel", use_shared_relative_position_bias=True, **PATCHES)
    yield (
        "swin",
        image("SwinModel", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    )
    yield (
        "swinv2",
        image("Swinv2Model", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    )
    yield "dinov2", image("Dinov2Model", **PATCHES)
    yield "dinov2-registers", image("Dinov2WithRegistersModel", **PATCHES)
    yield "dinov3", image("DINOv3ViTModel", axes=ANY_SIZE, **PATCHES)
    yield "ijepa", image("IJepaModel", **PATCHES)
    yield "vit-msn", image("ViTMSNModel", **PATCHES)
    yield "convnext-transformers", image("ConvNextModel", 64, ANY_SIZE, **STAGES)
    yield "convnextv2", image("ConvNextV2Model", 64, ANY_SIZE, **STAGES)
    yield (
        "segformer",
        image(
            "SegformerForSemanticSegmentation",
            64,
            ANY_SIZE,
            num_attention_heads=[1, 2, 3, 4],
            decoder_hidden_size=16,
            **STAGES,
        ),
    )
    yield "pvt-v2", image("PvtV2ForImageClassification", 64, num_attention_heads=[1, 2, 3, 4], image_size=64, **STAGES)
    yield "poolformer", image("PoolFormerModel", 64, ANY_SIZE, **STAGES)
    yield "resnet-hf", image("ResNetModel", 64, ANY_SIZE, embedding_size=8, **STAGES)
    yield (
        "mobilevit",
        image(
            "MobileViTModel", 64, image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32]
        ),
    )
    yield "mobilenet-v1-hf", image("MobileNetV1Model", 64, ANY_SIZE, depth_multiplier=0.25)
    yield "mobilenet-v2-hf", image("MobileNetV2Model", 64, ANY_SIZE, depth_multiplier=0.35)
    yield "levit", image(
        "LevitModel", 64, image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    )  # fmt: skip
    yield "bit", image("BitModel", 64, ANY_SIZE, embedding_size=8, num_groups=4, **STAGES)
    yield "hiera", image(
        "HieraModel", 32, image_size=[32, 32], patch_size=[3, 3], patch_stride=[4, 4], patch_padding=[1, 1],
        masked_unit_size=[2, 2], embed_dim=8, depths=[1, 1], num_heads=[1, 2], query_stride=[2, 2], num_query_pool=1,
    )  # fmt: skip
    yield "dpt", image(
        "DPTForDepthEstimation", neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
        backbone_out_indices=[0, 1, 2, 3],
        **(PATCHES | {"num_hidden_layers": 4, "is_hybrid": False}),
    )  # fmt: skip
    yield (
        "glpn",
        image("GLPNForDepthEstimation", 64, num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16, **STAGES),
    )
    yield "upernet", image("UperNetForSemanticSegmentation", 64, backbone_config=resnet(), hidden_size=16, num_labels=4,
                           pool_scales=[1, 2], auxiliary_in_channels=16, use_auxiliary_head=False)  # fmt: skip
    yield (
        "detr",
        image(
            "DetrForObjectDetection",
            64,
            backbone_config=resnet(),
            use_timm_backbone=False,
            backbone=None,
            num_labels=4,
            **DECODER,
        ),
    )
    yield "conditional-detr", image(
        "ConditionalDetrForObjectDetection", 64, backbone_config=resnet(), use_timm_backbone=False, backbone=None,
        num_labels=4, **DECODER,
    )  # fmt: skip
    yield "rt-detr", image(
        "RTDetrForObjectDetection", 64, num_labels=4, d_model=32, encoder_hidden_dim=32,
        encoder_in_channels=[8, 16, 32], feat_strides=[8, 16, 32], encoder_ffn_dim=32, encoder_attention_heads=4,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32, decoder_attention_heads=4, decoder_layers=1, num_queries=5, num_denoising=0,
        backbone_config={
            "model_type": "rt_detr_resnet", "embedding_size": 8, "hidden_sizes": [8, 8, 16, 32], "depths": [1, 1, 1, 1],
            "out_features": ["stage2", "stage3", "stage4"],
        },
    )  # fmt: skip
    yield (
        "yolos",
        image("YolosForObjectDetection", num_detection_tokens=5, num_labels=4, **(PATCHES | {"image_size": [32, 32]})),
    )
    yield "sam", sam
    yield "superpoint", image("SuperPointForKeypointDetection", 32, encoder_hidden_sizes=[8, 8, 16, 16],
                              decoder_hidden_size=16, descriptor_decoder_dim=16)  # fmt: skip
    yield "videomae", video("VideoMAEModel", num_frames=4, tubelet_size=2, **PATCHES)
    yield "timesformer", video("TimesformerModel", num_frames=4, **PATCHES)
    yield "vivit", video("VivitModel", num_frames=4, tubelet_size=[2, 8, 8], **(PATCHES | {"image_size": 32}))
    yield "swin2sr", image(
        "Swin2SRForImageSuperResolution", 16, image_size=16, patch_size=1, embed_dim=16, depths=[2], num_heads=[2],
        window_size=4, upscale=2, upsampler="pixelshuffle",
    )  # fmt: skip


def video(kind: str, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        return Call(
            make(kind, **config), kwargs={"pixel_values": torch.randn(2, 4, 3, 32, 32)}, axes={"pixel_values": BATCH}
        )

    return build


def sam() -> Call:
    model = make(
        "SamModel",
        vision_config=LAYERS | {
            "image_size": 32, "patch_size": 8, "output_channels": 16, "mlp_dim": 64, "window_size": 2,
            "global_attn_indexes": [1], "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={
            "hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "iou_head_hidden_dim": 16,
        },
    )  # fmt: skip
    kwargs = {"pixel_values": torch.randn(2, 3, 32, 32), "input_points": torch.rand(2, 1, 3, 2) * 32}
    return Call(model, kwargs=kwargs, axes={"pixel_values": BATCH, "input_points": {0: "batch", 2: "points"}})


WORDS = LAYERS | {"vocab_size": 100, "max_position_embeddings": 40}


def both(
    kind: str, text: dict[str, Any] | None = None, seen: dict[str, Any] | None = None, **config: Any
) -> Callable[[], Call]:
    """An image and a text; their batches need not be equal in models that compare all with all."""

    def build() -> Call:
        model = make(kind, text_config=WORDS | (text or {}), vision_config=PATCHES | (seen or {}), **config)
        ids = token_ids(2, 7)
        kwargs = {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32), "attention_mask": torch.ones_like(ids)}
        return Call(model, kwargs=kwargs, axes={"input_ids": TEXT, "pixel_values": BATCH, "attention_mask": TEXT})

    return build


def llava(kind: str, text_kind: str, vision_kind: str, **config: Any) -> Callable[[], Call]:
    """Tokens of a text among which places for the parts of one image are kept."""

    def build() -> Call:
        words = WORDS | {"model_type": text_kind, "num_key_value_heads": 2}
        seen = PATCHES | {"model_type": vision_kind, "projection_dim": 16}
        model = make(kind, text_config=words, vision_config=seen, image_token_id=99, image_token_index=99, **config)
        ids = token_ids(2, 22)
        ids[:, 2:18] = 99
        mask = torch.ones_like(ids)
        mask[0, :1] = 0
        kwargs = {"input_ids": ids, "pixel_values": torch.randn(2, 3, 32, 32), "attention_mask": mask}
        if text_kind == "gemma":
            kwargs["token_type_ids"] = (torch.arange(22) > 19).long().expand(2, -1).contiguous()
        batch = Dim("batch", min=2)
        return Call(model, kwargs=kwargs, shapes={name: {0: batch} for name in kwargs})

    return build


def vision_language() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "clip", both("CLIPModel", projection_dim=16)
    yield "chinese-clip", both("ChineseCLIPModel", projection_dim=16)
    yield "siglip", both("SiglipModel")
    yield "altclip", both("AltCLIPModel", {"project_dim": 32}, projection_dim=16)
    yield (
        "blip",
        both("BlipForConditionalGeneration", {"encoder_hidden_size": 32, "projection_dim": 16}, projection_dim=16),
    )
    yield "git", git
    yield "vilt", vilt
    yield "owlvit", owlvit
    yield "clipseg", both("CLIPSegForImageSegmentation", projection_dim=16, reduce_dim=16, extract_layers=[0, 1],
                          decoder_num_attention_heads=4, decoder_intermediate_size=32)  # fmt: skip
    yield "llava", llava("LlavaForConditionalGeneration", "llama", "clip_vision_model", vision_feature_layer=-1)
    yield "paligemma", llava("PaliGemmaForConditionalGeneration", "gemma", "siglip_vision_model", projection_dim=32)
    yield "trocr", trocr


def git() -> Call:
    model = make("GitForCausalLM", vision_config=PATCHES, **WORDS)
    kwargs = {"input_ids": token_ids(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Call(model, kwargs=kwargs, axes={"input_ids": TEXT, "pixel_values": BATCH})


def vilt() -> Call:
    model = make("ViltModel", **(WORDS | PATCHES))
    kwargs = {"input_ids": token_ids(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Call(model, kwargs=kwargs, axes={"input_ids": TEXT, "pixel_values": BATCH})


def owlvit() -> Call:
    """Two queries in words for each image."""
    model = make("OwlViTForObjectDetection", text_config=WORDS, vision_config=PATCHES, projection_dim=32)
    kwargs = {"input_ids": token_ids(4, 7), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Call(model, kwargs=kwargs, shapes={"input_ids": {1: Dim("sequence", min=2)}, "pixel_values": None})


def trocr() -> Call:
    model = make(
        "VisionEncoderDecoderModel", encoder=PATCHES | {"model_type": "vit"}, decoder={
            "model_type": "trocr", "vocab_size": 100, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4,
            "decoder_ffn_dim": 64, "is_decoder": True, "add_cross_attention": True, "cross_attention_hidden_size": 32,
        },
    )  # fmt: skip
    kwargs = {"pixel_values": torch.randn(2, 3, 32, 32), "decoder_input_ids": token_ids()}
    return Call(model, kwargs=kwargs, axes={"pixel_values": BATCH, "decoder_input_ids": TEXT})


def series() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "patchtst", past("PatchTSTForPrediction", num_input_channels=2, context_length=32, patch_length=8,
                           patch_stride=8, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=32,
                           prediction_length=6, loss="mse")  # fmt: skip
    yield "patchtsmixer", past("PatchTSMixerForPrediction", num_input_channels=2, context_length=32, patch_length=8,
                               patch_stride=8, d_model=16, num_layers=2, prediction_length=6, loss="mse")  # fmt: skip
    for name in ("TimeSeriesTransformer", "Informer", "Autoformer"):
        yield name.lower(), forecast(f"{name}Model")
    yield "decision-transformer", decision


def past(kind: str, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        return Call(make(kind, **config), kwargs={"past_values": torch.randn(2, 32, 2)}, axes={"past_values": BATCH})

    return build


def forecast(kind: str) -> Callable[[], Call]:
    def build() -> Call:
        model = make(
            kind, prediction_length=6, context_length=14, lags_sequence=[1, 2], num_time_features=1, d_model=16,
            encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=32, decoder_ffn_dim=32,
        )  # fmt: skip
        kwargs = {
            "past_values": torch.randn(2, 16),
            "past_time_features": torch.randn(2, 16, 1),
            "past_observed_mask": torch.ones(2, 16),
            "future_values": torch.randn(2, 6),
            "future_time_features": torch.randn(2, 6, 1),
        }
        return Call(model, kwargs=kwargs, axes=dict.fromkeys(kwargs, BATCH))

    return build


def decision() -> Call:
    model = make("DecisionTransformerModel", state_dim=5, act_dim=3, hidden_size=32, n_layer=2, n_head=4, max_ep_len=50)
    kwargs = {
        "states": torch.randn(2, 6, 5),
        "actions": torch.randn(2, 6, 3),
        "rewards": torch.randn(2, 6, 1),
        "returns_to_go": torch.randn(2, 6, 1),
        "timesteps": torch.randint(0, 20, (2, 6)),
        "attention_mask": torch.ones(2, 6, dtype=torch.long),
    }
    return Call(model, kwargs=kwargs, axes={name: {0: "batch", 1: "time"} for name in kwargs})


FAST = {"vit", "segformer", "clip", "patchtst"}
FAMILIES = (("vision transformers", vision()), ("vision-language", vision_language()), ("time series", series()))
MODELS = tuple(
    Model(name, family, build, ("transformers",), fast=name in FAST)
    for family, rows in FAMILIES
    for name, build in rows
)
