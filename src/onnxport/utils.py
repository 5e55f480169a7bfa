"""What models and scripts ask about an export in progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from onnxport import compat
from onnxport.capture.model.state import training_mode
from onnxport.options.enums import TrainingMode


def is_in_onnx_export() -> bool:
    """Whether the calling code is being exported."""
    return compat.is_in_onnx_export()


@contextmanager
def set_training(model: nn.Module, mode: bool | TrainingMode | None) -> Iterator[None]:
    """Put the model and all its submodules into training or evaluation mode; each gets its own mode back afterwards."""
    if isinstance(mode, TrainingMode):
        mode = {TrainingMode.EVAL: False, TrainingMode.TRAINING: True, TrainingMode.PRESERVE: None}[mode]
    with training_mode([model], mode):
        yield
