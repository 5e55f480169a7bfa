"""The models of the benchmark, by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.latency.models import Case, Model, cached, detector, image, pair, tensors, text

BASE = {
    "hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 3072,
    "vocab_size": 30522,
}  # fmt: skip
GROUPED = {
    "hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4,
    "intermediate_size": 2816, "vocab_size": 8192,
}  # fmt: skip
GPT2 = {"n_embd": 768, "n_layer": 4, "n_head": 12, "vocab_size": 8192}
BART = {
    "vocab_size": 8192, "d_model": 768, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
}  # fmt: skip
BATCH = {0: "batch"}
IMAGE = {"pixel_values": ((2, 3, 224, 224), (1, 3, 224, 224))}
Rows = Iterator[tuple[str, Callable[[], Case]]]


def convolutional() -> Rows:
    yield "resnet50", image("torchvision.models", "resnet50")
    yield "mobilenet_v3_large", image("torchvision.models", "mobilenet_v3_large")
    yield "efficientnet_b0", image("torchvision.models", "efficientnet_b0")
    yield "densenet121", image("torchvision.models", "densenet121")
    yield "regnet_y_800mf", image("torchvision.models", "regnet_y_800mf")
    yield "shufflenet_v2", image("torchvision.models", "shufflenet_v2_x1_0")
    yield "convnext_tiny", image("timm", "convnext_tiny")
    yield "nfnet_l0", image("timm", "nfnet_l0")


def vision_transformers() -> Rows:
    yield "vit_base", image("timm", "vit_base_patch16_224", depth=6)
    yield "vit_b_16 (torchvision)", image("torchvision.models", "vit_b_16")
    yield "swin_t", image("torchvision.models", "swin_t")
    yield "swinv2_tiny", image("timm", "swinv2_tiny_window8_256", 256)
    yield "dinov2", tensors(
        "transformers", "Dinov2Model", IMAGE, {"pixel_values": BATCH},
        config={"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "image_size": 224},
    )  # fmt: skip
    yield "siglip", tensors(
        "transformers", "SiglipVisionModel", IMAGE, {"pixel_values": BATCH},
        config={"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "intermediate_size": 3072},
    )  # fmt: skip


def hybrid() -> Rows:
    yield "mobilevit_s", image("timm", "mobilevit_s", 256)
    yield "coatnet_0", image("timm", "coatnet_0_rw_224")
    yield "maxvit_t", image("torchvision.models", "maxvit_t")
    yield "levit_256", image("timm", "levit_256")
    yield "fastvit_t8", image("timm", "fastvit_t8", 256)


def detection() -> Rows:
    yield "ssdlite320", detector("ssdlite320_mobilenet_v3_large", 320)
    yield "retinanet", detector("retinanet_resnet50_fpn", 256, min_size=256, max_size=320)
    yield "yolos", tensors(
        "transformers", "YolosForObjectDetection", {"pixel_values": ((2, 3, 256, 256), (1, 3, 256, 256))},
        {"pixel_values": BATCH}, config={
            "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536,
            "image_size": [256, 256],
        }, outputs=2,
    )  # fmt: skip


def segmentation() -> Rows:
    yield "deeplabv3_mobilenet", image("torchvision.models.segmentation", "deeplabv3_mobilenet_v3_large", sizes=True,
        weights_backbone=None)  # fmt: skip
    yield "lraspp", image("torchvision.models.segmentation", "lraspp_mobilenet_v3_large", sizes=True,
        weights_backbone=None)  # fmt: skip
    yield (
        "segformer_b0",
        tensors("transformers", "SegformerForSemanticSegmentation", IMAGE, {"pixel_values": BATCH}, config={}),
    )


def encoders() -> Rows:
    yield "bert", text("BertModel", **BASE)
    yield "bert-short", text("BertModel", 16, **BASE)
    yield "distilbert", text("DistilBertModel", dim=768, n_layers=4, n_heads=12, hidden_dim=3072)
    yield "electra-small", text(
        "ElectraModel", embedding_size=128, **BASE | {"hidden_size": 256, "num_attention_heads": 4,
        "intermediate_size": 1024, "num_hidden_layers": 8},
    )  # fmt: skip
    yield "mpnet", text("MPNetModel", **BASE)
    yield (
        "deberta-v2",
        text("DebertaV2Model", pos_att_type=["c2p", "p2c"], relative_attention=True, position_buckets=256, **BASE),
    )
    yield "modernbert", text("ModernBertModel", pad_token_id=0, **BASE | {"intermediate_size": 1152})
    yield "esm", text(
        "EsmModel", mask_token_id=4, pad_token_id=1, position_embedding_type="rotary",
        **BASE | {"hidden_size": 640, "num_attention_heads": 20, "intermediate_size": 2560, "vocab_size": 1000},
    )  # fmt: skip


def decoders() -> Rows:
    yield "gpt2", text("GPT2LMHeadModel", **GPT2)
    yield "llama", text("LlamaForCausalLM", **GROUPED)
    yield "opt", text("OPTForCausalLM", hidden_size=768, num_hidden_layers=4, num_attention_heads=12, ffn_dim=3072,
        word_embed_proj_dim=768, vocab_size=8192)  # fmt: skip
    yield "falcon", text("FalconForCausalLM", hidden_size=1024, num_hidden_layers=3, num_attention_heads=16,
        vocab_size=8192)  # fmt: skip
    yield "gpt2, cache", cached("GPT2LMHeadModel", 12, 64, **GPT2)
    yield "llama, cache", cached("LlamaForCausalLM", 4, 64, **GROUPED)
    yield "qwen3, cache", cached("Qwen3ForCausalLM", 4, 64, head_dim=64, **GROUPED)
    yield "gemma, cache", cached("GemmaForCausalLM", 4, 64, head_dim=64, **GROUPED)
    yield "phi, cache", cached("PhiForCausalLM", 16, 64, **GROUPED | {"num_key_value_heads": 16})


def encoder_decoders() -> Rows:
    yield "t5", pair("T5ForConditionalGeneration", vocab_size=8192, d_model=512, d_kv=64, d_ff=2048, num_layers=3,
        num_heads=8)  # fmt: skip
    yield "bart", pair("BartForConditionalGeneration", **BART)
    yield "marian", pair("MarianMTModel", pad_token_id=1, **BART | {"d_model": 512, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048})  # fmt: skip


def speech() -> Rows:
    yield "whisper encoder", tensors(
        "transformers", "WhisperModel", {"input_features": ((2, 80, 3000), (1, 80, 3000))},
        {"input_features": BATCH}, method="encoder", config={"d_model": 384, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536},
    )  # fmt: skip
    yield "wav2vec2", tensors(
        "transformers", "Wav2Vec2Model", {"input_values": ((2, 16000), (1, 8000))},
        {"input_values": {0: "batch", 1: "samples"}},
        config={"hidden_size": 768, "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 3072},
    )  # fmt: skip
    yield "conformer", tensors(
        "transformers", "Wav2Vec2ConformerModel", {"input_values": ((2, 16000), (1, 8000))},
        {"input_values": {0: "batch", 1: "samples"}}, config={
            "hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "intermediate_size": 2048,
            "position_embeddings_type": "relative",
        },
    )  # fmt: skip


def diffusion() -> Rows:
    yield "unet (stable diffusion)", tensors(
        "diffusers", "UNet2DConditionModel",
        {"sample": ((2, 4, 32, 32), (1, 4, 16, 24)), "timestep": ((2,), (1,)),
         "encoder_hidden_states": ((2, 77, 768), (1, 77, 768))},
        {"sample": {0: "batch", 2: "height", 3: "width"}, "timestep": BATCH, "encoder_hidden_states": BATCH},
        config={
            "block_out_channels": (160, 320), "layers_per_block": 1, "cross_attention_dim": 768,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "attention_head_dim": 8,
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        }, integers={"timestep": 900},
    )  # fmt: skip
    yield "autoencoder", tensors(
        "diffusers", "AutoencoderKL", {"z": ((2, 4, 24, 24), (1, 4, 16, 20))},
        {"z": {0: "batch", 2: "height", 3: "width"}}, method="decode", config={
            "block_out_channels": (64, 128), "latent_channels": 4, "layers_per_block": 1,
            "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
        },
    )  # fmt: skip
    yield "dit", tensors(
        "diffusers", "DiTTransformer2DModel",
        {"hidden_states": ((2, 4, 32, 32), (1, 4, 32, 32)), "timestep": ((2,), (1,)), "class_labels": ((2,), (1,))},
        {"hidden_states": BATCH, "timestep": BATCH, "class_labels": BATCH},
        config={"num_attention_heads": 6, "attention_head_dim": 64, "num_layers": 4, "sample_size": 32},
        integers={"timestep": 900, "class_labels": 900},
    )  # fmt: skip


def recurrent() -> Rows:
    yield "encodec", tensors(
        "transformers", "EncodecModel", {"hidden_states": ((2, 1, 8000), (1, 1, 4000))},
        {"hidden_states": {0: "batch"}}, method="encoder", config={},
    )  # fmt: skip
    yield "time series lstm", tensors(
        "torch.nn", "LSTM", {"input": ((1, 64, 256), (4, 32, 256))}, {"input": {0: "batch", 1: "time"}},
        config={"input_size": 256, "hidden_size": 256, "num_layers": 2, "batch_first": True, "bidirectional": True},
    )  # fmt: skip


FAMILIES: dict[str, Callable[[], Rows]] = {
    "convolutional": convolutional,
    "vision transformer": vision_transformers,
    "hybrid": hybrid,
    "detection": detection,
    "segmentation": segmentation,
    "encoder": encoders,
    "decoder": decoders,
    "encoder-decoder": encoder_decoders,
    "speech": speech,
    "diffusion": diffusion,
    "recurrent": recurrent,
}
MODELS = {name: Model(name, family, build) for family, rows in FAMILIES.items() for name, build in rows()}
