"""Functions that leave out a part of the result, or return another one, when they hear that they are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.runner import ModelRunner, copies
from onnxport.capture.record.tracing import Answers


def denies(answers: Answers, runner: ModelRunner, tensors: Sequence[torch.Tensor], leaves: Sequence[Any]) -> bool:
    """Whether the result of a recorded call, in which functions heard that they are traced, is not that of a plain one.

    Then the first of the functions is denied that makes the difference alone; all of them if none does.
    """
    if not answers.heard:
        return False
    expected = _leaves(runner, tensors)
    if _is_alike(leaves, expected):
        return False
    heard = list(answers.heard)
    for functions in heard:
        answers.denied = {functions}
        if len(heard) > 1 and _is_alike(_leaves(runner, tensors, answers), expected):
            return True
    answers.denied = set(heard)
    return True


def _leaves(runner: ModelRunner, tensors: Sequence[torch.Tensor], answers: Answers | None = None) -> list[Any]:
    """What the model returns in a call that is not recorded."""
    told = contextlib.nullcontext() if answers is None else compat.patches.answering_as_traced(answers.is_traced)
    with runner.untouched(), told:
        return runner.call(copies(tensors))[0]


def _is_alike(leaves: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether results have as many parts, and tensors of the same types and shapes at the places of tensors."""
    return len(leaves) == len(expected) and all(
        isinstance(leaf, torch.Tensor) and (leaf.dtype, leaf.shape) == (other.dtype, other.shape)
        for leaf, other in zip(leaves, expected, strict=True)
        if isinstance(other, torch.Tensor)
    )
