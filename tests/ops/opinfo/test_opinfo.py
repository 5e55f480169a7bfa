"""The fast form of the sweep over OpInfo: `make ops` is the long one.

Each operator of torch's database in each dtype is one test. Its first sample counts, in float32 the first two; of the
operators in `known.py` all samples are tried, since a row that no longer fails must go.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ops.opinfo import known
from tests.ops.opinfo.samples import DTYPES, OPERATORS, SAMPLES, operators_with
from tests.ops.opinfo.serve import serve
from tests.ops.opinfo.workers import Worker

QUICK_SAMPLES = {"float32": 2}

CALLS = [(operator, dtype) for dtype in DTYPES for operator in operators_with(dtype)]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = Worker(serve)
    yield started
    started.stop()


@pytest.mark.parametrize(("operator", "dtype"), CALLS, ids=[f"{dtype}-{operator}" for operator, dtype in CALLS])
def test_operator(worker: Worker, operator: str, dtype: str) -> None:
    reason = known.reason(operator, dtype)
    verdicts = worker.samples(operator, dtype, SAMPLES if reason else QUICK_SAMPLES.get(dtype, 1))
    failures = [f"{verdict.kind}: {verdict.detail}" for verdict in verdicts if not verdict.passed]
    if reason is None:
        assert not failures, "\n".join(failures)
    else:
        assert failures or not verdicts, f"it works: take its row out of known.py ({reason})"


def test_known_rows_name_operators() -> None:
    """Each row is about an operator that exists, in dtypes that are tried, and no two are about the same."""
    for row in known.ROWS:
        assert row.operator in OPERATORS, row.operator
        assert set(row.dtypes) <= set(known.ALL), row
    pairs = [(row.operator, dtype) for row in known.ROWS for dtype in row.dtypes]
    assert len(set(pairs)) == len(pairs)
