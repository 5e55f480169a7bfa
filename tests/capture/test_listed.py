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


def test_sizes_that_no_other_data_changes_are_told() -> None:
    """The only box that fits is the example's: that the file follows others cannot be seen."""

    def parts(x: Tensor, box: Tensor) -> Tensor:
        height, width = box.tolist()
        return torch.zeros(height, width) + x.view(height, width)

    with pytest.warns(onnxport.TraceWarning, match=r"test_listed.py:\d+: .* is frozen"):
        onnxport.export(parts, (torch.randn(36), torch.tensor([6, 6])))


def makes_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    return x + torch.tensor(n.tolist())


def repeats_a_list(x: Tensor, n: Tensor) -> Tensor:
    return x + len([0] * n.tolist()[0])


def writes_a_text(x: Tensor, n: Tensor) -> Tensor:
    return x + len(f"{n.tolist()[0]}")


def writes_the_text_of_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    return x + len(f"{n[0]}")


@pytest.mark.parametrize("function", [makes_a_tensor, repeats_a_list, writes_a_text, writes_the_text_of_a_tensor])
def test_what_becomes_a_constant_is_told(function: object) -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"test_listed.py:\d+: .* is frozen"):
        onnxport.export(function, (torch.ones(2), torch.tensor([3, 4])))


NAMES = {3: 1.0, 4: 10.0}


@pytest.mark.parametrize(
    "scale",
    [
        lambda numbers: sum(NAMES[number] for number in numbers),
        lambda numbers: 7.0 if isinstance(numbers[0], int) else 0.0,
        lambda numbers: float(len({*numbers, 3, 4})),
    ],
    ids=["key", "type", "set"],
)
def test_lists_whose_numbers_have_to_be_plain_ones(scale: Callable[[list[int]], float]) -> None:
    def function(x: Tensor, numbers: Tensor) -> Tensor:
        return x * scale(numbers.tolist())

    example = torch.ones(2), torch.tensor([3, 4])
    with pytest.warns(onnxport.TraceWarning, match=r"test_listed\.py:\d+: .*frozen"):
        program = onnxport.export(function, example)
    torch.testing.assert_close(program(*example), function(*example))


def test_a_split_by_a_list_where_something_else_is_written_to() -> None:
    def joins(x: Tensor, counts: Tensor) -> Tensor:
        out = torch.empty_like(x)
        out[:] = torch.cat([part * (place + 1) for place, part in enumerate(x.split(counts.tolist()))])
        return out

    program = onnxport.export(joins, (torch.randn(6, 4), torch.tensor([2, 3, 1])))
    given = torch.randn(6, 4), torch.tensor([4, 0, 2])
    torch.testing.assert_close(program(*given), joins(*given))


class Leaks:
    """Ways of a number out of a list on which nobody sees it."""

    @staticmethod
    def into_a_set(x: Tensor, numbers: Tensor) -> Tensor:
        return x * len(set(numbers.tolist()))

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
    def out_of_the_model(x: Tensor, numbers: Tensor) -> tuple[Tensor, int]:
        return x, numbers.tolist()[0]


@pytest.mark.parametrize("name", [name for name in vars(Leaks) if not name.startswith("_")])
def test_a_number_that_is_not_followed_is_told_of(name: str) -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"\.tolist\(\)"):
        onnxport.export(getattr(Leaks, name), (torch.randn(6, 4), torch.tensor([1, 2, 3, 4])))
