"""Types of results at the evaluation points, by running operators on meta tensors.

The first point is the run that was recorded. At another one the model may refuse a size, or take another path: such a
point is dead from there on, and stands for the first one until the graph is built again without it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from onnxport.capture.build import shape_functions
from onnxport.capture.script import points as script_points
from onnxport.capture.script.evaluation import run
from onnxport.capture.script.points import (
    CONTENTS,
    LEAST_POINTS,
    RECURRENT,
    REFUSALS,
    TWOS,
    MorePoints,
    OneSize,
    Points,
    Settled,
    TooLarge,
)
from onnxport.errors import CaptureError
from onnxport.graph.dims import Dim, Size
from onnxport.graph.ir import NUMBER, Argument, Node, Source, TensorType, Value
from onnxport.graph.sizes import leaves_of
from onnxport.graph.strided import STRIDED
from onnxport.graph.views import argument as given
from onnxport.graph.views import source_name

# Larger tensors are not made for operators that do not run on meta tensors.
MOST_ELEMENTS = 2**22
# Boxes that are all the same.
PAIRS: script_points.Fill = lambda count: torch.arange(count) % 4 // 2  # noqa: E731
PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


class Refused(CaptureError):
    """An operator does not take the sizes that its arguments have at a point."""

    def __init__(self, source: Source | None, op: str, reason: Exception | str) -> None:
        super().__init__(f"{source or 'the model'}: {op}: {reason}")
        self.source = source


class RecordPoints(Points):
    """The points of one record. ``dead`` tells why the record says nothing at a point."""

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = ()) -> None:
        super().__init__(count, settled, alike)
        self.dead: dict[int, Any] = {}
        self.reading_script = False  # its numbers are guesses, which operators may refuse
        self._counts: dict[Hashable, Dim] = {}
        self.batches: dict[Size, Size] = {}  # of packed sequences, by the number of their steps
        self._explained: dict[Dim, Dim] = {}  # sizes by their values, as expressions
        self._by_data: set[Dim] = set()  # those that follow from what only data tells
        self._floats_drawn: set[Any] = set()  # numbers that only data tells, at the points
        # What tensors hold at the points, where that follows from sizes alone.
        self.contents: Callable[[Value], list[Any] | None] = lambda value: None

    def explain(self, size: Size) -> Size:
        """The expression that is known for a size with these values."""
        if not isinstance(size, Dim):
            return size
        known = self._explained.get(size)
        if known is None or (known.op == "Unknown" and size.op != "Unknown"):
            self._explained[size] = known = size
        return known

    def guess(self, least: int = 2) -> Dim:
        found = super().guess(least)
        self._by_data.add(found)
        return found

    def count_of(self, key: Hashable, seen: int | None = None) -> Dim:
        """How many a mask holds, or another number that only data tells: one for each key.

        ``seen`` is what it was in the run; elsewhere it is guessed to be that or a little more.
        """
        if key not in self._counts:
            self._counts[key] = self.guess() if seen is None else self._guess_from(seen)
            self._by_data.add(self._counts[key])
        return self._counts[key]

    def _guess_from(self, seen: int) -> Dim:
        if self.count < LEAST_POINTS:
            raise MorePoints
        site, self.sites = self.sites, self.sites + 1
        at = self._settled.get(site)
        if at is None:
            draw = random.Random(site)
            at = (seen, *(seen + draw.randrange(1, 12) for _ in range(self.count - 1)))
            self._guessed[at] = site
        return Dim(at)

    def follows_data(self, expression: Dim) -> bool:
        """Whether an expression holds a number that only data tells."""
        return expression in self._by_data or any(leaf in self._by_data for leaf in leaves_of(expression))

    def unify(self, left: Size, right: Size) -> None:
        """Let a number that only data tells be another one, which it is equal to whenever the model runs."""
        for guessed, other in ((left, right), (right, left)):
            if isinstance(guessed, Dim) and guessed.at in self._guessed and guessed != other:
                at = other.at if isinstance(other, Dim) else (other,) * self.count
                raise OneSize(self._guessed[guessed.at], guessed.at, at)

    # Evaluation

    def result_types(self, node: Node) -> list[TensorType]:
        """The types of a node's results, lists among them taken apart."""
        columns: list[Sequence[Any]] = []
        for column in zip(*self.evaluate(node), strict=True):
            if isinstance(column[0], (list, tuple)):
                self._check_parts(node, column)
                columns += zip(*(part if len(part) == len(column[0]) else column[0] for part in column), strict=True)
            else:
                columns.append(column)
        return [self._type(node, place, column) for place, column in enumerate(columns)]

    def _type(self, node: Node, place: int, column: Sequence[Any]) -> TensorType:
        if column[0] is None:
            return TensorType(torch.float32, ())
        for point, result in enumerate(column):
            if result.dim() != column[0].dim():
                reason = "the number of dimensions is another there"
                self.dead.setdefault(point, Refused(node.source, node.op, reason))
        alive = [column[0] if point in self.dead else result for point, result in enumerate(column)]
        found = self.types(alive)
        by_data = self._has_guesses(node)
        shape = []
        for axis, size in enumerate(found.shape):
            if isinstance(size, Dim):
                known = self._explained.get(size)
                if known is None:
                    expressions = shape_functions.candidates(node, place, axis, self)
                    known = next((e for e in expressions if isinstance(e, Dim) and self._agrees(e, size)), size)
                    self._explained[size] = known
                    if by_data:
                        self._by_data.add(size)
                size = known
            shape.append(size)
        return TensorType(found.dtype, tuple(shape))

    def types(self, results: Sequence[Any]) -> TensorType:
        for point, result in enumerate(results):
            if result.dim() != results[0].dim():
                self.dead.setdefault(point, Refused(None, "a script", "the number of dimensions is another there"))
        return super().types([results[0] if point in self.dead else r for point, r in enumerate(results)])

    def _agrees(self, expression: Dim, size: Dim) -> bool:
        if not self.dead:
            return expression == size
        pairs = enumerate(zip(expression.at, size.at, strict=True))
        return all(left == right for point, (left, right) in pairs if point not in self.dead)

    def _check_parts(self, node: Node, column: Sequence[Any]) -> None:
        for point, parts in enumerate(column):
            if len(parts) != len(column[0]):
                self.dead.setdefault(point, Refused(node.source, node.op, "there are more or fewer parts there"))

    def _has_guesses(self, node: Node) -> bool:
        """Whether sizes or numbers among the arguments follow from what only data tells."""
        return any(map(self._is_guess, node.values()))

    def _is_guess(self, value: Value) -> bool:
        if value.is_tensor:
            return any(size in self._by_data for size in value.shape)
        made_by = value.node
        leaves = leaves_of(made_by.inputs["expression"]) if made_by is not None and made_by.op == NUMBER else ()
        numbers = [self.numbers.get(value), *(leaf.at for leaf in leaves)]
        return value.size in self._by_data or any(number in self._floats_drawn for number in numbers)

    def _drawn(self, kind: type) -> tuple[Any, ...]:
        found = super()._drawn(kind)
        if kind is float:
            self._floats_drawn.add(found)
        return found

    def _evaluate(self, node: Node) -> list[Any]:
        free = {size for value in node.values() for size in script_points._free_sizes(value, self)}
        results: dict[tuple[int, ...], list[Any]] = {}
        keys = [tuple(dim.at[point] for dim in free) for point in range(self.count)]
        for point, key in enumerate(keys):
            if key in results or point in self.dead:
                continue
            try:
                results[key] = self._evaluate_at(node, point)
            except REFUSALS as error:
                if self.reading_script or self._has_guesses(node):
                    found = self._with_other_counts(node, point, error)
                    if found is not None:
                        return found
                if point == 0:
                    raise Refused(node.source, node.op, error) from error
                self.dead[point] = Refused(node.source, node.op, error)
        return [results[keys[0] if point in self.dead else key] for point, key in enumerate(keys)]

    def evaluate(self, node: Node) -> list[Any]:
        if node.op in RECURRENT and node.overload == "data":
            return [self._packed(node, point) for point in range(self.count)]
        if node.op in STRIDED:
            self._check_reach(node)
        return super().evaluate(node)

    def _check_reach(self, node: Node) -> None:
        """Meta tensors have no memory whose end ``as_strided`` could not look beyond."""
        for point in range(1, self.count):
            try:
                viewed = self._in_memory(node.inputs["self"], point)
            except REFUSALS:  # the node of a view has told so, or its numbers are guesses
                continue
            elements = viewed.untyped_storage().nbytes() // viewed.element_size()
            size, stride, start = (self.at(given(node, n), point) for n in ("size", "stride", "storage_offset"))
            start = viewed.storage_offset() if start is None else start
            reach = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
            if 0 not in size and start + reach >= elements:
                self.dead.setdefault(point, Refused(node.source, node.op, "it reaches beyond the end of the memory"))

    def _in_memory(self, value: Value, point: int) -> torch.Tensor:
        """A view as it lies in the memory behind it."""
        made_by = value.node
        name = None if made_by is None else source_name(made_by)
        if made_by is None or name is None:
            tensor: torch.Tensor = self.at(value, point)
            return tensor
        arguments = {parameter: self.at(argument, point) for parameter, argument in made_by.inputs.items()}
        arguments[name] = self._in_memory(made_by.inputs[name], point)
        found: torch.Tensor = _flat(run(made_by, arguments))[made_by.outputs.index(value)]
        return found

    def _packed(self, node: Node, point: int) -> list[torch.Tensor]:
        """A recurrent layer of a packed sequence: its rows as many as those of its data, and the last states."""
        data, states = self.at(node.inputs["data"], point), self.at(node.inputs["hx"], point)
        hidden = states if isinstance(states, list) else [states]
        directions = 2 if node.inputs["bidirectional"] else 1
        return [data.new_empty(data.shape[0], directions * hidden[0].shape[-1]), *hidden]

    def _evaluate_at(self, node: Node, point: int) -> list[Any]:
        try:
            return super()._evaluate_at(node, point)
        except REFUSALS as error:
            # Some operators have no meta kernel, or one that refuses what the operator itself takes.
            refusal = error
        try:
            return self._with_memory(node, point)
        except TooLarge:
            raise refusal from None

    def _with_memory(self, node: Node, point: int) -> list[Any]:
        """An operator that does not run on meta tensors, on real ones. It may refuse weights that are zeros."""
        elements = sum(math.prod(at(s, point) for s in v.shape) for v in node.values() if v.is_tensor)
        if elements > MOST_ELEMENTS:
            raise TooLarge(f"{node.op} runs on tensors with content only")

        def content(argument: Argument, filled: Callable[..., torch.Tensor]) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                return filled([at(size, point) for size in argument.shape], dtype=argument.dtype)
            if isinstance(argument, list):
                return [content(element, filled) for element in argument]
            return self.at(argument, point) if isinstance(argument, Value) else argument

        def of(filled: Callable[..., torch.Tensor]) -> list[Any]:
            return run(node, {name: content(given, filled) for name, given in node.inputs.items()}, device="cpu")

        try:
            return of(torch.zeros)
        except REFUSALS:
            return of(torch.ones)

    def _with_other_counts(self, node: Node, point: int, refusal: Exception) -> list[Any] | None:
        try:
            return self._evaluate_tamed(node, point, refusal)
        except CaptureError:
            return None

    def _pairs(self, sizes: Sequence[Size]) -> list[tuple[Dim, Size]]:
        guesses = [size for size in sizes if isinstance(size, Dim) and size.at in self._guessed]
        derived = [s for s in sizes if isinstance(s, Dim) and s in self._by_data and s not in guesses]
        return [
            *itertools.product(derived, guesses),
            *((guess, size) for guess, size in itertools.product(guesses, sizes) if guess != size),
            *((size, other) for size, other in itertools.product(derived, sizes) if other not in (*guesses, size)),
        ]

    # Operators that count

    def counted(self, node: Node, seen: Sequence[TensorType] = ()) -> list[TensorType]:
        """The results of an operator that counts, which were ``seen`` in the run.

        A size that differs with the content is a number of its own. Each dynamic size is a small prime meanwhile, by
        which it is known again among the sizes of the results.
        """
        rule = RULES.get(node.op)
        if rule is not None:
            return rule(self, node, seen)
        sizes = dict.fromkeys(s for value in node.values() if value.is_tensor for s in value.shape)
        taken = {size for size in sizes if isinstance(size, int)}
        stand_ins = iter(prime for prime in PRIMES if prime not in taken)
        small: dict[Size, int] = {size: next(stand_ins) for size in sizes if isinstance(size, Dim)}
        found = [self._filled(node, fill, small) for fill in (*CONTENTS, TWOS, PAIRS)]
        runs = [_flat(row) for row in found if row is not None]
        if not runs:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} cannot be typed: {self._refused}")
        has_numbers = any(not value.is_tensor for value in node.values())
        if has_numbers and len({tuple(result.shape for result in row) for row in runs}) == 1 < len(runs):
            return self.result_types(node)  # the numbers among the arguments decide, and not the content
        known = {number: size for size, number in small.items()}
        types = []
        for place, result in enumerate(runs[0]):
            shapes = [row[place].shape for row in runs]
            if any(len(shape) != result.dim() for shape in shapes):
                raise CaptureError(f"{node.source or 'the model'}: the number of dimensions depends on data")
            lengths = zip(*shapes, strict=True)
            types.append(
                TensorType(
                    result.dtype,
                    tuple(
                        self._length(node, place, c, known, seen[place].shape[axis] if place < len(seen) else None)
                        for axis, c in enumerate(lengths)
                    ),
                )
            )
        return types

    def _length(self, node: Node, place: int, column: Sequence[int], known: dict[int, Size], seen: Size | None) -> Size:
        size = _known_size(column[0], known)
        # What no content shows, the run may.
        is_other = isinstance(seen, int) and seen != at(size, 0)
        if is_other or len(set(column)) > 1 or len(column) == 1:
            return self.count_of(_key_of(node, place), seen if isinstance(seen, int) else None)
        return size

    def _same_content(self, value: Value) -> torch.Tensor | None:
        """What a tensor holds at every point."""
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
                return fill(math.prod(shape)).reshape(shape).to(argument.dtype)
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


def _seen(seen: Sequence[TensorType], place: int) -> int | None:
    size = seen[place].shape[0] if place < len(seen) else None
    return size if isinstance(size, int) else None


def _pack(points: RecordPoints, node: Node, seen: Sequence[TensorType]) -> list[TensorType]:
    """The rows of a batch of sequences one after another, and how many sequences go on at each step."""
    source, lengths = node.inputs["input"], node.inputs["lengths"]
    batch = source.shape[0 if node.inputs["batch_first"] else 1]
    rows = points.count_of(("rows", source, lengths), _seen(seen, 0))
    steps = points.count_of(("steps", lengths), _seen(seen, 1))
    points.batches[steps] = batch
    return [TensorType(source.dtype, (rows, *source.shape[2:])), TensorType(torch.int64, (steps,))]


def _pad(points: RecordPoints, node: Node, seen: Sequence[TensorType]) -> list[TensorType]:
    """Packed sequences as one batch again, and their lengths."""
    data, batch_sizes = node.inputs["data"], node.inputs["batch_sizes"]
    steps = batch_sizes.shape[0]
    batch = points.batches.get(steps) or points.count_of(("batch", batch_sizes), _seen(seen, 1))
    total = node.inputs.get("total_length")
    length = total if isinstance(total, int) and total > 0 else total.size if isinstance(total, Value) else steps
    sizes = (batch, length) if node.inputs["batch_first"] else (length, batch)
    return [TensorType(data.dtype, (*sizes, *data.shape[1:])), TensorType(torch.int64, (batch,))]


# Operators that read beyond the end of a tensor where another one says so: they are not tried on other content.
RULES = {"aten::_pack_padded_sequence": _pack, "aten::_pad_packed_sequence": _pad}


def at(size: Size, point: int) -> int:
    return size.at[point] if isinstance(size, Dim) else size


def _known_size(length: int, known: dict[int, Size]) -> Size:
    """The size or the product of two sizes that a length stands for."""
    if length in known:
        return known[length]
    for pair in itertools.combinations_with_replacement(known, 2):
        if math.prod(pair) == length:
            return known[pair[0]] * known[pair[1]]
    return length


def _flat(row: Sequence[Any]) -> list[Any]:
    return [part for result in row for part in (result if isinstance(result, (list, tuple)) else (result,))]


def _key_of(node: Node, place: int) -> Hashable:
    """Equal for results whose counted size is the same number: what one mask selects."""
    masks = tuple(v for v in node.values() if v.is_tensor and v.dtype in (torch.bool, torch.uint8))
    if node.op in ("aten::index", "aten::nonzero", "aten::masked_select", "aten::where") and len(masks) == 1:
        return "mask", masks[0]
    return node.op, place, tuple(node.values())


def example_types(types: Sequence[tuple[torch.dtype, tuple[int, ...]]], refs: Sequence[Any]) -> list[TensorType]:
    """The types that results had in the run."""
    return [TensorType(torch.float32, ()) if ref is None else TensorType(*types[ref.number]) for ref in refs]
