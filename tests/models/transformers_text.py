"""Encoders of text, from transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export import Dim

from tests.models.model import Call, Model
from tests.models.transformers_base import SMALL, TEXT, make, text, token_ids


def encoders() -> Iterator[tuple[str, Callable[[], Call]]]:
    yield "bert", text("BertModel", **SMALL)
    yield "bert-masked-lm", text("BertForMaskedLM", **SMALL)
    yield "bert-eager", text("BertForSequenceClassification", attn_implementation="eager", **SMALL)
    yield "roberta", text("RobertaForTokenClassification", **SMALL)
    yield "electra", text("ElectraForPreTraining", embedding_size=16, **SMALL)
    yield "albert", text("AlbertModel", embedding_size=16, **SMALL)
    yield (
        "distilbert",
        text("DistilBertForQuestionAnswering", vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    )
    yield "mpnet", text("MPNetModel", **SMALL)
    yield "camembert", text("CamembertModel", **SMALL)
    yield "xlm-roberta", text("XLMRobertaModel", **SMALL)
    yield "deberta", text("DebertaModel", pos_att_type=["c2p", "p2c"], relative_attention=True, **SMALL)
    yield (
        "deberta-v2",
        text("DebertaV2Model", pos_att_type=["c2p", "p2c"], relative_attention=True, position_buckets=8, **SMALL),
    )
    yield "modernbert", text("ModernBertModel", length=9, local_attention=4, num_hidden_layers=4, **_less())
    yield "funnel", text(
        "FunnelModel", vocab_size=100, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8,
        d_inner=64, length=12,
    )  # fmt: skip
    yield (
        "longformer",
        text("LongformerModel", length=16, sequence=8 * Dim("windows", min=2), attention_window=[8, 8], **SMALL),
    )
    yield "big-bird-full", text("BigBirdModel", attention_type="original_full", **SMALL)
    yield "squeezebert", text("SqueezeBertModel", embedding_size=32, **SMALL)
    yield "convbert", text("ConvBertModel", embedding_size=32, **SMALL)
    yield (
        "mobilebert",
        text("MobileBertModel", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16, **SMALL),
    )
    yield "rembert", text("RemBertModel", input_embedding_size=16, **SMALL)
    yield "roformer", text("RoFormerModel", embedding_size=32, **SMALL)
    yield "nystromformer", text("NystromformerModel", segment_means_seq_len=16, num_landmarks=16, **SMALL)
    yield "fnet", fnet()
    yield "xlnet", text("XLNetModel", vocab_size=100, d_model=32, n_layer=2, n_head=4, d_inner=64)
    yield "xlm", text("XLMModel", vocab_size=100, emb_dim=32, n_layers=2, n_heads=4)
    yield "flaubert", text("FlaubertModel", vocab_size=100, emb_dim=32, n_layers=2, n_heads=4)
    yield "canine", canine()
    yield "luke", text("LukeModel", entity_vocab_size=10, entity_emb_size=16, **SMALL)
    yield "layoutlm", layoutlm()
    yield "esm", text("EsmModel", mask_token_id=4, pad_token_id=1, position_embedding_type="rotary", **SMALL)
    yield "ibert", text("IBertModel", **SMALL)
    yield "megatron-bert", text("MegatronBertModel", **SMALL)
    yield "eurobert", text("EuroBertModel", num_key_value_heads=2, pad_token_id=0, **SMALL)


def _less() -> dict[str, Any]:
    return {name: value for name, value in SMALL.items() if name != "num_hidden_layers"} | {"pad_token_id": 0}


def fnet() -> Callable[[], Call]:
    def build() -> Call:
        return Call(make("FNetModel", **SMALL), kwargs={"input_ids": token_ids()}, axes={"input_ids": TEXT})

    return build


def canine() -> Callable[[], Call]:
    def build() -> Call:
        config = SMALL | {"num_hash_buckets": 50, "local_transformer_stride": 8}
        model = make("CanineModel", downsampling_rate=4, **config)
        ids = token_ids(2, 32)
        kwargs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
        return Call(model, kwargs=kwargs, axes={name: {0: "batch"} for name in kwargs})

    return build


def layoutlm() -> Callable[[], Call]:
    def build() -> Call:
        kwargs = {"input_ids": token_ids(), "bbox": torch.tensor([1, 2, 5, 9]).expand(2, 7, 4).contiguous()}
        return Call(make("LayoutLMModel", **SMALL), kwargs=kwargs, axes={"input_ids": TEXT, "bbox": TEXT})

    return build


FAST = {"bert", "roberta", "deberta-v2", "modernbert"}
MODELS = tuple(Model(name, "encoders", build, ("transformers",), fast=name in FAST) for name, build in encoders())
