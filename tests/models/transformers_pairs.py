"""Encoder-decoders and speech, from transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import Dim

from tests.models.model import Call, Model, enliven
from tests.models.packages import package
from tests.models.transformers_base import make, token_ids

SIZES = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
T5_SIZES = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
SOURCE, TARGET = {0: "batch", 1: "source"}, {0: "batch", 1: "target"}


def pair(kind: str, length: int = 7, source: Any = None, target: Any = None, **config: Any) -> Callable[[], Call]:
    """A source with a mask, and a target. A `Dim` for each is for models that only take some lengths."""

    def build() -> Call:
        ids = token_ids(2, length)
        mask = torch.ones_like(ids)
        mask[0, -2:] = 0
        kwargs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": token_ids(2, 5)}
        axes = {"input_ids": SOURCE, "attention_mask": SOURCE, "decoder_input_ids": TARGET}
        if source is None:
            return Call(make(kind, **config), kwargs=kwargs, axes=axes)
        batch = Dim("batch")
        both = {"input_ids": {0: batch, 1: source}, "attention_mask": {0: batch, 1: source}}
        return Call(make(kind, **config), kwargs=kwargs, shapes={**both, "decoder_input_ids": {0: batch, 1: target}})

    return build


def pairs() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "t5", pair("T5ForConditionalGeneration", **T5_SIZES)
    yield "mt5", pair("MT5ForConditionalGeneration", **T5_SIZES)
    yield "umt5", pair("UMT5ForConditionalGeneration", **T5_SIZES)
    yield "switch-transformers", pair(
        "SwitchTransformersForConditionalGeneration", num_experts=4, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1, num_decoder_layers=2, **T5_SIZES,
    )  # fmt: skip
    yield "bart", pair("BartForConditionalGeneration", **SIZES)
    yield "mbart", pair("MBartForConditionalGeneration", **SIZES)
    yield "marian", pair("MarianMTModel", pad_token_id=1, **SIZES)
    yield "pegasus", pair("PegasusForConditionalGeneration", **SIZES)
    yield "pegasus-x", pair(
        "PegasusXForConditionalGeneration", 8, 4 * Dim("blocks", min=2), Dim("target"), block_size=4,
        num_global_tokens=2, **SIZES,
    )  # fmt: skip
    yield "m2m100", pair("M2M100ForConditionalGeneration", **SIZES)
    yield "blenderbot", pair("BlenderbotForConditionalGeneration", **SIZES)
    yield "led", led()
    yield "prophetnet", pair(
        "ProphetNetForConditionalGeneration", vocab_size=100, hidden_size=32, num_encoder_layers=2,
        num_decoder_layers=2, num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64,
    )  # fmt: skip
    yield (
        "nllb-moe",
        pair(
            "NllbMoeForConditionalGeneration",
            7,
            Dim("source", max=512),
            Dim("target", max=512),
            num_experts=4,
            encoder_sparse_step=2,
            decoder_sparse_step=2,
            **SIZES,
        ),  # fmt: skip,
    )
    yield "t5-cached", t5_cached()


def led() -> Callable[[], Call]:
    def build() -> Call:
        kwargs = {"input_ids": token_ids(2, 16), "decoder_input_ids": token_ids(2, 5)}
        axes = {"input_ids": {0: "batch"}, "decoder_input_ids": TARGET}
        return Call(make("LEDForConditionalGeneration", attention_window=8, **SIZES), kwargs=kwargs, axes=axes)

    return build


def t5_cached() -> Callable[[], Call]:
    """A step of generation: the caches of the decoder's own keys and of the encoder's."""

    def build() -> Call:
        library = package("transformers")
        model = enliven(library.T5ForConditionalGeneration(library.T5Config(**T5_SIZES)))
        with torch.no_grad():
            before = model(token_ids(2, 7), decoder_input_ids=token_ids(2, 4), use_cache=True)
        encoded = library.modeling_outputs.BaseModelOutput(last_hidden_state=before.encoder_last_hidden_state)
        kwargs = {
            "encoder_outputs": encoded,
            "decoder_input_ids": token_ids(2, 1),
            "past_key_values": before.past_key_values,
        }
        axes: dict[str, dict[int, str]] = {
            "encoder_outputs.last_hidden_state": SOURCE,
            "decoder_input_ids": {0: "batch"},
        }
        for layer in range(2):
            for part in ("key", "value"):
                axes[f"past_key_values.self_attention_cache.{layer}.{part}"] = {0: "batch", 2: "past"}
                axes[f"past_key_values.cross_attention_cache.{layer}.{part}"] = {0: "batch", 2: "source"}
        return Call(model, kwargs=kwargs, axes=axes)

    return build


WAVES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": (16, 16),
    "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "vocab_size": 100,
}  # fmt: skip
WAVE = {0: "batch", 1: "time"}


def wave(kind: str, axes: dict[int, str] = WAVE, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        model = make(kind, **(WAVES | config))
        return Call(model, kwargs={"input_values": torch.randn(2, 400)}, axes={"input_values": axes})

    return build


def frames(kind: str, name: str, shape: tuple[int, ...], axes: dict[int, str], **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        return Call(make(kind, **config), kwargs={name: torch.randn(*shape)}, axes={name: axes})

    return build


def whisper() -> Call:
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = make("WhisperForConditionalGeneration", max_source_positions=50, num_mel_bins=8, **SIZES, **special)
    kwargs = {"input_features": torch.randn(2, 8, 100), "decoder_input_ids": token_ids(2, 5)}
    return Call(model, kwargs=kwargs, axes={"input_features": {0: "batch"}, "decoder_input_ids": TARGET})


def speecht5() -> Call:
    config = {
        "vocab_size": 100, "hidden_size": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "num_mel_bins": 8,
        "speaker_embedding_dim": 16, "speech_decoder_prenet_units": 32, "speech_decoder_postnet_units": 16,
        "positional_dropout": 0.0,
    }  # fmt: skip
    model = make("SpeechT5ForTextToSpeech", **config, speech_decoder_prenet_dropout=0.0)
    kwargs = {
        "input_ids": token_ids(),
        "attention_mask": torch.ones(2, 7, dtype=torch.long),
        "decoder_input_values": torch.randn(2, 6, 8),
        "speaker_embeddings": torch.randn(2, 16),
    }
    axes = {"input_ids": SOURCE, "attention_mask": SOURCE, "decoder_input_values": TARGET}
    return Call(model, kwargs=kwargs, axes={**axes, "speaker_embeddings": {0: "batch"}})


def univnet() -> Call:
    """The noise that it turns into speech is an input."""
    model = make(
        "UnivNetModel", model_in_channels=8, model_hidden_channels=8, num_mel_bins=8, resblock_kernel_sizes=[3],
        resblock_stride_sizes=[4], resblock_dilation_sizes=[[1, 3]], kernel_predictor_hidden_channels=8,
    )  # fmt: skip
    kwargs = {"input_features": torch.randn(2, 10, 8), "noise_sequence": torch.randn(2, 10, 8)}
    return Call(model, kwargs=kwargs, axes={name: {0: "batch", 1: "time"} for name in kwargs})


def vits() -> Call:
    model = make(
        "VitsModel", lively=False, vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        ffn_dim=64, flow_size=32, spectrogram_bins=9, upsample_initial_channel=32, upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
        prior_encoder_num_flows=2, posterior_encoder_num_wavenet_layers=2, prior_encoder_num_wavenet_layers=2,
        duration_predictor_num_flows=2, depth_separable_num_layers=2, use_stochastic_duration_prediction=False,
        noise_scale=0.0,
    )  # fmt: skip
    model.noise_scale = 0.0
    # With fewer tokens than a window reaches, relative positions are cut and not padded: another path.
    return Call(model, kwargs={"input_ids": token_ids(1, 9)}, shapes={"input_ids": {1: Dim("sequence", min=5)}})


def codec(kind: str, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        return Call(
            make(kind, **config), kwargs={"input_values": torch.randn(2, 1, 320)}, axes={"input_values": {0: "batch"}}
        )

    return build


def speech() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "whisper", whisper
    yield "wav2vec2", wave("Wav2Vec2Model")
    yield "wav2vec2-ctc", wave("Wav2Vec2ForCTC", do_stable_layer_norm=True, feat_extract_norm="layer")
    yield "mms-adapter", wave("Wav2Vec2ForCTC", adapter_attn_dim=8, do_stable_layer_norm=True)
    yield "hubert", wave("HubertModel")
    yield "unispeech-sat", wave("UniSpeechSatModel")
    yield "wavlm", wave("WavLMModel")
    yield "sew", wave("SEWModel", {0: "batch"}, squeeze_factor=2)
    yield "data2vec-audio", wave("Data2VecAudioModel", num_conv_pos_embeddings=3, conv_pos_kernel_size=5)
    yield "wav2vec2-conformer", wave("Wav2Vec2ConformerModel", position_embeddings_type="relative")
    yield "wav2vec2-conformer-rotary", wave("Wav2Vec2ConformerModel", position_embeddings_type="rotary")
    yield "wav2vec2-bert", frames(
        "Wav2Vec2BertModel", "input_features", (2, 20, 8), {0: "batch", 1: "time"}, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, feature_projection_input_dim=8,
    )  # fmt: skip
    yield "speech-to-text", speech_to_text
    yield "speecht5", speecht5
    yield "ast", frames(
        "ASTModel", "input_values", (2, 32, 16), {0: "batch"}, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, max_length=32, num_mel_bins=16, patch_size=8, time_stride=8,
        frequency_stride=8,
    )  # fmt: skip
    yield "hifigan", frames(
        "SpeechT5HifiGan", "spectrogram", (2, 12, 8), {0: "batch", 1: "time"}, model_in_dim=8,
        upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
    )  # fmt: skip
    yield "univnet", univnet
    yield "vits", vits
    yield "encodec", codec(
        "EncodecModel", hidden_size=16, num_filters=4, codebook_size=16, codebook_dim=16, upsampling_ratios=[4, 2],
        num_lstm_layers=1,
    )  # fmt: skip
    yield "dac", codec(
        "DacModel", encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=16, n_codebooks=2,
        codebook_size=16, codebook_dim=4, hidden_size=32, upsampling_ratios=[4, 2],
    )  # fmt: skip
    yield "parakeet-ctc", frames(
        "ParakeetForCTC", "input_features", (2, 64, 16), {0: "batch", 1: "time"}, vocab_size=20, encoder_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
            "num_mel_bins": 16, "subsampling_conv_channels": 8, "subsampling_factor": 4,
        },
    )  # fmt: skip
    yield "moonshine", moonshine


def speech_to_text() -> Call:
    model = make("Speech2TextForConditionalGeneration", input_feat_per_channel=8, conv_channels=16, **SIZES)
    kwargs = {"input_features": torch.randn(2, 24, 8), "decoder_input_ids": token_ids(2, 5)}
    return Call(model, kwargs=kwargs, axes={"input_features": {0: "batch", 1: "time"}, "decoder_input_ids": TARGET})


def moonshine() -> Call:
    model = make(
        "MoonshineForConditionalGeneration", vocab_size=100, hidden_size=32, intermediate_size=64,
        encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4,
        decoder_num_attention_heads=4, pad_token_id=0,
    )  # fmt: skip
    kwargs = {"input_values": torch.randn(2, 4000), "decoder_input_ids": token_ids(2, 5)}
    return Call(model, kwargs=kwargs, axes={"input_values": WAVE, "decoder_input_ids": TARGET})


FAST = {"t5", "whisper", "wav2vec2"}
FAMILIES = (("encoder-decoders", pairs()), ("speech", speech()))
MODELS = tuple(
    Model(name, family, build, ("transformers",), fast=name in FAST)
    for family, rows in FAMILIES
    for name, build in rows
)
