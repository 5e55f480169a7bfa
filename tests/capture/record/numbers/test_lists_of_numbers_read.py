"""Numbers that Python reads from a tensor as a list: they follow the data where they are used as sizes or operands."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxport


class Experts(nn.Module):
    """Rows sorted by expert, split by how many each expert got, and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x: Tensor, chosen: Tensor) -> Tensor:
        counts = nn.functional.one_hot(chosen, 3).sum(0).tolist()
        order = chosen.sort(stable=True)[1]
        parts = x[order].split(counts)
        joined = torch.cat([part @ weight for part, weight in zip(parts, self.weights, strict=True)])
        return torch.zeros_like(joined).index_add(0, order, joined)


def test_a_split_by_a_list_follows_the_data() -> None:
    model = Experts()
    example = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    names = {"input_names": ["x", "chosen"], "dynamic_axes": {"x": {0: "n"}, "chosen": {0: "n"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(model, example, **names)
    for chosen in ([0, 0, 0, 0, 2], [1], [2, 1, 0, 0, 1, 1, 1]):
        given = torch.randn(len(chosen), 4), torch.tensor(chosen)
        torch.testing.assert_close(program(*given), model(*given).detach(), rtol=1e-5, atol=1e-5)


def test_arithmetic_on_nested_lists_follows_the_data() -> None:
    def crop(x: Tensor, box: Tensor) -> Tensor:
        (top, left), (height, width) = box.tolist()
        return x[top : top + height, left : left + width] * (height * width) + sum([top, left])

    program = onnxport.export(crop, (torch.randn(9, 9), torch.tensor([[1, 2], [4, 3]])))
    x, box = torch.randn(9, 9), torch.tensor([[3, 0], [5, 8]])
    torch.testing.assert_close(program(x, box), crop(x, box))


def test_a_list_that_nobody_uses_leaves_nothing() -> None:
    def ignores(x: Tensor, lengths: Tensor) -> Tensor:
        lengths.tolist()
        return x + lengths

    program = onnxport.export(
        ignores,
        (torch.randn(4), torch.arange(4)),
        input_names=["x", "lengths"],
        dynamic_axes={"x": {0: "n"}, "lengths": {0: "n"}},
    )
    assert [node.op_type for node in program.model_proto.graph.node] == ["Cast", "Add"]


def test_numbers_that_decide_a_shape_follow_the_data() -> None:
    def parts(x: Tensor, box: Tensor) -> Tensor:
        height, width = box.tolist()
        return torch.zeros(height, width) + x.view(height, width)

    program = onnxport.export(parts, (torch.randn(36), torch.tensor([6, 6])))
    for box in ([4, 9], [36, 1]):
        given = torch.randn(36), torch.tensor(box)
        torch.testing.assert_close(program(*given), parts(*given))


def repeats_a_list(x: Tensor, n: Tensor) -> Tensor:
    return x + len([0] * n.tolist()[0])


def writes_a_text(x: Tensor, n: Tensor) -> Tensor:
    return x + len(f"{n.tolist()[0]}")


def writes_the_text_of_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    return x + len(f"{n[0]}")


def adds_what_it_found(x: Tensor, n: Tensor) -> Tensor:
    return x + sum(n[n > 3].tolist())


def counts_what_it_found(x: Tensor, n: Tensor) -> Tensor:
    return x + len(n[n > 3].tolist())


@pytest.mark.parametrize(
    "function",
    [repeats_a_list, writes_a_text, writes_the_text_of_a_tensor, adds_what_it_found, counts_what_it_found],
)
def test_what_becomes_a_constant_is_told(function: Callable[..., Tensor]) -> None:
    line = function.__code__.co_firstlineno + 1
    with pytest.warns(onnxport.TraceWarning, match=rf"test_lists_of_numbers_read.py:{line}, in \S+: .* is frozen"):
        program = onnxport.export(function, (torch.ones(2), torch.tensor([3, 4])))
    torch.testing.assert_close(
        program(torch.zeros(2), torch.tensor([3, 4])), function(torch.zeros(2), torch.tensor([3, 4]))
    )


NAMES = {3: 1.0, 4: 10.0}


@pytest.mark.parametrize(
    "scale",
    [lambda numbers: sum(NAMES[number] for number in numbers), lambda numbers: float(len({*numbers, 3, 4}))],
    ids=["key", "set"],
)
def test_numbers_that_are_looked_up_are_told(scale: Callable[[list[int]], float]) -> None:
    def function(x: Tensor, numbers: Tensor) -> Tensor:
        return x * scale(numbers.tolist())

    example = torch.ones(2), torch.tensor([3, 4])
    with pytest.warns(
        onnxport.TraceWarning, match=r"test_lists_of_numbers_read\.py:\d+, in \S+: .*used as a key; .*frozen"
    ):
        program = onnxport.export(function, example)
    torch.testing.assert_close(program(*example), function(*example))


def test_a_number_of_a_list_is_an_int_to_the_model() -> None:
    def function(x: Tensor, numbers: Tensor) -> Tensor:
        first = numbers.tolist()[0]
        assert type(first) is not Tensor
        return x * (first if isinstance(first, int) else 0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(function, (torch.ones(2), torch.tensor([3, 4])))
    assert program(torch.ones(2), torch.tensor([7, 1])).tolist() == [7.0, 7.0]


def test_a_split_by_a_list_where_something_else_is_written_to() -> None:
    def joins(x: Tensor, counts: Tensor) -> Tensor:
        out = torch.empty_like(x)
        out[:] = torch.cat([part * (place + 1) for place, part in enumerate(x.split(counts.tolist()))])
        return out

    program = onnxport.export(joins, (torch.randn(6, 4), torch.tensor([2, 3, 1])))
    given = torch.randn(6, 4), torch.tensor([4, 0, 2])
    torch.testing.assert_close(program(*given), joins(*given))


class Ways:
    """Ways of a number out of a list to where it is used."""

    @staticmethod
    def into_a_tensor(x: Tensor, numbers: Tensor) -> Tensor:
        return x + torch.tensor(numbers.tolist())

    @staticmethod
    def into_a_new_tensor(x: Tensor, numbers: Tensor) -> Tensor:
        return x + x.new_tensor(numbers.tolist()).sum()

    @staticmethod
    def into_a_tensor_by_type(x: Tensor, numbers: Tensor) -> Tensor:
        return x + torch.LongTensor(numbers.tolist()).sum()

    @staticmethod
    def into_a_scalar(x: Tensor, numbers: Tensor) -> Tensor:
        return x * torch.tensor(numbers.tolist()[0])

    @staticmethod
    def into_shifts(x: Tensor, numbers: Tensor) -> Tensor:
        return x.roll(numbers.tolist()[0], 0)

    @staticmethod
    def through_arithmetic(x: Tensor, numbers: Tensor) -> Tensor:
        first, *others = numbers.tolist()
        return x * (first // 2 + max(others) - 1) + sum(others)

    @staticmethod
    def of_floats(x: Tensor, numbers: Tensor) -> Tensor:
        return x * max((numbers / 4).tolist()) + round((numbers / 4).tolist()[0], 1)

    @staticmethod
    def out_of_the_model(x: Tensor, numbers: Tensor) -> tuple[Tensor, int]:
        return x + 1, numbers.tolist()[0]


@pytest.mark.parametrize("name", [name for name in vars(Ways) if not name.startswith("_")])
def test_numbers_are_followed_to_where_they_are_used(name: str) -> None:
    function = getattr(Ways, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxport.export(function, (torch.randn(6, 4), torch.tensor([1, 2, 3, 4])))
    for numbers in ([3, 2, 2, 9], [0, 1, 5, 2]):
        given = torch.randn(6, 4), torch.tensor(numbers)
        torch.testing.assert_close(program(*given), function(*given))


def test_a_list_of_a_dynamic_axis_is_an_error() -> None:
    def function(x: Tensor) -> Tensor:
        return x * sum(x.tolist())

    line = function.__code__.co_firstlineno + 1
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_lists_of_numbers_read\.py:{line}"):
        onnxport.export(function, torch.randn(4), dynamic_axes={"x": {0: "n"}})
