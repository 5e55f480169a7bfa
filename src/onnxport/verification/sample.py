"""What is compared: inputs with the results that the torch model gives for them, and the outputs of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.axes.axis import Sizes


@dataclass(frozen=True)
class Sample:
    """Inputs for one case and what the model gives for them.

    ``again`` runs the model on the same inputs, moved by so many rounding errors. It is called where a result is off,
    to distinguish a model that amplifies rounding from a wrong one. ``truth`` runs it in double precision, None where
    it does not run so; it is called where ``again`` does not explain the difference. ``other_data`` says that it has
    other content than the example, at the example's sizes.
    """

    sizes: dict[str, int]
    inputs: list[torch.Tensor]
    expected: list[torch.Tensor]
    again: Callable[[int], list[torch.Tensor]]
    truth: Callable[[], list[torch.Tensor] | None] = lambda: None
    other_data: bool = False


@dataclass(frozen=True)
class Check:
    """What to compare: the names of inputs and outputs, the outputs that depend on random numbers, and the coarsest
    dtype that each output had on its way, where that is known.

    ``rounds_inside``: the model has layers that quantize in each of their steps, which no check sees one by one.
    """

    input_names: Sequence[str]
    output_names: Sequence[str]
    random_outputs: frozenset[int] = field(default_factory=frozenset)
    roundings: Mapping[int, torch.dtype] = field(default_factory=dict)
    rounds_inside: bool = False


@dataclass(frozen=True)
class Refusal:
    """Sizes that the torch model itself does not take, with what it says."""

    sizes: Sizes
    reason: str
