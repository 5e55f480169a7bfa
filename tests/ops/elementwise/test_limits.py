"""Integers at the limits of their types: where the runtime's kernels wrap, round or trap, the file must not."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import operators

SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)
# From opset 9 on elements can be chosen.
OPSETS = (9, 10, 13, 20)


def limits(dtype: torch.dtype) -> torch.Tensor:
    """The ends of the type, the ends of narrower ones, and what lies next to them."""
    bits = [bit for bit in (7, 15, 31, 32, 33, 53, 63) if bit < torch.iinfo(dtype).bits]
    known = {sign * 2**bit + step for bit in bits for sign in (1, -1) for step in (-2, -1, 0, 1, 2)} | set(range(-3, 4))
    ends = torch.iinfo(dtype)
    return torch.tensor(sorted(number for number in known if ends.min <= number <= ends.max), dtype=dtype)


def pairs(dtype: torch.dtype, *, divisors: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Each with each; zero divides nothing."""
    left, right = torch.meshgrid(limits(dtype), limits(dtype), indexing="ij")
    keep = right != 0 if divisors else torch.ones_like(right, dtype=torch.bool)
    return left[keep], right[keep]


def exported(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...], opset: int, *, dynamic: bool) -> bytes:
    target, names = io.BytesIO(), [f"x{i}" for i in range(len(inputs))]
    onnxport.export(
        call,
        tuple(torch.full_like(x, 3) for x in inputs),
        target,
        input_names=names,
        opset_version=opset,
        dynamic_axes={name: {0: "n"} for name in names} if dynamic else None,
        verify=False,
    )
    return target.getvalue()


def assert_exact(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...], opset: int) -> None:
    for dynamic in (False, True):
        data = exported(call, inputs, opset, dynamic=dynamic)
        for x in (inputs, tuple(given[:5] for given in inputs))[: 1 + dynamic]:
            (actual,) = Session(data).run({f"x{i}": given for i, given in enumerate(x)})
            expected = call(*x)
            assert actual.dtype == expected.dtype
            assert torch.equal(actual, expected)


DIVISIONS: dict[str, Callable[..., torch.Tensor]] = {
    "floor_divide": lambda x, y: x // y,
    # With the lowest integer and -1 torch's own process ends.
    "divide_towards_zero": lambda x, y: torch.div(x.clamp_min(torch.iinfo(x.dtype).min + 1), y, rounding_mode="trunc"),
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
}
CHOICES: dict[str, Callable[..., torch.Tensor]] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp": lambda x, y: x.clamp(min=y, max=y + 7),
    "clamp_numbers": lambda x, y: x.clamp(-5, 5) + y.clamp(max=2**31 - 1),
    "relu": lambda x, y: x.relu() - y.clamp_min(1),
    "where_larger": lambda x, y: torch.max(x, y + 1),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_by_a_tensor(name: str, dtype: torch.dtype, opset: int) -> None:
    assert_exact(DIVISIONS[name], pairs(dtype, divisors=True), opset)


@pytest.mark.parametrize("divisor", [-1, -2, 3, -7, 2**31 - 1])
@pytest.mark.parametrize("dtype", SIGNED[:2])
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_by_a_number(name: str, dtype: torch.dtype, divisor: int) -> None:
    assert_exact(lambda x: DIVISIONS[name](x, divisor), (limits(dtype),), 20)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", SIGNED[:2])
@pytest.mark.parametrize("name", CHOICES)
def test_choice(name: str, dtype: torch.dtype, opset: int) -> None:
    assert_exact(CHOICES[name], pairs(dtype, divisors=False), opset)


EXTREMES: dict[str, Callable[..., Any]] = {
    "amax": lambda x: x.amax(1),
    "amin_keepdim": lambda x: x.amin(0, keepdim=True),
    "amax_axes": lambda x: x.amax((0, 1)),
    "max": lambda x: x.max(),
    "min_dim": lambda x: x.min(1).values + x.min(1).indices,
    "max_values": lambda x: x.max(0, keepdim=True).values,
    "vector": lambda x: x[0].max(),
    "mode": lambda x: x.mode(1).values,
    "sort": lambda x: x.sort(1).values,
}


@pytest.mark.parametrize("opset", [11, 20])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str, opset: int) -> None:
    x = limits(torch.int64)
    x = torch.stack([x[torch.randperm(len(x))] for _ in range(7)])
    assert_exact(EXTREMES[name], (x,), opset)


def test_no_process_dies_of_the_check() -> None:
    """The lowest integer by -1 is in the example itself, and so in the runs that compare."""
    x = limits(torch.int64)
    for call in (lambda x: x % -1, lambda x: x // -1, lambda x: x % (x - x - 1), lambda x: x // (x - x - 1)):
        assert onnxport.export(call, (x,), io.BytesIO()).verification.passed


SMALL: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "places": (lambda x: x.argmax(1) // 3, ["ArgMax", "Div"]),
    "topk": (lambda x: x.topk(2)[1] // 3, ["TopK", "Div"]),
    "sizes": (lambda x: torch.arange(x.shape[0]).clamp(max=2) + x.argmax(1), ["ArgMax", "Add"]),
    "cast": (lambda x: (x > 0).long().clamp(1, 3), ["Greater", "Cast", "Clip"]),
    "sums": (lambda x: (x.argmax(1) - x.argmin(1)).clamp(-1, 1), ["ArgMax", "ArgMin", "Sub", "Clip"]),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_integers_take_the_plain_operator(name: str) -> None:
    call, graph = SMALL[name]
    x = torch.randint(0, 100, (4, 5), dtype=torch.int32)
    data = exported(call, (x,), 20, dynamic=False)
    assert operators(data) == graph
    (actual,) = Session(data).run({"x0": x})
    assert torch.equal(actual, call(x))
