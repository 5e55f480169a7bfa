"""Lets a model tell a recorded run from a plain one, for tests of what happens where the two differ."""

from __future__ import annotations

from onnxport.capture.record.numbers.listener import STATE


def is_recorded() -> bool:
    """Whether the calling code runs under the recorder."""
    return STATE.listener is not None
