"""Autograd Functions: their forward is taken as if it had been called directly, whatever it returns."""

from __future__ import annotations

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


def test_a_parameter_that_is_no_argument_is_an_error_with_the_line() -> None:
    layer = torch.nn.Linear(3, 3)

    def model(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=True)  # type: ignore[no-any-return]

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(onnxport.CaptureError, match=f"test_functions.py:{line}.*use_reentrant=False"):
        onnxport.export(model, torch.randn(2, 3))


def test_a_tensor_returned_twice_is_an_error_with_the_line() -> None:
    def twice(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = x + 1
        return result, result

    with pytest.raises(onnxport.CaptureError, match=r"test_functions.py:\d+: the autograd Function twice"):
        onnxport.export(lambda x: _function(twice).apply(x)[1], torch.randn(2, 3))
