"""The parts of floating-point numbers."""

from __future__ import annotations

import io
import math

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import ALL, FLOATS, Case, F, X, table

LOW = (*FLOATS, torch.bfloat16)


def edges(shape: tuple[int, ...]) -> torch.Tensor:
    """Powers of two and their neighbours, zeros, infinities, nan, and numbers of all sizes."""
    chosen = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, -2.0, 8.0, 1.5, 0.99993896484375, 65504.0]
    return torch.tensor((chosen * math.prod(shape))[: math.prod(shape)]).reshape(shape)


def extremes(shape: tuple[int, ...]) -> torch.Tensor:
    """The smallest and the largest numbers of single precision."""
    ends = torch.tensor([1e-45, -1e-45, 1.1754944e-38, -1.1754942e-38, 3.4028235e38, -3.4028235e38, 1e-40])
    return ends.repeat(math.prod(shape) // 7 + 1)[: math.prod(shape)].reshape(shape)


def against(shape: tuple[int, ...]) -> torch.Tensor:
    """Each of the edges with another at its side."""
    return edges((math.prod(shape) + 1,))[1:].reshape(shape)


EDGES = [X("n", 14, make=edges)]
CASES = [
    Case("frexp", torch.frexp, [F("n", 5, low=-99, high=99)], since=9, dtypes=LOW),
    Case("frexp_edges", torch.frexp, EDGES, since=9, dtypes=LOW),
    Case("frexp_extremes", torch.frexp, [X(7, make=extremes)], since=9, dtypes=()),
    Case("nextafter", torch.nextafter, [F("n", 5), F(5)], since=9, dtypes=LOW),
    Case("nextafter_edges", torch.nextafter, [*EDGES, X("n", 14, make=against)], since=9, dtypes=LOW, tolerance=0),
    Case("nextafter_up", lambda x: x.nextafter(torch.full_like(x, math.inf)), EDGES, since=9, dtypes=LOW, tolerance=0),
    Case("nextafter_extremes", lambda x: x.nextafter(-x), [X(7, make=extremes)], since=9, dtypes=(), tolerance=0),
    Case("hash", torch.hash_tensor, [F(3, 5)], since=18, dtypes=(*ALL, torch.bfloat16)),
    Case("hash_dim", lambda x: torch.hash_tensor(x, 1, keepdim=True), [F("n", 5)], since=18, dtypes=ALL),
    Case("hash_rows", lambda x: torch.hash_tensor(x, [0, 2]), [F(4, "n", 3)], since=18, dtypes=ALL),
    Case("hash_edges", lambda x: torch.hash_tensor(x, 0), [X(1, 4, make=edges)], since=18, dtypes=LOW),
    Case("hash_number", torch.hash_tensor, [F()], since=18),
]

test_floats = table(CASES)


INTEGERS = {
    torch.float32: torch.int32, torch.float64: torch.int64, torch.float16: torch.int16, torch.bfloat16: torch.int16,
}  # fmt: skip


def all_sorts(dtype: torch.dtype) -> torch.Tensor:
    """Numbers of any bits but NaN, of which the usual one stands for all; and in double precision none so small."""
    limits = torch.iinfo(INTEGERS[dtype])
    drawn = torch.randint(limits.min, limits.max, (400,), dtype=torch.int64).to(INTEGERS[dtype]).view(dtype)
    usable = drawn[drawn.isfinite() & (drawn.abs() >= torch.finfo(dtype).tiny if dtype == torch.float64 else True)]
    if dtype == torch.float32:
        usable = torch.cat([usable, extremes((7,))])
    return torch.cat([torch.tensor(edges((14,)).tolist(), dtype=dtype), usable])[:300].reshape(-1, 20)


@pytest.mark.parametrize("opset", [13, 20, 26])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_as_another_type(dtype: torch.dtype, opset: int) -> None:
    floats = all_sorts(dtype)
    integers = floats.view(INTEGERS[dtype])
    for given, wanted in (
        (floats, INTEGERS[dtype]),
        (integers, dtype),
        (floats, torch.uint8),
        (integers, torch.int8),
        (integers.view(torch.uint8), torch.int8),
    ):
        target = io.BytesIO()
        onnxport.export(
            lambda x, wanted=wanted: x.view(wanted),
            (given,),
            target,
            input_names=["x"],
            dynamic_axes={"x": {0: "n", 1: "m"}},
            opset_version=opset,
            verify=False,
        )
        for x in (given, given[:2, :8]):
            (actual,) = Session(target.getvalue()).run({"x": x.contiguous()})
            expected = x.contiguous().view(wanted)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
            if wanted.is_floating_point:
                assert torch.equal(actual.signbit() | actual.isnan(), expected.signbit() | expected.isnan())


def test_a_view_as_larger_elements_is_refused() -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match="which has larger elements"):
        onnxport.export(lambda x: x.view(torch.int64), (torch.randn(3, 4),), io.BytesIO())
