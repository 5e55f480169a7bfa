"""The operator test: a table of calls, each exported at many opsets, sizes and dtypes and run in ONNX Runtime.

A row is a `Case`: a function of tensors and the kinds of its inputs. A dimension given as a letter is dynamic: the
case is exported once with every dimension fixed and once with all its letters as dynamic axes, and the second file is
run at sizes it has never seen. `table(CASES)` makes the tests.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import pytest
import torch

import onnxport
from onnxport.capture.model.structure import flatten
from onnxport.verification.runtime import Session, real_form

OPSETS = (7, 9, 11, 13, 17, 20, 23, 26)
# `make opsets` runs each row at all of them in both forms.
EVERY_OPSET = "EVERY_OPSET" in os.environ
FLOATS = (torch.float32, torch.float64, torch.float16)
# The precisions of complex numbers.
PRECISE = (torch.float32, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, torch.bool)

# What each letter is in the example, and in two runs of the dynamic file.
SIZES = {
    "n": (2, 3, 1), "c": (4, 5, 3), "h": (8, 11, 6), "w": (9, 12, 7), "d": (5, 6, 4), "t": (6, 7, 3), "s": (10, 13, 5),
}  # fmt: skip

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Input:
    """How to make one input. ``dtype=None`` follows the dtype that the case is run in."""

    shape: tuple[int | str, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: torch.dtype | None = None
    make: Callable[[tuple[int, ...]], torch.Tensor] | None = None
    complex: bool = False

    def tensor(self, sizes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in self.shape)
        kind = self.dtype or dtype
        if self.make is not None:
            made = self.make(shape)
            return made.to(dtype) if self.dtype is None and made.is_floating_point() else made
        if kind == torch.bool:
            return torch.rand(shape, generator=generator) > 0.5
        if self.complex:
            pairs = replace(self, shape=(*shape, 2), complex=False).tensor({}, kind, generator)
            return torch.view_as_complex(pairs)
        if kind.is_floating_point:
            return (torch.rand(shape, generator=generator) * (self.high - self.low) + self.low).to(kind)
        low = max(self.low, 0) if kind == torch.uint8 else self.low
        return torch.randint(
            int(low), max(int(self.high), int(low) + 1) + (1 if self.dtype is None else 0), shape, generator=generator
        ).to(kind)


def F(*shape: int | str, low: float = -2.0, high: float = 2.0) -> Input:
    """An input of the dtype under test, between low and high."""
    return Input(shape, low, high)


def C(*shape: int | str, low: float = -2.0, high: float = 2.0) -> Input:
    """Complex numbers of the precision under test, with parts between low and high."""
    return Input(shape, low, high, complex=True)


def I(*shape: int | str, low: int = 0, high: int = 4) -> Input:  # noqa: E743
    """int64 indices from low to high, exclusive."""
    return Input(shape, low, high, torch.int64)


def B(*shape: int | str) -> Input:
    """A mask."""
    return Input(shape, dtype=torch.bool)


def X(*shape: int | str, make: Callable[[tuple[int, ...]], torch.Tensor], dtype: torch.dtype | None = None) -> Input:
    """An input made by a function of its shape."""
    return Input(shape, dtype=dtype, make=make)


@dataclass(frozen=True)
class Case:
    """One row: ``call(*inputs)`` is what is exported.

    ``since`` is the smallest opset that can say it; below it an `UnsupportedOpsetError` is expected.
    ``dynamic_since`` is the same for the dynamic form. ``dtypes`` are tried at opset 20 beside float32.
    ``graph`` is the list of operators expected at opset 20 in the static form.
    ``content=False`` compares shape and dtype alone (random operators).
    ``checked=False`` where ONNX's own inference of shapes, which is run at opset 20, is not what the runtime does.
    ``runs_until`` is the last opset at which ONNX Runtime has the kernels; above it the case is only exported.
    ``reference`` is what the file is held against where torch's own result depends on the CPU: the definition of the
    call, which is given the inputs in double precision, and whose results are rounded to the dtype of the run.
    """

    id: str
    call: Callable[..., Any]
    inputs: Sequence[Input]
    since: int = 7
    dynamic_since: int | None = None
    dtypes: tuple[torch.dtype, ...] = FLOATS
    base: torch.dtype = torch.float32
    graph: Sequence[str] | None = None
    content: bool = True
    dynamic: bool = True
    runs_until: int = 99
    checked: bool = True
    tolerance: float = 1.0
    reference: Callable[..., Any] | None = None
    keywords: dict[str, Any] = field(default_factory=dict)

    def letters(self) -> list[str]:
        return sorted({d for given in self.inputs for d in given.shape if isinstance(d, str)})


def table(cases: Sequence[Case]) -> Callable[..., None]:
    """Parametrise a test over all rows and all of their variants: ``test_x = table(CASES)``."""
    assert len({case.id for case in cases}) == len(cases), "two cases have the same id"

    @pytest.mark.parametrize("variant", [pytest.param(v, id=v.id) for case in cases for v in _variants(case)])
    def test(variant: Variant) -> None:
        variant.run()

    return test


@dataclass(frozen=True)
class Variant:
    case: Case
    opset: int
    dynamic: bool
    dtype: torch.dtype

    @property
    def id(self) -> str:
        return f"{self.case.id}-{self.opset}-{'dynamic' if self.dynamic else 'static'}-{str(self.dtype)[6:]}"

    def run(self) -> None:
        since = (self.case.dynamic_since if self.dynamic else None) or self.case.since
        if self.opset < since:
            with pytest.raises(onnxport.UnsupportedOpsetError):
                self._export(self._inputs(0))
            return
        data = self._export(self._inputs(0))
        if not self.dynamic and self.case.graph is not None and self.opset == 20 and self.dtype == self.case.base:
            assert operators(data) == list(self.case.graph)
        if (self.opset == 20 and self.case.checked) or self.opset > self.case.runs_until:
            onnx.checker.check_model(data, full_check=True)
        if self.opset > self.case.runs_until:
            return
        session = Session(data)
        for run in range(3) if self.dynamic else (0,):
            inputs = self._inputs(run, seed=run + 1)
            expected = self._expected(inputs)
            actual = session.run({f"x{i}": tensor for i, tensor in enumerate(inputs)})
            compare(expected, actual, self.case.content, self.case.tolerance)

    def _expected(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if self.case.reference is None:
            return tensors(self._call(inputs))
        wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
        return [tensor.to(self.dtype) for tensor in tensors(self.case.reference(*wide))]

    def _call(self, inputs: Sequence[torch.Tensor]) -> Any:
        torch.manual_seed(0)
        call = self.case.call
        with torch.no_grad():
            return call(*[tensor.clone() for tensor in inputs])

    def _inputs(self, run: int, seed: int = 0) -> list[torch.Tensor]:
        sizes = {letter: SIZES[letter][run] for letter in SIZES}
        generator = torch.Generator().manual_seed(seed)
        return [given.tensor(sizes, self.dtype, generator) for given in self.case.inputs]

    def _export(self, inputs: list[torch.Tensor]) -> bytes:
        axes = {
            f"x{i}": {dim: letter for dim, letter in enumerate(given.shape) if isinstance(letter, str)}
            for i, given in enumerate(self.case.inputs)
        }
        call = self.case.call
        if isinstance(call, torch.nn.Module):
            call = call.to(self.dtype) if self.dtype.is_floating_point else call
        target = io.BytesIO()
        onnxport.export(
            call, tuple(inputs), target, input_names=[f"x{i}" for i in range(len(inputs))], opset_version=self.opset,
            dynamic_axes=axes if self.dynamic else None, verify=False, **self.case.keywords,
        )  # fmt: skip
        return target.getvalue()


def _variants(case: Case) -> Iterator[Variant]:
    has_dynamic_form = case.dynamic and bool(case.letters())
    for dynamic in (False, True) if has_dynamic_form else (False,):
        for opset in _opsets(case, dynamic):
            yield Variant(case, opset, dynamic, case.base)
    for dtype in case.dtypes:
        if dtype != case.base:
            yield Variant(case, 20, False, dtype)


def _opsets(case: Case, dynamic: bool) -> list[int]:
    """All opsets on request; else 20 and every third one, of which the dynamic form takes others than the static.

    Which one a row begins with depends on its name, so that every opset is met by a third of the rows in each form.
    """
    if EVERY_OPSET:
        return list(OPSETS)
    first = (zlib.crc32(case.id.encode()) + dynamic) % 3
    return [opset for place, opset in enumerate(OPSETS) if place % 3 == first or opset == 20]


def tensors(results: Any) -> list[torch.Tensor]:
    return [result for result in flatten(results)[0] if isinstance(result, torch.Tensor)]


def operators(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_from_string(data).graph.node]


def compare(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], content: bool, tolerance: float) -> None:
    assert len(actual) == len(expected)
    for want, got in zip(map(real_form, expected), actual, strict=True):
        assert got.dtype == want.dtype, f"{got.dtype} instead of {want.dtype}"
        assert tuple(got.shape) == tuple(want.shape), f"{tuple(got.shape)} instead of {tuple(want.shape)}"
        if content:
            allowed = TOLERANCES.get(want.dtype, 0.0) * tolerance
            magnitude = 1.0
            if want.is_floating_point() and want.numel():
                finite = want[want.isfinite()]
                magnitude = max(float(finite.abs().max()), 1e-3) if finite.numel() else 1.0
            torch.testing.assert_close(got, want, rtol=allowed, atol=allowed * magnitude, equal_nan=True)


def variants_of(case: Case, **changes: Any) -> Case:
    """The case with other settings, under an id that says so."""
    return replace(case, **changes)
