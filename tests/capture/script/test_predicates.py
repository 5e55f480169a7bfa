"""What scripted programs ask of a tensor's type, kind and place, which is known when they are exported."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, check, table

ROWS = torch.arange(6.0).view(2, 3)
MORE_ROWS = [(torch.arange(12.0).view(4, 3),), (torch.arange(3.0).view(1, 3),)]
BATCH = {"x": {0: "n"}}
PAIR = {"x": {0: "n", 1: "k"}, "y": {0: "m", 1: "k"}}
PAIRS = [(torch.ones(n, k), torch.ones(m, k)) for n, m, k in ((4, 4, 2), (4, 5, 3), (1, 1, 7))]


def floats(x: Tensor) -> Tensor:
    return x + 1 if x.is_floating_point() else x - 1


def asked_of_a_type(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.to(torch.uint8)
    flags = [x.is_signed(), y.is_signed(), x.is_complex(), y.is_floating_point(), torch.is_floating_point(x)]
    widths = [x.element_size(), x.double().element_size(), y.element_size(), y.itemsize]
    return x[:, :1] + torch.tensor(flags), x[:, :1] * torch.tensor(widths)


def promoted(x: Tensor) -> Tensor:
    whole = x.to(torch.int64)
    if torch.result_type(whole, 2.5) == torch.float32 and torch.result_type(x.double()[0, 0], x) == torch.float32:
        return whole.to(torch.result_type(whole, x)) + 1
    return x


def promoted_with_a_number(x: Tensor, n: float) -> Tensor:
    return x.to(torch.int32).to(torch.result_type(x.to(torch.int32), n)) * n


def asked_of_its_kind(x: Tensor) -> Tensor:
    if x.is_sparse or x.is_nested or x.is_mkldnn or x.is_quantized or x.is_xpu or x.is_mps or not x.is_cpu:
        return x - 1
    if x.is_conj() or x.is_neg() or x.is_inference() or x.get_device() >= 0 or not x.is_leaf or x.is_sparse_csr:
        return x - 2
    return x + 1


def same_as_itself(x: Tensor) -> Tensor:
    return x + 1 if x.is_same_size(x.exp()) and not x.is_same_size(x[0]) else x


def same_sizes(x: Tensor, y: Tensor) -> Tensor:
    if x.is_same_size(y):
        return x + 1
    return x - 1


PROGRAMS = [
    *(
        Program(function.__name__, function, (ROWS,), MORE_ROWS, axes=BATCH)
        for function in (floats, asked_of_a_type, promoted, asked_of_its_kind, same_as_itself)
    ),
    Program("promoted_with_a_number", promoted_with_a_number, (ROWS, 1.5), [(ROWS, -0.25)]),
    Program("same_sizes", same_sizes, (ROWS, ROWS + 1), PAIRS, axes=PAIR),
]

test_predicates = table(PROGRAMS)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.bool])
def test_the_type_decides(dtype: torch.dtype) -> None:
    def chosen(x: Tensor) -> Tensor:
        if x.is_floating_point():
            return x + 0.5
        return x.logical_not() if not x.is_signed() else x * 2

    example = (ROWS.to(dtype),)
    program = Program("chosen", chosen, example, [(rows[0].to(dtype),) for rows in MORE_ROWS], axes=BATCH)
    check(program, 17)


def test_what_follows_the_layout_is_refused() -> None:
    @torch.jit.script
    def steps(x: Tensor) -> Tensor:
        return x.t() + 1 if x.t().is_contiguous() else x

    with pytest.raises(onnxport.ExportError, match=r"is_contiguous.*test_predicates\.py:\d+"):
        onnxport.export(steps, (ROWS,))


def test_a_conjugate_is_not_taken_for_none() -> None:
    @torch.jit.script
    def turned(x: Tensor) -> Tensor:
        imaginary = torch.view_as_complex(x).conj().imag
        return imaginary + 1 if imaginary.is_neg() else imaginary - 1

    with pytest.raises(onnxport.ExportError, match=r"is_neg.*test_predicates\.py:\d+"):
        onnxport.export(turned, (torch.ones(3, 2),))


def where(c: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(c, x, y)


def where_a_number(c: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(c, x, 2.5) + y


MASKS = [torch.tensor(mask, dtype=torch.uint8) for mask in ([[1, 0, 1], [0, 1, 0]], [[0, 2, 0], [255, 0, 1]])]
test_masks_of_bytes = table(
    [
        Program(function.__name__, function, (MASKS[0], ROWS, -ROWS), [(MASKS[1], -ROWS, ROWS)])
        for function in (where, where_a_number)
    ]
)
