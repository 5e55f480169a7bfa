"""Dynamic axes: traced at several sizes, right at unseen ones, or refused with the line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport


def check(
    function: Callable[..., Any], example: torch.Tensor, others: list[torch.Tensor], axes: dict[int, str]
) -> onnxport.Program:
    program = onnxport.export(function, example, input_names=["x"], dynamic_axes={"x": axes})
    for x in (example, *others):
        torch.testing.assert_close(program(x), function(x))
    return program


def ops(program: onnxport.Program) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_static_sizes_are_constants_and_free_ones_are_not_computed() -> None:
    def heads(x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        return x.view(b, t, 4, c // 4).transpose(1, 2)

    program = check(heads, torch.randn(2, 6, 8), [torch.randn(3, 5, 8), torch.randn(1, 1, 8)], {0: "b", 1: "t"})
    assert ops(program) == ["Reshape", "Transpose"]
    assert dims(program.model_proto.graph.output[0]) == ["b", 4, "t", 2]


def test_an_example_of_size_one_is_not_baked_in() -> None:
    check(lambda x: x + torch.ones(x.shape[0], 3), torch.randn(1, 3), [torch.randn(4, 3)], {0: "n"})
    check(lambda x: x.expand(x.shape[0], 5).sum(1), torch.randn(1, 1), [torch.randn(4, 1)], {0: "n"})


def test_size_arithmetic_of_the_model_is_kept() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[1] // 2
        return torch.cat([x[:, half:], x[:, :half]], 1) + torch.arange(x.shape[1])

    check(halves, torch.randn(2, 6), [torch.randn(2, 9), torch.randn(2, 2)], {1: "t"})


@pytest.mark.parametrize(
    "count",
    [
        torch.numel,
        lambda x: torch.numel(input=x),
        lambda x: x.nelement(),
        lambda x: x.shape.numel(),
        lambda x: math.prod(x.shape),
        lambda x: x.nbytes // x.element_size(),
    ],
)
def test_every_way_to_count_elements_is_followed(count: Callable[[torch.Tensor], int]) -> None:
    check(lambda x: x / count(x), torch.randn(2, 3), [torch.randn(5, 3), torch.randn(1, 3)], {0: "n"})


def test_two_axes_are_told_apart() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] * x.shape[1], -1) @ torch.ones(3, 2)

    check(flat, torch.randn(2, 5, 3), [torch.randn(4, 7, 3)], {0: "a", 1: "b"})


def test_a_model_that_needs_multiples_is_traced_at_multiples() -> None:
    pool = nn.Sequential(nn.Unflatten(1, (-1, 16)))
    check(pool, torch.randn(2, 64), [torch.randn(2, 32), torch.randn(2, 128)], {1: "w"})


def test_axes_by_index_may_turn_out_equal() -> None:
    program = onnxport.export(
        torch.add, (torch.randn(3, 2), torch.randn(3, 2)), input_names=["a", "b"], dynamic_axes={"a": [0], "b": [0]}
    )
    a, b = torch.randn(7, 2), torch.randn(7, 2)
    torch.testing.assert_close(program(a, b), a + b)


def test_named_axes_that_the_model_needs_equal_are_one_in_the_file() -> None:
    with pytest.warns(onnxport.DynamicAxisWarning, match="'n' and 'm' have to be equal"):
        program = onnxport.export(
            lambda a, b: a + b,
            (torch.randn(3, 2), torch.randn(3, 2)),
            input_names=["a", "b"],
            dynamic_axes={"a": {0: "n"}, "b": {0: "m"}},
        )
    torch.testing.assert_close(program(torch.ones(5, 2), torch.ones(5, 2)), torch.full((5, 2), 2.0))


def test_a_function_of_a_size_is_followed() -> None:
    check(lambda x: x * math.sin(x.shape[0]), torch.randn(4, 3), [torch.randn(n, 3) for n in (1, 2, 9)], {0: "n"})


def test_a_constant_computed_from_a_size_is_an_error_with_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * math.erf(x.shape[0] / 100)

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(onnxport.DynamicAxisError, match=f"test_sizes.py:{line}"):
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_another_path_at_another_size_that_cannot_be_a_branch_is_an_error_with_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 0:
            return x.sin().double()
        return x.cos()

    line = model.__code__.co_firstlineno
    with pytest.raises(onnxport.DynamicAxisError, match=f"test_sizes.py:{line + 1}, in "):
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_a_loop_over_a_dynamic_axis_is_a_loop() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3)
        for row in x:
            total = total + row
        return total

    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 3, 30):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), model(x))


def test_an_output_declared_dynamic_that_never_varies_is_static_with_a_warning() -> None:
    with pytest.warns(onnxport.DynamicAxisWarning, match=r"'y'.*axis 0"):
        program = onnxport.export(
            lambda x: x.sum(0), torch.randn(4, 3), input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )  # fmt: skip
    assert dims(program.model_proto.graph.output[0]) == [3]


def test_output_axes_carry_the_labels_asked_for() -> None:
    program = onnxport.export(
        lambda x: torch.cat([x, x]), torch.randn(4, 3), input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "twice"}},
    )  # fmt: skip
    assert dims(program.model_proto.graph.output[0]) == ["twice", 3]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x > 0] * 2,
        lambda x: x.masked_select(x > 0).reshape(-1, 1),
        lambda x: x.nonzero().float().sum(1),
        lambda x: torch.zeros(x[x > 0].shape[0]),
        lambda x: x.flatten()[torch.nonzero(x.flatten() > 0).squeeze(1)].unsqueeze(1).expand(-1, 2),
    ],
)
def test_sizes_that_depend_on_data_stay_free(function: Callable[..., Any]) -> None:
    program = onnxport.export(function, torch.randn(4, 5))
    for x in (torch.randn(4, 5), torch.randn(4, 5), -torch.ones(4, 5), torch.ones(4, 5)):
        torch.testing.assert_close(program(x), function(x))


def test_a_model_that_takes_two_sizes_only() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(3) + x

    check(model, torch.tensor([1.0]), [torch.tensor([1.0, 2.0, 5.0])], {0: "n"})


def test_two_axes_are_told_apart_after_strides() -> None:
    function = nn.Sequential(nn.Conv2d(3, 4, 3, stride=16), nn.AdaptiveAvgPool2d((2, 3)))
    others = [torch.randn(1, 3, 200, 120), torch.randn(1, 3, 90, 310)]
    check(function.eval(), torch.randn(1, 3, 128, 128), others, {2: "h", 3: "w"})


def test_a_part_of_a_size_that_coincides_is_tried_again() -> None:
    check(lambda x: x * (x.shape[0] % 3), torch.randn(2, 3), [torch.randn(n, 3) for n in (1, 3, 4, 6)], {0: "n"})


def test_integers_that_are_a_size_again_are_that_size() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        b, t = int(x.shape[0]), len(x[0])
        y = torch.zeros(b, t, 3)
        y[:] = x.reshape(b * t, 3).view(b, t, 3)
        return torch.nn.functional.max_pool1d(y.transpose(1, 2), t).squeeze(2)

    check(model, torch.randn(2, 5, 3), [torch.randn(4, 7, 3), torch.randn(1, 2, 3)], {0: "a", 1: "b"})


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: torch.zeros_like(x[i:]) + x[i:],
        lambda x, i: x[:i].reshape(-1, 1),
        lambda x, i: torch.nn.functional.one_hot(i.reshape(1)).float().sum(1) + x.sum(),
    ],
)
def test_bounds_that_are_data_leave_the_size_free(function: Callable[..., Any]) -> None:
    x = torch.randn(6)
    program = onnxport.export(function, (x, torch.tensor(2)))
    for i in (2, 4, 5):
        torch.testing.assert_close(program(x, torch.tensor(i)), function(x, torch.tensor(i)))


NUMBERS: dict[str, Callable[[int, int], Any]] = {
    "size": lambda b, t: torch.zeros(t),
    "sum": lambda b, t: torch.zeros(t + 3),
    "multiple": lambda b, t: torch.zeros(2 * t + 1),
    "part": lambda b, t: torch.zeros(t // 2),
    "rounded up": lambda b, t: torch.zeros(math.ceil(t / 4)),
    "convolved": lambda b, t: torch.zeros((t + 2 - 3) // 2 + 1),
    "product": lambda b, t: torch.zeros(b * t),
    "product of parts": lambda b, t: torch.zeros((b // 2) * (t // 4)),
    "difference": lambda b, t: torch.zeros(abs(t - b)),
    "bound": lambda b, t: torch.zeros(min(t, 20)),
    "reciprocal": lambda b, t: torch.full((2,), 1 / t),
    "root": lambda b, t: torch.full((2,), 3 * t**-0.5),
    "float of a product": lambda b, t: torch.full((2,), float(b * t)),
    "logarithm": lambda b, t: torch.full((2,), math.log(t)),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_python_computed_from_sizes_follow_them(number: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum() + NUMBERS[number](int(x.shape[0]), int(x.shape[1]))

    others = [torch.randn(6, 15), torch.randn(5, 40), torch.randn(3, 11)]
    check(model, torch.randn(4, 12), others, {0: "b", 1: "t"})


SYMBOLIC: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sym_max": lambda x: x.new_zeros(torch.sym_max(x.shape[0], 7)) + x.sum(),
    "sym_min": lambda x: x[: torch.sym_min(x.shape[0], 3)],
    "sym_float": lambda x: x * torch.sym_float(x.shape[0]),
}


@pytest.mark.parametrize("function", SYMBOLIC)
def test_functions_of_sizes_that_torch_export_knows(function: str) -> None:
    check(SYMBOLIC[function], torch.randn(4), [torch.randn(n) for n in (2, 3, 7, 8, 12)], {0: "n"})


@pytest.mark.parametrize("read", [torch.Tensor.item, torch.Tensor.tolist, bool], ids=["item", "tolist", "bool"])
def test_a_condition_on_a_size_is_seen_however_it_is_read(read: Callable[[Any], bool]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        longer: Any = x.shape[0] > 2
        return torch.exp(x) if (read(longer) if isinstance(longer, torch.Tensor) else longer) else torch.sin(x)

    check(model, torch.randn(4), [torch.randn(n) for n in (1, 2, 3, 9)], {0: "n"})


COUNTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "places": torch.nonzero,
    "rows": lambda x: x[x.nonzero()[:, 0]],
    "number of places": lambda x: torch.zeros(x.nonzero().shape[0]),
    "numbers": lambda x: torch.bincount(x.flatten().long().abs(), minlength=6),
}


@pytest.mark.parametrize("count", COUNTS)
def test_sizes_that_depend_on_data_are_free_though_the_example_s_are_the_largest(count: str) -> None:
    example = torch.randn(3, 4).clamp(0.1, 1)  # has no zero
    program = onnxport.export(COUNTS[count], example)
    assert dims(program.model_proto.graph.output[0])[0] not in (6, 12)
    for x in (torch.zeros(3, 4), example * (example > 0.3), example * 9):
        torch.testing.assert_close(program(x), COUNTS[count](x))


def test_many_axes_are_traced_at_sizes_that_fit_into_memory() -> None:
    example = torch.randn(1, 5, 4, 4), torch.randn(2, 3, 4, 5, 6)
    axes = {"x": [0, 1, 2, 3], "y": [0, 1, 2, 3, 4]}
    program = onnxport.export(lambda x, y: (x + 1, y + 1), example, input_names=["x", "y"], dynamic_axes=axes)
    assert max(size for point in program.report.sizes_traced for size in point.values()) < 30
    assert dims(program.model_proto.graph.output[1]) == [f"y_dim_{dim}" for dim in range(5)]


RETURNS: dict[str, Callable[[torch.Tensor], Any]] = {
    "none": lambda x: (x * 2, x + 1 if x.shape[0] >= 6 else None),
    "fewer": lambda x: [x * 2, x + 1] if x.shape[0] >= 6 else [x * 2],
}


@pytest.mark.parametrize("returned", RETURNS)
def test_a_result_that_is_missing_at_some_sizes_is_an_error(returned: str) -> None:
    with pytest.raises(onnxport.DynamicAxisError, match=r"test_sizes.py:\d+.*n=5"):
        onnxport.export(RETURNS[returned], torch.randn(16), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_a_size_at_which_nothing_is_returned_is_told() -> None:
    def model(x: torch.Tensor) -> torch.Tensor | None:
        return x * 2 if x.shape[0] > 1 else None

    program = onnxport.export(model, torch.randn(4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert any(
        re.search(r"test_sizes.py:\d+, in .*n=1 are refused by the model", note) for note in program.report.notes
    )


TURNING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "min": lambda x: torch.topk(x, min(x.size(0), 4), dim=0)[0],
    "min of a constant first": lambda x: x.new_ones(min(4, x.size(0))),
    "max": lambda x: torch.arange(max(x.shape[0], 4)),
    "min of three": lambda x: x.new_ones(min([x.size(0), x.size(1), 7])),
    "parts of a size": lambda x: x * (x.size(1) // x.size(0)),
    "above": lambda x: x * (x.size(0) > 4),
    "at least": lambda x: x * (x.size(0) >= 2),
    "equal": lambda x: x * (x.size(0) == 7),
    "below": lambda x: x * (x.size(0) < 5),
}


@pytest.mark.parametrize("function", TURNING)
def test_what_is_the_same_at_all_sizes_traced_is_tried_where_it_turns(function: str) -> None:
    others = [torch.randn(rows, columns) for rows in (1, 2, 3, 4, 5, 7, 9) for columns in (3, 6, 20)]
    check(TURNING[function], torch.randn(5, 6), others, {0: "n", 1: "m"})


def test_min_and_max_are_python_s_own_again_after_an_export_and_for_what_is_no_size() -> None:
    plain = min, max

    def model(x: torch.Tensor) -> torch.Tensor:
        bounds = min("ab"), max([3, 1], default=0), min(2.5, 1), max(("a", "bb"), key=len), max(-1, 4)
        return x * bounds[4] + (1 if bounds == ("a", 3, 1, "bb", 4) else 0)

    check(model, torch.randn(3), [torch.randn(5)], {0: "n"})
    assert (min, max) == plain
