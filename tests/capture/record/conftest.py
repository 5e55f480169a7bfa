"""These tests are about the recorder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXPORT_CAPTURE", "record")
