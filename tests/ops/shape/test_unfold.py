"""Sliding windows and pixel shuffles."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as nnf

from tests.ops.harness import ALL, FLOATS, Case, F, table

MORE = (*ALL, torch.bfloat16)

CASES = [
    Case("unfold", lambda x: x.unfold(1, 3, 2), [F("n", 8, 2)], dtypes=MORE, graph=["Gather", "Transpose"]),
    Case("unfold_free", lambda x: x.unfold(-1, 3, 2), [F("n", "s")], dynamic_since=9, dtypes=ALL),
    Case("unfold_patches", lambda x: x.unfold(2, 4, 4).unfold(3, 3, 3), [F("n", 3, 8, 9)], dtypes=ALL),
    Case("unfold_patches_free", lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2), [F("n", 3, "h", "w")], dynamic_since=9),
    Case("unfold_scalar", lambda x: x.unfold(0, 1, 1), [F()]),
    Case("im2col", lambda x: nnf.unfold(x, 3), [F("n", 2, 6, 7)], dtypes=MORE[:3] + MORE[-1:]),
    Case("im2col_options", nn.Unfold((2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), [F("n", 2, 6, 7)]),
    Case("im2col_free", nn.Unfold((2, 3), dilation=2, padding=1, stride=2), [F("n", 2, "h", "w")], dynamic_since=9),
    Case("im2col_unbatched", nn.Unfold(2), [F(2, 6, 7)]),
    Case("col2im", nn.Fold((6, 7), 3), [F("n", 18, 20)], dtypes=(*FLOATS, torch.bfloat16), graph=["Col2Im"]),
    Case("col2im_options", nn.Fold((7, 8), (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), [F("n", 12, 16)]),
    Case("col2im_unbatched", nn.Fold((4, 4), 2, stride=2), [F(8, 4)]),
    Case(
        "col2im_free",
        lambda x, y: nnf.fold(nnf.unfold(x, 2), (y.size(0), y.size(1)), 2),
        [F("n", 2, "h", "w"), F("h", "w")], dynamic_since=18, dtypes=(),
    ),
    Case("pixel_shuffle", nn.PixelShuffle(2), [F("n", 8, "h", "w")], dtypes=MORE, graph=["DepthToSpace"]),
    Case("pixel_shuffle_unbatched", nn.PixelShuffle(3), [F(18, "h", "w")]),
    Case("pixel_shuffle_batches", nn.PixelShuffle(2), [F("n", "t", 8, "h", "w")], dtypes=ALL),
    Case("pixel_shuffle_integers", nn.PixelShuffle(2), [F("n", 8, "h", "w")], base=torch.int64, dtypes=()),
    Case("pixel_unshuffle", lambda x: nnf.pixel_unshuffle(x, 2), [F("n", 3, 4, 6)], dtypes=MORE),
    Case("pixel_unshuffle_one", lambda x: nnf.pixel_unshuffle(x, 2), [F("n", 1, 4, 6)], graph=["SpaceToDepth"]),
    Case("pixel_unshuffle_nothing", lambda x: nnf.pixel_unshuffle(x, 1), [F(1, 0, 1, 1)], since=14),
    Case("pixel_unshuffle_free", lambda x: nnf.pixel_unshuffle(nnf.pixel_shuffle(x, 2), 2), [F("n", 8, "h", "w")]),
    Case("pixel_unshuffle_unbatched", lambda x: nnf.pixel_unshuffle(x, 2), [F(3, 4, 6)]),
    Case("pixel_unshuffle_batches", lambda x: nnf.pixel_unshuffle(x, 2), [F("n", "t", 3, 4, 6)]),
    Case("channel_shuffle", nn.ChannelShuffle(2), [F("n", 6, "h", "w")], dtypes=MORE, graph=["Gather"]),
    Case("native_channel_shuffle", lambda x: torch.native_channel_shuffle(x, 3), [F("n", 6, "h")]),
]  # fmt: skip

test_folding = table(CASES)
