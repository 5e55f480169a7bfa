"""Types of results at the evaluation points: by shape functions, or by running operators on meta tensors.

A point has a size for each dynamic axis, and a guess for each number that is only known at run time. A size that is the
same at every point is static, any other a `SizeExpr`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from onnxport.capture.sizes.expressions import is_read_at_run_time
from onnxport.capture.sizes.guesses import LARGE, LEAST_POINTS, MorePoints, OneSize, Seen, Settled, Varying
from onnxport.capture.sizes.meta_runs import RECURRENT, REFUSALS, RESHAPES, MetaRuns, TooLarge, is_packed
from onnxport.capture.sizes.operator_runs import of_dtype, run
from onnxport.errors import CaptureError
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.ir import Argument, Node, TensorType, Value
from onnxport.graph.shapes import Requirements, result_shapes
from onnxport.graph.sizes import Shape, Size, SizeExpr, leaves_of, values

__all__ = [
    "CONTENTS",
    "LEAST_POINTS",
    "RECURRENT",
    "REFUSALS",
    "RESHAPES",
    "TWOS",
    "Fill",
    "MorePoints",
    "OneSize",
    "Points",
    "Seen",
    "Settled",
    "TooLarge",
    "Varying",
    "depends_on_data",
]

Fill: TypeAlias = Callable[[int], torch.Tensor]
# Contents to try where sizes depend on content. No element exceeds the smallest size: some operators use elements as
# offsets and would read beyond the end.
CONTENTS: tuple[Fill, ...] = (torch.zeros, torch.ones, lambda count: torch.arange(count) % 3 // 2)
TWOS: Fill = lambda count: torch.full([count], 2)  # noqa: E731


class Points(MetaRuns):
    """The points of one reading."""

    def __init__(self, count: int, settled: Settled, alike: Sequence[int] = (), large: int = LARGE) -> None:
        super().__init__(count, settled, alike, large)
        self._refused: Exception | None = None
        self._explained: dict[SizeExpr, SizeExpr] = {}  # the expressions of sizes, by their values
        # Called with two sizes that have different expressions and are equal at every point.
        self.tell_apart: Callable[[SizeExpr, Size], None] = lambda left, right: None

    # Expressions

    def explain(self, size: Size) -> Size:
        """The expression that is known for a size with these values at the points."""
        if not isinstance(size, SizeExpr):
            return size
        first = size.at[0]
        if size.at.count(first) == len(size.at):
            self.tell_apart(size, first)
            return first
        known = self._explained.get(size)
        if known is not None and known is not size and (known.op, known.operands) != (size.op, size.operands):
            self.tell_apart(known, size)
        if known is None or (known.op == "Unknown" and known not in leaves_of(size)):
            self._explained[size] = known = size
        return known

    def typed(self, node: Node) -> tuple[list[Any], list[Shape] | None]:
        """The results of a node at each point, and their shapes if it has a shape function.

        With a shape function and without guesses, the results at the first point are enough.
        """
        refused: list[int] = []
        shapes = None
        if self.count > 1 and not is_packed(node):
            shapes = result_shapes(node, Requirements(self.count, lambda point, reason: refused.append(point)))
        if any(not value.is_tensor and not self._is_size(value) for value in node.values()):
            shapes = None  # shape functions would take the guesses for such numbers as given
        if shapes is None or refused or not all(map(self._has_expression, node.values())):
            return self.evaluate(node), shapes
        key = "first", self._key_of(node)
        if key not in self._known:
            try:
                self._known[key] = self._evaluate_at(node, 0)
            except REFUSALS:
                return self.evaluate(node), shapes
        found = self._known[key]
        if [tuple(values(s, self.count)[0] for s in shape) for shape in shapes] != _shapes_in(found):
            return self.evaluate(node), None
        self.note_conditions(node)
        return [found], shapes

    def _is_size(self, value: Value) -> bool:
        """Whether a number follows from sizes."""
        found = self.expression(value)
        return found is not None and not is_read_at_run_time(found)

    def _has_expression(self, value: Value) -> bool:
        """Whether all sizes of a value follow from the dynamic axes."""
        sizes = value.type.shape if isinstance(value.type, TensorType) else [self.expression(value)]
        leaves = [leaf for size in sizes if isinstance(size, SizeExpr) for leaf in leaves_of(size)]
        return None not in sizes and all(leaf.op == "axis" for leaf in leaves)

    def type_of(self, column: Sequence[Any], shape: Shape | None) -> TensorType:
        """The type of a result that was computed at each point, or at the first one if its shape is known."""
        if shape is not None and len(column) < self.count:
            return TensorType(column[0].dtype, tuple(map(self.explain, shape)))
        found = self.types(column)
        declared = shape if shape is not None and len(shape) == len(found.shape) else found.shape
        pairs = zip(declared, found.shape, strict=True)
        agreed = (t if values(t, self.count) == values(s, self.count) else s for t, s in pairs)
        return TensorType(found.dtype, tuple(map(self.explain, agreed)))

    def note_results(self, node: Node) -> None:
        """Called for each node once the types of its results are known."""

    def counted(self, node: Node) -> list[TensorType]:
        """The result types of an operator with data-dependent sizes: sizes that differ with the content are guessed."""
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
        for index, result in enumerate(rows[0][0]):
            lengths = [[found[index].shape for found in row] for row in rows]
            if any(len(shape) != result.dim() for row in lengths for shape in row):
                raise CaptureError("the number of dimensions depends on a size or on data")
            columns = [[[shape[axis] for shape in row] for row in lengths] for axis in range(result.dim())]
            types.append(TensorType(result.dtype, tuple(self._counted_size(sizes, column) for column in columns)))
        return types

    def without_meta(self, node: Node) -> list[TensorType]:
        """The result types of an operator that does not run on meta tensors: from its shape function, if it has one."""
        if node.op in RESHAPES and any(not value.is_tensor and not self._is_size(value) for value in node.values()):
            return [self.type_of([result for (result,) in self._reshaped(node)], None)]
        types, refused = self.counted(node), list[int]()
        shapes = result_shapes(node, Requirements(self.count, lambda point, reason: refused.append(point)))
        if shapes is None or refused or len(shapes) != len(types):
            return types
        return [TensorType(t.dtype, tuple(map(self.explain, shape))) for t, shape in zip(types, shapes, strict=True)]

    def _counted_size(self, sizes: Sequence[Size], rows: Sequence[Sequence[int]]) -> Size:
        """A size from its values at each point but the last, with each content; ``sizes`` are the arguments' sizes."""
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
                return of_dtype(fill(math.prod(shape)).reshape(shape), argument.dtype)
            if isinstance(argument, list):
                return [content(element) for element in argument]
            return self.at(argument, point) if isinstance(argument, Value) else argument

        try:
            return run(node, {name: content(argument) for name, argument in node.inputs.items()})
        except REFUSALS as error:
            self._refused = error
            return None


def depends_on_data(node: Node) -> bool:
    """Whether the shapes of a node's results depend on the content of its arguments."""
    return size_depends_on_data(node) and any(value.is_tensor for value in node.values()) and not _numbers_only(node)


def _numbers_only(node: Node) -> bool:
    """Whether only numbers among the arguments make the sizes data-dependent; for these there are guesses."""
    if node.op == "aten::repeat_interleave":
        return not any(isinstance(node.inputs.get(name), Value) for name in ("repeats",))
    plain = Node(node.op, {k: (0 if _is_number(v) else v) for k, v in node.inputs.items()}, ())
    return not size_depends_on_data(plain)


def _shapes_in(results: Sequence[Any]) -> list[tuple[int, ...] | None]:
    """The shapes of results, with lists flattened; None for what is not a tensor."""
    parts = (part for result in results for part in (result if isinstance(result, (list, tuple)) else (result,)))
    return [tuple(part.shape) if isinstance(part, torch.Tensor) else None for part in parts]


def _is_number(argument: Argument) -> bool:
    if isinstance(argument, list):
        return any(map(_is_number, argument))
    return isinstance(argument, Value) and not argument.is_tensor
