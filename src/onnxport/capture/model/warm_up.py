"""Models with a first call that changes the results of later calls: they are captured after a call on the example.

If a call changed the model, the model is called on other data, both in its initial state and after the example:

1. The results are equal: the change is a cache or a statistic, and the model is captured in its initial state.
2. They differ, or the call made submodules, and a second call makes no further difference: the model is captured after
   one call.
3. Every call makes a difference: the file is the next call from the initial state, and a warning says so.

Changes by switching the mode, as in layers that merge weights for evaluation, apply to all calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from onnxport.capture.model.attributes import has_content
from onnxport.capture.model.other_data import redraw
from onnxport.capture.model.refusals import RefusalsIgnored
from onnxport.capture.model.state import ModelState

# How many of the changed attributes a warning names.
MAX_NAMES = 4
ONCE = "its first call changes what the model computes ({}): exported as it is after a call on the example"
EACH = (
    "each call of the model changes the result of the next one ({}). The file computes the next call from the present "
    "state and keeps nothing between runs: make the state an input and an output, or set it before the export."
)


@dataclass(frozen=True)
class Warmth:
    """The state that calls start from, if it is not the initial one, with notes and warnings about it."""

    state: ModelState | None = None
    notes: Sequence[str] = field(default_factory=list)
    warnings: Sequence[str] = field(default_factory=list)


class CallsFrom(Protocol):
    """Calls a model in a given state; None is its initial one."""

    def advanced(
        self, start: ModelState | None, tensors: Sequence[torch.Tensor] | None
    ) -> tuple[ModelState, list[str]]:
        """The state of the model after a call on these tensors, and the names of the attributes that it changed.

        With None there is no call: it is the state after switching the mode.
        """
        ...

    def results(self, start: ModelState | None, tensors: Sequence[torch.Tensor]) -> list[Any]: ...

    def has_new_layers(self, start: ModelState | None) -> bool:
        """Whether the model has submodules there that it had not at first; a run that makes them draws weights."""
        ...


def warmth(calls: CallsFrom, example: Sequence[torch.Tensor], *, refused: bool) -> Warmth:
    """The state to call a model in of which some call has changed something.

    ``refused`` says that the last call could not be recorded.
    """
    switched, by_mode = calls.advanced(None, None)
    start = switched if by_mode else None
    after_one, changes = calls.advanced(start, example)
    if not changes:
        return Warmth(start)
    as_given, once = _results(calls, start, example), _results(calls, after_one, example)
    if _is_same(as_given, once) and not refused and not calls.has_new_layers(after_one):
        return Warmth(start)
    names = ", ".join([*changes[:MAX_NAMES], *(["..."] if len(changes) > MAX_NAMES else [])])
    if _lasts(calls, after_one, once, example):
        return Warmth(after_one, notes=[ONCE.format(names)])
    return Warmth(start, warnings=[EACH.format(names)])


def _lasts(calls: CallsFrom, after_one: ModelState, once: list[Any] | None, example: Sequence[torch.Tensor]) -> bool:
    """Whether results after a second call, on other data, equal those after the first."""
    for tensors in (redraw(example, example, 1, keep_masks=True), example):
        with RefusalsIgnored():
            after_two, changes = calls.advanced(after_one, tensors)
            return not changes or _is_same(once, _results(calls, after_two, example))
    return False


def _results(calls: CallsFrom, start: ModelState | None, example: Sequence[torch.Tensor]) -> list[Any] | None:
    """The results from a state on other data than the example's; None if the model refuses it."""
    with RefusalsIgnored():
        return calls.results(start, redraw(example, example, 0, keep_masks=True))
    return None


def _is_same(left: Sequence[Any] | None, right: Sequence[Any] | None) -> bool:
    if left is None or right is None:
        return left is right
    return len(left) == len(right) and all(map(_is_same_leaf, left, right))


def _is_same_leaf(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and has_content(left, right)
    return type(left) is type(right) and (_is_same(left, right) if isinstance(left, list) else bool(left == right))
