"""A run that is being recorded, as it is known to those who record one kind of call or of tensor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from onnxport.capture.record.calls.writes import Writes
from onnxport.capture.record.numbers.listener import Listener
from onnxport.capture.record.record import Number, Record, Ref
from onnxport.capture.record.speculation import Speculation
from onnxport.capture.record.tensors.parts import Parts
from onnxport.capture.record.values import Values


class ScriptRecorder(Protocol):
    """Records the calls of scripts."""

    def call(self, script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class Recording(Listener, Protocol):
    """What `Recorder` has for them."""

    record: Record
    values: Values
    parts: Parts
    speculation: Speculation
    scripts: ScriptRecorder | None
    writes: list[Writes]  # those of the blocks that are being recorded
    symbolic: bool  # sizes carry expressions
    scope: str  # the module that is called
    is_guarded: bool  # errors of that module are handled around it
    # The function of torch that is called, how deep in others, and numbers that C++ wanted plain for it.
    function: Any
    call: tuple[tuple[Any, ...], dict[str, Any]]
    inside: int
    plain_reads: list[Number]
    left: list[Number]
    last: list[tuple[torch.Tensor, Ref]]  # the results of the last operator
    casts: int  # operators that autocast gave other arguments
    sized: bool  # results are to tell C++ their sizes as expressions
    has_sized: bool  # some tensors do
    has_plain_sizes: bool  # C++ read such a tensor for sizes without expressions

    @property
    def mode(self) -> AbstractContextManager[Any]: ...

    def is_active(self) -> bool: ...

    def handles_errors(self) -> bool: ...

    def note_read(self, how: str, of: Ref, value: Any) -> None: ...

    def note_truth(self, of: Ref, outcome: bool) -> bool: ...

    def recorded_call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def before_write(self, tensor: torch.Tensor) -> None: ...

    def note_numbers(self, tensor: torch.Tensor) -> bool: ...

    def note_tensor_of(self, tensor: torch.Tensor, filling: Sequence[Any]) -> torch.Tensor: ...

    def ref(self, tensor: torch.Tensor) -> Ref: ...

    def note_alias(self, tensor: torch.Tensor, of: torch.Tensor) -> Ref: ...

    def recorded(self, tree: Any) -> Any: ...

    def known_as(self, result: Any) -> None: ...
