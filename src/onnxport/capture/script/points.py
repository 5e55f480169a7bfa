"""Types by evaluation: every operator of a scripted program is run on tensors without content, at several points.

A point gives each dynamic axis a size, and each number that only run time knows a guess. What is the same at every
point is static; what is not is a `Dim`. Guesses are drawn apart, so that sizes which are unrelated differ somewhere.
Where an operator refuses the guesses because two sizes must be equal, they are drawn as one and the program is read
again.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from onnxport import compat
from onnxport.capture.script.evaluation import reshaped, run, run_shortened
from onnxport.errors import CaptureError
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.dims import Dim, Size, size, values
from onnxport.graph.doubts import Doubt, ordered_sizes
from onnxport.graph.ir import Argument, Node, ScalarType, TensorType, Value

# With fewer points than this, unrelated guesses may agree at all of them.
LEAST_POINTS = 6
# Sizes at the last point, where bounds that a program cuts at are exceeded.
LARGE = 4000
FLOAT_GUESSES = (1.1, 9.9)
# Numbers that an operator takes most likely, where it refuses the guess.
TAME_NUMBERS = (0, 1, 2, 3, 4, -1)
Fill: TypeAlias = Callable[[int], torch.Tensor]
# What tensors hold where sizes depend on it: few and many of everything. Never more than the smallest size, since there
# are operators that read beyond the end where a number in a tensor says so.
CONTENTS: tuple[Fill, ...] = (torch.zeros, torch.ones, lambda count: torch.arange(count) % 3 // 2)
TWOS: Fill = lambda count: torch.full([count], 2)  # noqa: E731
RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
RESHAPES = frozenset({"aten::reshape", "aten::view"})
SPLITS = frozenset({"aten::split", "aten::split_with_sizes"})
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError, ArithmeticError)


class MorePoints(Exception):
    """The program has numbers that only run time knows, and there are too few points to tell them apart."""


class TooLarge(CaptureError):
    """A tensor with several sizes that are large at the last point has more elements than torch can count."""


# What readings found of sizes: the sites of guesses, or sizes that follow from guesses, and what each is to be.
Settled: TypeAlias = "dict[int | tuple[int, ...], tuple[int, ...]]"


class OneSize(Exception):
    """Two sizes must be equal: ``size`` is to be ``at``. Where it is a guess, ``site`` tells which."""

    def __init__(self, site: int | None, size: tuple[int, ...], at: tuple[int, ...]) -> None:
        super().__init__(site, size, at)
        self.key = size if site is None else site
        self.size = size
        self.at = at

    def settle(self, settled: Settled) -> None:
        """Note it, also for what was found to have the same size before."""
        for key, at in list(settled.items()):
            if at == self.size:
                settled[key] = self.at
        settled[self.key] = self.at


class Points:
    """The points of one reading. ``settled`` is what earlier readings found, ``large`` the least guess at the last.

    ``alike`` has, for each point, the first one with the same sizes of the dynamic axes: there only guesses differ.
    """

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), large: int = LARGE) -> None:
        self.count = count
        self._large = large
        self._settled = settled
        self._alike = alike or range(count)
        self.sites = 0
        self._floats = 0
        self._known: dict[Hashable, list[Any]] = {}
        self._guessing: set[Hashable] = set()  # those of which the results hold guesses of their own
        self._refused: Exception | None = None
        self._guessed: dict[tuple[int, ...], int] = {}
        self.numbers: dict[Value, tuple[Any, ...]] = {}
        self.doubts: list[Doubt] = []

    def guess(self, least: int = 2) -> Dim:
        """A number that only run time knows."""
        if self.count < LEAST_POINTS:
            raise MorePoints
        site, self.sites = self.sites, self.sites + 1
        at = self._settled.get(site)
        if at is None:
            draw = random.Random(site)
            at = (
                *(draw.randrange(least, 10) for _ in range(self.count - 1)),
                self._large + draw.randrange(self._large // 4),
            )
            self._guessed[at] = site
        return Dim(at)

    def rewind(self, start: int, found: OneSize) -> bool:
        """Forget the guesses from ``start`` on and note what was found; False where it concerns what lies before."""
        alike = [key for key, at in self._settled.items() if at == found.size]
        if found.key in self._settled or any(isinstance(key, int) and key < start for key in (found.key, *alike)):
            return False
        found.settle(self._settled)
        self._guessed = {at: site for at, site in self._guessed.items() if site < start}
        self.sites = start
        self._known = {key: results for key, results in self._known.items() if key not in self._guessing}
        self._guessing.clear()
        return True

    def at(self, argument: Argument, point: int) -> Any:
        """An argument as torch takes it at a point: tensors without content, numbers as they are guessed."""
        if isinstance(argument, Value):
            if isinstance(argument.type, TensorType):
                return _without_content(argument.type, point, self.count)
            return self.number(argument)[point]
        if isinstance(argument, (list, tuple)):
            return [self.at(element, point) for element in argument]
        return torch.device("meta") if isinstance(argument, torch.device) else argument

    def number(self, value: Value) -> tuple[Any, ...]:
        """A scalar at each point."""
        known = self.numbers.get(value)
        if known is not None:
            return known
        if value.size is not None:
            return values(value.size, self.count)
        assert isinstance(value.type, ScalarType), value
        self.numbers[value] = self._drawn(value.type.kind)
        return self.numbers[value]

    def _drawn(self, kind: type) -> tuple[Any, ...]:
        """Numbers that no size is: where a shape follows from them, it differs between the points."""
        if kind is int:
            return (2,) * self.count
        if self.count < LEAST_POINTS:
            raise MorePoints
        if kind is bool:
            return tuple(point % 2 == 1 for point in range(self.count))
        self._floats += 1
        draw = random.Random(-self._floats)
        return tuple(draw.uniform(*FLOAT_GUESSES) for _ in range(self.count))

    def evaluate(self, node: Node) -> list[Any]:
        """What the node yields at each point: raw results of torch, one list per point."""
        if node.op in RECURRENT and node.overload == "data":
            raise CaptureError(
                f"{node.source or 'the model'}: {node.op} of a packed sequence in scripted code, whose sizes are not "
                "known before run time. Export the module without scripting it, or give the layer padded sequences."
            )
        key = (node.op, node.overload, tuple((name, self._key(given)) for name, given in node.inputs.items()))
        if key not in self._known:
            before = self.sites
            self._known[key] = self._evaluate(node)
            if self.sites != before:
                self._guessing.add(key)
            self.doubt(node)
        return self._known[key]

    def doubt(self, node: Node, numbers: tuple[Any, ...] | None = None) -> None:
        """Note the sizes whose relation the node's result depends on: ``numbers``, if it computes with sizes only."""
        self.doubts += [Doubt(*pair, node.source) for pair in ordered_sizes(node, numbers)]

    def _key(self, argument: Argument) -> Hashable:
        """Equal for arguments of which an operator makes results of the same type."""
        if isinstance(argument, Value):
            return argument.type if isinstance(argument.type, TensorType) else self.number(argument)
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._key, argument))
        return type(argument), str(argument)

    def _evaluate(self, node: Node) -> list[Any]:
        free = {size for value in node.values() for size in _free_sizes(value, self)}
        results: dict[tuple[int, ...], list[Any]] = {}
        keys = [tuple(dim.at[point] for dim in free) for point in range(self.count)]
        for point, key in enumerate(keys):
            if key not in results:
                try:
                    results[key] = self._evaluate_at(node, point)
                except REFUSALS as error:
                    if any(said in str(error) for said in compat.OVERFLOWS):
                        raise TooLarge(f"{node.source or 'the model'}: {node.op}: {error}") from error
                    return self._evaluate_tamed(node, point, error)
        return [results[key] for key in keys]

    def _evaluate_at(self, node: Node, point: int) -> list[Any]:
        arguments = {name: self.at(argument, point) for name, argument in node.inputs.items()}
        return run_shortened(node, arguments, self._large) if node.op in RECURRENT else run(node, arguments)

    def _evaluate_tamed(self, node: Node, point: int, refusal: Exception) -> list[Any]:
        """The same with other numbers than were guessed. Sizes that differ with them are sizes of their own."""
        if node.op in RESHAPES and any(not value.is_tensor for value in node.values()):
            return self._reshaped(node)
        if node.op in SPLITS and isinstance(list(node.inputs.values())[1], list):
            return [self._split(node, place) for place in range(self.count)]
        numbers = {value for value in node.values() if not value.is_tensor}
        if numbers:
            taken = [self._taken_at(node, place) for place in range(self.count)]
            columns = [self._with_number(node, number, taken) for number in TAME_NUMBERS]
            accepted = [column for column in columns if column is not None]
            # Several numbers that were only taken as one and the same do not show what follows from which.
            if len(accepted) > (len(numbers) > 1):
                return self._mixed(accepted)
        found = self._unify(node, point)
        if found is None:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} does not take its arguments: {refusal}")
        return found

    def _reshaped(self, node: Node) -> list[Any]:
        """A shape that holds numbers which only run time knows: those are its sizes, and what is left is one more."""
        source = node.inputs["self"]
        wanted = node.inputs["shape" if "shape" in node.inputs else "size"]
        rows = [self.at(wanted, point) for point in range(self.count)]
        rest = self.guess() if -1 in rows[0] else None
        assert isinstance(source, Value)
        return [
            [torch.empty([rest.at[p] if rest and s == -1 else s for s in row], dtype=source.dtype, device="meta")]
            for p, row in enumerate(rows)
        ]

    def _split(self, node: Node, point: int) -> list[Any]:
        """Parts as long as numbers say which only run time knows, and which add up to the whole there."""
        source, lengths = (self.at(argument, point) for argument in list(node.inputs.values())[:2])
        shape, dim = list(source.shape), node.inputs.get("dim", 0)
        return [[reshaped(source, [*shape[:dim], length, *shape[dim:][1:]]) for length in lengths]]

    def _taken_at(self, node: Node, point: int) -> list[Any] | None:
        """The results at a point, or None where the guesses are refused."""
        try:
            return self._evaluate_at(node, point)
        except REFUSALS:
            return None

    def _with_number(self, node: Node, number: int, taken: Sequence[list[Any] | None]) -> list[Any] | None:
        """The results at each point, with this number in place of the guesses where those are refused."""
        found = []
        for point, results in enumerate(taken):
            if results is None:
                tamed = {name: self._tamed(argument, point, number) for name, argument in node.inputs.items()}
                try:
                    results = run(node, tamed)
                except REFUSALS:
                    return None
            found.append(list(results))
        return found

    def _mixed(self, accepted: Sequence[list[Any]]) -> list[Any]:
        """The results at each point, with a new size in the place of one that differs between those accepted."""
        first, *others = accepted
        mixed: list[list[Any]] = [[] for _ in first]
        for place, result in enumerate(first[0]):
            alike = [other for other in others if _rank(other[0][place]) == _rank(result)]
            sizes = {
                axis: self.guess()
                for axis in range(_rank(result))
                if any(o[k][place].shape[axis] != r[place].shape[axis] for o in alike for k, r in enumerate(first))
            }
            for point, row in enumerate(first):
                if sizes:
                    kept = list(row[place].shape)
                    shape = [sizes[axis].at[point] if axis in sizes else s for axis, s in enumerate(kept)]
                    mixed[point].append(reshaped(row[place], shape))
                else:
                    mixed[point].append(row[place])
        return mixed

    def _tamed(self, argument: Argument, point: int, number: int) -> Any:
        if isinstance(argument, Value) and isinstance(argument.type, ScalarType):
            return argument.type.kind(number)
        if isinstance(argument, (list, tuple)):
            return [self._tamed(element, point, number) for element in argument]
        return self.at(argument, point)

    def _unify(self, node: Node, point: int) -> list[Any] | None:
        """Raise `OneSize` if the operator takes its arguments once a guessed size is another of their sizes.

        Where it takes a size of 1 as well, the two are equal or one of them is 1: the result is returned.
        """
        sizes = list(dict.fromkeys(s for value in node.values() if value.is_tensor for s in value.shape))
        for guessed, other in (pairs := self._pairs(sizes)):
            if not self._takes(node, {guessed: other}):
                continue
            if not self._takes(node, {guessed: 1}, point):
                raise OneSize(self._guessed.get(guessed.at), guessed.at, values(other, self.count))
            return self._broadcast(node, guessed, other, other if isinstance(other, int) else self.guess())
        for (guessed, other), second in itertools.combinations(pairs, 2):
            both: dict[Size, Size] = {guessed: other, second[0]: second[1]}
            if len(both) == 2 and self._takes(node, both) and not self._takes(node, {**both, guessed: 1}, point):
                raise OneSize(self._guessed.get(guessed.at), guessed.at, values(other, self.count))
        return None

    def _pairs(self, sizes: Sequence[Size]) -> list[tuple[Dim, Size]]:
        """What may be made equal to what: first what follows from guesses to a guess, whose change would change it."""
        guesses = [size for size in sizes if isinstance(size, Dim) and size.at in self._guessed]
        derived = [
            size
            for size in sizes
            if isinstance(size, Dim)
            and size not in guesses
            and any(size.at[point] != size.at[same] for point, same in enumerate(self._alike))
        ]
        return [
            *itertools.product(derived, guesses),
            *((guess, size) for guess, size in itertools.product(guesses, sizes) if guess != size),
            *((size, other) for size, other in itertools.product(derived, sizes) if other not in (*guesses, size)),
        ]

    def _broadcast(self, node: Node, guessed: Size, other: Size, common: Size) -> list[Any]:
        """The results with two sizes made one, which is ``common`` in them."""
        rows = [run(node, self._resized(node, {guessed: other}, point)) for point in range(self.count)]
        lengths, wanted = values(other, self.count), values(common, self.count)
        for place, first in enumerate(rows[0]):
            for axis in range(_rank(first)):
                if all(row[place].shape[axis] == length for row, length in zip(rows, lengths, strict=True)):
                    for row, length in zip(rows, wanted, strict=True):
                        shape = [length if a == axis else s for a, s in enumerate(row[place].shape)]
                        row[place] = reshaped(row[place], shape)
        return rows

    def _takes(self, node: Node, others: Mapping[Size, Size], point: int | None = None) -> bool:
        """Whether the operator takes its arguments with other sizes in the places of these, at a point or at all."""
        try:
            for place in range(self.count) if point is None else (point,):
                run(node, self._resized(node, others, place))
        except REFUSALS:
            return False
        return True

    def _resized(self, node: Node, others: Mapping[Size, Size], point: int) -> dict[str, Any]:
        def resized(argument: Argument) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                shape = tuple(others.get(length, length) for length in argument.type.shape)
                return _without_content(TensorType(argument.dtype, shape), point, self.count)
            if isinstance(argument, list):
                return [resized(element) for element in argument]
            return self.at(argument, point)

        return {name: resized(argument) for name, argument in node.inputs.items()}

    def types(self, results: Sequence[Any]) -> TensorType:
        """The type that has these shapes at the points."""
        shapes = [tuple(result.shape) for result in results]
        if len({len(shape) for shape in shapes}) != 1:
            raise CaptureError("the number of dimensions depends on a size or on data")
        columns = (self._settled.get(column, column) for column in zip(*shapes, strict=True))
        return TensorType(results[0].dtype, tuple(size(column) for column in columns))

    def counted(self, node: Node) -> list[TensorType]:
        """The results of an operator that counts: sizes that differ with the content are guessed."""
        points = range(self.count - 1) if self.count > 1 else range(1)  # the last is too large for content
        sizes = [size for value in node.values() if value.is_tensor for size in value.shape]
        smallest = min((length for size in sizes for length in values(size, self.count)), default=0)
        contents = CONTENTS if smallest < 2 else (*CONTENTS, TWOS)
        rows = [[found for content in contents if (found := self._with_content(node, content, p))] for p in points]
        if not all(rows):
            reason = self._refused or "it takes no content that was tried"
            raise CaptureError(f"{node.source or 'the model'}: {node.op} cannot be typed: {reason}")
        types = []
        rows = [[list(found[0]) if isinstance(found[0], (list, tuple)) else found for found in row] for row in rows]
        for place, result in enumerate(rows[0][0]):
            lengths = [[found[place].shape for found in row] for row in rows]
            if any(len(shape) != result.dim() for row in lengths for shape in row):
                raise CaptureError("the number of dimensions depends on a size or on data")
            columns = [[[shape[axis] for shape in row] for row in lengths] for axis in range(result.dim())]
            types.append(TensorType(result.dtype, tuple(self._counted_size(sizes, column) for column in columns)))
        return types

    def _counted_size(self, sizes: Sequence[Size], rows: Sequence[Sequence[int]]) -> Size:
        """A size by the lengths that it had at each point but the last with each content; ``sizes`` are known ones."""
        if any(len(set(row)) > 1 for row in rows):
            return self.guess()
        lengths = tuple(row[0] for row in rows)
        same = [size for size in sizes if values(size, self.count)[: len(lengths)] == lengths]
        if same:
            return same[0]
        return lengths[0] if len(set(lengths)) == 1 and len(rows[0]) > 1 else self.guess()

    def _with_content(self, node: Node, fill: Fill, point: int) -> list[Any] | None:
        def content(argument: Argument) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                shape = [values(size, self.count)[point] for size in argument.shape]
                return fill(math.prod(shape)).reshape(shape).to(argument.dtype)
            if isinstance(argument, list):
                return [content(element) for element in argument]
            return self.at(argument, point) if isinstance(argument, Value) else argument

        try:
            return run(node, {name: content(argument) for name, argument in node.inputs.items()})
        except REFUSALS as error:
            self._refused = error
            return None


def depends_on_data(node: Node) -> bool:
    """Whether the shapes of its results need the content of its arguments."""
    return size_depends_on_data(node) and any(value.is_tensor for value in node.values()) and not _numbers_only(node)


def _numbers_only(node: Node) -> bool:
    """Whether the node counts only in that a run-time number is among its arguments, for which there are guesses."""
    if node.op == "aten::repeat_interleave":
        return not any(isinstance(node.inputs.get(name), Value) for name in ("repeats",))
    plain = Node(node.op, {k: (0 if _is_number(v) else v) for k, v in node.inputs.items()}, ())
    return not size_depends_on_data(plain)


def _is_number(argument: Argument) -> bool:
    if isinstance(argument, list):
        return any(map(_is_number, argument))
    return isinstance(argument, Value) and not argument.is_tensor


def _free_sizes(value: Value, points: Points) -> list[Dim]:
    if isinstance(value.type, TensorType):
        return [size for size in value.type.shape if isinstance(size, Dim)]
    if isinstance(value.type, ScalarType):
        number = points.number(value)
        return [Dim(number)] if number.count(number[0]) != len(number) else []
    return []


def _without_content(type: TensorType, point: int, count: int) -> torch.Tensor:
    return torch.empty([values(size, count)[point] for size in type.shape], dtype=type.dtype, device="meta")


def _rank(result: Any) -> int:
    return result.dim() if isinstance(result, torch.Tensor) else 0
