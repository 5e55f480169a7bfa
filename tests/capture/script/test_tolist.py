"""Lists of the numbers in a tensor, and operators that cannot be called with arguments alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, table

COUNTS = torch.tensor([4, 1, 3])
OTHER_COUNTS = [(torch.tensor([0, -7, 2]),), (torch.tensor([9, 9, 9]),)]
X = torch.arange(6.0)


def as_number(i: Tensor) -> tuple[int, float, bool]:
    whole: int = i[0].tolist()
    part: float = (i[1] / 4).tolist()
    flag: bool = (i[2] > 2).tolist()
    return whole, part, flag


def read_back(i: Tensor) -> tuple[int, Tensor]:
    numbers: list[int] = i.tolist()
    total = 0
    for number in numbers:
        total += number
    return total + len(numbers), torch.tensor(numbers) + numbers[1]


def sorted_out(i: Tensor) -> Tensor:
    rows: list[list[int]] = i.view(3, 1).expand(3, 2).tolist()
    return torch.tensor(rows[0]) + rows[1][1]


def as_shape(x: Tensor, i: Tensor) -> Tensor:
    shape: list[int] = i.tolist()
    return x.view(shape) + 1


def split(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor, int]:
    counts: list[int] = i.tolist()
    first, second = x.split(counts)
    return first + 1, second.sum(0), second.size(0)


def all_but_the_first(x: Tensor) -> Tensor:
    dims: list[int] = torch.arange(1, len(x.shape)).tolist()
    return x.sum(dims)


SHAPES = [(X, torch.tensor(shape)) for shape in ([2, 3], [6, 1], [1, 6])]
PROGRAMS = [
    *(Program(function.__name__, function, (COUNTS,), OTHER_COUNTS) for function in (as_number, read_back, sorted_out)),
    Program("as_shape", as_shape, (X, torch.tensor([3, 2])), SHAPES),
    Program(
        "all_but_the_first", all_but_the_first, (X.view(3, 2, 1),), [(X.view(1, 2, 3),)], {"x": {0: "n", 2: "width"}}
    ),
    Program("split", split, (X, torch.tensor([4, 2])), [(-X, torch.tensor(counts)) for counts in ([1, 5], [6, 0])]),
]

test_tolist = table(PROGRAMS)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_of_a_tensor_are_one_output(dynamic: bool) -> None:
    @torch.jit.script
    def listed(i: Tensor) -> tuple[list[int], list[float], list[bool]]:
        whole: list[int] = i.tolist()
        parts: list[float] = (i / 4).tolist()
        flags: list[bool] = (i > 2).tolist()
        return whole, parts, flags

    program = onnxport.export(listed, (COUNTS,), dynamic_axes={"i": [0]} if dynamic else None)
    for given in (OTHER_COUNTS[0][0], torch.tensor([5, -3, 0, 8, 1][: 5 if dynamic else 3])):
        whole, parts, flags = program(given)
        assert (whole.dtype, parts.dtype, flags.dtype) == (torch.int64, torch.float32, torch.bool)
        assert [whole.tolist(), parts.tolist(), flags.tolist()] == list(listed(given))


def test_rows_whose_number_is_only_known_at_run_time_are_refused() -> None:
    @torch.jit.script
    def rows(i: Tensor) -> list[list[int]]:
        listed: list[list[int]] = i.tolist()
        return listed

    with pytest.raises(onnxport.CaptureError, match=r"tolist makes a list of lists.*run time"):
        onnxport.export(rows, (torch.ones(2, 3, dtype=torch.int64),), dynamic_axes={"i": [0]})


def test_what_takes_any_number_of_arguments_is_not_called() -> None:
    """These read as many arguments as the program's stack is told to hold: called alone, they end the process."""
    graph = torch._C.parse_ir(
        """graph(%x : Tensor):
             %dim : int = prim::Constant[value=0]()
             %found : Tensor = prim::VarStack(%x, %x, %dim)
             return (%found)"""
    )
    scripted = torch._C._create_function_from_graph("stacked", graph)
    with pytest.raises(onnxport.CaptureError, match=r"prim::VarStack"):
        onnxport.export(scripted, (X,))


def test_texts_of_constants() -> None:
    @torch.jit.script
    def described(x: Tensor) -> Tensor:
        return x + 1 if "%d of %s" % (2, "two") == "2 of two" else x  # noqa: UP031 -- it is the operator that is tested

    torch.testing.assert_close(onnxport.export(described, (X,))(X * 2), X * 2 + 1)
