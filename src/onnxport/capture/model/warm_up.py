"""Models whose first call changes what later calls compute: they are captured as they are after a call on the example.

A model that changes nothing costs nothing. Where a call changed something, the model is called on other data, as it was
given and as the example leaves it:

1. Both give the same: what changed is a cache or a record, and the model is captured as it was given.
2. They differ, or the call made submodules, and a second call makes no further difference: it is captured after the
   first.
3. Every call makes a difference: the file is the next call from the state that the model was given in, and a warning
   says so.

What is changed by switching the mode, as by layers that merge weights for evaluation, is in place for all calls.
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

# How many of the changed attributes are named.
MOST_NAMES = 4
ONCE = "its first call changes what the model computes ({}): exported as it is after a call on the example"
EACH = (
    "each call of the model changes what the next one computes ({}): the file computes the next call from the state in "
    "which the model is now, and keeps nothing from one run to the next. Make what is kept an input and an output, or "
    "set it to what it should be before the export."
)


@dataclass
class Warmth:
    """The state that calls start from, if it is not the one in which the model was given; and what to tell of that."""

    state: ModelState | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@contextlib.contextmanager
def warmed(runner: ModelRunner, given: ModelState) -> Iterator[ModelState]:
    """The model in the state that calls start from; what a call changes in it is given back."""
    if runner.warmth is None or runner.warmth.state is None:
        yield given
        return
    runner.warmth.state.restore()
    state = ModelState(runner.roots.modules())
    try:
        yield state
    finally:
        state.restore()


def has_to_warm_up(runner: ModelRunner, *, refused: bool = False) -> bool:
    """Whether the last call is to be made again, because a warm-up call has to go before it; from now on one does.

    ``refused`` tells that the last call could not be recorded: then one after a warm-up call is worth it in any case.
    """
    if not runner.changed or runner.warmth is not None:
        return False
    runner.warmth = Warmth()  # the calls below are not judged themselves
    switched, by_mode = runner.advanced(None)
    start = switched if by_mode else None
    runner.warmth = Warmth(start)
    runner.warmth = _judged(runner, start, refused)
    if runner.warmth.state is None:
        return False
    with runner.in_mode():
        held = dict(runner.roots.tensors())
    runner.parameters = [(name, held.get(name, tensor)) for name, tensor in runner.parameters]
    return True


def _judged(runner: ModelRunner, start: ModelState | None, refused: bool) -> Warmth:
    """The state to call the model in. ``start`` is the one that its mode puts it in, where that changes something."""
    after_one, changes = runner.advanced(runner.inputs.tensors)
    if not changes:
        return Warmth(start)
    as_given, once = _results(runner, start), _results(runner, after_one)
    if _is_same(as_given, once) and not refused and not _has_new_layers(runner, after_one):
        return Warmth(start)
    names = ", ".join([*changes[:MOST_NAMES], *(["..."] if len(changes) > MOST_NAMES else [])])
    if _lasts(runner, after_one, once):
        return Warmth(after_one, [ONCE.format(names)])
    return Warmth(start, warnings=[EACH.format(names)])


def _has_new_layers(runner: ModelRunner, state: ModelState) -> bool:
    """Whether the model has more submodules in a state: a run that makes them draws their weights anew."""
    runner.warmth = Warmth(state)
    with runner.in_mode():
        return not runner.roots.paths().keys() <= runner.paths.keys()


def _lasts(runner: ModelRunner, after_one: ModelState, once: list[Any] | None) -> bool:
    """Whether a second call, on other data, leaves the model computing what it computes after the first."""
    runner.warmth = Warmth(after_one)
    example = runner.inputs.tensors
    for tensors in (redraw(example, example, 1, keep_masks=True), example):
        with RefusalsIgnored():
            after_two, changes = runner.advanced(tensors)
            return not changes or _is_same(once, _results(runner, after_two))
    return False


def _results(runner: ModelRunner, state: ModelState | None) -> list[Any] | None:
    """What the model gives from a state on other data than the example's; None where it refuses."""
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
