"""The points at which a file is checked; their cost together is bounded by a few forward passes of the example."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Sizes, example_sizes, shapes_at
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.path_runs import PathRun
from onnxport.capture.paths.runs import Runs
from onnxport.capture.record.record import Record, Ref
from onnxport.graph.ir import Graph
from onnxport.graph.sizes.shapes import values

# The budget of all checks, in forward passes of the example. Each check runs torch and ONNX Runtime.
MOST_PASSES = 3
# At least this many points are checked besides the example.
LEAST_OTHERS = 2
# Models with fewer elements in all tensors together are tiny: their cost does not count.
TINY = 2**22


def points_to_check(
    runs: Runs, built: Built, alive: Sequence[Sizes], repetitions: Sequence[PathRun], above_one: Collection[str]
) -> tuple[list[Sizes], list[Sizes]]:
    """The points to check, of those that the model accepts: the least sizes; then each path and twice each axis, within
    the budget.

    Candidates are the points ``alive``, at which the graph was evaluated, and those of runs that were ``repetitions``.
    Each axis is checked at a size that is neither the example's nor 1, which broadcasts. With less data than the
    example's a loop at run time may never end, and a squeeze may drop more than it should.

    Further points, the cheapest first, are for axes of which the model refuses all of these when it is not recorded.
    """
    axes, start = runs.axes, runs.sides[0].point
    doubled = [*rows_at.doubled(axes, start), *rows_at.doubled(axes, runs.start)]
    least, wanted = rows_at.least(axes), [*runs.points, *doubled]
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
    """Whether the graph has a loop whose number of iterations depends on data."""
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
