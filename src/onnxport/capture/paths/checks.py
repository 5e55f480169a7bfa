"""The points at which a file is checked: as many as a few forward passes of the example pay for."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Sizes, example_sizes
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.runs import Runs
from onnxport.graph.sizes.shapes import values

# The work of all checks together, in forward passes of the example. Each is made twice: in torch, and in ONNX Runtime.
MOST_PASSES = 3
# Besides the example, at least so many points are checked.
LEAST_OTHERS = 2
# As many elements in all tensors of a model are computed in no time.
TINY = 2**22


def points_to_check(runs: Runs, alive: Sequence[Sizes], built: Built, above_one: Collection[str]) -> list[Sizes]:
    """Of the points that the model takes: the sides, the least sizes, and twice each axis; each axis at another size.

    On less data than the example's a loop at run time may never end, and a squeeze drop more than it should.
    """
    axes, start = runs.axes, runs.sides[0].point
    wanted = [*runs.points, *rows_at.least(axes), *rows_at.doubled(axes, start)]
    example = example_sizes(axes)
    served = [row for row in alive if row != example and not any(row[label] == 1 for label in above_one)]
    loops = [node for node in built.graph.block.all_nodes() if node.op == "prim::Loop"]
    if built.warnings or any(loop.inputs["limit"] is None for loop in loops):
        served = [row for row in served if all(size >= start[label] for label, size in row.items())]
    work = dict(zip(map(_key, alive), _work(built, len(alive)), strict=True))
    usual = work.get(_key(example), work[_key(alive[0])])
    left = max(MOST_PASSES * usual, TINY) - usual
    chosen: list[Sizes] = []
    for row in wanted:
        if row in served and row not in chosen and work[_key(row)] <= left:
            chosen.append(row)
            left -= work[_key(row)]
    cheapest = sorted(served, key=lambda row: work[_key(row)])
    for axis in axes:
        if all(row[axis.label] == example[axis.label] for row in chosen):
            chosen += [row for row in cheapest if row[axis.label] != example[axis.label]][:1]
    missing = max(LEAST_OTHERS - len(chosen), 0)
    return chosen + [row for row in cheapest if row not in chosen][:missing]


def _key(point: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(point.items())


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
