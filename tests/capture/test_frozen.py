"""Values that Python reads while tracing: told with their lines, if they depend on the input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxport


def indexes(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for _ in range(n):  # type: ignore[call-overload]
        x = x + 1
    return x


def decides(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * 2 if bool(n > 2) else x * 3


def reads_item(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * n.item()


def reads_int(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x[: int(n)]


def reads_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + n.tolist()


@pytest.mark.parametrize("function", [indexes, decides, reads_item, reads_int, reads_list])
def test_a_read_of_an_input_warns_with_its_line(function: Callable[..., Any]) -> None:
    line = function.__code__.co_firstlineno + 1
    with pytest.warns(onnxport.TraceWarning, match=f"test_frozen.py:{line}"):
        program = onnxport.export(function, (torch.ones(5), torch.tensor(3)))
    assert any(f"test_frozen.py:{line}" in warning for warning in program.report.warnings)


def test_reads_of_sizes_and_constants_do_not_warn() -> None:
    scale = torch.tensor(2.0)

    def model(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 1 and bool(scale > 1):
            x = x * scale.item()
        for _ in range(x.shape[1]):
            x = x + 1
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.export(model, torch.ones(2, 3))


def test_a_constant_that_is_written_to_keeps_its_first_content() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        table = torch.tensor([0.0, 0.0])
        before = table + 1
        table[0] = x.sum()
        return before + table

    program = onnxport.export(model, torch.ones(3))
    assert program(torch.tensor([1.0, 1.0, 3.0])).tolist() == [6.0, 1.0]


def test_what_fails_only_while_tracing_says_so_with_the_line() -> None:
    def rounds(x: torch.Tensor) -> torch.Tensor:
        return x[: round(x.shape[0])]

    line = rounds.__code__.co_firstlineno + 1
    with pytest.raises(
        onnxport.CaptureError, match=rf"test_frozen\.py:{line}: the model runs, but not while it is traced"
    ):
        onnxport.export(rounds, torch.ones(3))


def test_warnings_of_the_tracer_are_not_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.export(lambda x: x + len(x), torch.ones(3))


def test_data_is_the_tensor_itself() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.data[:, 0] = 1
        return x + x.data * 2

    program = onnxport.export(writes, torch.randn(2, 3), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(4, 3)
    torch.testing.assert_close(program(x), writes(x.clone()))


def test_layers_in_a_plain_list_are_named_as_the_reason() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4)]

        def forward(self, x: torch.Tensor) -> Any:
            return self.layers[0](x)

    with pytest.raises(onnxport.CaptureError, match=r"test_frozen.py:\d+: .* no parameter of the model's.*ModuleList"):
        onnxport.export(Hidden(), torch.randn(2, 4))


class OneHit:
    """What a model does with the places that it finds, where the example has exactly one."""

    @staticmethod
    def written(x: torch.Tensor) -> torch.Tensor:
        out = x * 0
        out[x > 0] = x[x > 0] + 1
        return out

    @staticmethod
    def written_rows(x: torch.Tensor) -> torch.Tensor:
        out = torch.stack([x, x], 1) * 0
        found = torch.nonzero(x > 0).squeeze(-1)
        out[found] = torch.stack([x, -x], 1)[found] * 2
        return out

    @staticmethod
    def without_a_name_for_the_axis(x: torch.Tensor) -> torch.Tensor:
        return x[torch.nonzero(x > 0).squeeze()] * 2

    @staticmethod
    def length(x: torch.Tensor) -> torch.Tensor:
        found = torch.nonzero(x > 0)
        return x * 2 if len(found) == 1 else x[found[:, 0]].sum() + x


@pytest.mark.parametrize("function", [OneHit.written, OneHit.written_rows])
def test_an_example_with_one_hit_holds_for_any_number_of_them(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(function, torch.tensor([-1.0, 2.0, -3.0, -4.0]))
    for given in ([1.0, 2.0, -3.0, -4.0], [-1.0, -2.0, -3.0, -4.0], [1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, 3.0, -4.0]):
        torch.testing.assert_close(program(torch.tensor(given)), function(torch.tensor(given)))


def test_an_axis_that_is_dropped_for_one_hit_only_is_an_error() -> None:
    with pytest.raises(onnxport.VerificationError, match=r"aten::squeeze .*test_frozen.py:\d+"):
        onnxport.export(OneHit.without_a_name_for_the_axis, torch.tensor([-1.0, 2.0, -3.0, -4.0]))


def test_a_condition_on_how_many_were_found_warns() -> None:
    line = OneHit.length.__code__.co_firstlineno + 3
    with pytest.warns(onnxport.TraceWarning, match=rf"test_frozen.py:{line}: a tensor that depends on the input"):
        onnxport.export(OneHit.length, torch.tensor([-1.0, 2.0, -3.0, -4.0]))
