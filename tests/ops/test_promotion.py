"""Type promotion: random pairs of operands give what torch gives, in dtype and value."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import compare

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
    torch.bool,
)  # fmt: skip
NUMBERS = (True, 2, 3, -1, 0.5, 2.0, -1.5)


def where(x: Any, y: Any) -> torch.Tensor:
    return torch.where(torch.tensor([True, False, True]), x, y)


def maximum(x: Any, y: Any) -> torch.Tensor:
    """torch.maximum takes tensors alone."""
    return torch.maximum(
        *(operand if isinstance(operand, torch.Tensor) else torch.tensor(operand) for operand in (x, y))
    )


OPERATORS: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "eq": operator.eq,
    "lt": operator.lt,
    "maximum": maximum,
    "where": where,
}


def tensors(shape: tuple[int, ...]) -> st.SearchStrategy[torch.Tensor]:
    def make(dtype: torch.dtype, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if dtype == torch.bool:
            return torch.rand(shape, generator=generator) > 0.5
        whole = torch.randint(1, 5, shape, generator=generator)
        sign = 1 if dtype == torch.uint8 else 1 - 2 * torch.randint(0, 2, shape, generator=generator)
        return (whole * sign).to(dtype) / 2 if dtype.is_floating_point else (whole * sign).to(dtype)

    return st.builds(make, st.sampled_from(DTYPES), st.integers(0, 99))


OPERANDS = st.one_of(tensors((3,)), tensors(()), st.sampled_from(NUMBERS))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(OPERATORS)), OPERANDS, OPERANDS)
def test_promotion(name: str, x: Any, y: Any) -> None:
    call = OPERATORS[name]
    given_tensors = [operand for operand in (x, y) if isinstance(operand, torch.Tensor)]
    assume(given_tensors)

    def model(*flat: torch.Tensor) -> torch.Tensor:
        rest = iter(flat)
        return call(*(next(rest) if isinstance(operand, torch.Tensor) else operand for operand in (x, y)))

    try:
        expected = model(*given_tensors)
    except (RuntimeError, NotImplementedError, TypeError):
        assume(False)  # torch has no such operation
    # torch's tracer has no form for a bool as exponent, and the tensor that stands for it has no power of bools.
    assume(name != "pow" or expected.dtype != torch.bool)
    # A power of bytes to -1 is one to 255 in torch, which wraps around; ONNX's Pow does not.
    assume(name != "pow" or expected.dtype != torch.uint8 or bool((torch.as_tensor(y) >= 0).all()))
    target = io.BytesIO()
    names = [f"x{i}" for i in range(len(given_tensors))]
    onnxport.export(model, tuple(given_tensors), target, input_names=names, verify=False)
    actual = Session(target.getvalue()).run(dict(zip(names, given_tensors, strict=True)))
    compare([expected], actual, True, 1.0)
