"""Branches and loops of scripted programs, each on inputs that take every path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
SEVERAL = [(X, n) for n in (0, 1, 2, 7)]
SIGNS = [(X,), (-X - 1,), (X * 0,)]
BATCH = {"x": {0: "batch"}}


def for_range(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + i
    return x


def for_range_with_bounds(x: Tensor, n: int) -> Tensor:
    for i in range(1, n, 2):
        x = x * 2 + i
    return x


def for_range_falling(x: Tensor, n: int) -> Tensor:
    for i in range(n, 0, -1):
        x = x * 0.5 + i
    return x


def constant_range(x: Tensor) -> Tensor:
    for i in range(3):
        x = x + i
    return x


def long_constant_range(x: Tensor) -> Tensor:
    for i in range(50):
        x = x + i * 0.5
    return x


def while_number(x: Tensor, n: int) -> Tensor:
    k = 0
    while k < n:
        x = x + k
        k += 2
    return x


def while_data(x: Tensor) -> Tensor:
    while bool(x.sum() < 40):
        x = x + 1
    return x


def while_both(x: Tensor, n: int) -> tuple[Tensor, int]:
    k = 0
    while k < n and bool(x.mean() < 4):
        x = x + 1
        k += 1
    return x, k


def breaks(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i == 2:
            break
        x = x * 2
    return x


def continues(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i % 2 == 1:
            continue
        x = x + i
    return x


def breaks_on_data(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x + 1
        if bool(x.max() > 8):
            break
    return x


def nested(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        for j in range(i):
            if j % 2 == 0:
                x = x + i * j
            else:
                x = x - 1
    return x


def returns_early(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x * 2
    y = x - 1
    if bool(y.sum() < -10):
        return y
    return x + 10


def returns_from_loop(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + 1
        if bool(x.sum() > 25):
            return x * i
    return x


def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y * 2


def chained_branches(x: Tensor) -> Tensor:
    if x.sum() > 3:
        return x.sin()
    elif x.sum() < -3:
        return x.cos()
    else:
        return x.tanh()


def expression(x: Tensor) -> Tensor:
    return x * 2 if bool(x.mean() > 0) else -x


def other_shapes(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x[:1]
    else:
        y = torch.cat([x, x])
    return y * 2


def branch_on_size(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        return x.sum(0)
    else:
        return x.mean(0) + 1


def constant_branch(x: Tensor) -> Tensor:
    if x.dim() == 2:
        return x.t()
    return x


def number_from_branch(x: Tensor) -> Tensor:
    k = 1
    factor = 0.5
    if bool(x.sum() > 0):
        k = 3
        factor = 2.0
    return x * factor + k


def several_carried(x: Tensor, n: int) -> tuple[Tensor, Tensor, int, float]:
    a, b = x, x * 0
    count, total = 0, 0.0
    for i in range(n):
        a, b = b + i, a
        count += 2
        total += 0.1
    return a, b, count, total


def growing_tensor(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(n):
        y = torch.cat([y, x + i], 0)
    return y.sum(1)


def shrinking_tensor(x: Tensor) -> Tensor:
    while x.size(0) > 1:
        x = x[1:] + x[0]
    return x


def over_rows(x: Tensor) -> Tensor:
    total = torch.zeros(x.size(1))
    for i in range(x.size(0)):
        total = total * 0.5 + x[i]
    return total


def over_tensor(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[0])
    for row in x:
        total = total + row * row
    return total


def slices_by_round(x: Tensor, n: int) -> Tensor:
    total = torch.zeros(1)
    for i in range(n):
        total = total + x[:, : i + 1].sum()
    return total


def outer_values(x: Tensor, n: int) -> Tensor:
    scale = x.sum()
    for _ in range(n):
        if bool(scale > 0):
            x = x / scale
        else:
            x = x + scale
    return x


def bool_carried(x: Tensor, n: int) -> tuple[Tensor, bool]:
    flag = False
    for _ in range(n):
        flag = not flag
        if flag:
            x = x + 1
    return x, flag


def zero_rounds_keep(x: Tensor, n: int) -> Tensor:
    y = x
    for _ in range(n):
        y = y @ y.t() @ x
    return y


def tuples_carried(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    state = (x, x + 1)
    for _ in range(n):
        state = (state[1], state[0] * 0.5)
    return state


def power(x: Tensor, n: int) -> Tensor:
    return x * (n**2) + n // 3 - n % 3


def int_from_tensor(x: Tensor, lengths: Tensor) -> Tensor:
    k = int(lengths.max())
    return x[:, :k] * 2


def asserts(x: Tensor) -> Tensor:
    assert x.dim() == 2, f"expected a matrix, got {x.dim()}"
    if bool(x.isnan().any()):
        raise ValueError("not a number")
    return x + 1


def prints(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        print("round", i, x.size(0))
        x = x + 1
    return x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.readout = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), 4)
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
        return self.readout(h)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.steps = [1, 2]

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            for layer in self.layers:
                x = layer(x).relu()
        for step in self.steps:
            x = x + step
        return x


def with_seed(make: Any) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = make()
    return module.eval()


PROGRAMS = [
    Program("for_range", for_range, (X, 3), SEVERAL, has=frozenset({"Loop"})),
    Program("for_range_dynamic", for_range, (X, 3), [(torch.ones(5, 3), 2)], axes=BATCH),
    Program("for_range_with_bounds", for_range_with_bounds, (X, 4), SEVERAL),
    Program("for_range_falling", for_range_falling, (X, 4), SEVERAL),
    Program("constant_range", constant_range, (X,)),
    Program("long_constant_range", long_constant_range, (X,), has=frozenset({"Loop"})),
    Program("while_number", while_number, (X, 3), SEVERAL),
    Program("while_data", while_data, (X,), [(X + 10,), (X - 5,)]),
    Program("while_both", while_both, (X, 3), [*SEVERAL, (X + 10, 3)]),
    Program("breaks", breaks, (X, 3), SEVERAL),
    Program("continues", continues, (X, 3), SEVERAL),
    Program("breaks_on_data", breaks_on_data, (X, 3), [*SEVERAL, (X + 10, 4)]),
    Program("nested", nested, (X, 3), SEVERAL),
    Program("returns_early", returns_early, (X,), [*SIGNS, (X - 2.5,)]),
    Program("returns_from_loop", returns_from_loop, (X, 3), SEVERAL),
    Program("branch", branch, (X,), SIGNS, has=frozenset({"If"})),
    Program("branch_dynamic", branch, (X,), [(-torch.ones(5, 3),)], axes=BATCH),
    Program("chained_branches", chained_branches, (X,), SIGNS),
    Program("expression", expression, (X,), SIGNS),
    Program("other_shapes", other_shapes, (X,), SIGNS),
    Program("branch_on_size", branch_on_size, (X,), [(torch.ones(n, 3),) for n in (1, 3, 4, 9)], axes=BATCH),
    Program("constant_branch", constant_branch, (X,)),
    Program("number_from_branch", number_from_branch, (X,), SIGNS),
    Program("several_carried", several_carried, (X, 3), SEVERAL),
    Program("growing_tensor", growing_tensor, (X, 3), SEVERAL),
    Program("shrinking_tensor", shrinking_tensor, (X,), [(torch.ones(n, 3),) for n in (1, 2, 5)], axes=BATCH),
    Program("over_rows", over_rows, (X,), [(torch.ones(n, 3),) for n in (1, 5)], axes=BATCH),
    Program("over_tensor", over_tensor, (X,), [(torch.ones(n, 3),) for n in (1, 5)], axes=BATCH),
    Program("slices_by_round", slices_by_round, (X, 2), SEVERAL),
    Program("outer_values", outer_values, (X, 2), [*SEVERAL, (-X, 2)]),
    Program("bool_carried", bool_carried, (X, 3), SEVERAL),
    Program("zero_rounds_keep", zero_rounds_keep, (X, 1), SEVERAL[:3]),
    Program("tuples_carried", tuples_carried, (X, 3), SEVERAL),
    Program("power", power, (X, 5), SEVERAL),
    Program("int_from_tensor", int_from_tensor, (X, torch.tensor([1, 2])), [(X, torch.tensor([3, 0]))]),
    Program("asserts", asserts, (X,)),
    Program("prints", prints, (X, 2), SEVERAL),
    Program(
        "recurrent", with_seed(Recurrent), (torch.randn(4, 2, 3),),
        [(torch.randn(t, b, 3),) for t, b in ((1, 1), (7, 3))], axes={"x": {0: "time", 1: "batch"}},
    ),
    Program("layers", with_seed(Layers), (X, 2), SEVERAL),
]  # fmt: skip

test_control_flow = table(PROGRAMS)


def early_list(x: Tensor) -> list[Tensor]:
    if x[0].shape[0] < 5:
        if x.size(0) == 1:
            x = x + x
        else:
            return list(x)
    return list(x)


def early_list_of_written(x: Tensor) -> list[Tensor]:
    x = x * 1
    if x[0].shape[0] < 5:
        if x.size(0) == 1:
            x += x
        else:
            return [x, x + 1]
    return [x * 3, x]


@pytest.mark.parametrize("program", [early_list, early_list_of_written], ids=lambda program: program.__name__)
def test_a_list_that_is_returned_early(program: Callable[[Tensor], list[Tensor]]) -> None:
    exported = onnxport.export(
        torch.jit.script(program), torch.ones(3, 4), input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}}
    )
    for shape in ((1, 4), (3, 4), (2, 7), (1, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(list(exported(x)), program(x))
