"""Data-dependent sizes: the number of elements that a mask selects, a number read from a tensor.

They are guessed at evaluation points. At the first point, which is the recorded run, a guess is the number seen there.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from onnxport.capture.sizes import points as script_points
from onnxport.capture.sizes.operator_runs import of_dtype, run
from onnxport.capture.sizes.points import CONTENTS, REFUSALS, TWOS, OneSize, Points, Settled
from onnxport.errors import CaptureError
from onnxport.graph.functionalize.views import argument as argument_of
from onnxport.graph.ir import NUMBER, Argument, Node, TensorType, Value
from onnxport.graph.sizes import Size, SizeExpr, leaves_of

# Boxes that are all equal.
PAIRS: script_points.Fill = lambda count: torch.arange(count) % 4 // 2  # noqa: E731
LARGER = range(1, 12)
PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


class GuessedPoints(Points):
    """The points of one record, with guesses for data-dependent sizes and numbers: those of the run, and at other
    points one of the ``offsets`` from these."""

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), offsets: range = LARGER) -> None:
        super().__init__(count, settled, alike)
        self._offsets = offsets
        self.batches: dict[Size, Size] = {}  # of packed sequences, by the number of their steps
        self._counts: dict[Hashable, SizeExpr] = {}
        self._data_dependent: set[SizeExpr] = set()  # sizes that are, or follow from, data-dependent ones
        self._floats_drawn: set[Any] = set()  # data-dependent floats, by their values at the points
        # The content of a tensor at each point, where it follows from sizes.
        self.contents: Callable[[Value], list[Any] | None] = lambda value: None

    def result_types(self, node: Node, seen: Sequence[TensorType] | None = None) -> list[TensorType]:
        """The types of a node's results, by running it at the points."""
        raise NotImplementedError

    def guess(self, least: int = 2) -> SizeExpr:
        return self._note_guess(super().guess(least))

    def count_of(self, key: Hashable, seen: int | None = None) -> SizeExpr:
        """The data-dependent size with this key, such as the number of elements that a mask selects.

        ``seen`` is its value in the run; at other points it is guessed to be a little larger.
        """
        if key not in self._counts:
            self._counts[key] = self.guess() if seen is None else self._guess_from(seen)
        return self._counts[key]

    def _note_guess(self, guessed: SizeExpr) -> SizeExpr:
        """Note a guess as data-dependent, unless an earlier reading has found its value."""
        if guessed.at in self._guessed or self._settled.get(guessed.at) == guessed.at:
            self._data_dependent.add(guessed)
        return guessed

    def _guess_from(self, seen: int) -> SizeExpr:
        def draw(random_numbers: random.Random) -> tuple[int, ...]:
            drawn = [seen + random_numbers.choice(self._offsets) for _ in range(self.count - 1)]
            return (seen, *(max(number, min(seen, 0)) for number in drawn))

        return self._note_guess(self._new_guess(draw))

    def follows_data(self, expression: SizeExpr) -> bool:
        """Whether an expression contains a data-dependent number."""
        leaves = (expression, *leaves_of(expression))
        return any(leaf in self._data_dependent or leaf.at in self._floats_drawn for leaf in leaves)

    def unify(self, left: Size, right: Size) -> None:
        """Make a data-dependent number equal to another size, as it is in every run of the model."""
        for guessed, other in ((left, right), (right, left)):
            if isinstance(guessed, SizeExpr) and guessed.at in self._guessed and guessed != other:
                at = other.at if isinstance(other, SizeExpr) else (other,) * self.count
                raise OneSize(self._guessed[guessed.at], guessed.at, at)

    def _is_counted_axis(self, value: Value, axis: int) -> bool:
        size = value.shape[axis]
        return isinstance(size, SizeExpr) and self.follows_data(size)

    def _has_guesses(self, node: Node) -> bool:
        """Whether sizes or numbers among the arguments are data-dependent."""
        return bool(self._data_dependent or self._floats_drawn) and any(map(self._is_guess, node.values()))

    def note_results(self, node: Node) -> None:
        """Note sizes that follow from guesses as data-dependent, too."""
        if self._has_guesses(node):
            sizes = [size for value in node.outputs if value.is_tensor for size in value.shape]
            self._data_dependent.update(size for size in sizes if isinstance(size, SizeExpr) and size.op == "Unknown")

    def _is_guess(self, value: Value) -> bool:
        if value.is_tensor:
            return any(size in self._data_dependent for size in value.shape)
        made_by = value.node
        leaves = leaves_of(made_by.inputs["expression"]) if made_by is not None and made_by.op == NUMBER else ()
        numbers = [self.numbers.get(value), *(leaf.at for leaf in leaves)]
        return value.size in self._data_dependent or any(number in self._floats_drawn for number in numbers)

    def _drawn(self, kind: type) -> tuple[Any, ...]:
        found = super()._drawn(kind)
        if kind is float:
            self._floats_drawn.add(found)
        return found

    def _common(self, guessed: SizeExpr, other: Size) -> Size:
        return other if isinstance(other, int) else self._guess_from(max(guessed.at[0], other.at[0]))

    def _pairs(self, sizes: Sequence[Size]) -> list[tuple[SizeExpr, Size]]:
        guesses = [size for size in sizes if isinstance(size, SizeExpr) and size.at in self._guessed]
        derived = [s for s in sizes if isinstance(s, SizeExpr) and s in self._data_dependent and s not in guesses]
        return [
            *itertools.product(derived, guesses),
            *((guess, size) for guess, size in itertools.product(guesses, sizes) if guess != size),
            *((size, other) for size, other in itertools.product(derived, sizes) if other not in (*guesses, size)),
        ]

    def _reshaped_count(self, node: Node) -> None:
        """Raise `OneSize` if a reshape determines the value of a data-dependent size."""
        source = node.inputs["self"]
        counts = [size for size in source.shape if isinstance(size, SizeExpr) and size in self._data_dependent]
        if len(counts) != 1:
            return
        (count,) = counts
        found = []
        for point in range(self.count):
            wanted = self.at(argument_of(node, "shape" if "shape" in node.inputs else "size"), point)
            elements = math.prod(size for size in wanted if size != -1)
            others = math.prod(at(size, point) for size in source.shape if size is not count)
            if -1 in wanted:  # a multiple of the elements of one row
                found.append(count.at[0] + (count.at[point] - count.at[0]) * (elements // math.gcd(elements, others)))
            else:
                found.append(elements // max(others, 1))
        if tuple(found) != count.at and found[0] == count.at[0]:
            one = OneSize(self._guessed.get(count.at), count.at, tuple(found))
            one.is_guess = -1 in wanted
            raise one

    # Operators with data-dependent sizes

    def counted(self, node: Node, seen: Sequence[TensorType] = ()) -> list[TensorType]:
        """The result types of an operator with data-dependent sizes; ``seen`` are the types in the run.

        A size that differs with the content gets a guess. Each dynamic size is replaced by a small prime for these
        runs, which identifies it among the sizes of the results.
        """
        rule = RULES.get(node.op)
        if rule is not None:
            return rule(self, node, seen)
        sizes = dict.fromkeys(s for value in node.values() if value.is_tensor for s in value.shape)
        taken = {size for size in sizes if isinstance(size, int)}
        stand_ins = iter(prime for prime in PRIMES if prime not in taken)
        small: dict[Size, int] = {size: next(stand_ins) for size in sizes if isinstance(size, SizeExpr)}
        runs = self._runs_with(node, small)
        if not runs:  # sizes that have to match each other, as those of the run do
            small = {size: at(size, 0) for size in small}
            runs = self._runs_with(node, small)
        if not runs:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} cannot be typed: {self._refused}")
        has_numbers = any(not value.is_tensor for value in node.values())
        if has_numbers and len({tuple(result.shape for result in row) for row in runs}) == 1 < len(runs):
            return self.result_types(node)  # the numbers among the arguments decide, and not the content
        known = {number: size for size, number in small.items()}
        types = []
        for index, result in enumerate(runs[0]):
            shapes = [row[index].shape for row in runs]
            if any(len(shape) != result.dim() for shape in shapes):
                raise CaptureError(f"{node.source or 'the model'}: the number of dimensions depends on data")
            lengths = zip(*shapes, strict=True)
            types.append(
                TensorType(
                    result.dtype,
                    tuple(
                        self._length(node, index, c, known, seen[index].shape[axis] if index < len(seen) else None)
                        for axis, c in enumerate(lengths)
                    ),
                )
            )
        return types

    def _runs_with(self, node: Node, small: dict[Size, int]) -> list[list[Any]]:
        """The results of a node on each content that it accepts."""
        found = [self._filled(node, fill, small) for fill in (*CONTENTS, TWOS, PAIRS)]
        return [flat(row) for row in found if row is not None]

    def _length(self, node: Node, index: int, column: Sequence[int], known: dict[int, Size], seen: Size | None) -> Size:
        size = _known_size(column[0], known)
        # The run may show a size that none of the contents has.
        is_other = isinstance(seen, int) and seen != at(size, 0)
        if is_other or len(set(column)) > 1 or len(column) == 1:
            return self.count_of(_key_of(node, index), seen if isinstance(seen, int) else None)
        return size

    def _same_content(self, value: Value) -> torch.Tensor | None:
        """The content of a tensor if it is the same at every point."""
        known = self.contents(value)
        if known is None or not all(torch.equal(known[0], content) for content in known[1:]):
            return None
        content: torch.Tensor = known[0]
        return content

    def _filled(self, node: Node, fill: script_points.Fill, small: dict[Size, int]) -> list[Any] | None:
        def content(argument: Argument) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                known = self._same_content(argument)
                if known is not None:
                    return known
                shape = [size if isinstance(size, int) else small[size] for size in argument.shape]
                return of_dtype(fill(math.prod(shape)).reshape(shape), argument.dtype)
            if isinstance(argument, list):
                return [content(element) for element in argument]
            if isinstance(argument, Value):
                return min(self.number(argument))
            return argument

        try:
            return run(node, {name: content(argument) for name, argument in node.inputs.items()}, device="cpu")
        except REFUSALS as error:
            self._refused = error
            return None


def _seen(seen: Sequence[TensorType], index: int) -> int | None:
    size = seen[index].shape[0] if index < len(seen) else None
    return size if isinstance(size, int) else None


def _pack(points: GuessedPoints, node: Node, seen: Sequence[TensorType]) -> list[TensorType]:
    """A packed batch of sequences: its rows in order of steps, and the batch size at each step."""
    source, lengths = node.inputs["input"], node.inputs["lengths"]
    batch = source.shape[0 if node.inputs["batch_first"] else 1]
    rows = points.count_of(("rows", source, lengths), _seen(seen, 0))
    steps = points.count_of(("steps", lengths), _seen(seen, 1))
    points.batches[steps] = batch
    return [TensorType(source.dtype, (rows, *source.shape[2:])), TensorType(torch.int64, (steps,))]


def _pad(points: GuessedPoints, node: Node, seen: Sequence[TensorType]) -> list[TensorType]:
    """Packed sequences as one batch again, and their lengths."""
    data, batch_sizes = node.inputs["data"], node.inputs["batch_sizes"]
    steps = batch_sizes.shape[0]
    batch = points.batches.get(steps) or points.count_of(("batch", batch_sizes), _seen(seen, 1))
    total = node.inputs.get("total_length")
    length = total if isinstance(total, int) and total > 0 else total.size if isinstance(total, Value) else steps
    sizes = (batch, length) if node.inputs["batch_first"] else (length, batch)
    return [TensorType(data.dtype, (*sizes, *data.shape[1:])), TensorType(torch.int64, (batch,))]


def _bincount(points: GuessedPoints, node: Node, seen: Sequence[TensorType]) -> list[TensorType]:
    """One bin more than the largest number, as far as data say."""
    dtype = seen[0].dtype if seen else torch.int64
    return [TensorType(dtype, (points.count_of(("bins", *node.values()), _seen(seen, 0)),))]


# Operators that would read beyond the end of a tensor with other content, or whose sizes no content tried here shows.
RULES = {"aten::_pack_padded_sequence": _pack, "aten::_pad_packed_sequence": _pad, "aten::bincount": _bincount}


def at(size: Size, point: int) -> int:
    return size.at[point] if isinstance(size, SizeExpr) else size


def _known_size(length: int, known: dict[int, Size]) -> Size:
    """The size, or the product of two sizes, with this stand-in length."""
    if length in known:
        return known[length]
    for pair in itertools.combinations_with_replacement(known, 2):
        if math.prod(pair) == length:
            return known[pair[0]] * known[pair[1]]
    return length


def flat(row: Sequence[Any]) -> list[Any]:
    return [part for result in row for part in (result if isinstance(result, (list, tuple)) else (result,))]


def _key_of(node: Node, index: int) -> Hashable:
    """Equal for results whose data-dependent size is the same number: what one mask selects."""
    masks = tuple(v for v in node.values() if v.is_tensor and v.dtype in (torch.bool, torch.uint8))
    if node.op in ("aten::index", "aten::nonzero", "aten::masked_select", "aten::where") and len(masks) == 1:
        return "mask", masks[0]
    return node.op, index, tuple(node.values())
