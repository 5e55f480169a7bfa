"""The points at which a file is checked: as many as a few forward passes of the example pay for."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Sizes, example_sizes, shapes_at
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.runs import Runs
from onnxport.capture.paths.sides import Side
from onnxport.capture.record.record import Record, Ref
from onnxport.graph.ir import Graph
from onnxport.graph.sizes.shapes import values

# The work of all checks together, in forward passes of the example. Each is made twice: in torch, and in ONNX Runtime.
MOST_PASSES = 3
# Besides the example, at least so many points are checked.
LEAST_OTHERS = 2
# As many elements in all tensors of a model are computed in no time.
TINY = 2**22


def points_to_check(
    runs: Runs, built: Built, alive: Sequence[Sizes], repetitions: Sequence[Side], above_one: Collection[str]
) -> tuple[list[Sizes], list[Sizes]]:
    """Of the points that the model takes: the least sizes, and the sides and twice each axis as far as is paid for.

    These are the points ``alive``, at which the graph was evaluated, and those of runs that were ``repetitions``.
    Each axis is checked at a size that is neither the example's nor 1, which is broadcast. On less data than the
    example's a loop at run time may never end, and a squeeze drop more than it should.

    Further points, the cheapest first, are for axes of which the model refuses all of these: it may do so only where
    it is not recorded.
    """
    axes, start = runs.axes, runs.sides[0].point
    least, wanted = rows_at.least(axes), [*runs.points, *rows_at.doubled(axes, start)]
    example = example_sizes(axes)
    taken = [*alive, *(side.point for side in repetitions)]
    served = [row for row in taken if row != example and not any(row[label] == 1 for label in above_one)]
    if built.warnings or has_loop(built.graph):
        served = [row for row in served if all(size >= start[label] for label, size in row.items())]
    work = dict(zip(map(_key, alive), _work(built, len(alive)), strict=True))
    work |= {_key(side.point): _work_of(side.run.record) for side in repetitions}
    usual = work[_key(alive[0])] * _elements(runs, example) / max(_elements(runs, alive[0]), 1)
    left = max(MOST_PASSES * usual, TINY) - usual
    chosen = [row for row in least if row in served]
    for row in wanted:
        if row in served and row not in chosen and work[_key(row)] <= left:
            chosen.append(row)
            left -= work[_key(row)]
    cheapest = sorted(served, key=lambda row: work[_key(row)])
    for axis in axes:
        covered = (1, example[axis.label])
        if all(row[axis.label] in covered for row in chosen):
            chosen += [row for row in cheapest if row[axis.label] not in covered][:1]
    missing = max(LEAST_OTHERS - len(chosen), 0)
    chosen += [row for row in cheapest if row not in chosen][:missing]
    most = max(MOST_PASSES * usual, TINY)
    return chosen, [row for row in cheapest if row not in chosen and work[_key(row)] <= most]


def _elements(runs: Runs, point: Sizes) -> int:
    return sum(map(math.prod, shapes_at(runs.runner.inputs.tensors, runs.axes, point)))


def has_loop(graph: Graph) -> bool:
    """Whether data decide how long something goes on."""
    return any(node.op == "prim::Loop" and node.inputs["limit"] is None for node in graph.block.all_nodes())


def _key(point: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(point.items())


def _work_of(record: Record) -> int:
    """How many elements the results of all calls of a run had."""
    results = [result for call in record.calls for result in call.results if isinstance(result, Ref)]
    return sum(math.prod(record.types[result.number][1]) for result in results)


def _work(built: Built, points: int) -> list[int]:
    """How many elements all tensors of the graph have at each evaluation point."""
    total = [0] * points
    for node in built.graph.block.all_nodes():
        for output in node.outputs:
            if output.is_tensor:
                columns = [values(size, points) for size in output.shape]
                for point, shape in enumerate(zip(*columns, strict=True) if columns else ()):
                    total[point] += math.prod(shape)
    return total
