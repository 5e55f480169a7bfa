"""Random programs of views, writes and reads: torch itself, the captured graph and the functional graph agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from onnxport.graph.functionalize.functionalize import functionalize
from onnxport.graph.interpret import writes
from tests.graph.captured import captured, check


@dataclass(frozen=True)
class Step:
    """One step of a program; which tensor, operator and arguments it means depends on the shapes at hand."""

    operator: int
    tensor: int
    other: int
    a: int
    b: int


View = Callable[[Tensor, Step], Tensor]


def axis(x: Tensor, number: int) -> int:
    return number % x.dim()


def slice_(x: Tensor, step: Step) -> Tensor:
    where = [slice(None)] * x.dim()
    where[axis(x, step.a)] = slice(step.b % 3, None, 1 + step.other % 3)
    return x[tuple(where)]


def select(x: Tensor, step: Step) -> Tensor:
    dim = axis(x, step.a)
    return x.select(dim, step.b % x.shape[dim])


def narrow(x: Tensor, step: Step) -> Tensor:
    dim = axis(x, step.a)
    start = step.b % x.shape[dim]
    return x.narrow(dim, start, 1 + step.other % (x.shape[dim] - start))


def diagonal(x: Tensor, step: Step) -> Tensor:
    return x.diagonal(0, 0, 1 + step.a % (x.dim() - 1)) if x.dim() > 1 else x


def part(x: Tensor, step: Step) -> Tensor:
    dim = axis(x, step.a)
    kinds = [
        lambda: x.split(1 + step.b % 3, dim),
        lambda: x.chunk(1 + step.b % 3, dim),
        lambda: x.unbind(dim),
        lambda: x.tensor_split(1 + step.b % 3, dim),
    ]
    parts = kinds[step.b % 4]()
    return parts[step.other % len(parts)]


def reshape(x: Tensor, step: Step) -> Tensor:
    shapes = [(-1,), (x.shape[0], -1), (-1, x.shape[-1]), (1, *x.shape), tuple(reversed(x.shape))]
    return x.reshape(shapes[step.a % 5])


VIEWS: list[View] = [
    slice_,
    select,
    narrow,
    diagonal,
    part,
    reshape,
    lambda x, step: x.view(-1) if x.is_contiguous() else x.flatten(),
    lambda x, step: x.transpose(axis(x, step.a), axis(x, step.b)),
    lambda x, step: x.unsqueeze(step.a % (x.dim() + 1)),
    lambda x, step: x.squeeze(),
    lambda x, step: x.movedim(axis(x, step.a), axis(x, step.b)),
    lambda x, step: x.contiguous(),
    lambda x, step: x.detach(),
    lambda x, step: x.clone(),
    lambda x, step: x * 2,
    lambda x, step: x.expand(x.shape),
]


def index_put(x: Tensor, other: Tensor, step: Step) -> None:
    x[torch.tensor([0, x.shape[0] - 1])] = other.sum()


def add_to_part(x: Tensor, other: Tensor, step: Step) -> None:
    x[step.a % x.shape[0]] += step.b


def fitting(x: Tensor, other: Tensor) -> Tensor:
    """The other tensor itself where it fits; torch refuses it where the two overlap in part."""
    return other if other.shape == x.shape else other.sum()


WRITES: list[Callable[[Tensor, Tensor, Step], object]] = [
    lambda x, other, step: x.fill_(step.a),
    lambda x, other, step: x.zero_(),
    lambda x, other, step: x.mul_(step.b),
    lambda x, other, step: x.add_(fitting(x, other)),
    lambda x, other, step: x.copy_(fitting(x, other)),
    lambda x, other, step: x.masked_fill_((x % 3) == 1, step.b),
    lambda x, other, step: torch.sub(x, step.a, out=x),
    lambda x, other, step: x.relu_(),
    index_put,
    add_to_part,
]

steps = st.builds(
    Step,
    operator=st.integers(0, len(VIEWS) + len(WRITES)),
    tensor=st.integers(0, 30),
    other=st.integers(0, 30),
    a=st.integers(0, 5),
    b=st.integers(0, 5),
)


def execute(program: list[Step], x: Tensor) -> tuple[Tensor, ...]:
    """What was read on the way, and all tensors at the end."""
    tensors = [x * 1]
    reads = []
    for step in program:
        tensor, other = tensors[step.tensor % len(tensors)], tensors[step.other % len(tensors)]
        if step.operator < len(VIEWS):
            view = VIEWS[step.operator](tensor, step) if tensor.dim() and tensor.numel() else tensor
            tensors.append(view)
        elif step.operator < len(VIEWS) + len(WRITES):
            if tensor.dim() and tensor.numel():
                WRITES[step.operator - len(VIEWS)](tensor, other, step)
        else:
            reads.append(tensor + 1)
    return (*reads, *tensors)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    program=st.lists(steps, min_size=3, max_size=14),
    shape=st.sampled_from([(4, 6), (2, 3, 4), (6,), (1, 5), (3, 3)]),
)
def test_programs(program: list[Step], shape: tuple[int, ...]) -> None:
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape) - 3

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return execute(program, x)

    try:
        function(x)
    except RuntimeError as error:
        # torch refuses to read and write overlapping memory in one operator; such a program has no meaning.
        assume("unsupported operation" not in str(error))
        raise
    graph = captured(function, x)
    check(graph, function, x)
    functionalize(graph)
    assert not any(writes(node) for node in graph.block.nodes)
    check(graph, function, x)
