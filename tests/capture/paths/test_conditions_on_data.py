"""Conditions on data in Python code are branches of the file, with what the model's code does on both sides."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport

BASE = torch.tensor([[0.5, -1.5, 0.25], [1.25, 0.75, -0.5], [-2.0, 0.5, 0.125]])
CONTENTS = [BASE, -BASE, BASE * 9, -BASE * 9, BASE * 0, BASE.abs(), -BASE.abs(), torch.ones(3, 3), BASE * 30]
OTHER_SIZES = [
    torch.linspace(-scale, 2 * scale, 3 * rows).reshape(rows, 3).roll(rows, 1)
    for rows in (2, 4, 9)
    for scale in (1, -1, 7)
]


def float_number(x: Tensor) -> Tensor:
    scale = 1.0
    if x.mean() > 0:
        scale = 0.1
    return x * scale + x.mean(dim=0)


def int_number(x: Tensor) -> Tensor:
    k = 1
    if x.mean() > 0:
        k = 2
    return torch.cat([x[:k].sum(0, keepdim=True), x * k])


def truth_as_int(x: Tensor) -> Tensor:
    return x * (int(x.sum() > 0) + 1)


def number_read(x: Tensor) -> Tensor:
    value = x.sum().item()
    if value > 1:
        return x * value
    return x - value


def in_a_row(x: Tensor) -> Tensor:
    for row in range(4):
        if x[row % 2].sum() > 0:
            x = x * 1.5 - 1
        else:
            x = x.flip(1) + 0.3
    return x


def until_a_column(x: Tensor) -> Tensor:
    """On each path other columns are used."""
    for number, column in enumerate(x.T):
        if column.max() > 1:
            return column * number
    return x[:, 2]


def all_columns(x: Tensor) -> Tensor:
    return x * 2 if all(column.sum() > -1 for column in x.unbind(1)) else x


def counted(x: Tensor) -> Tensor:
    """Each condition changes what the ones behind it count on."""
    n = 0
    for column in x.unbind(1):
        if column.max() > 1:
            n += 1
    return x * n


def of_another_dtype(x: Tensor) -> Tensor:
    y = x if x.sum() > 0 else x.long()
    return (y * 2).float()


def of_another_rank(x: Tensor) -> Tensor:
    y = x if x.sum() > 0 else x[0]
    return y.reshape(-1) + y.mean()


def not_used_on_one_side(x: Tensor) -> Tensor:
    y = x * 2
    if x[0].sum() > 0:
        y = x.exp()
    if x[1].sum() > 0:
        z = x + 1
    else:
        z = y * 3
    return z


def both_old_and_new(x: Tensor) -> Tensor:
    old = x.sin()
    new = old
    if x[0].sum() > 0:
        new = old + 1
    if x[1].sum() > 0:
        return new * old
    return new - old


def early_return(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    y = x.exp()
    if y.max() > 1:
        return y
    return y.log1p() * 2


def of_another_size(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return torch.cat(parts)


def by_key(x: Tensor) -> Tensor:
    return {True: x * 2, False: x - 3}[bool(x.sum() > 0)]


def two_results(x: Tensor) -> tuple[Tensor, Tensor]:
    positive = bool((x > 0).all())
    return (x * 2 if positive else x), (x.sum() if positive else x.mean())


def written_beside_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    first = y[0]
    if x.sum() > 0:
        y.mul_(2)
    else:
        y[:, 1:] += 1
    return y.sin() + first


def written_behind(x: Tensor) -> Tensor:
    y = x.clone()
    if x.sum() > 0:
        y = y * 2
    y[0] += 1
    return y


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return self.left(x)
        return self.right(x).relu() - 0.1


PROGRAMS = [
    (float_number, 1), (int_number, 1), (truth_as_int, 1), (number_read, 1), (in_a_row, 4),
    (until_a_column, 3), (all_columns, 3), (counted, 7), (of_another_dtype, 1), (of_another_rank, 1),
    (early_return, 2), (of_another_size, 1), (by_key, 1), (two_results, 1), (written_beside_a_view, 1),
    (written_behind, 1), (nn.Sequential(Block(), Block(), Block()).eval(), 3),
]  # fmt: skip


def as_in_torch(model: Callable[..., Any], program: onnxport.Program, inputs: Sequence[Tensor]) -> None:
    for x in inputs:
        expected, found = model(x), program(x)
        pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
        for left, right in pairs:
            torch.testing.assert_close(right, left, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("example", [0, 1])
@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize(("model", "ifs"), PROGRAMS)
def test_both_sides(model: Callable[..., Any], ifs: int | None, axes: Any, example: int) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, CONTENTS[example], input_names=["x"], dynamic_axes=axes)
    as_in_torch(model, program, CONTENTS + (OTHER_SIZES if axes else []))
    if ifs is not None:
        assert program.report.operators["If"] == ifs


def test_the_report_names_the_conditions_and_the_check_takes_both_sides() -> None:
    program = onnxport.export(float_number, BASE)
    assert any("a condition on data, both sides of which are in the file" in note for note in program.report.notes)
    assert not any("no data were found" in note for note in program.report.notes)
    assert {float_number(x).sum().item() != 0 for x in CONTENTS[:2]}
    assert any(case.other_data for case in program.verification.cases)


def test_a_side_that_no_data_take_is_told() -> None:
    def model(x: Tensor) -> Tensor:
        return x * 2 if (x.sum() * 7).sin() > 2 else x

    program = onnxport.export(model, BASE)
    assert any("no data were found for which this condition is True" in note for note in program.report.notes)


def test_what_the_model_asserts_is_no_branch() -> None:
    def model(x: Tensor) -> Tensor:
        assert not torch.isnan(x).any(), "not a number"
        if x.abs().max() > 1000:
            raise ValueError("too large")
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, BASE)
    assert "If" not in program.report.operators
    assert any("the model raises AssertionError: not a number" in note for note in program.report.notes)
    assert any("the model raises ValueError: too large" in note for note in program.report.notes)


RESULTS: list[Any] = [(lambda x: x.long(), 20), (lambda x: x.sum(0), 10)]


@pytest.mark.parametrize(("result", "opset"), RESULTS, ids=["dtype", "rank before opset 11"])
def test_sides_that_cannot_be_one_are_decided_with_the_reason(result: Callable[[Tensor], Tensor], opset: int) -> None:
    def model(x: Tensor) -> Tensor:
        return result(x) if x.sum() > 100 else x

    with pytest.warns(
        onnxport.TraceWarning, match="its two sides return other numbers of tensors, dtypes or dimensions"
    ):
        program = onnxport.export(model, BASE, opset_version=opset)
    torch.testing.assert_close(program(-BASE), -BASE)


@pytest.mark.filterwarnings("ignore:.*has one number of dimensions:onnxport.DynamicAxisWarning")
def test_results_of_other_ranks_are_both_in_the_file() -> None:
    def model(x: Tensor) -> Tensor:
        return x.sum(0) if x.sum() > 100 else x

    as_in_torch(model, onnxport.export(model, BASE), [*CONTENTS, BASE.abs() * 1e4])


def test_what_torch_raises_on_the_other_side_is_the_reason() -> None:
    def model(x: Tensor) -> Tensor:
        return x.reshape(2, -1) if x.sum() > 100 else x

    with pytest.warns(onnxport.TraceWarning, match="the model raises RuntimeError: shape"):
        onnxport.export(model, BASE)


def test_more_conditions_than_are_followed() -> None:
    def model(x: Tensor) -> Tensor:
        for _ in range(80):
            if x.sum() > 0:
                x = x - 0.1
        return x

    with pytest.warns(onnxport.TraceWarning, match="conditions on data lead to more than 64 paths"):
        onnxport.export(model, BASE)


def constants_made_behind(x: Tensor) -> Tensor:
    for row in range(8):
        if x[row % 3].sum() > 0:
            x = x * 1.5 - row
    ratios = [torch.tensor(number, dtype=torch.float32) for number in (0.5, 3)]
    return x * ratios[0] + ratios[1]


def viewed_in_place_behind(x: Tensor) -> Tensor:
    first = x[0]
    for row in range(7):
        if x[row % 3].sum() > row - 2:
            x = x.flip(1) + row
    y = x * 2
    y.t_()
    x.unsqueeze_(0)
    return torch.cat([y, x.squeeze(0), first[None] * 2])


def viewed_in_place_under_two_names(x: Tensor) -> Tensor:
    y = x * 2
    same, first = y, y[0]
    if x.sum() > 0:
        y = x - 3
    y.t_()
    return torch.cat([y + same, first[None] * 2])


def written_behind(x: Tensor) -> Tensor:
    for row in range(8):
        if x[row % 3].sum() > 0:
            x = x * 1.5 - row
    page = torch.zeros(3, 4)
    page[:, 1:] = x
    page[1] += 1
    return page


def written_behind_on_one_side(x: Tensor) -> Tensor:
    page = x * 1
    first = page[0]
    if x.sum() > 0:
        page = page * 2
    page[0] = 7
    return torch.cat([page, first[None]])


@pytest.mark.parametrize(
    "model",
    [
        constants_made_behind,
        written_behind,
        written_behind_on_one_side,
        viewed_in_place_behind,
        viewed_in_place_under_two_names,
    ],
)
def test_what_writes_to_no_older_memory_is_shared_by_both_sides(model: Callable[[Tensor], Tensor]) -> None:
    """Each condition ends where its sides do the same again: eight of them are not 256 paths."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(lambda x: model(x * 1), BASE)
    as_in_torch(lambda x: model(x * 1), program, CONTENTS)


@pytest.mark.parametrize("model", [not_used_on_one_side, both_old_and_new, counted])
def test_branches_that_cannot_be_joined_go_to_the_end(model: Callable[[Tensor], Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, BASE)
    as_in_torch(model, program, CONTENTS)


def test_too_many_branches_that_cannot_be_joined_are_decided() -> None:
    """A file that does something else is not made without a word."""

    def model(x: Tensor) -> Tensor:
        n = 0
        for bound in range(7):
            if x.sum() > bound:
                n += 1
        return x * n

    with pytest.warns(onnxport.TraceWarning, match="more than 64 paths"):
        program = onnxport.export(model, BASE)
    torch.testing.assert_close(program(BASE), model(BASE))


def test_decided_on_request() -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"test_conditions_on_data.py:\d+"):
        program = onnxport.export(float_number, BASE, control_flow="trace")
    assert "If" not in program.report.operators
    with pytest.raises(onnxport.OptionError, match='control_flow must be "merge" or "trace"'):
        onnxport.export(float_number, BASE, control_flow="follow")  # type: ignore[arg-type]


def test_no_warning_where_a_size_decides() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(lambda x: x.sum() if x.numel() else x.new_zeros(()), BASE)
    as_in_torch(lambda x: x.sum(), program, CONTENTS)


def after_a_size(x: Tensor) -> Tensor:
    if x.shape[0] > 3 and x.sum() > 0:
        x = x + 1
    return x


def before_a_size(x: Tensor) -> Tensor:
    if x.sum() > 0 and x.shape[0] > 3:
        x = x + 1
    return x


def inside_of_one(x: Tensor) -> Tensor:
    if x.shape[0] > 1:
        while x.sum() > 10:
            x = x / 2
    return x


def until_data_end_it(x: Tensor) -> Tensor:
    """The rows that a loop appends: it ends at a length, or where data end it before."""
    length = x.shape[0]
    while x.shape[0] < length + 4:
        last = x[-1:] * 0.5 - 0.2
        x = torch.cat([x, last])
        if (last < 0).all():
            break
    return x


def or_a_size(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] <= 3 or x.sum() > 0 else x - 1


@pytest.mark.parametrize("function", [after_a_size, before_a_size, inside_of_one, until_data_end_it, or_a_size])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_data_decide_at_some_sizes_only(function: Callable[[Tensor], Tensor], sign: int) -> None:
    """Whatever the data of the example decide, and those that the file is checked on."""
    example = sign * torch.ones(6, 4)
    program = onnxport.export(function, example, io.BytesIO(), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 3, 4, 7):
        for x in (torch.ones(n, 4), -torch.ones(n, 4)):
            torch.testing.assert_close(program(x), function(x))


def test_too_many_conditions_on_counted_sizes_are_decided() -> None:
    """Each of seven conditions doubles the runs, as what it chooses is used behind the last: those on data stay."""

    def model(x: Tensor) -> Tensor:
        kept = [x[x > bound / 10] for bound in range(7)]
        for k in range(7):
            if kept[k].shape[0] > 2:
                x.add_(k + 1)
        if x.sum() > 100:
            x = x * 2
        return x

    with pytest.warns(onnxport.TraceWarning, match="more than 64 paths"):
        program = onnxport.export(lambda x: model(x.clone()), torch.rand(12))
    x = torch.rand(12) + 20
    torch.testing.assert_close(program(x), model(x.clone()))


def test_a_branch_behind_a_condition_without_effect_is_not_told_to_be_frozen() -> None:
    def model(x: Tensor) -> Tensor:
        kept = x[x > 0]
        if kept.shape[0] > 9 and model is None:
            return x
        if kept.shape[0] == 0:
            return torch.zeros(1)
        return kept * kept.max()

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, torch.rand(5) - 0.3)
    for x in (torch.rand(5), -torch.rand(5), torch.tensor([1.0, 2, 3, -1, -2])):
        torch.testing.assert_close(program(x), model(x))
