"""Captures a model: from its TorchScript graph if it is scripted, else by recording a run."""

from __future__ import annotations

from dataclasses import replace

from onnxport import compat
from onnxport.capture.axes.axis import Axis
from onnxport.capture.captured import Capture
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.paths.recorded import capture_recorded
from onnxport.capture.script.capture import capture_scripted


def capture_model(runner: ModelRunner, axes: list[Axis]) -> Capture:
    scripted = compat.scripts.is_scripted(runner.model)
    captured = capture_scripted(runner, axes) if scripted else capture_recorded(runner, axes)
    warmth = runner.warmth
    if warmth is None:
        return captured
    return replace(captured, notes=[*captured.notes, *warmth.notes], warnings=[*captured.warnings, *warmth.warnings])
