"""The record of one run: its ATen calls in order, and what Python did with sizes and contents in between."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from onnxport.graph.ir import Source

# The call of a tensor that C++ filled with Python numbers, some of which have expressions: numbers, shape, dtype.
TENSOR_OF = "onnxport::tensor"
# The number that says whether an operator takes its arguments: the operator, how these are put together, the line, and
# the arguments taken apart.
ATTEMPT = "attempt"


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor of the run, by its number. A tensor that is written to has another number from then on."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A Python number of the run that knows how it was computed: ``op`` of ``operands``.

    Leaves are ``size`` (a `Ref` and an axis), ``stride`` (a `Ref` and the axes inside), ``numel`` and ``item`` (a
    `Ref`), ``element`` (a `Ref` and indices), ``constant``, and ``place``, the index of an iteration. The other
    operators are those of `graph.sizes`.
    """

    value: Any
    op: str
    operands: tuple[Any, ...]


def leaves(*numbers: Any) -> Iterator[Number]:
    """The leaves of numbers, not by recursion: expressions may be long."""
    waiting, seen = list(numbers), set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, Number) and id(current) not in seen:
            seen.add(id(current))
            waiting += current.operands
            if not any(isinstance(part, Number) for part in current.operands):
                yield current


def rewritten(
    number: Number,
    ref: Callable[[Ref], Any],
    make: Callable[[Number, tuple[Any, ...]], Number],
    *,
    known: Mapping[int, Number] | None = None,
) -> Number:
    """A number over other tensors, made anew from its operands; not by recursion: expressions may be long.

    ``known`` has what some numbers become, by their ids.
    """
    done = dict(known or {})
    waiting = [number]
    while waiting:
        current = waiting[-1]
        missing = [o for o in current.operands if isinstance(o, Number) and id(o) not in done]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(current) in done:
            continue
        operands = tuple(
            done[id(o)] if isinstance(o, Number) else ref(o) if isinstance(o, Ref) else o for o in current.operands
        )
        done[id(current)] = make(current, operands)
    return done[id(number)]


def follows_iteration(*numbers: Any) -> bool:
    """Whether numbers follow from the index of an iteration."""
    return any(leaf.op == "place" for leaf in leaves(*numbers))


def tensors_in(given: Any) -> Iterator[int]:
    """The numbers of the tensors in an argument, not by recursion: expressions may be long."""
    waiting, seen = [given], set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, Ref):
            yield current.number
        elif isinstance(current, (list, tuple)):
            waiting += current
        elif isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, Number) and id(current) not in seen:
            seen.add(id(current))
            waiting += current.operands


def read_from(given: Any) -> Iterator[int]:
    """The tensors whose content an argument or a condition comes from, not only their sizes."""
    waiting, seen = [given], set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, (list, tuple)):
            waiting += current
        elif isinstance(current, Ref):
            yield current.number
        elif isinstance(current, Number) and id(current) not in seen:
            seen.add(id(current))
            waiting += current.operands if current.op not in ("size", "numel", "stride") else ()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A number that differs between the runs of several paths: its value in each of them."""

    options: Mapping[int, Any]
    source: Source | None


@dataclass(slots=True)
class Call:
    """One call. ``args`` and ``kwargs`` hold `Ref`, `Number`, plain constants and lists of those.

    ``op`` is an ATen overload, or one of the forms of calls that stand for more (`record.calls`). ``results`` are the
    numbers of the tensors that it gave, None for a result that is no tensor, lists within for lists of tensors.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Any]
    source: Source | None
    scope: str
    returns_list: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Content of a tensor that Python read: by an operator whose result is a number, or as a whole (``tolist``)."""

    how: str
    of: Ref
    value: Any
    source: Source | None
    by_torch: bool
    after: int  # how many calls were made before
    names: dict[str, Any] = field(repr=False, compare=False)  # of the module that the line is in
    drawn: bool = False  # whether it is a random number, in which no input has a part


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of two numbers, at least one of which has an expression, that Python asked for."""

    op: str
    left: Any
    right: Any
    outcome: bool
    source: Source | None
    after: int
    by_torch: bool
    # Of the module that the line is in, if a built-in function compares there.
    names: dict[str, Any] = field(repr=False, compare=False)


# Where a condition is asked: the line, the module, and the comparison.
Site: TypeAlias = "tuple[Source | None, str, str]"


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition on data that the model's own code decided: a tensor that it read as a truth value, or a comparison
    of numbers that it read.

    ``site`` tells where it was asked, ``made`` how many tensors there were then, and ``noted`` how many reads,
    conditions and losses.
    """

    condition: Any
    outcome: bool
    source: Source | None
    scope: str
    after: int
    made: int
    noted: tuple[int, int, int]
    state: Any = field(repr=False, compare=False, default=None)  # what Python's variables hold there
    counts_iterations: bool = False  # whether a loop over a range asks for another iteration

    @property
    def site(self) -> Site:
        kind = self.condition.op if isinstance(self.condition, Number) else "truth"
        return self.source, self.scope, kind


# The iterations that are recorded of a loop which data end: from two one cannot see whether each does the same.
RECORDED_ITERATIONS = 3


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of conditions on data in a run, instead of those that the data give.

    The first conditions have the outcomes ``first``. Of those behind them, one at the site of the next entry of
    ``then`` has the outcome of that entry. All others have what the data give.
    """

    first: tuple[bool, ...] = ()
    then: tuple[tuple[Site, bool], ...] = ()
    most: int | None = None  # a run with more conditions is taken for one that never ends
    again: tuple[Site, bool] | None = None  # a site, and the outcome of its condition from then on
    # The sites of conditions of loops, with the outcome that goes on: each has it for so many ``iterations``.
    loops: tuple[tuple[Site, bool], ...] = ()
    iterations: int = RECORDED_ITERATIONS
    # Lines on which the model compares sizes that data decide: these are conditions on data too.
    counted: frozenset[Source | None] = frozenset()
    counts_iterations: bool = True  # whether loops over ranges whose length data decide ask such conditions


@dataclass(frozen=True, slots=True)
class Loss:
    """A number whose expression Python dropped, and what asked for its plain value (``int``, ``index``, ``float``)."""

    how: str
    number: Number
    source: Source | None
    after: int
    names: dict[str, Any] = field(repr=False, compare=False)  # of the module that the line is in
    by_torch: bool = False
    keys: tuple[int, ...] = ()  # among which it was looked up


@dataclass(frozen=True, slots=True)
class Drawn:
    """Random numbers, and the state of their generator after they were drawn."""

    content: torch.Tensor
    state: torch.Tensor


# A number that says "to the end" is no bound.
LARGEST = 2**20


@dataclass
class Record:
    """One run. ``types`` has dtype and shape of each tensor by its number, ``constants`` those that no call made."""

    inputs: list[Ref] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    types: list[tuple[torch.dtype, tuple[int, ...]]] = field(default_factory=list)
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)  # where a run has `Outcomes`
    losses: list[Loss] = field(default_factory=list)
    outputs: Sequence[Any] = ()
    counts: bool = False  # whether data decide sizes
    counted: set[int] = field(default_factory=set)  # results with such sizes of the calls that count
    unrolled: Mapping[Source | None, str] = field(default_factory=dict)  # loops by their lines: why they are none
    drawn: dict[int, Drawn] = field(default_factory=dict)  # tensors of random numbers
    seeded: frozenset[int] = frozenset()  # those that are the same in each run
    new_memory: set[int] = field(default_factory=set)  # results that share no memory with arguments of their calls

    @functools.cached_property
    def largest_number(self) -> int:
        """The largest integer that the run computes sizes with, cuts at, or compares with."""
        largest = 1
        waiting: list[Any] = [part for condition in self.conditions for part in (condition.left, condition.right)]
        waiting += [loss.number for loss in self.losses]
        for call in self.calls:
            waiting += [*call.args, *call.kwargs.values()]
        seen: set[int] = set()
        while waiting:
            current = waiting.pop()
            kind = type(current)
            if kind is int:
                if largest < abs(current) <= LARGEST:
                    largest = abs(current)
            elif kind is list or kind is tuple:
                waiting += current
            elif kind is Number and id(current) not in seen:
                seen.add(id(current))
                waiting += current.operands
            elif kind is Choice:
                waiting += current.options.values()
        return largest
