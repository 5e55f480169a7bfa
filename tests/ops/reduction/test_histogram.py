from __future__ import annotations

import torch

from tests.ops.harness import Case, F, I, X, table

NAN = float("nan")
DOUBLE = (torch.float32, torch.float64)  # torch has histograms of these alone
HALF = (*DOUBLE, torch.float16, torch.bfloat16)  # except for histc


def with_nan(shape: tuple[int, ...]) -> torch.Tensor:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) * 4 - 2
    x[1] = NAN
    x[2] = 1.0
    return x


def falling(shape: tuple[int, ...]) -> torch.Tensor:
    """Some are 0 or more where there are many, none where there are few."""
    return torch.arange(shape[0]) - 4


EDGES = torch.tensor([-1.5, -0.5, 0.0, 1.9])

CASES = [
    Case("bincount", torch.bincount, [I("t")], since=9, dtypes=()),
    Case("bincount-minlength", lambda x: torch.bincount(x, minlength=7), [I("t")], since=9, dtypes=()),
    Case("bincount-short-minlength", lambda x: torch.bincount(x, minlength=2), [I("t")], since=9, dtypes=()),
    Case(
        "bincount-minlength-of-an-axis",
        lambda x, y: torch.bincount(x, minlength=y.shape[0]),
        [I("t"), F("s", 2)],
        since=9,
        dtypes=(),
    ),
    Case("bincount-weights", torch.bincount, [I("t"), F("t")], since=9, dtypes=DOUBLE),
    Case("bincount-whole-weights", torch.bincount, [I("t"), I("t")], since=9, dtypes=()),
    Case("bincount-empty", lambda x: torch.bincount(x, minlength=3), [I(0)], dtypes=()),
    Case("bincount-runs-empty", lambda x: torch.bincount(x[x >= 0]), [X("t", make=falling)], since=9, dtypes=()),
    Case("histc", lambda x: torch.histc(x, 5), [F("n", "t")], since=9, dtypes=DOUBLE),
    Case("histc-range", lambda x: torch.histc(x, 4, min=-1, max=1), [X("t", make=with_nan)], since=9, dtypes=DOUBLE),
    Case(
        "histc-many-bins", lambda x: torch.histc(x, 60, -10, 10), [F("t", 40, low=-10, high=10)], since=9, dtypes=HALF
    ),
    Case("histc-found-bounds", lambda x: torch.histc(x, 13), [F("t", 40)], since=9, dtypes=HALF),
    Case("histc-one-value", lambda x: torch.histc(x * 0 + 3, 4), [F("t")], since=9, dtypes=DOUBLE),
    Case("histogram", lambda x: torch.histogram(x, 5), [F("n", "t")], since=9, dtypes=DOUBLE),
    Case("histogram-range", lambda x: torch.histogram(x, 4, range=(-1.0, 1.0)), [X("t", make=with_nan)], since=9),
    Case("histogram-one-value", lambda x: torch.histogram(x * 0 + 3, 4), [F("t")], since=9, dtypes=DOUBLE),
    Case("histogram-edges", lambda x: torch.histogram(x, EDGES.to(x.dtype)), [F("t")], since=9, dtypes=DOUBLE),
    Case(
        "histogram-density",
        lambda x, w: torch.histogram(x, 4, range=(-2.0, 2.0), weight=w, density=True),
        [F("t"), F("t", low=0.5)],
        since=9,
        dtypes=DOUBLE,
    ),
    Case("histogramdd", lambda x: torch.histogramdd(x, [2, 3])[0], [F("t", 2)], since=9, dtypes=DOUBLE),
    Case("histogramdd-edges", lambda x: torch.histogramdd(x, [2, 3, 4]), [F("n", "t", 3)], since=9, dtypes=DOUBLE),
    Case(
        "histogramdd-density",
        lambda x, w: torch.histogramdd(x, 3, range=[-1.0, 1.0, 0.0, 2.0], weight=w, density=True),
        [F(9, 2), F(9, low=0.5)],
        since=9,
    ),
    Case(
        "histogramdd-given-edges",
        lambda x: torch.histogramdd(x, [EDGES, torch.tensor([-2.0, 0.0, 2.0])]),
        [F("t", 2)],
        since=9,
        dtypes=(),
    ),
]

test_counting = table(CASES)
