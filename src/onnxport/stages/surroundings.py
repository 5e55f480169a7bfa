"""What an export keeps away from itself while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from onnxport import compat
from onnxport.errors import of_no_model


@contextmanager
def by_itself() -> Iterator[None]:
    """Inside of a model that is being exported, nothing of an export belongs to that model."""
    with (
        of_no_model(),
        _garbage_collection_off(),
        compat.without_fake_mode(),
        compat.scripts.without_deprecations(),
        compat.dispatch.unseen(),
        compat.patches.answering_as_traced(lambda asking, scripted: False),
    ):
        yield


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Graphs are many small objects that all stay: looking for cycles among them again and again finds nothing.

    What is left in the end counts as old: switched on again, the search would begin with all of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def observers_off(model: Any) -> Iterator[None]:
    """Quantizers of torch.ao and alike learn from what they see while this buffer of theirs says so, in evaluation mode
    too. What they have learned so far is exported.
    """
    found = model.named_buffers() if isinstance(model, nn.Module) else ()
    learning = [
        buffer for name, buffer in found if name.rpartition(".")[2] == "observer_enabled" and bool(buffer.any())
    ]
    before = [buffer.clone() for buffer in learning]
    for buffer in learning:
        buffer.zero_()
    try:
        yield
    finally:
        for buffer, content in zip(learning, before, strict=True):
            buffer.copy_(content)
