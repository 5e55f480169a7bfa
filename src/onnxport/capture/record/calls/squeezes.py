"""Whether a squeeze drops an axis is a condition on its size, as if the model had compared it with 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.record.record import Number
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import running_line
from onnxport.errors import DynamicAxisError

PACKETS = torch.ops.aten.squeeze, torch.ops.aten.squeeze_
OPERATORS = frozenset(getattr(packet, overload) for packet in PACKETS for overload in ("default", "dim", "dims"))


def note_sizes(recorder: Recording, args: Sequence[Any], given: Sequence[Any]) -> None:
    """Note a condition for each axis that the operator would drop if its size were 1."""
    if recorder.record.counts:
        return
    shape = tuple(args[0].shape)
    dims = range(len(shape)) if len(args) == 1 else args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    for dim in dims if shape else ():
        axis = int(dim) % len(shape)
        is_one = shape[axis] == 1
        number = Number(shape[axis], "size", (given[0], axis))
        if recorder.note_condition("eq", number, 1, is_one) is not is_one:
            raise DynamicAxisError(
                f"{running_line() or 'the model'}: whether this squeeze drops an axis depends on sizes too far "
                "from those of the example to try. Name the axes to drop, as in squeeze(-1)."
            )
