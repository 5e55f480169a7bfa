"""A graph keeps some of its evaluation points only where no two of its sizes become equal by that."""

from __future__ import annotations

import pytest
import torch

from onnxport.graph.ir import Block, Graph, Node, TensorType, Value
from onnxport.graph.restrict import restrict
from onnxport.graph.sizes import Shape, axis, number_of, smaller

N = axis("n", (4, 1, 8, 16))


def graph_of(*shapes: Shape) -> Graph:
    """A graph whose nodes give tensors of these shapes."""
    given = Value(TensorType(torch.float32, (N,)))
    values = [Value(TensorType(torch.float32, shape)) for shape in shapes]
    nodes = [Node("aten::relu", {"self": given}, [value]) for value in values]
    return Graph(Block([given], nodes, values), [], captures=4)


def test_sizes_have_their_values_at_the_points_that_are_left() -> None:
    graph = graph_of((N * 2, 3), (N // 2 + 1,))
    assert restrict(graph, [0, 2, 3])
    shapes = [output.shape for output in graph.block.outputs]
    assert shapes == [(axis("n", (8, 16, 32)), 3), (axis("n", (3, 5, 9)),)]
    assert [size.op for shape in shapes for size in shape if not isinstance(size, int)] == ["mul", "add"]
    assert graph.block.inputs[0].shape == (axis("n", (4, 8, 16)),)
    assert graph.captures == 3


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(smaller(N, 4), id="constant at the points that are left"),
        pytest.param(smaller(N + 3, N * 2), id="equal to another one there"),
        pytest.param(number_of("counted", (5, 6, 7, 8)), id="not of axes"),
    ],
)
def test_it_is_left_as_it_is(size: Shape) -> None:
    graph = graph_of((size,), (N + 3,))
    before = [output.shape for output in graph.block.outputs]
    assert not restrict(graph, [0, 2, 3])
    assert [output.shape for output in graph.block.outputs] == before
    assert graph.captures == 4
