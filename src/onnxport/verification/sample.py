"""What is compared: inputs with the results that the torch model gives for them, and the outputs of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.axes.axis import Sizes


@dataclass(frozen=True)
class Sample:
    """Inputs for one case and what the model gives for them.

    ``again`` gives what it makes of the same inputs with their last bits changed; it is asked for when a result is off,
    to tell a model that amplifies rounding from a wrong one. ``truth`` gives what it makes of them in double precision,
    None where it does not run so; it is asked for when that did not explain it.
    """

    sizes: dict[str, int]
    inputs: list[torch.Tensor]
    expected: list[torch.Tensor]
    again: Callable[[], list[torch.Tensor]]
    truth: Callable[[], list[torch.Tensor] | None] = lambda: None


@dataclass(frozen=True)
class Check:
    """What to compare: the names of inputs and outputs, the outputs that depend on random numbers, and the coarsest
    dtype that each output had on its way, where that is known."""

    input_names: Sequence[str]
    output_names: Sequence[str]
    random_outputs: frozenset[int] = field(default_factory=frozenset)
    roundings: Mapping[int, torch.dtype] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """Sizes that the torch model itself does not take, with what it says."""

    sizes: Sizes
    reason: str
