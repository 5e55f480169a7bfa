from __future__ import annotations

import torch

from tests.ops.harness import ALL, B, Case, F, table

CASES = [
    Case("combinations", torch.combinations, [F("t")], dynamic_since=9, dtypes=ALL),
    Case("combinations-three", lambda x: torch.combinations(x, 3), [F("t")], dynamic_since=9),
    Case("combinations-one", lambda x: torch.combinations(x, 1), [F("t")], dynamic_since=9),
    Case("combinations-none", lambda x: torch.combinations(x, 0), [F("t")]),
    Case("combinations-again", lambda x: torch.combinations(x, 2, with_replacement=True), [F("t")], dynamic_since=9),
    Case("combinations-of-few", lambda x: torch.combinations(x, 4), [F(3)]),
    Case("nonzero-static-few", lambda x: torch.nonzero_static(x, size=3), [B("n", "c")], since=9, dtypes=()),
    Case(
        "nonzero-static-many",
        lambda x: torch.nonzero_static(x, size=40, fill_value=7),
        [B("n", "c")],
        since=9,
        dtypes=(),
    ),
    Case("nonzero-static-0-dim", lambda x: torch.nonzero_static(x, size=2), [F()], since=9),
]

test_selecting = table(CASES)
