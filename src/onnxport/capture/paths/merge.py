"""Merges records of one model at several sizes: numbers that differ between them become choices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from onnxport.capture.build.python_tensors import is_explained
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import TENSOR_OF, Call, Choice, Number, Record, Ref, rewritten
from onnxport.graph.ir import Source

# The number of arguments of a loop without a trip count: its condition, and the initial values.
WITHOUT_COUNT = 2


@dataclass(eq=False)
class Difference(Exception):
    """Two records that cannot be merged: the first lines at which they differ."""

    source: Source | None
    other: Source | None


def operators(record: Record) -> list[Any]:
    return [_identity(call.op) for call in record.calls]


def _loops(record: Record) -> list[Source | None]:
    return [call.source for call in record.calls if call.op is Mark.LOOP]


def decides_alike(record: Record, other: Record) -> bool:
    """Whether two runs have the same branches and loops on data: otherwise equal results in one of them prove nothing
    for the other. Loops over sizes, which have other iterations there, are left out."""
    (alone, all_of_it), (other_alone, all_of_other) = map(_decided_by_data, (record, other))
    return alone <= all_of_other and other_alone <= all_of_it


def _decided_by_data(record: Record) -> tuple[set[Any], set[Any]]:
    """The calls in branches and loops that data decide, by their lines: those outside of loops over sizes, and all."""
    alone, found = set[Any](), set[Any]()
    around: list[bool] = []  # of each block around a call, whether data decide on it
    for call in record.calls:
        if call.op is Mark.IF or call.op is Mark.LOOP:
            around.append(call.op is Mark.IF or len(call.args) == WITHOUT_COUNT)
        if any(around):
            one = _identity(call.op), call.source, bool(call.results)
            found.add(one)
            alone |= {one} if all(around) else set()
        if call.op is Mark.END_IF or call.op is Mark.END_LOOP:
            around.pop()
    return alone, found


def _identity(op: Any) -> Any:
    """The identity of an operator; operators that stand for several ATen calls define their own."""
    return getattr(op, "identity", op)


def merged(base: Record, other: Record, side: int, having: list[list[int]]) -> tuple[Record, bool]:
    """The base with choices where the other record, which is that of a side, has other numbers.

    The calls of the other are among those of the base; ``having`` has the sides so far that make each of them, and
    those that return something. Whether the base does something else there besides, which only results can judge: it
    has further calls, or other flags and tensors. Without choices the base itself is returned.
    """
    merger = _Merger(base, other, side, having)
    found = merger.run()
    return found if merger.has_choices else base, merger.is_disputed


def repeats(record: Record, other: Record) -> bool:
    """Whether two runs have the same calls, expressions and conditions, whatever the outcomes of these."""
    if operators(record) != operators(other) or len(record.conditions) != len(other.conditions):
        return False
    merger = _Merger(record, other, 1, [[0] for _ in range(len(record.calls) + 1)])
    try:
        merger.run()
    except Difference:
        return False
    return not merger.is_disputed and not merger.has_choices and merger.asks_the_same()


class _Merger:
    def __init__(self, base: Record, other: Record, side: int, having: list[list[int]]) -> None:
        self.base, self.other, self.side = base, other, side
        self._having = having
        self._alike: list[int] = []  # the sides that were found to be as the base is, so far
        self._refs: dict[int, int] = {}  # a number of the other record in the base
        self._calls: list[Call] = []
        self._left_out: dict[int, tuple[int, list[int]]] = {}  # tensors that Python filled in the base alone: where
        self._rounds: dict[int, Number] = {}  # the index of a loop in the base, by that of the other record
        self.is_disputed = len(base.calls) > len(other.calls)
        self.has_choices = False

    def run(self) -> Record:
        if _loops(self.base) != _loops(self.other):  # too few iterations to be folded
            raise Difference(None, None)
        for left, right in zip(self.base.inputs, self.other.inputs, strict=True):
            self._refs[right.number] = left.number
        calls = self._calls
        remaining = iter(self.other.calls)
        current = next(remaining, None)
        same = operators(self.base) == operators(self.other)  # perhaps called on other lines
        made = []
        for call, having in zip(self.base.calls, self._having, strict=False):
            if current is not None and (same or is_alike(call, current)):
                self._alike = having
                calls.append(self._call(call, current))
                current = next(remaining, None)
                made.append(having)
            else:
                if call.op == TENSOR_OF:
                    self._left_out[call.results[0].number] = len(calls), having
                calls.append(call)
        if current is not None:
            raise Difference(_line_at(self.base, current), current.source)
        if len(self.base.outputs) != len(self.other.outputs):
            raise Difference(None, None)
        self._alike = self._having[-1]
        pairs = zip(self.base.outputs, self.other.outputs, strict=True)
        outputs = [self._argument(left, right) for left, right in pairs]
        for having in (*made, self._having[-1]):
            having.append(self.side)
        return replace(self.base, calls=calls, outputs=outputs)

    def asks_the_same(self) -> bool:
        """Whether the conditions and the lost numbers of both records are computed in the same way."""
        conditions = zip(self.base.conditions, self.other.conditions, strict=True)
        if not all(
            (mine.op, mine.source) == (theirs.op, theirs.source)
            and self._equal(mine.left, theirs.left)
            and self._equal(mine.right, theirs.right)
            for mine, theirs in conditions
        ):
            return False
        losses = [(loss.number, loss.source) for loss in self.base.losses]
        others = [(loss.number, loss.source) for loss in self.other.losses]
        return len(losses) == len(others) and all(
            line == other_line and self._equal(number, other)
            for (number, line), (other, other_line) in zip(losses, others, strict=True)
        )

    def _choice(self, options: dict[int, Any], source: Source | None = None) -> Choice:
        self.has_choices = True
        return Choice(options, source)

    def _call(self, call: Call, other: Call) -> Call:
        if len(call.args) != len(other.args) or call.kwargs.keys() != other.kwargs.keys():
            raise Difference(call.source, other.source)
        if call.op == TENSOR_OF and _differ_in_length(call.args[0], other.args[0]):
            return self._filled_call(call, other)
        if call.op is Mark.LOOP and len(call.args) > 2:
            self._rounds[id(other.args[-1])] = call.args[-1]
        fixed = fixed_arguments(call.op)
        pairs = enumerate(zip(call.args, other.args, strict=True))
        args = tuple(self._argument(left, right, index in fixed) for index, (left, right) in pairs)
        kwargs = {name: self._argument(g, other.kwargs[name], name in fixed) for name, g in call.kwargs.items()}
        if len(call.results) != len(other.results):
            raise Difference(call.source, other.source)
        for left, right in zip(call.results, other.results, strict=True):
            if isinstance(left, Ref) and isinstance(right, Ref):
                self._refs[right.number] = left.number
                self.is_disputed |= self._rank(self.base, left) != self._rank(self.other, right)
        return replace(call, args=args, kwargs=kwargs)

    @staticmethod
    def _rank(record: Record, ref: Ref) -> int:
        return len(record.types[ref.number][1])

    def _filled_call(self, call: Call, other: Call) -> Call:
        """A tensor of another number of Python's numbers on each side: what it holds there is a choice."""
        numbers, shape, dtype = call.args
        if len(shape) != 1:
            raise Difference(call.source, other.source)
        (left,), (right,) = call.results, other.results
        self._refs[right.number] = left.number
        options = dict(numbers.options) if isinstance(numbers, Choice) else self._options(_plain_tensor(numbers, dtype))
        options[self.side] = _plain_tensor(other.args[0], dtype)
        if not is_explained(list(options.values())):
            raise Difference(call.source, other.source)
        return replace(call, args=(self._choice(options), shape, dtype))

    def _argument(self, left: Any, right: Any, is_fixed: bool = False) -> Any:
        if isinstance(left, Choice):
            options = dict(left.options)
            first = next(iter(options.values()))
            options[self.side] = first if self._equal(first, right) else self._translated(right)
            return self._choice(options, left.source)
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            if len(left) != len(right):
                self.is_disputed = True
                return left
            return type(left)(self._argument(a, b) for a, b in zip(left, right, strict=True))
        if self._equal(left, right) or self._is_plain_there(left, right):
            return left
        filled = self._filled(left, right)
        if filled is not None:
            return filled
        if _is_number(left) and _is_number(right) and not is_fixed:
            return self._choice({**self._options(left), self.side: self._translated(right)})
        self.is_disputed = True
        return left

    def _options(self, left: Any) -> dict[int, Any]:
        """What the base has, which all sides so far have."""
        return dict.fromkeys(self._alike, left)

    def _filled(self, left: Any, right: Any) -> Choice | None:
        """Tensors of the same kind that Python filled, and that hold something else on each side."""
        if not isinstance(left, Ref) or not isinstance(right, Ref):
            return None
        mine, theirs = self.base.constants.get(left.number), self.other.constants.get(right.number)
        if mine is None or theirs is None or mine.dtype != theirs.dtype:
            return None
        if not is_explained([mine, theirs]):
            return None
        return self._choice({**self._options(mine), self.side: theirs})

    def _is_plain_there(self, left: Any, right: Any) -> bool:
        """Whether a tensor that Python filled with numbers that have expressions is one of plain numbers in the other
        record, as a constant: the numbers are choices then."""
        if not isinstance(left, Ref) or not isinstance(right, Ref) or left.number not in self._left_out:
            return False
        index, having = self._left_out[left.number]
        call, theirs = self._calls[index], self.other.constants.get(right.number)
        numbers, shape, dtype = call.args
        if theirs is None or isinstance(numbers, Choice) or (theirs.dtype, list(theirs.shape)) != (dtype, list(shape)):
            return False
        alike, self._alike = self._alike, having
        self._calls[index] = replace(call, args=(self._argument(numbers, theirs.flatten().tolist()), shape, dtype))
        self._alike = alike
        having.append(self.side)
        self._refs[right.number] = left.number
        return True

    def _equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, Ref) and isinstance(right, Ref):
            return self._same_value(left, right)
        if isinstance(left, Number) and isinstance(right, Number):
            return self._same_number(left, right)
        if isinstance(left, (Ref, Number)) or isinstance(right, (Ref, Number)):
            return False
        if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
            return left is self._translated(right)
        return type(left) is type(right) and (left == right or (left != left and right != right))

    def _same_value(self, left: Ref, right: Ref) -> bool:
        known = self._refs.get(right.number)
        if known is not None:
            return known == left.number
        mine, theirs = self.base.constants.get(left.number), self.other.constants.get(right.number)
        if mine is None or theirs is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return False
        if mine is not theirs and not torch.equal(mine, theirs) and not _equal_nan(mine, theirs):
            return False
        self._refs[right.number] = left.number
        return True

    def _same_number(self, left: Number, right: Number) -> bool:
        """Whether two numbers were computed in the same way, not by recursion: expressions may be long."""
        waiting = [(left, right)]
        seen: set[tuple[int, int]] = set()
        while waiting:
            a, b = waiting.pop()
            if (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            if a.op != b.op or len(a.operands) != len(b.operands):
                return False
            if a.op in ("constant", "place") and a.value != b.value:
                return False
            for x, y in zip(a.operands, b.operands, strict=True):
                if isinstance(x, Number) and isinstance(y, Number):
                    waiting.append((x, y))
                elif not self._equal(x, y) and not (self.is_disputed and isinstance(x, Ref) and isinstance(y, Ref)):
                    return False
        return True

    def _translated(self, given: Any) -> Any:
        """A number of the other record over the values of the base."""
        if isinstance(given, Ref) and given.number in self.other.constants:
            return self.other.constants[given.number]
        if not isinstance(given, Number):
            return given
        return rewritten(
            given,
            self._translated_ref,
            lambda number, operands: Number(number.value, number.op, operands),
            known=self._rounds,
        )

    def _translated_ref(self, ref: Ref) -> Ref:
        if ref.number not in self._refs:
            raise Difference(None, None)
        return Ref(self._refs[ref.number])


@functools.cache
def fixed_arguments(op: Any) -> frozenset[int | str]:
    """The arguments of an operator that cannot be known at run time, such as flags and axes, by index and name."""
    schema = getattr(op, "_schema", None)
    found = [
        (index, argument.name)
        for index, argument in enumerate(schema.arguments if schema is not None else ())
        if str(argument.type) in ("bool", "Optional[bool]") or argument.name.startswith("dim")
    ]
    return frozenset(key for pair in found for key in pair)


def _differ_in_length(left: Any, right: Any) -> bool:
    return isinstance(left, Choice) or len(left) != len(right)


def _plain_tensor(numbers: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([n.value if isinstance(n, Number) else n for n in numbers], dtype=dtype)


def is_alike(call: Call, other: Call) -> bool:
    if _identity(call.op) != _identity(other.op) or call.source != other.source:
        return False
    fixed = fixed_arguments(call.op)
    pairs = enumerate(zip(call.args, other.args, strict=False))
    return all(left == right for index, (left, right) in pairs if index in fixed and type(left) is int)


def _is_number(given: Any) -> bool:
    return isinstance(given, Number) or type(given) in (int, float, bool)


def _equal_nan(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.is_floating_point() and torch.allclose(left, right, rtol=0, atol=0, equal_nan=True)


def _line_at(record: Record, call: Call) -> Source | None:
    """The line of the base from which on the other record lacks a call."""
    file = call.source.file if call.source else None
    return next((c.source for c in reversed(record.calls) if c.source and c.source.file == file), None)


def is_same_constant(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left is right:
        return True
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
