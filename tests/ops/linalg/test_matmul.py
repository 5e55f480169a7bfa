"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, table

MORE = (*NUMBERS, torch.bfloat16)

CASES = [
    *(
        Case(f"matmul{len(left)}{len(right)}", torch.matmul, [F(*left), F(*right)], dtypes=MORE, graph=["MatMul"])
        for left, right in [
            ((3,), (3,)),
            ((3,), (3, "c")),
            (("n", 3), (3,)),
            (("n", 3), (3, "c")),
            ((3,), ("n", 3, "c")),
            (("n", "t", 3), (3,)),
            (("n", "t", 3), (3, 4)),
            ((4, 3), ("n", 3, "t")),
            (("n", "t", 3), ("n", 3, "c")),
            (("n", 1, "t", 3), (2, 3, "c")),
            (("c", "t", 3), ("n", 1, 3, 2)),
        ]
    ),
    Case("operator", lambda x, y: x @ y.t(), [F("n", 3), F("c", 3)], graph=["Gemm"]),
    Case("linalg_matmul", torch.linalg.matmul, [F("n", 3), F(3, "c")]),
    Case("mm", torch.mm, [F("n", 3), F(3, "c")], dtypes=MORE, graph=["MatMul"]),
    Case("bmm", torch.bmm, [F("n", "t", 3), F("n", 3, "c")], dtypes=MORE, graph=["MatMul"]),
    Case("mv", torch.mv, [F("n", "t"), F("t")], dtypes=NUMBERS, graph=["MatMul"]),
    Case("dot", torch.dot, [F("t"), F("t")], dtypes=NUMBERS, graph=["MatMul"]),
    Case("vdot", torch.vdot, [F("t"), F("t")], dtypes=NUMBERS),
    Case("dot_then_more", lambda x, y: torch.dot(x, y) * x, [F("t"), F("t")]),
    Case("vecdot", torch.linalg.vecdot, [F("n", "t"), F("n", "t")]),
    Case("vecdot_dim", lambda x, y: torch.linalg.vecdot(x, y, dim=0), [F("n", "t", 2), F("t", 2)]),
    Case("outer", torch.outer, [F("n"), F("c")], dtypes=ALL, graph=["Unsqueeze", "Mul"]),
    Case("outer_mixed", lambda x: torch.outer(x, torch.arange(3)), [F("n")]),
    Case("ger", torch.ger, [F("n"), F("c")]),
    Case("addmm", torch.addmm, [F("n", "c"), F("n", 3), F(3, "c")], dtypes=MORE, graph=["Gemm"]),
    Case("addmm_bias", torch.addmm, [F(4), F("n", 3), F(3, 4)]),
    Case("det", torch.linalg.det, [F("n", 3, 3)], since=9, dtypes=(), graph=["Det"]),
    Case("addmm_empty", lambda x, y, z: torch.addmm(x, y, z, beta=0.2), [F(4), F(3, 0), F(0, 4)]),
    Case("addmm_column", torch.addmm, [F("n", 1), F("n", 3), F(3, 4)]),
    Case(
        "addmm_scaled",
        lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3),
        [F("n", "c"), F("n", 3), F(3, "c")],
        dtypes=NUMBERS,
        graph=["Gemm"],
    ),
    Case(
        "addmm_fractions",
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-1.5),
        [F("n", "c"), F("n", 3), F(3, "c")],
    ),
    Case(
        "addmm_beta_zero",
        lambda c, a, b: torch.addmm(c / 0, a, b, beta=0, alpha=2),
        [F("n", "c"), F("n", 3), F(3, "c")],
    ),
    Case("addmm_alpha_zero", lambda c, a, b: torch.addmm(c, a, b, alpha=0), [F("n", "c"), F("n", 3), F(3, "c")]),
    Case("addmv", lambda c, a, b: torch.addmv(c, a, b, beta=2, alpha=3), [F("n"), F("n", 3), F(3)], dtypes=NUMBERS),
    Case("addmv_plain", torch.addmv, [F("n"), F("n", 3), F(3)], graph=["MatMul", "Add"]),
    Case(
        "baddbmm",
        torch.baddbmm,
        [F("n", "t", "c"), F("n", "t", 3), F("n", 3, "c")],
        dtypes=MORE,
        graph=["MatMul", "Add"],
    ),
    Case(
        "baddbmm_scaled",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5),
        [F("c"), F("n", "t", 3), F("n", 3, "c")],
    ),
    Case(
        "baddbmm_beta_zero",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0, alpha=0.5),
        [F("c"), F("n", "t", 3), F("n", 3, "c")],
    ),
    Case(
        "addbmm",
        lambda c, a, b: torch.addbmm(c, a, b, beta=3, alpha=2),
        [F("t", "c"), F("n", "t", 3), F("n", 3, "c")],
        dtypes=NUMBERS,
    ),
    Case("addr", torch.addr, [F("n", "c"), F("n"), F("c")], dtypes=ALL),
    Case(
        "addr_scaled",
        lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3),
        [F("n", "c"), F("n"), F("c")],
        dtypes=NUMBERS,
    ),
    Case("chain_matmul", torch.chain_matmul, [F("n", 3), F(3, 4), F(4, 2)], graph=["MatMul", "MatMul"]),
    Case("multi_dot", lambda *x: torch.linalg.multi_dot(x), [F(10, 2), F(2, 10), F(10, 3), F(3, 1)], dtypes=NUMBERS),
    Case("multi_dot_vectors", lambda *x: torch.linalg.multi_dot(x), [F(3), F(3, "c"), F("c")]),
    Case("multi_dot_last_vector", lambda *x: torch.linalg.multi_dot(x), [F("n", 3), F(3, "c"), F("c")]),
    Case("multi_dot_two", lambda *x: torch.linalg.multi_dot(x), [F("n", 3), F(3, "c")]),
    Case("kron", torch.kron, [F(2, 3), F("n", 4)], dtypes=ALL),
    Case("kron_ranks", torch.kron, [F(2, 3, 2), F("n")], dtypes=ALL),
    Case("kron_scalar", torch.kron, [F(), F("n", 4)]),
    Case("cross", lambda x, y: torch.cross(x, y, dim=1), [F("n", 3), F("n", 3)], dtypes=NUMBERS),
    Case("cross_default", torch.cross, [F("h", 3, "t"), F("h", 3, "t")]),
    Case("linalg_cross", torch.linalg.cross, [F("n", 3), F("n", 3)], dtypes=MORE),
    Case("linalg_cross_broadcast", torch.linalg.cross, [F("n", 1, 3), F(1, "t", 3)]),
    *(Case(f"matrix_power{n}", lambda x, n=n: torch.matrix_power(x, n), [F("n", 3, 3)]) for n in (1, 2, 3, 7)),
    Case("matrix_power0", lambda x: torch.matrix_power(x, 0), [F(3, 3)]),
    Case("matrix_power0_batch", lambda x: torch.matrix_power(x, 0), [F("n", 3, 3)]),
    Case("matrix_power_integers", lambda x: torch.matrix_power(x, 3), [F("c", "c")], dtypes=MORE),
]

test_products = table(CASES)
