"""Which capture is used: torch's tracer, or the recorder that is to take its place."""

from __future__ import annotations

import os


def records() -> bool:
    """Whether models are recorded (``ONNXPORT_CAPTURE=record``) and not traced."""
    return os.environ.get("ONNXPORT_CAPTURE") == "record"
