"""Tensors that Python made of lists whose length or numbers come from sizes follow the sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "counted": lambda x: x * torch.tensor([3 + i for i in range(x.shape[1])]),
    "counted back": lambda x: x + torch.tensor(list(range(x.shape[1]))[::-1]),
    "start from another axis": lambda x: x * torch.tensor([x.shape[0] + i for i in range(x.shape[1])]),
    "step from another axis": lambda x: x + torch.tensor([i * x.shape[0] + 3 for i in range(x.shape[1])]),
    "halves": lambda x: x + torch.tensor([i * 0.5 - x.shape[1] for i in range(x.shape[1])]),
    "one number throughout": lambda x: x + torch.tensor([x.shape[1] * 2] * x.shape[1]),
    "as many numbers each time": lambda x: x.sum() + torch.tensor([x.shape[1], 7, -x.shape[0]]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_of_numbers(name: str) -> None:
    function = FUNCTIONS[name]
    axes = {"x": {0: "rows", 1: "columns"}}
    program = onnxport.export(function, torch.randn(2, 5), input_names=["x"], dynamic_axes=axes)
    for shape in ((1, 1), (3, 2), (7, 12)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), function(x))


ELEMENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "two elements": lambda x: torch.tensor([x.min(), x.max()]),
    "nested, beside numbers and sizes": lambda x: torch.tensor([[x.min(), 1.5], [x.shape[0], x[0, 0]]]),
    "as_tensor": lambda x: torch.as_tensor([x.sum(), x.mean()]),
    "asarray": lambda x: torch.asarray((x.argmax(), 3)),
    "new_tensor": lambda x: x.new_tensor([x.min(), 2, x.argmin()]),
    "truth values": lambda x: torch.tensor([(x > 1).any(), True]),
    "truth values beside numbers": lambda x: torch.tensor([(x > 1).any(), x.min()]),
    "a dtype that is asked for": lambda x: torch.tensor([x.argmax()], dtype=torch.float64),
    "half precision": lambda x: torch.tensor([x.half().max(), 2]),
    "as many as there are columns": lambda x: torch.tensor([column.max() for column in x.unbind(1)]),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_lists_of_elements_of_tensors(name: str, dynamic: bool) -> None:
    function = ELEMENTS[name]
    axes = {"x": {0: "rows"}} if dynamic else None
    program = onnxport.export(function, torch.randn(3, 5), input_names=["x"], dynamic_axes=axes)
    for rows in (1, 3, 8) if dynamic else (3, 3):
        x = torch.randn(rows, 5) * 2
        torch.testing.assert_close(program(x), function(x))


def test_a_list_that_no_rule_makes_is_an_error_with_the_line() -> None:
    def squares(x: Tensor) -> Tensor:
        return x + torch.tensor([i * i for i in range(x.shape[0])])

    with pytest.raises(onnxport.DynamicAxisError, match=r"test_python_tensors\.py:\d+"):
        onnxport.export(squares, torch.randn(5), input_names=["x"], dynamic_axes={"x": {0: "n"}})
