from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from onnxport.errors import ExportError
from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.functionalize.same_content import remove_aliases
from onnxport.graph.ir import Block, Graph, Node, TensorType, Value
from tests.graph.captured import captured, check, functional, operators


def matrix() -> Tensor:
    return torch.arange(24.0).reshape(4, 6) - 11


def column(x: Tensor) -> Tensor:
    x[:, 1] += 1
    return x


def row(x: Tensor) -> Tensor:
    x[1] = x[2]
    return x


def whole(x: Tensor) -> Tensor:
    return torch.relu_(x + 1).mul_(2)


def whole_through_a_slice(x: Tensor) -> Tensor:
    x[:] = 2 * x
    return x


def whole_through_views(x: Tensor) -> Tensor:
    x.t().reshape(6, 4).unsqueeze(0).add_(1)
    return x


def flat(x: Tensor) -> Tensor:
    x.view(-1)[::5].zero_()
    return x


def twice(x: Tensor) -> Tensor:
    x[0].add_(1).mul_(2)
    return x


def never_read_again(x: Tensor) -> Tensor:
    y = x + 1
    y[0] = 5
    return x * 2


def single_row(x: Tensor) -> Tensor:
    y = x.unsqueeze(0)
    y[0] = x + 1
    return y * 1


def mask(x: Tensor) -> Tensor:
    x[x > 0] = 3
    return x


def cast(x: Tensor) -> Tensor:
    y = x.half()
    y += x[0]
    return y


def comparison(x: Tensor) -> Tensor:
    return x.gt_(2)


def broadcast(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:] = x[0].double()
    return y


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (column, ["select", "add", "select_scatter"]),
        (row, ["select", "select_scatter"]),
        (whole, ["add", "relu", "mul"]),
        (whole_through_a_slice, ["mul"]),
        (flat, ["view", "slice", "zeros_like", "slice_scatter", "reshape"]),
        (twice, ["select", "add", "mul", "select_scatter"]),
        (never_read_again, ["mul"]),
        (single_row, ["add", "unsqueeze", "mul"]),
        (mask, ["gt", "index_put"]),
        (cast, ["to", "select", "add", "to"]),
        (comparison, ["gt", "to"]),
        (broadcast, ["select", "to", "to", "expand", "slice_scatter"]),
    ],
)
def test_fewest_nodes(function: Callable[[Tensor], Tensor], expected: list[str]) -> None:
    assert operators(functional(function, matrix())) == expected


def test_a_write_through_views_of_the_whole_leaves_no_scatter() -> None:
    y = functional(whole_through_views, torch.ones(4, 6))
    assert not any("scatter" in op for op in operators(y))


def test_earlier_readers_keep_the_earlier_value() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        view = x[1:]
        before = view * 1
        x.add_(1)
        return before, view * 1, view, x

    functional(function, matrix())


def test_parts_of_a_list_are_disjoint() -> None:
    def function(x: Tensor) -> Tensor:
        a, b, c = x.split(2, dim=1)
        a.add_(1)
        b.mul_(c)
        return x

    assert operators(functional(function, matrix())).count("split") == 1


def _flat_and_its_views(x: Tensor) -> list[Tensor]:
    """Of a tensor with its channels last in memory, of which the first is a copy and the others are views."""
    return [x, x.reshape(-1), x.permute(0, 2, 3, 1).reshape(-1), x.as_strided((3, 4), (4, 1), 2)]


@pytest.mark.parametrize(
    "parts",
    [
        lambda x: x.split(4, 1),
        lambda x: x.split([1, 3, 2], 1),
        lambda x: x.chunk(3, 0),
        lambda x: x.unbind(1),
        lambda x: x.tensor_split(4, 1),
        lambda x: x.tensor_split([1, 5], 1),
        lambda x: x.hsplit(2),
        lambda x: x.vsplit([1]),
        lambda x: x.reshape(2, 2, 6).dsplit(3),
        lambda x: torch.unsafe_chunk(x, 2),
        lambda x: [x.narrow(1, 2, 3), x.narrow(1, -2, 2), x.narrow(0, torch.tensor(1), 2)],
        lambda x: [x.diagonal(), x.diagonal(-1, 1, 0), torch.linalg.diagonal(x, offset=2)],
        lambda x: [x.movedim(0, 1), x.swapaxes(0, 1)[1], x.mT[1:], x.T[0], x.adjoint(), x.permute(-1, 0)[2]],
        lambda x: [x.flatten(), x.unflatten(1, (2, 3))[:, 1], x.ravel()[3:7], x.view_as(x.t()), x[None, :, None, 2]],
        lambda x: [x.expand(4, 6)[0], x.expand_as(x), x.detach()[1], x.contiguous()[2], x.to(torch.float32)[3]],
        lambda x: [x.type_as(x)[0], nn.functional.dropout(x, 0.5, training=False)[1], x.real[2], x.conj()[3]],
        lambda x: [x.as_strided((2, 2), (1, 7), 3), x.squeeze()[0], x.unsqueeze(1).squeeze(1), torch.atleast_3d(x)[1]],
        lambda x: [x.t().reshape(4, 6), x.t().contiguous(), x.t().flatten(), x.to(torch.float32, copy=True)],
        lambda x: [(x.t() + 1).reshape(-1), (x[None] + 1)[0], x.t().clone().view(6, 4)],
        lambda x: _flat_and_its_views(x.view(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)),
        lambda x: _flat_and_its_views(x.view(2, 3, 2, 2).to(memory_format=torch.channels_last)),
        lambda x: _flat_and_its_views(x.view(2, 3, 2, 2).clone(memory_format=torch.channels_last) + 1),
        lambda x: _flat_and_its_views(torch.zeros_like(x.view(2, 3, 2, 2), memory_format=torch.channels_last)),
        lambda x: [y := x.t().clone(memory_format=torch.contiguous_format), y.reshape(-1)],
    ],
)
def test_views_and_copies(parts: Callable[[Tensor], Any]) -> None:
    """Each part is written to and read in turn, and so is the base: writes show wherever memory is shared."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        base = x * 1
        views = parts(base)
        reads = []
        for index, view in enumerate(views):
            view.mul_(index + 2)
            reads += [base * 1, *(other * 1 for other in views)]
        base.add_(1)
        return (*reads, base, *views)

    functional(function, matrix())


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(2),
        lambda x: x.fill_(x.sum()),
        lambda x: x.copy_(torch.arange(6)),
        lambda x: x.masked_fill_(x > 1, 4),
        lambda x: x.masked_scatter_(x > 1, torch.ones(24)),
        lambda x: x.index_fill_(1, torch.tensor([0, 2]), -1),
        lambda x: x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 6)),
        lambda x: x.index_copy_(0, torch.tensor([2]), torch.ones(1, 6)),
        lambda x: x.index_put_((torch.tensor([0, 1]), torch.tensor([1, 1])), torch.tensor(5.0), accumulate=True),
        lambda x: x.scatter_(1, torch.zeros(4, 1, dtype=torch.int64), 7.0),
        lambda x: x.scatter_add_(0, torch.ones(1, 6, dtype=torch.int64), torch.ones(1, 6)),
        lambda x: x.clamp_(-1, 3),
        lambda x: x.pow_(2).sqrt_(),
        lambda x: x.pow_(torch.tensor(2)),
        lambda x: x.floor_divide_(torch.full((6,), 2)),
        lambda x: x.div_(3, rounding_mode="floor"),
        lambda x: x.logical_not_(),
        lambda x: x.cumsum_(0),
        lambda x: x.tril_(),
        lambda x: x.fill_diagonal_(9),
        lambda x: x.addmm_(torch.ones(4, 2), torch.ones(2, 6)),
        lambda x: x.lerp_(torch.ones(6), 0.5),
        lambda x: x.unsqueeze_(0).squeeze_(0).t_().transpose_(0, 1).add_(1),
        lambda x: x.detach_().add_(1),
        lambda x: nn.functional.leaky_relu_(nn.functional.hardtanh_(x)),
        lambda x: torch.mul(x, 2, out=x),
        lambda x: torch.add(x, torch.ones(6, dtype=torch.int32), out=x),
        lambda x: torch.sum(torch.ones(2, 6), 0, out=x[1]),
        lambda x: torch.max(x, 1, out=(x.t()[0], torch.zeros(4, dtype=torch.int64)))[1],
        lambda x: torch.max(x, 1, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))[0],
        lambda x: torch._foreach_mul_([x[0], x[1]], 3),
        lambda x: torch._foreach_add_([x[0], x[1]], [x[2], x[3]]),
    ],
)
def test_writes(write: Callable[[Tensor], Any]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        base = x * 1
        view = base[1:]
        result = write(base)
        return base * 1, view * 1, *([result] if isinstance(result, Tensor) else [])

    functional(function, matrix())


def test_integers() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.int()
        flags = x > 0
        y.cumsum_(0)
        y[0] *= 2
        y |= 1
        y ^= y
        y <<= 2
        flags &= x < 5
        flags[0].logical_or_(y[0] > 0)
        y += x.long()
        return y, flags

    functional(function, matrix())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("uniform_", "uniform"),
        ("normal_", "normal_functional"),
        ("bernoulli_", "bernoulli"),
        ("random_", "random"),
        ("exponential_", "exponential"),
        ("geometric_", "geometric"),
    ],
)
def test_random_numbers(name: str, expected: str) -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        getattr(y[1], name)(*([0.5] if name == "geometric_" else []))
        return y

    graph = captured(function, matrix())
    state = torch.get_rng_state()
    functionalize(graph)
    assert torch.equal(state, torch.get_rng_state())
    assert operators(graph) == ["add", "select", expected, "select_scatter"]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x + self.count
        self.count[1:] += x[1:]
        return first, x * self.count


def test_buffers_stay_as_they_were() -> None:
    model = Counter()
    graph = captured(model, torch.ones(3))
    functionalize(graph)
    (buffer,) = graph.parameters
    check(graph, Counter(), torch.ones(3))
    assert buffer.data is not None and not buffer.data.any()


def test_free_sizes() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 1
        y.view(-1)[::2].mul_(2)
        a, b, c = y.chunk(3, dim=1)
        b.add_(a)
        c.t().mul_(3)
        y.narrow(0, 1, x.size(0) - 1).sub_(1)
        y[:, 1:] = y[0, 0]
        y[: x.size(0)] += 1
        z = x.unsqueeze(0).clone()
        z.copy_(x[0])
        return y, b, z

    graph = functional(function, torch.randn(4, 6), dynamic=[{0: "rows", 1: "columns"}])
    for shape in ((5, 9), (2, 3)):
        check(graph, function, torch.randn(shape))
    sizes = [node.outputs[0] for node in graph.block.nodes if node.full_name == "aten::size.int"]
    assert sizes and all(value.size is not None for value in sizes)


def test_a_slice_that_covers_only_the_captured_sizes_stays() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 1
        y[:100] = 0
        return y

    graph = functional(function, torch.randn(4), dynamic=[{0: "length"}])
    check(graph, function, torch.randn(120))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.unfold(0, 2, 2).add_(1),
        lambda x: x.tensor_split([3, 1])[2].add_(1),
    ],
)
def test_what_cannot_be_rebuilt_is_an_error_with_its_line(write: Callable[[Tensor], Tensor]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 1
        base = y
        view = write(y)
        return base if view._base is None else view._base * 1, base

    graph = captured(function, matrix())
    message = r"test_functionalize\.py:\d+, in \S+: aten::\w+(\.\w+)? writes to a view made by aten::"
    with pytest.raises(ExportError, match=message):
        functionalize(graph)


def test_views_that_have_no_inverse_can_be_read() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 1
        wide, windows = y[0].expand(3, 6), y.unfold(1, 2, 2)
        y[0].add_(1)
        return wide * 1, windows * 1

    functional(function, matrix())


def test_new_nodes_stand_where_the_old_ones_stood() -> None:
    graph = functional(column, matrix())
    lines = {node.source.line for node in graph.block.nodes if node.source is not None}
    assert lines == {column.__code__.co_firstlineno + 1}


def test_remove_aliases() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.clone().detach().contiguous().to(torch.float32).view(4, 6)[:, :].expand(4, 6).transpose(0, 0)
        return torch.relu(y), x.t().clone()

    graph = captured(function, matrix())
    remove_aliases(graph.block)
    assert operators(graph) == ["relu", "t"]


def test_a_copy_onto_itself_is_nothing() -> None:
    def function(x: Tensor) -> Tensor:
        x[1:, 2].copy_(x[1:, 2])
        return x + 1

    assert operators(functional(function, matrix())) == ["add"]


def test_no_functional_form() -> None:
    x, y = (Value(TensorType(torch.float32, (3,))) for _ in range(2))
    node = Node("aten::_sobol_engine_initialize_state_", {"self": x, "dimension": 1}, [y])
    with pytest.raises(ExportError, match="no operator that computes the same"):
        functionalize(Graph(Block([x], [node], [y]), []))


def test_many_writes_cost_a_constant_number_of_nodes_each() -> None:
    whole, row = TensorType(torch.float32, (8, 8)), TensorType(torch.float32, (8,))
    start = value = Value(whole)
    nodes = []
    for index in range(1250):
        view, written, result, turned = Value(row), Value(row), Value(whole), Value(whole)
        nodes += [
            Node("aten::select", {"self": value, "dim": 0, "index": index % 8}, [view], overload="int"),
            Node("aten::add_", {"self": view, "other": 1, "alpha": 1}, [written], overload="Scalar"),
            Node("aten::relu", {"self": value}, [result]),
            Node("aten::transpose", {"self": result, "dim0": 0, "dim1": 1}, [turned], overload="int"),
        ]
        value = turned
    graph = Graph(Block([start], nodes, [value]), [])
    functionalize(graph)
    assert len(graph.block.nodes) == 1250 * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_a_range_of_run_time_numbers_is_made_in_the_dtype_of_out(dtype: torch.dtype) -> None:
    def counted(x: Tensor, end: Tensor) -> Tensor:
        return torch.arange(x.shape[0], end.item(), out=torch.empty(0, dtype=dtype))

    program = onnxport.export(counted, (matrix(), torch.tensor(9)), input_names=["x", "end"], dynamic_axes={"x": [0]})
    for rows, end in ((2, 5), (3, 11)):
        x = torch.randn(rows, 6)
        result = program(x, torch.tensor(end))
        torch.testing.assert_close(result, torch.arange(rows, end, dtype=dtype))
