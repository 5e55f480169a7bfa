"""Autograd Functions: their forward is taken as if it had been called directly, whatever it returns."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import onnxport


def same(ctx: Any, x: torch.Tensor) -> torch.Tensor:
    return x


def several(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x + 1, x * 2, x


def itself_first(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x, x.sum(1), x.reshape(-1) * 2


def with_a_number(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x + 1, 3


def a_list(ctx: Any, x: torch.Tensor) -> list[torch.Tensor]:
    return [x + 1, x * 2]


def in_place(ctx: Any, x: torch.Tensor) -> torch.Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


def _function(forward: Callable[..., Any]) -> Any:
    return type(forward.__name__, (torch.autograd.Function,), {"forward": staticmethod(forward)})


@pytest.mark.parametrize("forward", [same, several, itself_first, with_a_number, a_list, in_place])
def test_results_of_every_kind(forward: Callable[..., Any]) -> None:
    def model(x: torch.Tensor) -> list[torch.Tensor]:
        result = _function(forward).apply(x)
        results = result if isinstance(result, (tuple, list)) else [result]
        return [*(tensor - 1 for tensor in results if isinstance(tensor, torch.Tensor)), x + 3]

    program = onnxport.export(model, torch.randn(2, 3), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(5, 3)
    torch.testing.assert_close(program(x), model(x.clone()))


def check(model: Callable[..., Any], *shape: int) -> None:
    program = onnxport.export(model, torch.randn(2, *shape), dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    x = torch.randn(5, *shape)
    torch.testing.assert_close(program(x), model(x.clone()))


def test_a_parameter_that_is_no_argument() -> None:
    layer = torch.nn.Linear(3, 3).requires_grad_(requires_grad=False)

    def model(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=True)  # type: ignore[no-any-return]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing here needs a gradient, which checkpoints are for
        check(model, 3)


def test_a_tensor_returned_twice() -> None:
    def twice(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = x + 1
        return result, result

    check(lambda x: _function(twice).apply(x)[1].mul_(2), 3)


def test_one_of_several_arguments_is_written_to() -> None:
    def second(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.mark_dirty(y)
        return x * 3, y.add_(x)

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.exp()
        return [*_function(second).apply(x, y), y]

    check(model, 3)


class Picks(torch.autograd.Function):
    """Takes a list of tensors, and has a rule for vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, places: list[torch.Tensor]) -> torch.Tensor:
        return torch.ops.aten.index(x, places)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1])


pick = Picks.apply


def test_tensors_in_a_list_and_inside_vmap() -> None:
    check(lambda x: pick(x, [(x[:, 0] > 0).long(), torch.tensor(1)]), 3)
    places = torch.tensor([2, 0])
    check(lambda x: torch.vmap(lambda place: pick(x, [torch.tensor(1), place]))(places), 3)


class Keeps(torch.autograd.Function):
    """Keeps a number in its context, and asks which arguments need a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * ctx.scale if not any(ctx.needs_input_grad) else x


def test_what_a_forward_asks_its_context() -> None:
    program = onnxport.export(lambda x: Keeps.apply(x, 3.0), torch.ones(2))
    torch.testing.assert_close(program(torch.ones(2)), torch.full((2,), 3.0))


def test_functions_of_other_threads_are_differentiated_meanwhile() -> None:
    """An export that is going on changes nothing for a training in another thread."""
    gradients: list[torch.Tensor] = []

    class Doubles(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    def train() -> None:
        with torch.enable_grad():
            x = torch.ones(2, requires_grad=True)
            Doubles.apply(x).sum().backward()
            gradients.append(x.grad)  # type: ignore[arg-type]

    def model(x: torch.Tensor) -> torch.Tensor:
        other = threading.Thread(target=train)
        other.start()
        other.join()
        return Doubles.apply(x)  # type: ignore[no-any-return]

    program = onnxport.export(model, torch.ones(2))
    torch.testing.assert_close(program(torch.ones(2)), torch.full((2,), 2.0))
    assert gradients and all(gradient.tolist() == [2.0, 2.0] for gradient in gradients)
