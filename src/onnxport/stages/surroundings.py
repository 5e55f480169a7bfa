"""Settings of Python and torch that are changed during an export."""

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
    """Suspend the recording of an outer export, so that an export inside a model is not part of that model."""
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
    """Switch garbage collection off: graphs are many small objects that stay, and searching them finds nothing.

    At the end they are moved to the oldest generation, so that the next collection does not start with them.
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
    """Switch observers off: quantizers such as torch.ao's update their ranges while this buffer is set, also in
    evaluation mode. Their present ranges are exported.
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
