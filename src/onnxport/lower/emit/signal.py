"""Emitters of the Fourier transforms, which ONNX has from opset 17."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onnxport.lower.value import Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder


def dft(
    g: Builder, x: Value, axis: int, *, inverse: bool = False, onesided: bool = False, length: Value | None = None
) -> Value:
    """DFT of a tensor with one part or two along its last axis. The axis is an input from opset 20."""
    turned, half = int(inverse) or None, int(onesided) or None
    if g.opset >= 20:
        return g.op("DFT", x, length, g.constant(axis, torch.int64), inverse=turned, onesided=half)
    return g.op("DFT", x, length, axis=axis, inverse=turned, onesided=half)


def stft(g: Builder, x: Value, step: int, window: Value, onesided: bool) -> Value:
    """STFT of signals in rows, with a last axis of one part or two: frames, frequencies and their parts."""
    return g.op("STFT", x, g.constant(step, torch.int64), window, onesided=int(onesided))
