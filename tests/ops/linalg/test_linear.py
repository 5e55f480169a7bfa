"""The linear layer."""

from __future__ import annotations

import torch
from torch.nn import functional as nnf

from tests.ops.harness import NUMBERS, Case, F, table

CASES = [
    Case("module", torch.nn.Linear(3, 4), [F("n", 3)], graph=["Gemm"]),
    Case("rank2", nnf.linear, [F("n", 3), F(4, 3), F(4)], dtypes=(*NUMBERS, torch.bfloat16), graph=["Gemm"]),
    Case("rank2_no_bias", nnf.linear, [F("n", 3), F(4, 3)], dtypes=NUMBERS, graph=["Gemm"]),
    Case("rank1", nnf.linear, [F(3), F("c", 3), F("c")], dtypes=NUMBERS),
    Case(
        "rank3",
        nnf.linear,
        [F("n", "t", 3), F(4, 3), F(4)],
        dtypes=(*NUMBERS, torch.bfloat16),
        graph=["Transpose", "MatMul", "Add"],
    ),
    Case("rank3_module", torch.nn.Linear(3, 4), [F("n", "t", 3)], graph=["MatMul", "Add"]),
    Case("rank4_no_bias", nnf.linear, [F("n", "t", 2, 3), F(4, 3)]),
    Case("vector_weight", nnf.linear, [F("n", "t", 3), F(3)], graph=["MatMul"]),
    Case("vectors", nnf.linear, [F("c"), F("c")]),
    Case("dynamic_features", nnf.linear, [F("n", "t"), F("c", "t"), F("c")]),
]

test_linear = table(CASES)
