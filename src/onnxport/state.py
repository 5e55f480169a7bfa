"""What models and scripts ask about an export in progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from onnxport import compat
from onnxport.capture.model.state import training_mode
from onnxport.modes import TrainingMode
from onnxport.options.options import read_training, switch_of


def is_in_onnx_export() -> bool:
    """Whether the calling code is being exported."""
    return compat.is_in_onnx_export()


@contextmanager
def set_training(model: nn.Module, mode: bool | TrainingMode | None) -> Iterator[None]:
    """Put the model and all its submodules into training or evaluation mode; each gets its own mode back afterwards."""
    with training_mode([model], None if mode is None else switch_of(read_training(mode))):
        yield


@contextmanager
def select_model_mode_for_export(model: nn.Module, mode: TrainingMode | bool | None) -> Iterator[None]:
    """The model in the mode that an export with ``training=mode`` would have it in; afterwards as it was."""
    with set_training(model, read_training(mode)):
        yield
