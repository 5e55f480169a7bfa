"""Joining and taking apart."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pad_sequence

from tests.ops.harness import ALL, Case, F, I, table

MORE = (*ALL, torch.bfloat16)

CASES = [
    Case("cat", lambda x, y: torch.cat([x, y], -1), [F("n", 3), F("n", "t")], dtypes=MORE, graph=["Concat"]),
    Case("cat_dynamic", lambda x, y: torch.cat([x, y, x]), [F("n", 3), F("t", 3)]),
    Case("cat_promotes", lambda x, y: torch.cat([x, y]), [F("n", 3), I("t", 3)]),
    Case("cat_empty_vector", lambda x: torch.cat([torch.zeros(0), x], 1), [F("n", 3)]),
    Case("cat_one", lambda x: torch.cat([x]) + 0, [F("n", 3)]),
    Case("concat", lambda x, y: torch.concat([x, y]), [F("n", 3), F("t", 3)]),
    Case("concatenate", lambda x, y: torch.concatenate([x, y], axis=0), [F("n", 3), F("t", 3)]),
    Case("stack", lambda x, y: torch.stack([x, y], -1), [F("n", 3), F("n", 3)], dtypes=MORE),
    Case("stack_scalars", lambda x, y: torch.stack([x, y]), [F(), F()]),
    Case("hstack", lambda x, y: torch.hstack([x, y]), [F("n", 3), F("n", 2)], dtypes=ALL),
    Case("hstack_vectors", lambda x, y: torch.hstack([x, y]), [F("n"), F("t")]),
    Case("hstack_scalars", lambda x, y: torch.hstack([x, y]), [F(), F()]),
    Case("vstack", lambda x, y: torch.vstack([x, y]), [F("n"), F("n")], dtypes=ALL),
    Case("dstack", lambda x, y: torch.dstack([x, y]), [F("n"), F("n")]),
    Case("dstack_matrices", lambda x, y: torch.dstack([x, y]), [F("n", 3), F("n", 3)]),
    Case("column_stack", lambda x, y: torch.column_stack([x, y]), [F("n"), F("n", 2)]),
    Case("column_stack_scalars", lambda x, y: torch.column_stack([x, y]), [F(), F()]),
    Case("split", lambda x: x.split(2, 1), [F("n", 5)], dtypes=MORE, graph=["Split"]),
    Case("split_dynamic", lambda x: x.split(2)[0] + 0, [F(3, "n")]),
    Case("split_sizes", lambda x: x.split([1, 2, 2], -1), [F("n", 5)], dtypes=ALL, graph=["Split"]),
    Case("split_free_rest", lambda x: x.split([2, x.size(1) - 2], 1), [F("n", "t")], dynamic_since=11),
    Case("split_with_sizes", lambda x: torch.split_with_sizes(x, [2, 3], 1), [F("n", 5)]),
    Case("unsafe_split", lambda x: torch.unsafe_split(x, 2, 1), [F("n", 5)]),
    Case("unsafe_split_with_sizes", lambda x: torch.unsafe_split_with_sizes(x, [2, 3], 1), [F("n", 5)]),
    Case("chunk", lambda x: x.chunk(3, 1), [F("n", 7)], dtypes=MORE, graph=["Split"]),
    Case("chunk_fewer", lambda x: x.chunk(4, 1), [F("n", 5)]),
    Case("chunk_dynamic", lambda x: x.chunk(2, 1), [F("n", "s")], dynamic_since=10, dtypes=ALL),
    Case("unsafe_chunk", lambda x: torch.unsafe_chunk(x, 2, 1), [F("n", 5)]),
    Case("tensor_split", lambda x: x.tensor_split(3, 1), [F("n", 8)], dtypes=ALL),
    Case("tensor_split_dynamic", lambda x: x.tensor_split(3, 1), [F("n", "s")], dynamic_since=10),
    Case("tensor_split_run_time", torch.tensor_split, [F(7, "n"), I(2, low=-3, high=9)], since=9, dtypes=ALL),
    Case("tensor_split_sizes", lambda x, i: x.tensor_split(i)[1].sum(0), [F(7, "n"), I(2, low=-3, high=9)], since=10),
    Case("chunk_cat", lambda x, y: torch._chunk_cat([x, y], 0, 3), [F(4, 2), F(6)], dtypes=ALL),
    Case("chunk_cat_inner", lambda x, y: torch._chunk_cat([x, y], 1, 2), [F("n", 3, 2), F("n", "c")], dynamic_since=11),
    Case("tensor_split_at", lambda x: x.tensor_split((1, 4), 1), [F("n", 8)], graph=["Split"]),
    Case("tensor_split_negative", lambda x: x.tensor_split((1, -2), 1), [F("n", "s")], dynamic_since=7),
    Case("tensor_split_falling", lambda x: x.tensor_split((4, 2), 1), [F("n", 8)]),
    Case("tensor_split_tensor", lambda x: x.tensor_split(torch.tensor([1, 4]), 1), [F("n", 8)]),
    Case("hsplit", lambda x: x.hsplit(2), [F("n", 4)]),
    Case("hsplit_vector", lambda x: x.hsplit([1, 2]), [F(4)]),
    Case("vsplit", lambda x: x.vsplit(2), [F(4, "n")]),
    Case("dsplit", lambda x: x.dsplit([1]), [F("n", 2, 4)]),
    Case("unbind", lambda x: x.unbind(1), [F("n", 3)], dtypes=MORE, graph=["Gather", "Gather", "Gather"]),
    Case("unbind_one", lambda x: x.unbind(-1), [F("n", 1)], graph=["Squeeze"]),
    Case("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), [F("n"), F("t")], dtypes=ALL),
    Case("meshgrid_default", torch.meshgrid, [F("n"), F(3), F()]),
    Case("meshgrid_xy", lambda x, y, z: torch.meshgrid(x, y, z, indexing="xy"), [F("n"), F("t"), F(3)]),
    Case("cartesian_prod", torch.cartesian_prod, [F("n"), F("t")], dtypes=ALL),
    Case("cartesian_prod_one", lambda x: torch.cartesian_prod(x) + 0, [F("n")]),
    Case("block_diag", torch.block_diag, [F("n", 3), F(2, 2), F(2)], dtypes=ALL),
    Case("pad_sequence", lambda *x: pad_sequence(x), [F("n", 3), F("t", 3), F(4, 3)], dtypes=ALL, dynamic_since=12),
    Case("pad_sequence_batch", lambda *x: pad_sequence(x, True, 2.5), [F("n"), F(2), F("t")], dynamic_since=12),
    Case(
        "pad_sequence_left", lambda *x: pad_sequence(x, padding_value=-1, padding_side="left"), [F("n", 2), F("t", 2)],
        dynamic_since=12,
    ),
    Case("pad_sequence_static", lambda *x: pad_sequence(x, True), [F(3, 2), F(5, 2)]),
    Case("block_diag_dynamic", torch.block_diag, [F("n", "t"), F("t", "n")], dynamic_since=11),
]  # fmt: skip

test_joining = table(CASES)
