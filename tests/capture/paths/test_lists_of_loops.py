"""Lists that a loop over a size makes, and whose elements are used afterwards."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.record.at_sizes import check

SIZES = ((1, 3), (2, 3), (3, 3), (5, 3), (64, 3))


def by_a_loop_of_another_index(x: Tensor) -> Tensor:
    found = [x[i].relu() + 1 for i in range(x.shape[0])]
    return torch.cat([part * 2 for part in found])


def one_after_another(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    found = [row + 1 for row in found]
    found = [row * i for i, row in enumerate(found)]
    return torch.stack(found)


def of_two_lists(x: Tensor) -> Tensor:
    left, right = [row.exp() for row in x], [row.cumsum(0) for row in x.flip(0)]
    return torch.stack([a * b for a, b in zip(left, right, strict=True)])


def of_pairs(x: Tensor) -> Tensor:
    pairs = []
    for i in range(x.shape[0]):
        pairs.append((x[i].relu(), x[i] - i))
    return torch.stack([a * b for a, b in pairs])


def neighbours(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    total = found[0]
    for i in range(1, len(found)):
        total = total + found[i] * found[i - 1]
    return total


def first_and_last(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    return found[-1] * 2 + found[0]


def in_the_middle(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    return found[len(found) // 2]


def with_the_last_in_each(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    return torch.stack([row - found[-1] + found[0] for row in found])


def twice_and_behind_others(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    total = x.sum(0)
    first = torch.stack([row * total for row in found])
    return first + torch.stack([row.exp() for row in found]) + found[-1]


def passed_on(x: Tensor) -> Tensor:
    found, y = [row.sin() for row in x], x.mean(0)
    for row in found:
        y = torch.tanh(y)
        y = y + row
    return y


def states(x: Tensor) -> Tensor:
    found = [x[0]]
    for t in range(1, x.shape[0]):
        found.append(found[-1] * 0.9 + x[t])
    return torch.stack([state.tanh() for state in found])


def added(x: Tensor) -> Tensor:
    return sum([row.sin() for row in x])  # type: ignore[return-value]


def forwards_and_backwards(x: Tensor) -> Tensor:
    forwards, backwards = [], []
    state = x[0] * 0
    for t in range(x.shape[0]):
        state = torch.tanh(state + x[t])
        forwards.append(state)
    state = x[0] * 0
    for t in reversed(range(x.shape[0])):
        state = torch.tanh(state - x[t])
        backwards.append(state)
    return torch.stack([torch.cat(pair) for pair in zip(forwards, backwards[::-1], strict=True)])


def without_the_ends(x: Tensor) -> Tensor:
    found = [row.sin() for row in torch.cat([x, x, x])]
    return torch.stack([row + 1 for row in found[1:-1]])


def of_other_sizes(x: Tensor) -> Tensor:
    parts = [x[: i + 1].cumsum(0) for i in range(x.shape[0])]
    return torch.cat([part.softmax(0) * part.shape[0] for part in parts])


def rows_behind_others(x: Tensor) -> Tensor:
    rows, mean = x.unbind(0), x.mean(0)
    return torch.stack([mean.exp() * row for row in rows])


def rows_backwards(x: Tensor) -> Tensor:
    y = torch.zeros(3)
    for row in x.unbind(0)[::-1]:
        y = torch.tanh(y * 2 + row)
    return y


def joined_backwards(x: Tensor) -> Tensor:
    found = [row.sin() for row in x]
    return torch.stack(found[::-1]) + torch.stack(x.unbind(0)[::-1])


def joined_without_the_ends(x: Tensor) -> Tensor:
    found = [row.sin() for row in torch.cat([x, x, x])]
    return torch.cat([torch.stack(found[1:]) - torch.stack(found[:-1]), torch.stack(found[1:-1])])


MODELS = [by_a_loop_of_another_index, one_after_another, of_two_lists, of_pairs, neighbours, first_and_last]
MODELS += [in_the_middle]
MODELS += [with_the_last_in_each, twice_and_behind_others, passed_on, states, added, forwards_and_backwards]
MODELS += [without_the_ends, of_other_sizes, rows_behind_others, rows_backwards]
MODELS += [joined_backwards, joined_without_the_ends]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_what_a_loop_made_is_used_by_element(model: Callable[[Tensor], Tensor], tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, (4, 3), SIZES)


@pytest.mark.parametrize("model", [neighbours, states, added], ids=lambda model: model.__name__)
def test_an_example_with_too_few_iterations(model: Callable[[Tensor], Tensor], tmp_path: pathlib.Path) -> None:
    check(model, tmp_path, (2, 3), SIZES)


def test_an_element_that_is_not_there_at_small_sizes(tmp_path: pathlib.Path) -> None:
    """As torch has no third element there."""

    def model(x: Tensor) -> Tensor:
        found = [row.sin() for row in x]
        return found[2] + found[-3]

    check(model, tmp_path, (4, 3), SIZES[2:])


def test_the_list_itself_cannot_be_returned() -> None:
    def model(x: Tensor) -> list[Tensor]:
        return [row.sin() for row in x]

    with pytest.raises(onnxport.DynamicAxisError, match=r"test_lists_of_loops\.py:\d+"):
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
