"""Lists of numbers that only run time knows: what is computed from all of their elements."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, check, table

X = torch.arange(6.0).view(2, 3)
OTHERS = [(torch.randn(*shape),) for shape in ((4, 2), (3, 3), (1, 7))]
AXES = {"x": {0: "n", 1: "k"}}


def largest_and_smallest(x: Tensor) -> Tensor:
    return x + max(x.size()) - 10 * min([x.size(0), x.size(1), 3])


def total(x: Tensor) -> Tensor:
    return torch.zeros(sum([x.size(0), 2, x.size(1)])) + x.size(0)


def of_floats(x: Tensor) -> tuple[float, float, float]:
    numbers = [float(x[0, 0]), float(x[0, 1]), 0.25]
    return sum(numbers), max(numbers), min(numbers)


def conditions(x: Tensor) -> Tensor:
    if all([x.size(0) > 1, x.size(1) > 2]):
        return x + 1
    return x - 1 if any([x.size(0) > 3, bool(x[0, 0] > 0)]) else x


def quotient_and_rest(x: Tensor) -> Tensor:
    quotient, rest = divmod(x.size(0), 2)
    return x + 10 * quotient + rest


def is_among(x: Tensor) -> Tensor:
    return x + 1 if 3 in [x.size(0), 9] or x.size(1) in [7, 8] else x


def is_nonzero(x: Tensor) -> Tensor:
    return x + 1 if x[0, 0].is_nonzero() else x - 1


PROGRAMS = [
    Program(function.__name__, function, (X,), OTHERS, axes=AXES)
    for function in (
        largest_and_smallest, total, of_floats, conditions, quotient_and_rest, is_among, is_nonzero,
    )
]  # fmt: skip

test_lists_of_numbers = table(PROGRAMS)


def of_numbers_in_a_tensor(i: Tensor) -> tuple[int, int, int]:
    numbers: list[int] = i.tolist()
    numbers.append(4)
    return sum(numbers), max(numbers), min(numbers)


def test_numbers_in_a_tensor() -> None:
    others = [(torch.tensor(numbers),) for numbers in ([7], [-3, 0, 9, 2])]
    example = (torch.tensor([1, 5]),)
    check(Program("of_numbers_in_a_tensor", of_numbers_in_a_tensor, example, others, axes={"i": {0: "n"}}), 17)


def ordered(x: Tensor) -> Tensor:
    return x + sorted([x.size(0), x.size(1)])[0]


def ordered_in_place(x: Tensor) -> Tensor:
    sizes = [x.size(0), x.size(1)]
    sizes.sort()
    return x + sizes[0]


def found_at(x: Tensor) -> Tensor:
    return x + [x.size(0), x.size(1), 3].index(3)


def counted(x: Tensor) -> Tensor:
    return x + [x.size(0), x.size(1), 3].count(3)


@pytest.mark.parametrize("function", [ordered, ordered_in_place, found_at, counted])
def test_an_order_that_only_run_time_knows_is_refused(function: object) -> None:
    with pytest.raises(onnxport.CaptureError, match=r"test_lists_of_numbers\.py:\d+: .* run time"):
        onnxport.export(torch.jit.script(function), (X,), dynamic_axes=AXES)
