"""Content that Python reads while a model is recorded: followed, or told with its line if it depends on the input."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from tests.recording import is_recorded


def indexes(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for _ in range(n):  # type: ignore[call-overload]
        x = x + 1
    return x


def decides(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * 2 if bool(n > 2) else x * 3


def compares(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * 2 if n.item() > 2 else x * 3


def compares_floats(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * 2 if (n / 2).item() > 1 else x * 3


def makes_an_array(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * float(n.numpy() + 1)


def makes_a_text(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * len(f"{(n / 2).item()}")


def repeats(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * len([1] * n.item())


@pytest.mark.parametrize(
    "function", [indexes, decides, compares, compares_floats, makes_an_array, makes_a_text, repeats]
)
def test_a_read_of_an_input_warns_with_its_line(function: Callable[..., Any]) -> None:
    line = function.__code__.co_firstlineno + 1
    with pytest.warns(onnxport.TraceWarning, match=f"test_content_reads.py:{line}"):
        program = onnxport.export(function, (torch.ones(5), torch.tensor(3)), control_flow="trace")
    assert any(f"test_content_reads.py:{line}" in warning for warning in program.report.warnings)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * n.item(),
        lambda x, n: x[: int(n)],
        lambda x, n: x + n.tolist(),
        lambda x, n: x * max(n.item(), 2),
        lambda x, n: torch.zeros(n) + x[:1],
        lambda x, n: x.repeat(n.item() + 1),
        lambda x, n: x + torch.tensor([n.item(), 1]).sum(),
        lambda x, n: x * float(n),
    ],
    ids=["item", "int", "list", "max", "size", "repeat", "tensor", "float"],
)
def test_a_number_that_is_used_in_computations_is_followed(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(function, (torch.ones(5), torch.tensor(3)))
    for n in (1, 2, 5):
        given = torch.randn(5), torch.tensor(n)
        torch.testing.assert_close(program(*given), function(*given))


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


def test_what_fails_only_while_recording_says_so_with_the_line() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        if is_recorded():
            raise RuntimeError("not for export")
        return x + 1

    line = asks.__code__.co_firstlineno + 2
    with pytest.raises(
        onnxport.CaptureError,
        match=rf"test_content_reads\.py:{line}, in \S+: the model runs, but not while it is recorded",
    ):
        onnxport.export(asks, torch.ones(3))


def test_a_length_that_is_static_is_not_told_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxport.export(lambda x: x[: round(x.shape[0])] + len(x), torch.ones(3))


def test_data_is_the_tensor_itself() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.data[:, 0] = 1
        return x + x.data * 2

    program = onnxport.export(writes, torch.randn(2, 3), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(4, 3)
    torch.testing.assert_close(program(x), writes(x.clone()))


def test_layers_in_a_plain_list_are_in_the_file() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4)]

        def forward(self, x: torch.Tensor) -> Any:
            return self.layers[0](x)

    model = Hidden()
    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(7, 4)
    torch.testing.assert_close(program(x), model(x).detach())


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
    with pytest.raises(onnxport.CaptureError, match=r"test_content_reads.py:\d+, in \S+: aten::squeeze.*on other data"):
        onnxport.export(OneHit.without_a_name_for_the_axis, torch.tensor([-1.0, 2.0, -3.0, -4.0]))


class Counted:
    """What a model found, in a shape that says how many there have to be."""

    @staticmethod
    def rows(x: torch.Tensor) -> torch.Tensor:
        mask = (x[:, 0] > 0)[:, None].expand(-1, 3)
        return x[mask].view(-1, 3) * 2

    @staticmethod
    def all_of_them(x: torch.Tensor) -> torch.Tensor:
        return x[x > -100].view(x.shape) * 2

    @staticmethod
    def two(x: torch.Tensor) -> torch.Tensor:
        first = x[:, 0]
        return first[first < first.sort()[0][2]].view(2, 1) * 2


@pytest.mark.parametrize("axes", [{"x": {0: "n"}}, {}], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", ["rows", "all_of_them", "two"])
def test_a_shape_tells_how_many_were_found(name: str, axes: dict[str, dict[int, str]]) -> None:
    function = getattr(Counted, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(function, torch.randn(5, 3), dynamic_axes=axes)
    for n in (4, 9, 30) if axes else (5, 5, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize(
    "decides",
    [
        lambda x, found: len(found) == 1,
        lambda x, found: found.shape[0] == 1,
        lambda x, found: (found * 2).shape[0] == 1,
        lambda x, found: found.numel() > 0,
        lambda x, found: x[x > 0].view(-1, 1).shape[0] != 2,
    ],
    ids=["length", "size", "size of a result", "elements", "rows"],
)
def test_conditions_on_how_many_were_found(decides: Callable[..., bool]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if decides(x, torch.nonzero(x > 0)) else x + 1

    example = torch.tensor([-1.0, 2.0, -3.0, -4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(function, example)
    for x in (example, -example, example - 5, example + 5):
        torch.testing.assert_close(program(x), function(x))
    with pytest.warns(
        onnxport.TraceWarning, match=r"test_content_reads.py:\d+, in \S+: a tensor that depends on the input"
    ):
        onnxport.export(function, example, control_flow="trace")


def test_a_decided_condition_on_how_many_were_found_warns() -> None:
    line = OneHit.length.__code__.co_firstlineno + 3
    with pytest.warns(
        onnxport.TraceWarning, match=rf"content_reads.py:{line}, in \S+: a tensor that depends on the input"
    ):
        onnxport.export(OneHit.length, torch.tensor([-1.0, 2.0, -3.0, -4.0]), control_flow="trace")


def finds_a_sign(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if "-" in repr(x) else x * 3


def measures_a_text(x: torch.Tensor) -> torch.Tensor:
    return x * len(str(x))


def handles_an_assertion(x: torch.Tensor) -> torch.Tensor:
    try:
        torch.testing.assert_close(x, x.abs())
    except AssertionError:
        return x * 2
    return x * 3


def handles_no_assertion(x: torch.Tensor) -> torch.Tensor:
    try:
        torch.testing.assert_close(x, x + 0)
    except AssertionError:
        return x * 2
    return x * 3


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("model", [finds_a_sign, measures_a_text, handles_an_assertion, handles_no_assertion])
def test_content_that_decides_out_of_sight_is_told(model: Callable[..., Any], axes: Any) -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(onnxport.TraceWarning, match=r"test_content_reads\.py:\d+, in \S+: .* is frozen"):
        onnxport.export(model, x, input_names=["x"], dynamic_axes=axes, verify="warn")


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
def test_a_text_that_is_only_shown_is_nothing_to_tell(axes: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger(__name__).warning("%s, %s and %s", x, f"{x} and {x.sum(0)}", repr(x))
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes=axes)
    x = torch.randn(7 if axes else 4, 3)
    torch.testing.assert_close(program(x), x * 2)


def test_memory_of_a_known_tensor_is_followed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).contiguous()
        return torch.empty(0).set_(y.untyped_storage(), 0, y.shape) + 1  # type: ignore[call-overload, no-any-return]

    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    x = torch.randn(7, 3)
    torch.testing.assert_close(program(x), x * 2 + 1)


def is_filled_with_draws(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.empty(2).uniform_().sum() < 2 else x


DRAWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x * 2 if torch.rand(1) < 2 else x,
    lambda x: x * 2 if (torch.rand(3) + 1).sum().item() < 9 else x,
    is_filled_with_draws,
]


@pytest.mark.parametrize("model", DRAWS)
def test_a_random_number_that_decides_is_told_as_one(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"test_content_reads\.py:\d+.* a random number was used as a condi"):
        onnxport.export(model, torch.ones(3))


def test_what_an_input_and_a_draw_decide_depends_on_the_input() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if (x + torch.rand(3)).sum() < 9 else x

    with pytest.warns(onnxport.TraceWarning, match="a tensor that depends on the input was used as a condition"):
        onnxport.export(model, torch.ones(3), control_flow="trace")


def test_a_seeded_draw_that_decides_is_a_constant() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return x * 2 if torch.rand(()) < 0.5 else x

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, torch.ones(3))
    torch.testing.assert_close(program(torch.ones(3)), model(torch.ones(3)))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if torch.result_type(x, 1.0) == torch.float32 else x,
        lambda x: x * torch.ones((), dtype=torch.result_type(2, x)),
        lambda x: x + 1 if x.is_floating_point() and x.is_signed() and not x.is_complex() else x,
    ],
)
def test_the_type_of_a_tensor_is_not_its_content(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, torch.ones(3))
    torch.testing.assert_close(program(torch.ones(3)), model(torch.ones(3)))


def test_slices_of_two_axes_have_bounds_and_steps_that_are_elements_of_tensors() -> None:
    """Some of these numbers are equal in the example, and equal to an axis."""

    def part(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return x[rows[0] : rows[1] : rows[2], columns[0] : columns[1] : columns[2]]

    x = torch.rand(6, 16)
    program = onnxport.export(part, (x, torch.tensor([0, -1, 1]), torch.tensor([0, -1, 3])))
    for rows, columns in (([0, -1, 1], [0, -1, 3]), ([1, 5, 2], [-9, 12, 1]), ([4, 2, 1], [0, 3, 2])):
        given = x, torch.tensor(rows), torch.tensor(columns)
        assert torch.equal(program(*given), part(*given))
