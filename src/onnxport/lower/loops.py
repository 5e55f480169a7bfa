"""The Loop operator, for iterative computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from onnxport.lower import sizes
from onnxport.lower.value import AnySize, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder

UNBOUNDED = 2**63 - 1


@dataclass(frozen=True)
class Step:
    """The results of one iteration: the states, values to collect over all iterations, and whether to go on."""

    states: Sequence[Value]
    collected: Sequence[Value] = ()
    goes_on: Value | None = None


Body = Callable[["Builder", Value, list[Value]], Step]


def loop(g: Builder, count: AnySize, states: Sequence[Value], body: Body) -> tuple[list[Value], list[Value]]:
    """Run ``body(g, iteration, states)`` at most ``count`` times: the last states, and the collected values, stacked.

    States keep their shapes. The builder passed to the body adds to the loop; the body may use values from outside.
    """
    steps: list[Step] = []

    def run(inner: Builder, inputs: list[Value]) -> list[Value]:
        iteration, going, *before = inputs
        step = body(inner, iteration, before)
        steps.append(step)
        goes_on = step.goes_on if step.goes_on is not None else inner.op("Identity", going)
        return [goes_on, *step.states, *step.collected]

    entries = [(torch.int64, ()), (torch.bool, ()), *((state.dtype, state.shape or ()) for state in states)]
    graph = g.subgraph("loop", entries, run)
    results = g.op(
        "Loop", sizes.scalar(g, count), g.constant(True, torch.bool), *states,
        outputs=len(states) + len(steps[0].collected), body=graph,
    )  # fmt: skip
    last = [g.typed(result, state.dtype, state.shape) for result, state in zip(results, states, strict=False)]
    length = sizes.known(count)
    stacked = [
        g.typed(result, value.dtype, None if length is None or value.shape is None else (length, *value.shape))
        for result, value in zip(results[len(states) :], steps[0].collected, strict=True)
    ]
    return last, stacked
