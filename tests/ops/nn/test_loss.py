"""Losses."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as nnf

from tests.ops.harness import FLOATS, B, Case, F, I, X, table

LOW = (*FLOATS, torch.bfloat16)
REDUCTIONS = ("none", "mean", "sum")
PAIR = [F("n", "c"), F("n", "c", low=0.1, high=0.9)]
SCORES = [F("n", 5), I("n", high=5)]
PIXELS = [F("n", 5, "h", 3), I("n", "h", 3, high=5)]


def reductions(name, call, inputs, **settings):
    return [Case(f"{name}_{kind}", partial(call, reduction=kind), inputs, **settings) for kind in REDUCTIONS]


def signs(*shape):
    return X(
        *shape, make=lambda given: torch.arange(torch.Size(given).numel()).reshape(given) % 2 * 2 - 1, dtype=torch.int64
    )


def bytes_of(*shape):
    return X(*shape, make=lambda given: (torch.rand(given) * 9).to(torch.uint8), dtype=torch.uint8)


def zeros_and_ones(*shape):
    return X(*shape, make=lambda given: torch.arange(torch.Size(given).numel()).reshape(given) % 3 * 0.5)


REGRESSION = [
    *reductions("mse", nnf.mse_loss, PAIR, dtypes=LOW),
    Case("mse_graph", nnf.mse_loss, PAIR, graph=["Sub", "Mul", "ReduceMean"]),
    Case("mse_broadcast", nnf.mse_loss, [F("n", "c"), F("c")]),
    *reductions("l1", nnf.l1_loss, PAIR, dtypes=LOW),
    *reductions("smooth_l1", partial(nnf.smooth_l1_loss, beta=0.7), PAIR, dtypes=LOW),
    Case("smooth_l1_default", nnf.smooth_l1_loss, PAIR),
    Case("smooth_l1_sharp", partial(nnf.smooth_l1_loss, beta=0.0), PAIR),
    *reductions("huber", partial(nnf.huber_loss, delta=0.7), PAIR, dtypes=LOW),
    *reductions("poisson", nnf.poisson_nll_loss, PAIR),
    Case(
        "poisson_counts",
        partial(nnf.poisson_nll_loss, log_input=False),
        [F("n", "c", low=0.1), F("n", "c", low=0, high=5)],
    ),
    Case("poisson_full", partial(nnf.poisson_nll_loss, full=True), [F("n", "c"), F("n", "c", low=0, high=5)], since=9),
    Case("gaussian", partial(nnf.gaussian_nll_loss, full=True), [*PAIR, F("n", "c", low=0.1)]),
    Case("scalars", nnf.mse_loss, [F(), F()]),
]

BINARY = [
    *reductions("bce", nnf.binary_cross_entropy, [F("n", "c", low=0.01, high=0.99), zeros_and_ones("n", "c")]),
    Case("bce_weight", nnf.binary_cross_entropy, [F("n", 5, low=0.01, high=0.99), zeros_and_ones("n", 5), F("n", 5)]),
    Case(
        "bce_certain",
        nnf.binary_cross_entropy,
        [zeros_and_ones("n", "c"), F("n", "c", low=0.1, high=0.9)],
        dtypes=(torch.float32,),
    ),
    *reductions("bce_logits", nnf.binary_cross_entropy_with_logits, PAIR, dtypes=LOW),
    Case(
        "bce_logits_weights",
        lambda x, t, w, p: nnf.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
        [F("n", 5, low=-30, high=30), zeros_and_ones("n", 5), F(5), F(5, low=0.1)],
    ),
    *reductions("soft_margin", nnf.soft_margin_loss, [F("n", "c"), signs("n", "c")]),
    *reductions("multilabel_soft_margin", nnf.multilabel_soft_margin_loss, [F("n", 5), zeros_and_ones("n", 5)]),
    *reductions("kl_div", nnf.kl_div, [F("n", "c"), zeros_and_ones("n", "c")]),
    Case("kl_div_log", partial(nnf.kl_div, log_target=True, reduction="batchmean"), PAIR),
]

WHOLE = [I("n", 5, low=-4), I("n", 5, low=-4)]
BYTE_PAIR = [bytes_of("n", 5), bytes_of("n", 5)]

MARGINS = [
    *reductions("ranking_integers", partial(nnf.margin_ranking_loss, margin=0.5), [*WHOLE, signs("n", 5)], dtypes=()),
    Case("ranking_bytes", nnf.margin_ranking_loss, [*BYTE_PAIR, bytes_of("n", 5)], dtypes=()),
    Case("triplet_integers", nnf.triplet_margin_loss, [*WHOLE, I("n", 5, low=-4)], dtypes=()),
    Case("triplet_bytes", nnf.triplet_margin_loss, [*BYTE_PAIR, bytes_of("n", 5)], dtypes=()),
    Case("cosine_integers", partial(nnf.cosine_embedding_loss, margin=0.3), [*WHOLE, signs("n")], since=9, dtypes=()),
    Case("cosine_bools", nnf.cosine_embedding_loss, [B("n", 5), B("n", 5), B("n")], since=9, dtypes=()),
    Case("poisson_integers", partial(nnf.poisson_nll_loss, full=True), [*WHOLE[:1], I("n", 5)], since=9, dtypes=()),
    Case("multi_margin_number", nnf.multi_margin_loss, [F(), I(high=1)], since=9, dtypes=(torch.float64,)),
    Case("multilabel_margin_number", nnf.multilabel_margin_loss, [F(), I(high=1)], since=11, dtypes=(torch.float64,)),
    *reductions("margin_ranking", partial(nnf.margin_ranking_loss, margin=0.3), [F("n"), F("n"), signs("n")]),
    *reductions(
        "hinge_embedding", partial(nnf.hinge_embedding_loss, margin=0.8), [F("n", "c"), signs("n", "c")], since=9
    ),
    *reductions(
        "cosine_embedding", partial(nnf.cosine_embedding_loss, margin=0.2), [F("n", 5), F("n", 5), signs("n")], since=9
    ),
    Case("cosine_embedding_single", nnf.cosine_embedding_loss, [F(5), F(5), signs()], since=9),
    *reductions("triplet", nnf.triplet_margin_loss, [F("n", 5), F("n", 5), F("n", 5)]),
    Case("triplet_swap", partial(nnf.triplet_margin_loss, swap=True, p=1.0, margin=3.0), [F("n", 5)] * 3),
    Case("triplet_distance", nnf.triplet_margin_with_distance_loss, [F("n", 5)] * 3),
    *reductions("multi_margin", nnf.multi_margin_loss, SCORES, since=9, dtypes=(torch.float64,)),
    Case(
        "multi_margin_squared",
        lambda x, t, w: nnf.multi_margin_loss(x, t, p=2, margin=0.5, weight=w),
        [*SCORES, F(5, low=0.1)],
        since=9,
        dtypes=(torch.float64,),
    ),
    Case("multi_margin_single", nnf.multi_margin_loss, [F(5), I(high=5)], since=9, dtypes=()),
    *reductions(
        "multilabel_margin",
        nnf.multilabel_margin_loss,
        [F("n", 5), I("n", 5, low=-1, high=5)],
        since=11,
        dtypes=(torch.float64,),
    ),
    Case("multilabel_margin_single", nnf.multilabel_margin_loss, [F(5), I(5, low=-1, high=5)], since=11, dtypes=()),
    Case(
        "multilabel_margin_forward",
        lambda x, t: torch.ops.aten.multilabel_margin_loss_forward(x, t, 0),
        [F("n", 5), I("n", 5, low=-1, high=5)],
        since=11,
        dtypes=(),
    ),
]

CLASSES = [
    *reductions("nll", nnf.nll_loss, SCORES, since=9),
    *reductions("nll_pixels", nnf.nll_loss, PIXELS, since=9),
    Case("nll_graph", nnf.nll_loss, SCORES, since=9, graph=["NegativeLogLikelihoodLoss"]),
    *reductions("nll_ignored", partial(nnf.nll_loss, ignore_index=2), SCORES, since=9),
    *reductions(
        "nll_padded",
        nnf.nll_loss,
        [F("n", 5), X("n", make=lambda shape: torch.tensor([3, -100, 1])[: shape[0]], dtype=torch.int64)],
        since=9,
    ),
    Case("nll_weight", nnf.nll_loss, [*SCORES, F(5, low=0.1)], since=9),
    Case("nll_single", nnf.nll_loss, [F(5), I(high=5)], since=9),
    Case(
        "nll_forward", lambda x, t, w: torch.ops.aten.nll_loss_forward(x, t, w, 1, 2), [*SCORES, F(5, low=0.1)], since=9
    ),
    Case(
        "nll_forward_none_alone",
        lambda x, t: torch.ops.aten.nll_loss_forward(x, t, None, 0, 2),
        [F(5), I(high=5)],
        since=9,
    ),
    Case("nll_forward_none", lambda x, t: torch.ops.aten.nll_loss_forward(x, t, None, 0, 2), SCORES, since=9),
    *reductions("cross_entropy", nnf.cross_entropy, SCORES, since=9, dtypes=LOW),
    *reductions("cross_entropy_pixels", nnf.cross_entropy, PIXELS, since=9),
    Case("cross_entropy_graph", nn.CrossEntropyLoss(), SCORES, since=9, graph=["SoftmaxCrossEntropyLoss"]),
    *reductions(
        "cross_entropy_all",
        lambda x, t, w, reduction: nnf.cross_entropy(x, t, w, ignore_index=2, label_smoothing=0.1, reduction=reduction),
        [*PIXELS, F(5, low=0.1)],
        since=9,
    ),
    *reductions("cross_entropy_smooth", partial(nnf.cross_entropy, label_smoothing=0.3), SCORES, since=9, dtypes=LOW),
    Case("cross_entropy_single", nnf.cross_entropy, [F(5), I(high=5)], since=9),
    Case(
        "cross_entropy_single_none",
        partial(nnf.cross_entropy, reduction="none", label_smoothing=0.1),
        [F(5), I(high=5)],
        since=9,
    ),
    *reductions("cross_entropy_probabilities", nnf.cross_entropy, [F("n", 5, "t"), F("n", 5, "t", low=0, high=1)]),
    Case(
        "cross_entropy_probabilities_all",
        lambda x, t, w: nnf.cross_entropy(x, t, w, label_smoothing=0.2),
        [F("n", 5, "t"), F("n", 5, "t", low=0, high=1), F(5, low=0.1)],
    ),
    Case("cross_entropy_probabilities_single", nnf.cross_entropy, [F(5), F(5, low=0, high=1)]),
    Case(
        "cross_entropy_classes", partial(nnf.cross_entropy, label_smoothing=0.2), [F("n", "c"), I("n", high=3)], since=9
    ),
]

test_loss = table(REGRESSION + BINARY + MARGINS + CLASSES)
