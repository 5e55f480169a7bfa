"""The quick ones of the models that people bring. `make models` runs them all."""

from __future__ import annotations

import pytest

from tests.models.catalogue import MODELS
from tests.models.judge import judge
from tests.models.packages import missing

FAST = [model for model in MODELS.values() if model.fast]


@pytest.mark.parametrize("model", FAST, ids=lambda model: model.name)
def test_model(model):
    lacking = missing(model.packages)
    if lacking:
        pytest.skip(f"needs {', '.join(lacking)}: pip install --no-deps what the extra `models` lists")
    verdict = judge(model)
    assert verdict.passed, f"{verdict.kind}: {verdict.detail}"
