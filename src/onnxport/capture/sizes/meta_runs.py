"""Operators run on meta tensors at every evaluation point.

Where an operator refuses guesses, other numbers are tried. Where two sizes must be equal for it, `OneSize` is raised.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.sizes.guesses import LARGE, Guesses, OneSize, Settled
from onnxport.capture.sizes.operator_runs import reshaped, run, run_shortened
from onnxport.capture.sizes.size_conditions import SizeCondition, compared_sizes
from onnxport.errors import CaptureError
from onnxport.graph.ir import QUANTIZED, Argument, Node, ScalarType, TensorType, Value
from onnxport.graph.sizes import Size, SizeExpr, size, values

# Numbers that an operator most likely accepts where it refuses a guess.
TAME_NUMBERS = (0, 1, 2, 3, 4, -1)
RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
RESHAPES = frozenset({"aten::reshape", "aten::view"})
SPLITS = frozenset({"aten::split", "aten::split_with_sizes"})
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError, ArithmeticError)


class TooLarge(CaptureError):
    """A tensor has more elements at the last point than torch can count: several of its sizes are large there."""


class WithoutMeta(CaptureError):
    """The operator does not run on meta tensors."""


class MetaRuns(Guesses):
    """Results of operators at the points of one reading."""

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), large: int = LARGE) -> None:
        super().__init__(count, settled, alike, large)
        self._known: dict[Hashable, list[Any]] = {}
        self._guessing: set[Hashable] = set()  # keys of results with guesses that were drawn for them
        self.conditions: list[SizeCondition] = []

    def rewind(self, start: int, found: OneSize) -> bool:
        if not super().rewind(start, found):
            return False
        self._known = {key: results for key, results in self._known.items() if key not in self._guessing}
        self._guessing.clear()
        return True

    def at(self, argument: Argument, point: int) -> Any:
        """An argument for torch at a point: meta tensors, and numbers as they are guessed."""
        if isinstance(argument, Value):
            if isinstance(argument.type, TensorType):
                return without_content(argument.type, point, self.count)
            return self.number(argument)[point]
        if isinstance(argument, (list, tuple)):
            return [self.at(element, point) for element in argument]
        return torch.device("meta") if isinstance(argument, torch.device) else argument

    def evaluate(self, node: Node) -> list[Any]:
        """The results of a node at each point, as torch returns them: a list per point."""
        if is_packed(node):
            raise CaptureError(
                f"{node.source or 'the model'}: {node.op} of a packed sequence in scripted code is not supported. "
                "Export the module without scripting it, or give the layer padded sequences."
            )
        key = self._key_of(node)
        if key not in self._known:
            before = self.sites
            self._known[key] = self._evaluate(node)
            if self.sites != before:
                self._guessing.add(key)
            self.note_conditions(node)
        return self._known[key]

    def note_conditions(self, node: Node, numbers: tuple[Any, ...] | None = None) -> None:
        """Note the comparisons of sizes that decide the node's result; ``numbers`` if it computes with sizes only."""
        self.conditions += [SizeCondition(*pair, node.source) for pair in compared_sizes(node, numbers)]

    def _key_of(self, node: Node) -> Hashable:
        return node.op, node.overload, tuple((name, self._key(argument)) for name, argument in node.inputs.items())

    def _key(self, argument: Argument) -> Hashable:
        """Equal for arguments that give results of the same type."""
        if isinstance(argument, Value):
            return argument.type if isinstance(argument.type, TensorType) else self.number(argument)
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._key, argument))
        return type(argument), str(argument)

    def _evaluate(self, node: Node) -> list[Any]:
        free = {size for value in node.values() for size in self.free_sizes(value)}
        results: dict[tuple[int, ...], list[Any]] = {}
        keys = [tuple(dim.at[point] for dim in free) for point in range(self.count)]
        for point, key in enumerate(keys):
            if key not in results:
                try:
                    results[key] = self._evaluate_at(node, point)
                except NotImplementedError as error:
                    return self._without_kernel(node, point, error)
                except REFUSALS as error:
                    if any(text in str(error) for text in compat.OVERFLOWS):
                        raise TooLarge(f"{node.source or 'the model'}: {node.op}: {error}") from error
                    if any(value.is_tensor and value.dtype in QUANTIZED for value in node.values()):
                        return self._without_kernel(node, point, error)  # many have kernels for content alone
                    return self._evaluate_tamed(node, point, error)
        return [results[key] for key in keys]

    def _without_kernel(self, node: Node, point: int, error: Exception) -> list[Any]:
        raise WithoutMeta(f"{node.source or 'the model'}: {node.op}: {error}") from error

    def free_sizes(self, value: Value) -> list[SizeExpr]:
        """The sizes of a tensor, or a number, as far as they differ between the points."""
        if isinstance(value.type, TensorType):
            return [size for size in value.type.shape if isinstance(size, SizeExpr)]
        if isinstance(value.type, ScalarType):
            number = self.number(value)
            return [SizeExpr(number)] if number.count(number[0]) != len(number) else []
        return []

    def _evaluate_at(self, node: Node, point: int) -> list[Any]:
        arguments = {name: self.at(argument, point) for name, argument in node.inputs.items()}
        return run_shortened(node, arguments, self._large) if node.op in RECURRENT else run(node, arguments)

    def _evaluate_tamed(self, node: Node, point: int, refusal: Exception) -> list[Any]:
        """`_evaluate` with other numbers than the guesses. Sizes that change with them get new guesses."""
        if node.op in RESHAPES and any(not value.is_tensor for value in node.values()):
            return self._reshaped(node)
        if node.op in SPLITS and isinstance(list(node.inputs.values())[1], list):
            return [self._split(node, index, refusal) for index in range(self.count)]
        numbers = {value for value in node.values() if not value.is_tensor}
        if numbers:
            taken = [self._taken_at(node, index) for index in range(self.count)]
            columns = [self._with_number(node, number, taken) for number in TAME_NUMBERS]
            accepted = [column for column in columns if column is not None]
            # With several numbers that were only accepted as one value, nothing shows which size follows from which.
            if len(accepted) > (len(numbers) > 1):
                return self._mixed(accepted)
        found = self._unify(node, point)
        if found is None:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} does not accept its arguments: {refusal}")
        return found

    def _reshaped(self, node: Node) -> list[Any]:
        """A reshape to numbers that are only known at run time: they are the sizes, and -1 is a new guess."""
        source = node.inputs["self"]
        wanted = node.inputs["shape" if "shape" in node.inputs else "size"]
        rows = [self.at(wanted, point) for point in range(self.count)]
        rest = self.guess() if -1 in rows[0] else None
        assert isinstance(source, Value)
        return [
            [torch.empty([rest.at[p] if rest and s == -1 else s for s in row], dtype=source.dtype, device="meta")]
            for p, row in enumerate(rows)
        ]

    def _split(self, node: Node, point: int, refusal: Exception) -> list[Any]:
        """A split into lengths that are only known at run time, where they add up to the whole."""
        source, lengths = (self.at(argument, point) for argument in list(node.inputs.values())[:2])
        if min(lengths, default=0) < 0:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} does not accept its arguments: {refusal}")
        shape, dim = list(source.shape), node.inputs.get("dim", 0)
        return [[reshaped(source, [*shape[:dim], length, *shape[dim:][1:]]) for length in lengths]]

    def _taken_at(self, node: Node, point: int) -> list[Any] | None:
        """The results at a point; None if the operator refuses the guesses."""
        try:
            return self._evaluate_at(node, point)
        except REFUSALS:
            return None

    def _with_number(self, node: Node, number: int, taken: Sequence[list[Any] | None]) -> list[Any] | None:
        """The results at each point, with this number instead of guesses that were refused."""
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
        """The results at each point, with a new guess for each size that depends on the number."""
        first, *others = accepted
        mixed: list[list[Any]] = [[] for _ in first]
        for index, result in enumerate(first[0]):
            alike = [other for other in others if _rank(other[0][index]) == _rank(result)]
            sizes = {
                axis: self.guess()
                for axis in range(_rank(result))
                if any(o[k][index].shape[axis] != r[index].shape[axis] for o in alike for k, r in enumerate(first))
            }
            for point, row in enumerate(first):
                if sizes:
                    kept = list(row[index].shape)
                    shape = [sizes[axis].at[point] if axis in sizes else s for axis, s in enumerate(kept)]
                    mixed[point].append(reshaped(row[index], shape))
                else:
                    mixed[point].append(row[index])
        return mixed

    def _tamed(self, argument: Argument, point: int, number: int) -> Any:
        if isinstance(argument, Value) and isinstance(argument.type, ScalarType):
            return argument.type.kind(number)
        if isinstance(argument, (list, tuple)):
            return [self._tamed(element, point, number) for element in argument]
        return self.at(argument, point)

    def _unify(self, node: Node, point: int) -> list[Any] | None:
        """Raise `OneSize` if the operator accepts its arguments once a guessed size equals another of their sizes.

        If it also accepts a size of 1, the two broadcast: the result is returned.
        """
        sizes = list(dict.fromkeys(s for value in node.values() if value.is_tensor for s in value.shape))
        for guessed, other in (pairs := self._pairs(sizes)):
            if not self._takes(node, {guessed: other}):
                continue
            if not self._takes(node, {guessed: 1}, point):
                raise OneSize(self._guessed.get(guessed.at), guessed.at, values(other, self.count))
            return self._broadcast(node, guessed, other, self._common(guessed, other))
        for (guessed, other), second in itertools.combinations(pairs, 2):
            both: dict[Size, Size] = {guessed: other, second[0]: second[1]}
            if len(both) == 2 and self._takes(node, both) and not self._takes(node, {**both, guessed: 1}, point):
                raise OneSize(self._guessed.get(guessed.at), guessed.at, values(other, self.count))
        return None

    def _common(self, guessed: SizeExpr, other: Size) -> Size:
        """The size that two sizes broadcast to."""
        return other if isinstance(other, int) else self.guess()

    def _pairs(self, sizes: Sequence[Size]) -> list[tuple[SizeExpr, Size]]:
        """Pairs of sizes that may have to be equal. Sizes that follow from a guess, paired with a guess, come first."""
        guesses = [size for size in sizes if isinstance(size, SizeExpr) and size.at in self._guessed]
        derived = [
            size
            for size in sizes
            if isinstance(size, SizeExpr)
            and size not in guesses
            and any(size.at[point] != size.at[same] for point, same in enumerate(self._alike))
        ]
        return [
            *itertools.product(derived, guesses),
            *((guess, size) for guess, size in itertools.product(guesses, sizes) if guess != size),
            *((size, other) for size, other in itertools.product(derived, sizes) if other not in (*guesses, size)),
        ]

    def _broadcast(self, node: Node, guessed: Size, other: Size, common: Size) -> list[Any]:
        """The results with two sizes made equal; in the results that size is ``common``."""
        rows = [run(node, self._resized(node, {guessed: other}, point)) for point in range(self.count)]
        lengths, wanted = values(other, self.count), values(common, self.count)
        for index, first in enumerate(rows[0]):
            for axis in range(_rank(first)):
                if all(row[index].shape[axis] == length for row, length in zip(rows, lengths, strict=True)):
                    for row, length in zip(rows, wanted, strict=True):
                        shape = [length if a == axis else s for a, s in enumerate(row[index].shape)]
                        row[index] = reshaped(row[index], shape)
        return rows

    def _takes(self, node: Node, others: Mapping[Size, Size], point: int | None = None) -> bool:
        """Whether the operator accepts its arguments with sizes replaced, at one point or at all."""
        try:
            for each in range(self.count) if point is None else (point,):
                run(node, self._resized(node, others, each))
        except REFUSALS:
            return False
        return True

    def _resized(self, node: Node, others: Mapping[Size, Size], point: int) -> dict[str, Any]:
        def resized(argument: Argument) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                shape = tuple(others.get(length, length) for length in argument.type.shape)
                return without_content(TensorType(argument.dtype, shape), point, self.count)
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


def is_packed(node: Node) -> bool:
    """Whether the node is a recurrent layer on a packed sequence."""
    return node.op in RECURRENT and node.overload == "data"


def without_content(type: TensorType, point: int, count: int) -> torch.Tensor:
    return torch.empty([values(size, count)[point] for size in type.shape], dtype=type.dtype, device="meta")


def _rank(result: Any) -> int:
    return result.dim() if isinstance(result, torch.Tensor) else 0
