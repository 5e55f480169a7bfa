from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, NUMBERS, Case, F, X, table

NAN, INF = float("nan"), float("inf")


def with_nan(shape: tuple[int, ...]) -> torch.Tensor:
    """A row of NaN alone, one with a NaN, and infinities."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) * 4 - 2
    x[0] = NAN
    x[1, 1] = NAN
    x[-1, 0] = INF
    x[-1, 1] = -INF
    return x


def repeated(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(sum(shape))).to(torch.float32)


SHARES = torch.tensor([0.0, 0.3, 0.5, 1.0])
DOUBLE = (torch.float32, torch.float64)  # torch has quantiles of these alone


EXACT = {"exact_nan": True}

CASES = [
    Case("median", torch.median, [F("n", "t")], dynamic_since=10, dtypes=(*NUMBERS, torch.bfloat16)),
    Case("median-odd", torch.median, [F(7)]),
    Case("median-0-dim", torch.median, [F()]),
    Case("median-nan", torch.median, [X(4, "t", make=with_nan)], since=9, dynamic_since=10, keywords=EXACT),
    Case("median-dim", lambda x: torch.median(x, 1)[0], [F("n", "t", 3)], dynamic_since=10, dtypes=NUMBERS),
    Case("median-dim-places", lambda x: torch.median(x, 0, keepdim=True), [F("t", 3)], dynamic_since=10),
    Case(
        "median-dim-nan",
        lambda x: torch.median(x, 1),
        [X(4, "t", make=with_nan)],
        since=9,
        dynamic_since=10,
        keywords=EXACT,
    ),
    Case("nanmedian", torch.nanmedian, [X(4, "t", make=with_nan)], since=9, dynamic_since=11, dtypes=NUMBERS),
    Case("nanmedian-dim", lambda x: torch.nanmedian(x[1:], 1), [X(4, "t", make=with_nan)], since=9, dynamic_since=11),
    Case("nanmedian-nan", lambda x: torch.nanmedian(x, 1)[0], [X(4, "t", make=with_nan)], since=9, dynamic_since=11),
    Case("nanmedian-keepdim", lambda x: torch.nanmedian(x, 0, keepdim=True), [F("t", 3)], since=9, dynamic_since=11),
    Case("quantile", lambda x: torch.quantile(x, 0.3, 1), [F("n", "t", 3)], since=9, dynamic_since=10, dtypes=DOUBLE),
    Case("quantile-all", lambda x: torch.quantile(x, 0.6), [F("n", "t")], since=9, dynamic_since=11, dtypes=DOUBLE),
    Case(
        "quantile-several",
        lambda x: torch.quantile(x, SHARES.to(x.dtype), -1, keepdim=True),
        [F("n", "t")],
        since=9,
        dynamic_since=10,
        dtypes=DOUBLE,
    ),
    Case(
        "quantile-given",
        lambda x, q: torch.quantile(x, q, 0),
        [F("t", 3), F(4, low=0, high=1)],
        since=9,
        dynamic_since=10,
        dtypes=DOUBLE,
    ),
    *(
        Case(
            f"quantile-{kind}",
            lambda x, kind=kind: torch.quantile(x, 0.3, 1, interpolation=kind),
            [F("n", "t")],
            since=9 if kind == "midpoint" else 7,
            dynamic_since=10,
            dtypes=DOUBLE,
        )
        for kind in ("lower", "higher", "midpoint")
    ),
    Case(
        "quantile-nearest",
        lambda x: torch.quantile(x, 0.3, 1, interpolation="nearest"),
        [F(3, 6)],
        dtypes=DOUBLE,
    ),
    Case(
        "quantile-nan",
        lambda x: torch.quantile(x, 0.4, 1)[:-1],
        [X(4, "t", make=with_nan)],
        since=9,
        dynamic_since=10,
        dtypes=DOUBLE,
        keywords=EXACT,
    ),
    Case(
        "nanquantile",
        lambda x: torch.nanquantile(x, SHARES.to(x.dtype), 1)[:, :-1],
        [X(4, "t", make=with_nan)],
        since=9,
        dynamic_since=11,
        dtypes=DOUBLE,
    ),
    Case(
        "nanquantile-all",
        lambda x: torch.nanquantile(x[:3], 0.5),
        [X(4, "t", make=with_nan)],
        since=9,
        dynamic_since=11,
        dtypes=DOUBLE,
    ),
    Case("mode", lambda x: torch.mode(x, 1), [X("n", "t", 3, make=repeated)], since=9, dynamic_since=11, dtypes=FLOATS),
    Case(
        "mode-whole",
        lambda x: torch.mode(x, 0, keepdim=True),
        [F("t", 3)],
        since=9,
        base=torch.int64,
        dtypes=ALL,
    ),
    Case("mode-nan", lambda x: torch.mode(x, 1), [X(4, "t", make=with_nan)], since=9),
    Case("mode-0-dim", torch.mode, [F()]),
]

test_quantiles = table(CASES)
