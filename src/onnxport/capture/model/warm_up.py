"""Models with a first call that changes the results of later calls: they are captured after a call on the example.

If a call changed the model, the model is called on other data, both in its initial state and after the example:

1. The results are equal: the change is a cache or a statistic, and the model is captured in its initial state.
2. They differ, or the call made submodules, and a second call makes no further difference: the model is captured after
   one call.
3. Every call makes a difference: the file is the next call from the initial state, and a warning says so.

Changes by switching the mode, as in layers that merge weights for evaluation, apply to all calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from onnxport.capture.model.attributes import has_content
from onnxport.capture.model.other_data import redraw
from onnxport.capture.model.refusals import RefusalsIgnored
from onnxport.capture.model.state import ModelState

if TYPE_CHECKING:
    from onnxport.capture.model.runner import ModelRunner

# How many of the changed attributes a warning names.
MAX_NAMES = 4
ONCE = "its first call changes what the model computes ({}): exported as it is after a call on the example"
EACH = (
    "each call of the model changes the result of the next one ({}). The file computes the next call from the present "
    "state and keeps nothing between runs: make the state an input and an output, or set it before the export."
)


@dataclass
class Warmth:
    """The state that calls start from, if it is not the initial one, with notes and warnings about it."""

    state: ModelState | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@contextlib.contextmanager
def warmed(runner: ModelRunner, initial: ModelState) -> Iterator[ModelState]:
    """The model in the state that calls start from, which is restored after a call."""
    if runner.warmth is None or runner.warmth.state is None:
        yield initial
        return
    runner.warmth.state.restore()
    state = ModelState(runner.roots.modules())
    try:
        yield state
    finally:
        state.restore()


def has_to_warm_up(runner: ModelRunner, *, refused: bool = False) -> bool:
    """Whether to repeat the last call after a warm-up call, which from now on goes before each call.

    ``refused`` says that the last call could not be recorded: then it is always repeated once.
    """
    if not runner.changed or runner.warmth is not None:
        return False
    runner.warmth = Warmth()  # so that the calls below do not warm up
    switched, by_mode = runner.advanced(None)
    start = switched if by_mode else None
    runner.warmth = Warmth(start)
    runner.warmth = _judged(runner, start, refused)
    if runner.warmth.state is None:
        return False
    with runner.in_mode():
        current = dict(runner.roots.tensors())
    runner.parameters = [(name, current.get(name, tensor)) for name, tensor in runner.parameters]
    return True


def _judged(runner: ModelRunner, start: ModelState | None, refused: bool) -> Warmth:
    """The state to call the model in. ``start`` is the one after switching the mode, if that changes something."""
    after_one, changes = runner.advanced(runner.inputs.tensors)
    if not changes:
        return Warmth(start)
    as_given, once = _results(runner, start), _results(runner, after_one)
    if _is_same(as_given, once) and not refused and not _has_new_layers(runner, after_one):
        return Warmth(start)
    names = ", ".join([*changes[:MAX_NAMES], *(["..."] if len(changes) > MAX_NAMES else [])])
    if _lasts(runner, after_one, once):
        return Warmth(after_one, [ONCE.format(names)])
    return Warmth(start, warnings=[EACH.format(names)])


def _has_new_layers(runner: ModelRunner, state: ModelState) -> bool:
    """Whether the model has more submodules in a state; a run that makes them draws new random weights."""
    runner.warmth = Warmth(state)
    with runner.in_mode():
        return not runner.roots.paths().keys() <= runner.paths.keys()


def _lasts(runner: ModelRunner, after_one: ModelState, once: list[Any] | None) -> bool:
    """Whether results after a second call, on other data, equal those after the first."""
    runner.warmth = Warmth(after_one)
    example = runner.inputs.tensors
    for tensors in (redraw(example, example, 1, keep_masks=True), example):
        with RefusalsIgnored():
            after_two, changes = runner.advanced(tensors)
            return not changes or _is_same(once, _results(runner, after_two))
    return False


def _results(runner: ModelRunner, state: ModelState | None) -> list[Any] | None:
    """The results from a state on other data than the example's; None if the model refuses it."""
    runner.warmth = Warmth(state)
    example = runner.inputs.tensors
    with RefusalsIgnored():
        return runner.execute(redraw(example, example, 0, keep_masks=True))
    return None


def _is_same(left: Sequence[Any] | None, right: Sequence[Any] | None) -> bool:
    if left is None or right is None:
        return left is right
    return len(left) == len(right) and all(map(_is_same_leaf, left, right))


def _is_same_leaf(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and has_content(left, right)
    return type(left) is type(right) and (_is_same(left, right) if isinstance(left, list) else bool(left == right))
