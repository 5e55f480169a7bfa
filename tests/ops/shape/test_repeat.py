"""Repeating and turning."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, I, X, table

MORE = (*ALL, torch.bfloat16)

CASES = [
    Case("repeat", lambda x: x.repeat(2, 1, 3), [F("n", "t")], dtypes=MORE),
    Case("repeat_same_rank", lambda x: x.repeat(2, 3), [F("n", "t")], graph=["Tile"]),
    Case("repeat_size", lambda x, y: x.repeat(y.size(0), 1), [F(1, 3), F("n")]),
    Case("repeat_nothing", lambda x: x.repeat(2, 0), [F("n", 3)]),
    Case("repeat_scalar", lambda x: x.repeat(3), [F()]),
    Case("tile", lambda x: x.tile(2), [F("n", "t")], dtypes=ALL),
    Case("tile_more", lambda x: x.tile((2, 1, 2)), [F("n", "t")]),
    Case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), [F("n", 3)], dtypes=MORE, graph=["Gather"]),
    Case("repeat_interleave_free", lambda x: x.repeat_interleave(3, 1), [F("n", "t", 2)], dtypes=ALL),
    Case("repeat_interleave_front", lambda x: x.repeat_interleave(3, 0), [F("n", "t", "s")]),
    Case("repeat_interleave_flat", lambda x: x.repeat_interleave(2), [F("n", 3)]),
    Case("repeat_interleave_size", lambda x, y: x.repeat_interleave(y.size(0), 0), [F(3, 2), F("n")]),
    Case("repeat_interleave_each", lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 1), [F("n", 3)]),
    Case("repeat_interleave_computed", lambda x, r: x.repeat_interleave(r, 1), [F("n", 4), I(4)], since=9, dtypes=ALL),
    Case("interleave_free", lambda x, r: x.repeat_interleave(r, 0), [F("n", 2), I("n")], since=9, dynamic=False),
    Case("repeat_interleave_stated", lambda x, r: x.repeat_interleave(r, 1, output_size=6),
         [F("n", 4), X(4, make=lambda _: torch.tensor([2, 0, 1, 3]), dtype=torch.int64)], since=9),
    Case("repeat_interleave_stated_free", lambda x, r: x.repeat_interleave(r, 0, output_size=2 * len(x)),
         [F("t", 3), X("t", make=lambda shape: torch.full(shape, 2), dtype=torch.int64)], since=9),
    Case("repeat_interleave_indices", torch.repeat_interleave, [I(5)], since=9, dtypes=()),
    Case("roll", lambda x: x.roll(2, 1), [F("n", 5)], dtypes=MORE, graph=["Gather"]),
    Case("roll_free", lambda x: x.roll((1, -1), (0, 1)), [F("n", "t")]),
    Case("roll_far", lambda x: x.roll((5, -7), (0, 1)), [F("n", "t")], dynamic_since=10, dtypes=ALL),
    Case("roll_flat", lambda x: x.roll(1), [F("n", "t")]),
    Case("roll_none", lambda x: x.roll(3, 1) + 0, [F("n", 3)]),
    Case("flip", lambda x: x.flip(0, -1), [F("n", "t")], dynamic_since=10, dtypes=MORE, graph=["Slice"]),
    Case("flip_none", lambda x: x.flip([]) + 0, [F("n", 2)]),
    Case("fliplr", torch.fliplr, [F("n", 3)], graph=["Slice"]),
    Case("flipud", torch.flipud, [F("n", 3)], dynamic_since=10),
    Case("rot90", lambda x: x.rot90(1, (1, 2)), [F("n", 3, 4)], dtypes=NUMBERS, graph=["Transpose", "Slice"]),
    Case("rot90_back", lambda x: x.rot90(-1, (2, 1)), [F("n", 3, 4)]),
    Case("rot90_twice", lambda x: x.rot90(2, (1, 2)), [F("n", 3, 4)], graph=["Slice"]),
    Case("rot90_full", lambda x: x.rot90(4) + 0, [F("n", 3)]),
    Case("rot90_free", lambda x: x.rot90(3), [F("n", "t")], dynamic_since=10),
]  # fmt: skip

test_repeating = table(CASES)
