"""Leads the tracer into one round of ``while_loop``: it becomes the block of a ``Loop`` in the graph of the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnxport import compat
from onnxport.capture.branches import Branches
from onnxport.capture.control import own_tensors, while_loop
from onnxport.capture.reader import type_of
from onnxport.capture.stacks import users_lines
from onnxport.capture.state import WriteGuard
from onnxport.errors import CaptureError

if TYPE_CHECKING:
    from onnxport.capture.frozen import Watch

ENDLESS = 2**63 - 1


class Rounds:
    """The calls of ``while_loop`` in one trace."""

    def __init__(self, watch: Watch, branches: Branches) -> None:
        self._watch = watch
        self._branches = branches

    def call(
        self,
        place: int,
        cond_fn: Callable[..., Any],
        body_fn: Callable[..., Any],
        carried_inputs: Sequence[Any],
        additional_inputs: Sequence[Any] = (),
        **_: Any,
    ) -> Any:
        """What the loop gives, which the trace has as the results of a ``Loop``.

        One round is traced as if it had not been; then the loop runs, and the trace looks away.
        """
        firsts = [_tensor(value) for value in carried_inputs]
        with self._watch:
            begins = _tensor(cond_fn(*firsts, *additional_inputs))
        graph = compat.traced_graph()
        condition = self._branches.condition(begins, place)
        values = [compat.writing.known_value(first) for first in firsts]
        node = self._branches.node("prim::Loop", [graph.insertConstant(ENDLESS), condition, *values], place)
        block, entries = compat.writing.loop_block(node, firsts)
        with self._branches.inside(node, block, undone=True):
            given = [_tensor(value) for value in own_tensors(tuple(body_fn(*entries, *additional_inputs)))]
            goes_on = _tensor(cond_fn(*given, *additional_inputs))
            block.registerOutput(self._branches.condition(goes_on, place))
            for tensor in given:
                block.registerOutput(compat.writing.known_value(tensor))
        with compat.untraced():
            self._check(place, firsts, given)
            with WriteGuard(self._watch.state):
                results = while_loop(cond_fn, body_fn, tuple(firsts), additional_inputs)
        for result in results:
            compat.writing.set_traced_value(result, node.addOutput())
        return results

    def _check(self, place: int, firsts: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        before, after = (list(map(type_of, tensors)) for tensors in (firsts, given))
        if before != after:
            where = next(users_lines(self._watch.stacks.at(place)), "the model")
            raise CaptureError(
                f"{where}: a round of while_loop gives tensors that are not alike those that it was given: {after}, "
                f"not {before}. Give the same shapes and dtypes in every round."
            )


def _tensor(value: Any) -> torch.Tensor:
    """A number that a loop carries is a tensor in a trace."""
    if isinstance(value, torch.Tensor):
        return value
    with compat.untraced():
        return torch.tensor(value)
