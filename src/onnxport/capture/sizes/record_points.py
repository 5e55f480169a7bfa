"""Types of results at the evaluation points, by running operators on meta tensors.

The first point is the run that was recorded. At another point the model may refuse a size, or take another path. Such a
point is dead from there on: the sizes of the first point stand in for its own, and the graph is built again without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.capture.sizes.data_dependent import LARGER, GuessedPoints, at, flat
from onnxport.capture.sizes.explanations import expressions
from onnxport.capture.sizes.operator_runs import of_dtype, run
from onnxport.capture.sizes.points import RECURRENT, REFUSALS, RESHAPES, Settled, TooLarge
from onnxport.errors import CaptureError
from onnxport.graph.functionalize.strided import STRIDED
from onnxport.graph.functionalize.views import argument as argument_of
from onnxport.graph.functionalize.views import source_name
from onnxport.graph.ir import Argument, Node, Source, TensorType, Value
from onnxport.graph.shapes import Requirements, result_shapes
from onnxport.graph.sizes import Shape, Size, SizeExpr
from onnxport.graph.sizes import size as size_of

# The most elements of the real tensors that are made for operators without a meta kernel.
MAX_ELEMENTS = 2**22


class Refused(CaptureError):
    """An operator does not accept the sizes of its arguments at a point; ``guessed`` if they may be others."""

    def __init__(self, source: Source | None, op: str, reason: Exception | str, guessed: bool = False) -> None:
        super().__init__(f"{source or 'the model'}: {op}: {reason}")
        self.source = source
        self.guessed = guessed


class RecordPoints(GuessedPoints):
    """The points of one record. ``dead`` has the reason for each point at which the record is not valid."""

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), offsets: range = LARGER) -> None:
        super().__init__(count, settled, alike, offsets)
        self.dead: dict[int, Any] = {}
        self.varying: set[tuple[int, int]] = set()  # axes of what loops carry that iterations change
        self.reading_script = False  # its numbers are guesses, which operators may refuse
        self.unrolled: dict[Node, int] = {}  # the number of parts in the run, of nodes where it is data-dependent

    # Evaluation

    def result_types(self, node: Node, seen: Sequence[TensorType] | None = None) -> list[TensorType]:
        """The types of a node's results, with lists flattened; ``seen`` are the types in the run."""
        shapes = None if seen is None else self._by_function(node, seen)
        if shapes is not None and seen is not None:
            return [TensorType(known.dtype, shape) for known, shape in zip(seen, shapes, strict=True)]
        columns: list[Sequence[Any]] = []
        for column in zip(*self.evaluate(node), strict=True):
            if isinstance(column[0], (list, tuple)):
                self._check_parts(node, column)
                columns += zip(*(part if len(part) == len(column[0]) else column[0] for part in column), strict=True)
            else:
                columns.append(column)
        return [self._type(node, column) for column in columns]

    def _by_function(self, node: Node, seen: Sequence[TensorType]) -> list[Shape] | None:
        """The shapes from the node's shape function, if they agree with the run."""
        refused: dict[int, Any] = {}

        def refuse(point: int, reason: str) -> None:
            refused.setdefault(point, self._refused_by(node, reason))

        has_guesses = self._has_guesses(node)
        shapes = result_shapes(node, Requirements(self.count, refuse, guessed=has_guesses))
        if shapes is None or len(shapes) != len(seen):
            return None
        if refused and (self.reading_script or has_guesses):
            return None  # other guesses may be accepted
        for shape, known in zip(shapes, seen, strict=True):
            if tuple(at(size, 0) for size in shape) != known.shape:
                return None
        for point, reason in refused.items():
            self.dead.setdefault(point, reason)
        known_shapes = {id(value.shape) for value in node.values() if value.is_tensor}
        return [
            s if id(s) in known_shapes else tuple([self._known_as(size, has_guesses) for size in s]) for s in shapes
        ]

    def _known_as(self, size: Size, has_guesses: bool) -> Size:
        if not isinstance(size, SizeExpr):
            return size
        if size.at in self._settled:  # an earlier reading found its value
            return self.explain(size_of(self._settled[size.at]))
        if has_guesses and size not in self._explained:
            self._data_dependent.add(size)
        return self.explain(size)

    def _type(self, node: Node, column: Sequence[Any]) -> TensorType:
        if column[0] is None:
            return TensorType(torch.float32, ())
        for point, result in enumerate(column):
            if result.dim() != column[0].dim():
                reason = "the number of dimensions differs"
                self.dead.setdefault(point, Refused(node.source, node.op, reason))
        alive = [column[0] if point in self.dead else result for point, result in enumerate(column)]
        found = self.types(alive)
        has_guesses = self._has_guesses(node)
        shape = []
        for size in found.shape:
            if isinstance(size, SizeExpr):
                known = self._explained.get(size)
                if known is None:
                    found_as = (e for e in expressions(node) if isinstance(e, SizeExpr) and self._agrees(e, size))
                    known = next(found_as, size)
                    self._explained[size] = known
                    if has_guesses:
                        self._data_dependent.add(size)
                size = known
            shape.append(size)
        return TensorType(found.dtype, tuple(shape))

    def types(self, results: Sequence[Any]) -> TensorType:
        for point, result in enumerate(results):
            if result.dim() != results[0].dim():
                self.dead.setdefault(point, Refused(None, "a script", "the number of dimensions differs"))
        return super().types([results[0] if point in self.dead else r for point, r in enumerate(results)])

    def _agrees(self, expression: SizeExpr, size: SizeExpr) -> bool:
        if not self.dead:
            return expression == size
        pairs = enumerate(zip(expression.at, size.at, strict=True))
        return all(left == right for point, (left, right) in pairs if point not in self.dead)

    def _check_parts(self, node: Node, column: Sequence[Any]) -> None:
        for point, parts in enumerate(column):
            if len(parts) == len(column[0]):
                continue
            if self._is_counted_axis(node.inputs["self"], node.inputs.get("dim", 0)):
                self.unrolled[node] = len(column[0])
            else:
                self.dead.setdefault(point, Refused(node.source, node.op, "the number of parts differs"))

    def _evaluate(self, node: Node) -> list[Any]:
        free = {size for value in node.values() for size in self.free_sizes(value)}
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
                self.dead[point] = self._refused_by(node, error)
                if point == 0:
                    raise self.dead[point] from error
        return [results[keys[0] if point in self.dead else key] for point, key in enumerate(keys)]

    def _refused_by(self, node: Node, reason: Exception | str) -> Refused:
        sizes = [size for value in node.values() if value.is_tensor for size in value.shape]
        sizes += [found for value in node.values() if isinstance(found := self.expression(value), SizeExpr)]
        guessed = any(isinstance(size, SizeExpr) and self.follows_data(size) for size in sizes)
        return Refused(node.source, node.op, reason, guessed or self._has_guesses(node))

    def evaluate(self, node: Node) -> list[Any]:
        if node.op in RECURRENT and node.overload == "data":
            return [self._packed(node, point) for point in range(self.count)]
        if node.op in STRIDED:
            self._check_reach(node)
        return super().evaluate(node)

    def _check_reach(self, node: Node) -> None:
        """Check that ``as_strided`` stays within the memory: meta tensors have none, so torch does not check it."""
        for point in range(1, self.count):
            try:
                viewed = self._in_memory(node.inputs["self"], point)
            except REFUSALS:  # the view's own node was refused at this point, or its numbers are guesses
                continue
            elements = viewed.untyped_storage().nbytes() // viewed.element_size()
            size, stride, start = (self.at(argument_of(node, n), point) for n in ("size", "stride", "storage_offset"))
            start = viewed.storage_offset() if start is None else start
            reach = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
            if 0 not in size and start + reach >= elements:
                self.dead.setdefault(point, Refused(node.source, node.op, "it reaches beyond the end of the memory"))

    def _in_memory(self, value: Value, point: int) -> torch.Tensor:
        """A meta tensor with the strides and the storage of a value, through the views that lead to it."""
        made_by = value.node
        name = None if made_by is None else source_name(made_by)
        if made_by is None or name is None:
            tensor: torch.Tensor = self.at(value, point)
            return tensor
        arguments = {parameter: self.at(argument, point) for parameter, argument in made_by.inputs.items()}
        arguments[name] = self._in_memory(made_by.inputs[name], point)
        found: torch.Tensor = flat(run(made_by, arguments))[made_by.outputs.index(value)]
        return found

    def errors(self, node: Node) -> list[str | None]:
        """The error that a node's operator raises at each point, for arguments with their actual strides."""
        return [self._error(node, point) for point in range(self.count)]

    def _error(self, node: Node, point: int) -> str | None:
        def argument(of: Argument) -> Any:
            if isinstance(of, list):
                return [argument(element) for element in of]
            return self._in_memory(of, point) if isinstance(of, Value) and of.is_tensor else self.at(of, point)

        try:
            run(node, {name: argument(value) for name, value in node.inputs.items()})
        except REFUSALS as error:
            return str(error)
        return None

    def _packed(self, node: Node, point: int) -> list[torch.Tensor]:
        """The results of a recurrent layer on a packed sequence: as many rows as its data, and the last states."""
        data, states = self.at(node.inputs["data"], point), self.at(node.inputs["hx"], point)
        hidden = states if isinstance(states, list) else [states]
        directions = 2 if node.inputs["bidirectional"] else 1
        return [data.new_empty(data.shape[0], directions * hidden[0].shape[-1]), *hidden]

    def _evaluate_at(self, node: Node, point: int) -> list[Any]:
        try:
            return super()._evaluate_at(node, point)
        except REFUSALS as error:
            # Some operators have no meta kernel, or one that refuses what the operator itself accepts.
            refusal = error
        try:
            return self._with_memory(node, point)
        except TooLarge:
            raise refusal from None

    def _with_memory(self, node: Node, point: int) -> list[Any]:
        """Run an operator without a meta kernel on real tensors: zeros, or ones where it refuses zeros."""
        elements = sum(math.prod(at(s, point) for s in v.shape) for v in node.values() if v.is_tensor)
        if elements > MAX_ELEMENTS:
            raise TooLarge(f"{node.op} has no meta kernel, and its arguments are too large to run it")

        def content(argument: Argument, filled: Callable[..., torch.Tensor]) -> Any:
            if isinstance(argument, Value) and isinstance(argument.type, TensorType):
                return of_dtype(filled([at(size, point) for size in argument.shape]), argument.dtype)
            if isinstance(argument, list):
                return [content(element, filled) for element in argument]
            return self.at(argument, point) if isinstance(argument, Value) else argument

        def run_on(filled: Callable[..., torch.Tensor]) -> list[Any]:
            return run(node, {name: content(value, filled) for name, value in node.inputs.items()}, device="cpu")

        try:
            return run_on(torch.zeros)
        except REFUSALS:
            return run_on(torch.ones)

    def _without_kernel(self, node: Node, point: int, error: Exception) -> list[Any]:
        return self._evaluate_tamed(node, point, error)

    def _with_other_counts(self, node: Node, point: int, refusal: Exception) -> list[Any] | None:
        try:
            return self._evaluate_tamed(node, point, refusal)
        except CaptureError:
            if node.op in RESHAPES:
                self._reshaped_count(node)
            return None


def example_types(types: Sequence[tuple[torch.dtype, tuple[int, ...]]], refs: Sequence[Any]) -> list[TensorType]:
    """The types of results in the recorded run."""
    return [TensorType(torch.float32, ()) if ref is None else TensorType(*types[ref.number]) for ref in refs]
