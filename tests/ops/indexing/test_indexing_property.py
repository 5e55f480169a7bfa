"""Random index expressions: what is exported reads and writes what torch does."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onnxport
from onnxport.verification.runtime import Session

OPSETS = (11, 13, 17, 20, 23)
PATIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@dataclass(frozen=True)
class Given:
    """The place of a tensor in an index: the model's input of this number."""

    number: int


@dataclass(frozen=True)
class Expression:
    """A tensor's shape and an index into it: plain entries, and tensors that are inputs or constants."""

    shape: tuple[int, ...]
    entries: tuple[Any, ...]
    tensors: tuple[torch.Tensor, ...]

    def index(self, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        return tuple(inputs[entry.number] if isinstance(entry, Given) else entry for entry in self.entries)


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3)))


@st.composite
def integers(draw: st.DrawFn, size: int, common: tuple[int, ...]) -> torch.Tensor:
    """An index tensor whose shape can be broadcast to the common one."""
    shape = [length if draw(st.booleans()) else 1 for length in common[draw(st.integers(0, len(common))) :]]
    count = int(torch.tensor(shape, dtype=torch.int64).prod())
    content = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
    return torch.tensor(content, dtype=torch.int64).reshape(shape)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> torch.Tensor:
    """A mask that holds at least one place, so that it may stand beside integers of size 1."""
    count = int(torch.tensor(shape).prod())
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    mask[draw(st.integers(0, count - 1))] = True
    return mask.reshape(shape)


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    has_mask = draw(st.booleans())
    common = (1,) * draw(st.integers(0, 1)) if has_mask else tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    entries: list[Any] = []
    tensors: list[torch.Tensor] = []
    axis, masked, shortened = 0, False, False
    while axis < len(shape):
        kinds = ["slice", "slice", "int", "none"] + ["ellipsis", "stop"] * (not shortened)
        kinds += ["mask"] * (2 * (has_mask and not masked)) + ["tensor"] * 2
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "none":
            entries.append(None)
            continue
        if kind == "ellipsis":
            entries.append(Ellipsis)
            axis += draw(st.integers(0, len(shape) - axis))
            shortened = True
            continue
        if kind in ("mask", "tensor"):
            axes = draw(st.integers(1, min(2, len(shape) - axis))) if kind == "mask" else 1
            made = draw(masks(shape[axis : axis + axes]) if kind == "mask" else integers(shape[axis], common))
            masked = masked or kind == "mask"
            constant = draw(st.booleans())
            entries.append(made if constant else Given(len(tensors)))
            tensors += [] if constant else [made]
            axis += axes
            continue
        size = shape[axis]
        entries.append(draw(slices(size)) if kind == "slice" else draw(st.integers(-size, size - 1)))
        axis += 1
    return Expression(shape, tuple(entries), tuple(tensors))


def check(call: Any, inputs: tuple[torch.Tensor, ...], opset: int) -> None:
    """Export at one content of the first input and compare at another."""
    target = io.BytesIO()
    names = [f"x{i}" for i in range(len(inputs))]
    onnxport.export(call, inputs, target, input_names=names, opset_version=opset, verify=False)
    other = (inputs[0] * 2 + 1, *inputs[1:])
    with torch.no_grad():
        expected = call(*(tensor.clone() for tensor in other))
    (actual,) = Session(target.getvalue()).run(dict(zip(names, other, strict=True)))
    assert actual.shape == expected.shape
    assert torch.equal(actual, expected)


@PATIENT
@given(expressions(), st.sampled_from(OPSETS))
def test_reads(expression: Expression, opset: int) -> None:
    def read(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        return x[expression.index(tensors)] + 0.0

    check(read, (_content(expression.shape), *expression.tensors), opset)


@PATIENT
@given(expressions(), st.sampled_from(OPSETS), st.integers(0, 3))
def test_writes(expression: Expression, opset: int, kind: int) -> None:
    x = _content(expression.shape)
    part = x[expression.index(expression.tensors)]
    values = -_content(tuple(part.shape))
    if part.numel() == 0:
        opset = max(opset, 14)  # a reshape to a size of 0
    if part.unique().numel() < part.numel():
        kind = 0  # which of two values a place gets that is named twice is not defined
    if kind == 1 and values.dim() > 0:
        values = values[:1]
    if kind == 2 and values.dim() > 0:
        values = values[0] if values.shape[0] else values

    def write(x: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[expression.index(tensors)] = 7.0 if kind == 0 else tensors[-1]
        return y

    check(write, (x, *expression.tensors, *([] if kind == 0 else [values])), opset)


def _content(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(float(torch.tensor(shape, dtype=torch.int64).prod())).reshape(shape)
