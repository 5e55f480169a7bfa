"""Sizes that depend on data: how many places a mask has, how many boxes are left. Other data tells which are free."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnxport.capture import sizes
from onnxport.capture.draw import other_data, redraw
from onnxport.capture.solving import baked_nodes
from onnxport.errors import DynamicAxisError
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.dims import Dim, Size
from onnxport.graph.ir import Graph, Value

if TYPE_CHECKING:
    from onnxport.capture.together import Run, Together

# How often other data is drawn in the hope that a size which depends on data changes.
ATTEMPTS = 3
# The same where the example turned out to be a special case.
SPECIAL_ATTEMPTS = 12


def with_other_data(together: Together, graph: Graph) -> Graph:
    """The common graph of the traces and those on other data that change a size, until all that is counted has another
    size or one more changes nothing.

    All that is counted is random in them, if the model and the graph bear it.
    """
    example, point = together.tracer.inputs.tensors, together.points[0]
    resized = sizes.resize(example, together.axes, point)
    given, scrambles, known = graph, True, len(together.runs)
    parted: list[Run] = []
    draws = (redraw(example, resized, seed) for seed in range(ATTEMPTS))
    first = itertools.islice(draws, 1)
    for seed, tensors in enumerate(itertools.chain(first, other_data(example, resized), draws)):
        found = together.tried(tensors, point, parted, seed if scrambles else None)
        if scrambles and (found is None or len(baked_nodes(found[1])) > len(baked_nodes(graph))):
            scrambles, found = False, together.tried(tensors, point, parted, None)
        if found is None or _counted(found[1]) == _counted(graph):
            if graph is not given and not parted:
                break
            continue
        together.add(found[0], point)
        graph = found[1]
        if all_vary(graph):
            break
    return graph if all_vary(graph) or not parted else _without_special_data(together, graph, known, parted)


def dropped_by_data(together: Together, graph: Graph) -> list[str]:
    """The warnings of squeezes that drop an axis where the data makes it 1 long: it is another size on other data."""
    example, points = together.tracer.inputs.tensors, together.points
    resized = sizes.resize(example, together.axes, points[0])
    graphs = [graph]
    if any(doubt.relation == "squeezed" for doubt in graph.doubts):
        tried = (
            together.tried(redraw(example, resized, seed), points[0], [], seed or None) for seed in range(ATTEMPTS)
        )
        graphs += [found[1] for found in tried if found is not None]
    doubts = [doubt for found in graphs for doubt in found.doubts if doubt.relation == "squeezed"]
    varying = [doubt for doubt in doubts if _varies_by_data(doubt.left, [*points, points[0]])]
    return [
        f"{source or 'the model'}: how long an axis is depends on the data here, and where it is 1 long this squeeze "
        "drops it, which the file keeps. Name the axes to drop, as in squeeze(-1), or leave the squeeze out."
        for source in dict.fromkeys(doubt.source for doubt in varying)
    ]


def _varies_by_data(size: Size, points: Sequence[sizes.Sizes]) -> bool:
    """Whether it was another size in two captures at the same sizes of the axes."""
    if not isinstance(size, Dim):
        return False
    seen = list(zip(points, size.at, strict=False))
    return any(one == other and left != right for (one, left), (other, right) in itertools.combinations(seen, 2))


def all_vary(graph: Graph) -> bool:
    """Whether every node that counts has a result whose size is free."""
    return all(map(any, _counted(graph)))


def _without_special_data(together: Together, graph: Graph, known: int, parted: Sequence[Run]) -> Graph:
    """The graph of runs on other data that take another path than the example's, which is then a special case: a place
    found once, whose axis is dropped. That the path computes the same there is for the results to tell.

    ``known`` is how many runs there were before those on other data.
    """
    tried: list[Run] = []
    for one in _special_runs(together, parted):
        for other in tried:
            found = _of_data(together, graph, known, (one, other))
            if found is not None:
                return found
        tried.append(one)
    if any(value.followed for run in together.runs for value in run.frozen):
        return graph  # which is told of as frozen
    counts = next(node for node in graph.block.all_nodes() if size_depends_on_data(node))
    together.warnings.append(
        f"{counts.source or 'the model'}: how much is found here depends on the data, and where it is more or less "
        "than in the example the model takes another path, which is not in the file. Give an example in which more "
        "than one is found, or name the axes to drop, as in squeeze(-1)."
    )
    return graph


def _special_runs(together: Together, known: Sequence[Run]) -> Iterator[Run]:
    """Runs on other data that take another path than the example's."""
    yield from known
    example, point = together.tracer.inputs.tensors, together.points[0]
    resized = sizes.resize(example, together.axes, point)
    for seed in range(ATTEMPTS, SPECIAL_ATTEMPTS):
        parted: list[Run] = []
        together.tried(redraw(example, resized, seed), point, parted, seed if seed % 2 else None)
        yield from parted


def _of_data(together: Together, graph: Graph, known: int, pair: tuple[Run, Run]) -> Graph | None:
    """The graph with two runs on other data in the place of the example's, if all that is counted varies in it, and it
    counts as much and knows of as many numbers where they come from."""
    one, other = (replace(together.runs[0], trace=run.trace) for run in pair)
    runs, points = [one, *together.runs[1:known], other], [*together.points[:known], together.points[0]]
    with contextlib.suppress(DynamicAxisError):
        found = together.aligned(runs, points)
        as_good = len(_counted(found)) >= len(_counted(graph)) and len(baked_nodes(found)) <= len(baked_nodes(graph))
        if as_good and all_vary(found):
            together.runs[:], together.points[:] = runs, points
            return found
    return None


def _counted(graph: Graph) -> list[list[bool]]:
    """Which dimensions of the results of nodes that count are free, and no more the inputs' own: where a mask holds
    everywhere, as many are counted as there are places. Each size that a node is given stands for itself."""
    axes = {size for value in graph.block.inputs if value.is_tensor for size in value.shape}
    found: list[list[bool]] = []
    for node in filter(size_depends_on_data, graph.block.all_nodes()):
        given = node.inputs.get("size")
        for value in node.outputs:
            if not value.is_tensor or not value.shape:
                continue
            free = [isinstance(size, Dim) and size not in axes for size in value.shape]
            if isinstance(given, list) and len(given) == len(free):
                found += [[is_free] for is_free, size in zip(free, given, strict=True) if _from_data(size)]
            else:
                found.append(free)
    return found


def _from_data(size: Any) -> bool:
    return isinstance(size, Value) and size.size is None
