"""torch's while_loop in traced models and in programs of torch.export: a Loop in the file."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop

import onnxport

GENERATOR = torch.Generator().manual_seed(7)
X = torch.rand(4, 6, generator=GENERATOR)
OTHER = torch.rand(9, 6, generator=GENERATOR)
AXES: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}


def plain(go_on: Any, step: Any, carried: Any, additional: Any = ()) -> Any:
    while bool(go_on(*carried, *additional)):
        carried = step(*carried, *additional)
    return carried


class Grows(nn.Module):
    """Doubles until the sum is large: how often, depends on the data."""

    def __init__(self, loop: Any, bound: float = 1000.0) -> None:
        super().__init__()
        self.loop, self.bound = loop, bound
        self.linear = nn.Linear(6, 6)
        nn.init.eye_(self.linear.weight)
        nn.init.constant_(self.linear.bias, 0.01)

    def forward(self, x: Tensor) -> Any:
        def step(i: Tensor, y: Tensor) -> Any:
            z = self.linear(y) * 2
            z[:, 0] = z[:, 0] + 1
            return i + 1, z

        rounds, y = self.loop(lambda i, y: (y.sum() < self.bound) & (i < 40), step, (torch.tensor(0), x * 1))
        return rounds, y + x


def agrees(program: onnxport.Program, *given: Tensor) -> None:
    for got, wanted in zip(program(*given), Grows(plain)(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-4, atol=1e-4)


def test_loop_in_a_traced_model() -> None:
    program = onnxport.export(Grows(while_loop), X, **AXES)
    assert [node.op_type for node in program.model_proto.graph.node].count("Loop") == 1
    for given in (X, OTHER, OTHER * 100, OTHER * 0.01):
        agrees(program, given)


def test_loop_in_an_exported_program() -> None:
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=64)}}
    exported = torch.export.export(Grows(while_loop), (X,), dynamic_shapes=shapes)
    program = onnxport.export(exported)
    for given in (X, OTHER, OTHER * 100):
        agrees(program, given)


def test_a_loop_around_a_branch() -> None:
    def steps(loop: Any, cond: Any, x: Tensor) -> Tensor:
        def step(y: Tensor) -> Any:
            return (cond(y[0, 0] > 0.5, lambda y: y * 0.5, lambda y: y * 3, (y,)),)

        result: Tensor = loop(lambda y: y.sum() < 20, step, (x,))[0]
        return result

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return steps(while_loop, torch.cond, x)

    program = onnxport.export(Model(), X, **AXES)
    branch = lambda pred, true, false, given: true(*given) if bool(pred) else false(*given)  # noqa: E731
    for given in (X, OTHER, OTHER * 0.1):
        torch.testing.assert_close(torch.as_tensor(program(given)), steps(plain, branch, given))


def test_rounds_that_change_a_shape_are_an_error_with_the_line() -> None:
    class Widens(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return while_loop(lambda y: y.sum() < 100, lambda y: (torch.cat([y, y]),), (x,))

    with pytest.raises(onnxport.CaptureError, match=r"test_while_loop\.py:\d+.*while_loop"):
        onnxport.export(Widens(), X)


def test_other_operators_that_take_functions_are_named() -> None:
    class Scans(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.ops.higher_order.while_loop_stack_output(lambda x: x.sum() < 9, lambda x: (x + 1,), (x,), ())

    with pytest.raises(onnxport.UnsupportedOperatorError, match=r"test_while_loop\.py:\d+.*while_loop_stack_output"):
        onnxport.export(Scans(), X)
