"""Loops over indices that data choose, as over the experts that some token was sent to.

How many iterations such a loop has depends on the data, and a record has those of its own data only. Where the
indices come from a short axis (``mask.any(-1).nonzero()``, ``scores.argmax(-1).unique()``), Python is given every index
of the axis instead: an iteration for an index that was not chosen then works on empty tensors. The run is kept only if
its results are those of plain runs, on the example and on other data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from onnxport import compat
from onnxport.capture.model.other_data import other_data
from onnxport.capture.model.refusals import REFUSALS, RefusalsIgnored
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.record.numbers.carriers import CARRIERS, plain
from onnxport.capture.record.record import Number, Ref
from onnxport.errors import CaptureError, ExportError
from onnxport.graph.equality import is_close

# A longer axis is no choice among parts of a model.
MOST_INDICES = 1024


@dataclass(frozen=True)
class Indices:
    """What a tensor holds: indices of an axis, of this size. ``counted`` tells that data decide how many there are."""

    axis: Number
    counted: bool


class Speculation:
    """The tensors of one run that hold indices of an axis. Where it is ``allowed``, Python gets every index, but for
    the last one of each axis if that is ``without_last``."""

    def __init__(self, allowed: bool, without_last: bool = False) -> None:
        self.allowed = allowed
        self.without_last = without_last
        self.used = False
        self.known: dict[int, Indices] = {}  # by the numbers of the tensors

    def note(self, op: Any, args: Sequence[Any], given: Sequence[Any], made: Sequence[Any], counts: bool) -> None:
        """Remember which results of a call hold indices.

        ``given`` and ``args`` are the arguments as the record has them and as they are, ``made`` the results as pairs.
        """
        if not args or not isinstance(args[0], torch.Tensor) or not isinstance(given[0], Ref):
            return
        for tensor, ref in made:
            if tensor.dtype == torch.int64:
                with compat.dispatch.unseen(), compat.dispatch.unaided():
                    found = self._found(op, args, given[0], tensor, counts)
                if found is not None:
                    self.known[ref.number] = found

    def _found(self, op: Any, args: Sequence[Any], of: Ref, result: torch.Tensor, counts: bool) -> Indices | None:
        source = args[0]
        known = self.known.get(of.number)
        if known is not None and bool(torch.isin(result.flatten(), source.flatten()).all()):
            return Indices(known.axis, known.counted or counts)
        if counts:  # the places at which a vector is not zero
            indices = source.dim() == 1 and torch.equal(result.flatten(), source.nonzero().flatten())
            return Indices(_size(source, of, 0), counted=True) if indices else None
        index = _dim_place(op)
        if index is None or not source.is_floating_point() or not source.dim() or not result.numel():
            return None
        dim = args[index] if index < len(args) else -1
        # What makes integers of numbers along an axis gives indices of it.
        is_index = type(dim) is int and int(result.min()) >= 0 and int(result.max()) < source.shape[dim]
        return Indices(_size(source, of, dim % source.dim()), counted=False) if is_index else None

    def every(self, ref: Ref) -> Number | None:
        """The axis of which Python is to be given every index in place of those that a tensor holds."""
        known = self.known.get(ref.number)
        if not self.allowed or known is None or not known.counted or known.axis.value > MOST_INDICES:
            return None
        self.used = True
        return Number(known.axis.value - 1, "sub", (known.axis, 1)) if self.without_last else known.axis


def _size(tensor: torch.Tensor, ref: Ref, axis: int) -> Number:
    return Number(tensor.shape[axis], "size", (ref, axis))


@functools.cache
def _dim_place(op: Any) -> int | None:
    """The place of an operator's argument ``dim``."""
    names = [argument.name for argument in op._schema.arguments]
    return names.index("dim") if "dim" in names else None


def every_index(axis: Number, tensor: torch.Tensor) -> torch.Tensor:
    """All indices of an axis, in the form of a tensor that holds some of them."""
    with compat.dispatch.unseen(), compat.dispatch.unaided():
        return torch.arange(axis.value, dtype=tensor.dtype).reshape(-1, *tensor.shape[1:])


class Returned(Protocol):
    """A run of the model, which has the leaves of what it returned."""

    leaves: list[Any]


Run = TypeVar("Run", bound=Returned)
Record = Callable[[Sequence[torch.Tensor], Speculation], Run]


def speculating(runner: ModelRunner, tensors: Sequence[torch.Tensor], record: Record[Run]) -> Run:
    """A run that speculates, unless that makes a difference. The first one that does is compared with plain runs.

    An axis may have one place more than the model has parts, for what goes to none of them, as
    ``one_hot(chosen, experts + 1)`` has: where the model refuses a run, the last index of each axis is left out.
    """
    speculation = Speculation(runner.speculates is not False, runner.leaves_out_last)
    try:
        run = record(tensors, speculation)
    except (*REFUSALS, CaptureError) as error:
        if not speculation.used or runner.speculates or _is_other_export_error(error):
            raise
        if not runner.leaves_out_last:
            runner.leave_out_last()
            return speculating(runner, tensors, record)
        runner.settle_speculation(False)
    else:
        if speculation.used and runner.speculates is None:
            runner.settle_speculation(_agrees(runner, run, tensors, record))
        if not speculation.used or runner.speculates:
            return run
    return record(tensors, Speculation(allowed=False))


def _agrees(runner: ModelRunner, run: Run, tensors: Sequence[torch.Tensor], record: Record[Run]) -> bool:
    """Whether runs that speculate give what plain ones give, on the example and on other data that the model takes."""
    if not _is_same(run, _plain_results(runner, run, tensors)):
        return False
    for data in other_data(tensors, tensors):
        expected = None
        with RefusalsIgnored():
            expected = _plain_results(runner, run, data)
        if expected is None:
            continue
        try:
            other = record(data, Speculation(True, runner.leaves_out_last))
        except (*REFUSALS, CaptureError) as error:
            if _is_other_export_error(error):
                raise
            return False
        if not _is_same(other, expected):
            return False
    return True


def _is_other_export_error(error: BaseException) -> bool:
    """Whether speculating has nothing to do with an error: what cannot be captured so may be captured otherwise."""
    return isinstance(error, ExportError) and not isinstance(error, CaptureError)


def _plain_results(runner: ModelRunner, run: Returned, tensors: Sequence[torch.Tensor]) -> list[Any]:
    constants = [index for index, leaf in enumerate(run.leaves) if not _is_result(leaf)]
    return runner.execute(tensors, constants)


def _is_same(run: Returned, expected: Sequence[Any]) -> bool:
    results = [torch.as_tensor(plain(leaf)) for leaf in run.leaves if _is_result(leaf)]
    return len(results) <= len(expected) and all(map(is_close, results, expected))


def _is_result(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) or type(leaf) in CARRIERS
