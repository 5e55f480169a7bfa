"""Python loops over a dynamic size are loops in the file, and right for every number of iterations."""

from __future__ import annotations

import itertools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxport
from tests.capture.record.at_sizes import check

SIZES = ((1, 1, 4), (2, 2, 4), (3, 3, 4), (2, 17, 4), (5, 64, 4))


class Recurrence(nn.Module):
    """A cell called step by step, as tutorials write it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 3)
        states = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            states.append(h)
        return torch.stack(states, 1) + h[:, None]


class Chunks(nn.Module):
    """A state that goes from chunk to chunk of a padded sequence, as in linear attention."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        rest = (8 - length % 8) % 8
        chunks = F.pad(x, (0, 0, 0, rest)).reshape(x.shape[0], -1, 8, x.shape[2])
        count = (length + rest) // 8
        state, out = torch.zeros(x.shape[0], x.shape[2], x.shape[2]), torch.zeros_like(chunks)
        for i in range(count):
            out[:, i] = chunks[:, i] @ state + chunks[:, i].softmax(-1)
            state = state * 0.5 + chunks[:, i].transpose(-1, -2) @ chunks[:, i]
        return out.reshape(x.shape[0], -1, x.shape[2])[:, :length]


def rows(x: Tensor) -> Tensor:
    return torch.stack([(row @ row.T).softmax(-1).sum(0) for row in x.transpose(0, 1)])


def joined(x: Tensor) -> Tensor:
    return torch.cat([x[:, i : i + 1] * (2 * i + 1) for i in range(x.shape[1])], 1)


def from_the_second_on(x: Tensor) -> Tensor:
    y = x[:, 0]
    for i in range(1, x.shape[1]):
        y = torch.maximum(y * 0.5, x[:, i])
    return y


def nested(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y = torch.tanh(y + x[i, j])
    return y


def one_after_another(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], 4)
    for i in range(x.shape[1]):
        y = torch.cos(y + x[:, i])
    for row in x.unbind(1):
        y = torch.sin(y - row)
    return y


def written(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(x.shape[1]):
        y[:, i] = x[:, i].cumsum(-1) + y[:, i - 1]
    return y


def converted(x: Tensor) -> Tensor:
    y = x[:, 0]
    for i in range(int(x.size(1))):
        y = torch.sin(y) + x[:, i]
    return y


def twice(x: Tensor) -> Tensor:
    return rows(x.exp()) + rows(x)


def pairs(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            y = torch.cos(y + x[0, i] * x[0, j])
    return y


def growing_parts(x: Tensor) -> Tensor:
    return torch.stack([x[:, : i + 1].sum(1) for i in range(x.shape[1])])


def lists_in_lists(x: Tensor) -> Tensor:
    return torch.stack([torch.stack([y.sin() for y in row]).sum(0) + torch.cat([y[:3] for y in row])[:1] for row in x])


def parts_of_other_sizes(x: Tensor) -> Tensor:
    return torch.cat([x[0, : i + 1] * 2 for i in range(x.shape[1])])


def from_a_zero(x: Tensor) -> Tensor:
    total = torch.zeros(1)
    for row in x[0]:
        total = torch.tanh(total + row)
    return total


def with_squares(x: Tensor) -> Tensor:
    return torch.stack([x[0, i] * (i * i) + torch.tensor([i, 1.0, 2.0, i * 0.5]) for i in range(x.shape[1])])


def behind_the_first(x: Tensor) -> Tensor:
    """Each state but the first is made in the loop."""
    states = [x[:, 0]]
    for t in range(1, x.shape[1]):
        states.append(states[-1] * 0.5 + x[:, t])
    return torch.stack(states, 1) + states[-1][:, None]


def accumulated(x: Tensor) -> Tensor:
    return torch.stack(list(itertools.accumulate(x.unbind(1), lambda total, part: torch.tanh(total + part))))


def behind_a_longer_part(x: Tensor) -> Tensor:
    parts = [x[:, :2].exp(), torch.ones(x.shape[0], 1, 4)]
    for t in range(x.shape[1]):
        parts.append(x[:, t : t + 1] * t)
    return torch.cat(parts, 1)


def two_lists(x: Tensor) -> Tensor:
    state, before, after = x.new_zeros(x.shape[0], 4), [], [x.new_ones(x.shape[0], 4)]
    for t in range(x.shape[1]):
        before.append(state)
        state = state * 0.5 + x[:, t]
        after.append(state)
    return torch.stack(after, 1)[:, 1:] - torch.stack(before, 1)


def over_what_loops_made(x: Tensor) -> Tensor:
    sums = torch.stack([x[:, i].sum(1) for i in range(x.shape[1])])
    means = torch.stack([sums[i] - sums.mean(0) for i in range(sums.shape[0])])
    total = torch.zeros(x.shape[0])
    for row in means:
        total = total * 0.5 + row
    return total


def with_a_static_loop_within(x: Tensor) -> Tensor:
    """The inner loop repeats calls, too, and is no loop over a size."""
    return torch.stack([torch.stack([x[0, i, j] * i for j in range(x.shape[2])]) for i in range(x.shape[1])])


def with_the_first_state(x: Tensor) -> Tensor:
    """Integration from an initial state, which is the first of the list; two calls of a function in each round."""

    def slope(y: Tensor, t: Tensor) -> Tensor:
        return torch.sin(y) * t

    y, times = x[:, 0], x[0, :, 0].softmax(0).cumsum(0)
    states = [y]
    for i in range(len(times) - 1):
        middle = y + 0.5 * slope(y, times[i])
        y = y + (times[i + 1] - times[i]) * slope(middle, times[i + 1])
        states.append(y)
    return torch.stack(states, 1)


def between_others(x: Tensor) -> Tensor:
    h = x.new_zeros(x.shape[0], 4)
    found = [x[:, 0, :2], h]
    for i in range(x.shape[1]):
        h = torch.tanh(h + x[:, i])
        found.append(h)
    return torch.cat([*found, h * 2, x[:, -1, 1:]], dim=-1)


MODELS = [Recurrence(), Chunks(), rows, joined, from_the_second_on, nested, one_after_another, written, converted]
MODELS += [twice, growing_parts, lists_in_lists, parts_of_other_sizes, from_a_zero, with_squares]
MODELS += [behind_the_first, accumulated, behind_a_longer_part, two_lists]
MODELS += [over_what_loops_made, with_a_static_loop_within]


MODELS += [with_the_first_state, between_others]


@pytest.mark.parametrize(
    "model",
    MODELS,
    ids=lambda model: getattr(model, "__name__", type(model).__name__),
)
@pytest.mark.parametrize("example", [(2, 5, 4), (2, 2, 4)])
def test_a_loop_over_a_size(
    model: Callable[[Tensor], Tensor], example: tuple[int, ...], tmp_path: pathlib.Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        check(model, tmp_path, example, SIZES)


def test_a_loop_that_begins_with_a_plain_zero(tmp_path: pathlib.Path) -> None:
    """The first iteration multiplies Python's number, so it and part of the last stand beside the loop."""

    def decayed(x: Tensor) -> Tensor:
        y: Any = 0
        found = []
        for i in range(x.shape[1]):
            y = y * 0.5 + x[:, i]
            found.append(y)
        return torch.stack(found, -1)

    with pytest.warns(onnxport.TraceWarning, match="n1=1"):
        check(decayed, tmp_path, (2, 6, 4), SIZES[1:])


def sums_of_pieces(x: Tensor) -> Tensor:
    return torch.stack([piece.sum(0) for piece in x.split(2)])


def pieces_one_by_one(x: Tensor) -> Tensor:
    return torch.cat([piece.softmax(0) * 2 for piece in torch.split(x, 2, dim=0)])


def pieces_by_their_number(x: Tensor) -> Tensor:
    found = {}
    for k, piece in enumerate(x.split(split_size=2, dim=0)):
        found[k] = piece.amax(0) * k
    return torch.stack(list(found.values()))


def passed_on_from_piece_to_piece(x: Tensor) -> Tensor:
    state = torch.zeros(4)
    for piece in x.split(2):
        state = state * 0.5 + piece.mean(0)
    return state


@pytest.mark.parametrize(
    "function", [sums_of_pieces, pieces_one_by_one, pieces_by_their_number, passed_on_from_piece_to_piece]
)
@pytest.mark.parametrize("size", [6, 7, 8])
def test_a_loop_over_pieces(function: Callable[[Tensor], Tensor], size: int, tmp_path: pathlib.Path) -> None:
    """The last piece may be shorter."""
    check(function, tmp_path, (size, 4), [(n, 4) for n in (1, 2, 3, 4, 5, 9, 33)])


def test_loops_over_the_same_axis_in_each_other(tmp_path: pathlib.Path) -> None:
    check(pairs, tmp_path, (2, 2, 4), ((2, 1, 4), (2, 3, 4), (2, 9, 4)))


def another_way_every_second_time(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.shape[1]):
        y = y + x[0, i] if i % 2 == 0 else y * x[0, i]
    return y


def another_way_later(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.shape[1]):
        y = y + x[0, i]
        if i == 11:
            y = y.exp()
    return y


def as_long_as_it_is_short(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i in range(x.shape[1]):
        if i > 30:
            break
        y = torch.cos(y + x[0, i])
    return y


def another_way_much_later(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for i, row in enumerate(x[0]):
        y = torch.tanh(y + row)
        if i == 3000:
            y = y * 2
    return y


def from_a_table(x: Tensor) -> Tensor:
    table = [1.0] * 3000 + [2.0] * 9000
    return torch.stack([x[0, i] * table[i] for i in range(x.shape[1])])


def of_another_power(x: Tensor) -> Tensor:
    return torch.stack([x[0, i] * len("x" * 2 ** int(i > 3)) for i in range(x.shape[1])])


def read_in_between(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    for row in x[0]:
        y = y + row
        if y.sum() > 1e9:
            y = y * 0
    return y


REFUSED = {
    another_way_every_second_time: "test_loops_over_sizes",
    another_way_later: "test_loops_over_sizes",
    as_long_as_it_is_short: "test_loops_over_sizes",
    another_way_much_later: "compares the index of the iteration",
    from_a_table: "looks something up by it",
    of_another_power: "compares the index of the iteration",
}


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.__name__)
def test_iterations_that_differ_are_refused_with_the_line(model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(onnxport.DynamicAxisError, match=r"test_loops_over_sizes\.py:\d+") as error:
        onnxport.export(model, torch.randn(2, 5, 4), input_names=["x"], dynamic_axes={"x": {1: "n"}})
    assert REFUSED[model] in str(error.value)


@pytest.mark.parametrize("size", [5, 6])
def test_a_number_of_iterations_that_no_run_explains_is_an_error_with_the_line(size: int) -> None:
    """The rounds of a loop over the sums of neighbours, of which one row alone has none."""

    def model(x: Tensor) -> Tensor:
        rows = x.unbind(0)
        y = torch.stack([a + b for a, b in zip(rows[1:], rows, strict=False)] or list(rows))
        for i in range(y.shape[0]):
            if y[i].sum() > 0:
                y[i] = 0
        return y

    with pytest.raises(onnxport.DynamicAxisError, match=r"test_loops_over_sizes\.py:\d+, in .*model"):
        onnxport.export(model, torch.randn(size, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_a_condition_on_data_in_each_iteration() -> None:
    axes = {"x": {1: "n"}}
    program = onnxport.export(read_in_between, torch.randn(2, 5, 4), input_names=["x"], dynamic_axes=axes)
    assert program.report.operators["Loop"] == program.report.operators["If"] == 1
    for n in (1, 4, 9):
        for scale in (1, 1e9, 1e10):
            x = torch.rand(2, n, 4) * scale
            torch.testing.assert_close(program(x), read_in_between(x))


def test_a_loop_over_a_static_size_is_unrolled() -> None:
    program = onnxport.export(Recurrence(), torch.randn(2, 5, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert "Loop" not in [node.op_type for node in program.model_proto.graph.node]
