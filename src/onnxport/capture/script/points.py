"""Types by evaluation: every operator of a scripted program is run on tensors without content, at several points.

A point gives each dynamic axis a size, and each number that only run time knows a guess. What is the same at every
point is static; what is not is a `Dim`. Guesses are drawn apart, so that sizes which are unrelated differ somewhere.
Where an operator refuses the guesses because two sizes must be equal, they are drawn as one and the program is read
again.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxport.errors import CaptureError
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.dims import Dim, Size, size, values
from onnxport.graph.interpret import operator
from onnxport.graph.ir import Argument, Node, ScalarType, TensorType, Value, schema_of

# With fewer points than this, unrelated guesses may agree at all of them.
LEAST_POINTS = 6
# Sizes at the last point, where bounds that a program cuts at are exceeded.
LARGE = 4000
FLOAT_GUESS = 1.5
# Numbers that an operator takes most likely, where it refuses the guess.
TAME_NUMBERS = (0, 1, 2, -1)
RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError)


class MorePoints(Exception):
    """The program has numbers that only run time knows, and there are too few points to tell them apart."""


class OneSize(Exception):
    """Two sizes must be equal: the guess made at ``site`` is to be ``at``."""

    def __init__(self, site: int, at: tuple[int, ...]) -> None:
        super().__init__(site, at)
        self.site = site
        self.at = at


class Points:
    """The points of one reading. ``settled`` are the guesses that earlier readings found."""

    def __init__(self, count: int, settled: dict[int, tuple[int, ...]]) -> None:
        self.count = count
        self._settled = settled
        self._sites = 0
        self._guessed: dict[tuple[int, ...], int] = {}
        self.numbers: dict[Value, tuple[Any, ...]] = {}

    def guess(self, least: int = 2) -> Dim:
        """A number that only run time knows."""
        if self.count < LEAST_POINTS:
            raise MorePoints
        site, self._sites = self._sites, self._sites + 1
        at = self._settled.get(site)
        if at is None:
            draw = random.Random(site)
            at = (*(draw.randrange(least, 10) for _ in range(self.count - 1)), LARGE + draw.randrange(1000))
            self._guessed[at] = site
        return Dim(at)

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
        return ({int: 2, float: FLOAT_GUESS, bool: False}[value.type.kind],) * self.count

    def evaluate(self, node: Node) -> list[Any]:
        """What the node yields at each point: raw results of torch, one list per point."""
        free = {size for value in node.values() for size in _free_sizes(value, self)}
        results: dict[tuple[int, ...], list[Any]] = {}
        keys = [tuple(dim.at[point] for dim in free) for point in range(self.count)]
        for point, key in enumerate(keys):
            if key not in results:
                results[key] = self._evaluate_at(node, point)
        return [results[key] for key in keys]

    def _evaluate_at(self, node: Node, point: int) -> list[Any]:
        arguments = {name: self.at(argument, point) for name, argument in node.inputs.items()}
        try:
            return _run_shortened(node, arguments) if node.op in RECURRENT else _run(node, arguments)
        except REFUSALS as error:
            refusal = error
        for number in TAME_NUMBERS if any(not value.is_tensor for value in node.values()) else ():
            try:
                return _run(node, {name: self._tamed(a, point, number) for name, a in node.inputs.items()})
            except REFUSALS:
                continue
        self._unify(node, point)
        raise CaptureError(f"{node.source or 'the model'}: {node.op} does not take its arguments: {refusal}")

    def _tamed(self, argument: Argument, point: int, number: int) -> Any:
        if isinstance(argument, Value) and isinstance(argument.type, ScalarType):
            return argument.type.kind(number)
        if isinstance(argument, (list, tuple)):
            return [self._tamed(element, point, number) for element in argument]
        return self.at(argument, point)

    def _unify(self, node: Node, point: int) -> None:
        """Raise `OneSize` if the operator takes its arguments once a guessed size is another of their sizes."""
        sizes = list(dict.fromkeys(s for value in node.values() if value.is_tensor for s in value.shape))
        for guessed, other in itertools.permutations(sizes, 2):
            site = self._guessed.get(guessed.at) if isinstance(guessed, Dim) else None
            if site is None:
                continue
            at = values(other, self.count)

            def same(argument: Argument, guessed: Size = guessed, other: Size = other) -> Any:
                if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                    shape = tuple(other if size == guessed else size for size in argument.type.shape)
                    return _without_content(TensorType(argument.dtype, shape), point, self.count)
                if isinstance(argument, list):
                    return [same(element) for element in argument]
                return self.at(argument, point)

            try:
                _run(node, {name: same(argument) for name, argument in node.inputs.items()})
            except REFUSALS:
                continue
            raise OneSize(site, at)

    def types(self, results: Sequence[Any]) -> TensorType:
        """The type that has these shapes at the points."""
        shapes = [tuple(result.shape) for result in results]
        if len({len(shape) for shape in shapes}) != 1:
            raise CaptureError("the number of dimensions depends on a size or on data")
        return TensorType(results[0].dtype, tuple(size(column) for column in zip(*shapes, strict=True)))

    def counted(self, node: Node) -> list[TensorType]:
        """The results of an operator that counts: sizes that differ with the content are guessed."""
        found = []
        shapes = [self._with_content(node, fill) for fill in (0, 1)]
        for place, result in enumerate(shapes[0]):
            shape = tuple(
                self.guess() if first != second else first
                for first, second in zip(result.shape, shapes[1][place].shape, strict=True)
            )
            found.append(TensorType(result.dtype, self._followed(shape, node)))
        return found

    def _with_content(self, node: Node, fill: int) -> list[torch.Tensor]:
        def content(argument: Argument) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                shape = [values(size, self.count)[0] for size in argument.shape]
                return torch.full(shape, bool(fill) if argument.dtype is torch.bool else fill, dtype=argument.dtype)
            if isinstance(argument, list):
                return [content(element) for element in argument]
            return self.at(argument, 0) if isinstance(argument, Value) else argument

        try:
            return _run(node, {name: content(argument) for name, argument in node.inputs.items()})
        except REFUSALS as error:
            raise CaptureError(f"{node.source or 'the model'}: {node.op} cannot be typed: {error}") from error

    def _followed(self, shape: tuple[Size, ...], node: Node) -> tuple[Size, ...]:
        """Sizes that were read at the first point, as the sizes of the arguments that they are."""
        free = {dim.at[0]: dim for value in node.values() for dim in _free_sizes(value, self)}
        return tuple(free.get(size, size) if isinstance(size, int) else size for size in shape)


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


def _run_shortened(node: Node, arguments: dict[str, Any]) -> list[Any]:
    """A recurrent layer is computed step by step: long sequences are replaced by short ones, and put back."""
    tensors = [tensor for argument in arguments.values() for tensor in _tensors(argument)]
    lengths = {length for tensor in tensors for length in tensor.shape}
    short = iter(length for length in itertools.count(2) if length not in lengths)
    stand_ins = {length: next(short) for length in sorted(lengths) if length >= LARGE}
    back = {stand_in: length for length, stand_in in stand_ins.items()}
    given = {name: _resized(argument, stand_ins) for name, argument in arguments.items()}
    return [_resized(result, back) for result in _run(node, given)]


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for element in argument:
            yield from _tensors(element)


def _resized(argument: Any, lengths: dict[int, int]) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument.new_empty([lengths.get(length, length) for length in argument.shape])
    return [_resized(element, lengths) for element in argument] if isinstance(argument, (list, tuple)) else argument


def _run(node: Node, arguments: dict[str, Any]) -> list[Any]:
    function: Callable[..., Any] = operator(node.op, node.overload)
    schema = schema_of(node.op, node.overload)
    if schema is not None and any(p.name == "device" for p in schema.parameters) and not list(node.values()):
        arguments = {**arguments, "device": torch.device("meta")}
    result = function(**arguments)
    if schema is not None and len(schema.returns) == 1:
        return [result]
    return list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
