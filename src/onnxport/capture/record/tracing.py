"""The answers to functions of a model that ask whether they are traced (``torch.jit.is_tracing()``).

Most of them do then what holds for any data. A few take sizes for tensors, as they are to torch's tracer: where that
makes a model fail, the answer is True only to those that decide by data otherwise. Others leave out a part of the
result: the answer to them is False.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from types import CodeType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.model.runner import ModelRunner, copies

# A function by its file and name.
Function = tuple[str, str]


class NotScripted(BaseException):
    """A function to be scripted before it is answered: while a model is recorded, names that it uses are replaced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.function = function


class Answers:
    """``to_all`` is the answer to every function but those ``denied``, which are told apart by their callers.

    ``traced`` are those to which it is True in any case, and ``heard`` those that heard True as all do.
    """

    def __init__(self) -> None:
        self.to_all = True
        self.traced: set[Function] = set()
        self.heard: dict[tuple[Function, ...], None] = {}
        self.denied: set[tuple[Function, ...]] = set()
        self._not_traced: set[Function] = set()  # those that have asked, and to which it was False
        self._failed: set[Function] = set()
        self._scripted: dict[Callable[..., Any], bool] = {}  # whether those can be that are if they are traced

    def is_traced(self, asking: Sequence[CodeType], scripted: Callable[..., Any] | None) -> bool:
        """The answer to a function that asks, with its caller; or for one that is ``scripted`` if it is traced."""
        functions = tuple((code.co_filename, code.co_name) for code in asking)
        if self.to_all and scripted is None and functions not in self.denied:
            self.heard[functions] = None
            return True
        if not self.traced.isdisjoint(functions):
            if scripted is not None and scripted not in self._scripted:
                raise NotScripted(scripted)
            return scripted is None or self._scripted[scripted]
        self._not_traced.update(functions)
        return False

    def script(self, function: Callable[..., Any]) -> None:
        self._scripted[function] = compat.scripts.can_be_scripted(function)

    def answer_true(self, functions: Collection[Function]) -> bool:
        """Answer True from now on to some functions; whether it was False to one of them so far."""
        new = self._not_traced.intersection(functions).difference(self.traced, self._failed, *self.denied)
        self.traced |= new
        return bool(new)

    def take_back(self) -> None:
        """The model fails by what the functions do to which the answer is True."""
        self._failed |= self.traced
        self.traced = set()


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
