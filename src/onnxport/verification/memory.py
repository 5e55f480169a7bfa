"""Whether there is room for copies of the weights, which ONNX Runtime makes when it loads a model from bytes."""

from __future__ import annotations

import os


def no_room_for_copies(weight_bytes: int) -> str | None:
    """The reason not to make them, or None."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    if weight_bytes * 4 <= free:
        return None
    return f"the weights ({weight_bytes / 2**30:.1f} GiB) are more than a quarter of the free memory"
