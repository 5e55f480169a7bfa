"""The verdict on an exported file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxport.graph.ir import Source
from onnxport.verification.bisect import StepError
from onnxport.verification.mismatch import Mismatch
from onnxport.verification.results import Verification
from onnxport.verification.sample import Refusal


@dataclass(frozen=True)
class Checked:
    """What was found, and the cause where the file is wrong.

    ``tried`` is set where a runtime was given the file. ``refusals`` are sizes that the torch model does not take.
    ``only_larger`` is set where smaller sizes were left out since there is a loop. ``trail`` has the errors step by
    step where the file is wrong and somebody wants to see them. ``unlike_plain`` says how the model differs from its
    plain call while it is exported. ``untaken`` are the lines of conditions on data that had one outcome only on all
    data tried, with the other one.
    """

    verification: Verification
    mismatch: Mismatch | None = None
    refusals: Sequence[Refusal] = ()
    tried: bool = True
    only_larger: bool = False
    trail: Sequence[StepError] = ()
    unlike_plain: str | None = None
    untaken: Sequence[tuple[Source | None, bool]] = ()
