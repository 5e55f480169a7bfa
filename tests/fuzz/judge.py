"""What comes of a program: exported as it is and with dynamic axes, and run at many sizes and on other data."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import onnxport
from onnxport.verification.runtime import RUNTIME_ERRORS, Session
from tests.fuzz.program import EXAMPLE, OTHERS, Program

RIGHT, REFUSED, WARNED = "right", "refused", "wrong with a warning"
SILENT, CRASH, HANG = "silent", "crash", "hang"
BAD = (SILENT, CRASH, HANG)
# What torch raises for sizes and data that a model does not take.
EAGER_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, ArithmeticError)
# What an export raises that is no error of ours.
CRASHES = (*EAGER_ERRORS, AttributeError, LookupError, NameError)
# How often the last bits of the inputs are moved where the file and torch differ.
MOVED = 20
# Of the largest number of a result.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Verdict:
    """``kind`` is one of the above; ``detail`` the reason of a refusal, or what is wrong where; ``told`` is
    what the user is told in warnings, or the error."""

    kind: str
    detail: str = ""
    told: tuple[str, ...] = ()


def judge(program: Program, folder: Path, *, dynamic: bool) -> Verdict:
    """Export a program and hold the file against the model."""
    make = program.load(folder)
    target = io.BytesIO()
    names = [given.name for given in program.inputs]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            exported = onnxport.export(
                make(),
                program.tensors(EXAMPLE, 0),
                target,
                input_names=names,
                dynamic_axes=program.axes() if dynamic else None,
                exact_nan=program.family == "numerics",
            )
        except onnxport.InternalError as error:
            return Verdict(CRASH, f"{error}"[:600])
        except onnxport.ExportError as error:
            return Verdict(REFUSED, _reason(error), (str(error),))
        except CRASHES as error:
            return Verdict(CRASH, f"{type(error).__name__}: {error}"[:600])
    wrong = _difference(program, make, target.getvalue(), exported.report.axes if dynamic else None, names)
    own = tuple(str(one.message) for one in told if one.category.__module__.startswith("onnxport"))
    if wrong is None:
        return Verdict(RIGHT, told=own)
    return Verdict(WARNED if own else SILENT, wrong, own)


def _difference(program: Program, make: Any, data: bytes, axes: Any, names: Sequence[str]) -> str | None:
    """Where the file is wrong: on other data, and with dynamic axes at other sizes that the model takes."""
    session = Session(data)
    static = _static_axes(session.shapes, program)
    for seed, sizes in enumerate((EXAMPLE, EXAMPLE, *(OTHERS if axes is not None else ()))):
        if any(sizes[letter] != EXAMPLE[letter] for letter in static):
            continue
        tensors = program.tensors(sizes, seed + 1)
        expected = _eager(make(), tensors)
        if expected is None:
            continue
        try:
            actual = session.run(dict(zip(names, tensors, strict=True)))
        except RUNTIME_ERRORS as error:
            return f"at {sizes}: ONNX Runtime stops: {str(error)[-200:]}"
        found = _compared(expected, actual, _narrowest(program))
        if found is not None and not _is_one_of_torchs_own(make, tensors, actual, _narrowest(program)):
            return f"at {sizes}, seed {seed + 1}: {found}"
    return None


def _is_one_of_torchs_own(
    make: Any, tensors: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], narrowest: torch.dtype
) -> bool:
    """Whether each element is what torch gives where the last bits of the inputs are others.

    A comparison of a sum that is zero but for rounding comes out either way.
    """
    open_ = [torch.ones(got.shape, dtype=torch.bool) for got in actual]
    for seed in range(MOVED):
        generator = torch.Generator().manual_seed(seed)
        result = _eager(make(), [_with_other_last_bits(tensor, generator) for tensor in tensors])
        kinds = [(one.dtype, one.shape) for one in result or ()]
        if result is None or kinds != [(got.dtype, got.shape) for got in actual]:
            continue
        open_ = [left & ~_near(want, got, narrowest) for left, want, got in zip(open_, result, actual, strict=True)]
        if not any(bool(left.any()) for left in open_):
            return True
    return False


def _with_other_last_bits(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    signs = torch.randint(-1, 2, tensor.shape, generator=generator).to(tensor.dtype)
    return torch.nextafter(tensor, tensor + signs)


def _static_axes(shapes: Sequence[Sequence[Any]], program: Program) -> set[str]:
    """The letters that are numbers in the file: axes that the export said it keeps."""
    return {
        size
        for given, shape in zip(program.inputs, shapes, strict=True)
        for size, stored in zip(given.shape, shape, strict=True)
        if isinstance(size, str) and isinstance(stored, int)
    }


def _eager(model: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """What the model gives; None where it does not take these tensors."""
    try:
        with torch.no_grad():
            result = model(*(tensor.clone() for tensor in tensors))
    except EAGER_ERRORS:
        return None
    return [torch.as_tensor(leaf) for leaf in tree_leaves(result)]


def _narrowest(program: Program) -> torch.dtype:
    """The least precise floats that a program may compute with, whatever the dtype of its result."""
    if any(given.kind == "half" for given in program.inputs) or re.search("half|float16", program.source()):
        return torch.float16
    return torch.float64 if program.family == "numerics" else torch.float32


def _compared(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], narrowest: torch.dtype) -> str | None:
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for place, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"output {place}: {got.dtype} {tuple(got.shape)} instead of {want.dtype} {tuple(want.shape)}"
        if not bool(_near(want, got, narrowest).all()):
            return f"output {place}: {got.flatten()[:6].tolist()} instead of {want.flatten()[:6].tolist()}"
    return None


def _near(want: torch.Tensor, got: torch.Tensor, narrowest: torch.dtype) -> torch.Tensor:
    """Which elements are the same but for rounding: of integers and truth values, those that are equal."""
    if want.dtype not in TOLERANCES:
        return want == got
    allowed = max(TOLERANCES[want.dtype], TOLERANCES[narrowest])
    finite = want[want.isfinite()].abs().double()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return torch.isclose(got.double(), want.double(), rtol=allowed, atol=allowed * scale, equal_nan=True)


def _reason(error: onnxport.ExportError) -> str:
    """A refusal without its place and its numbers."""
    mismatch = getattr(error, "mismatch", None)
    if mismatch is not None:
        return f"VerificationError: {mismatch.cause.value} {mismatch.operator or ''}".strip()
    text = re.sub(r"\S*program\.py:\d+(, in [^ :]+)?( \(.*?\))?:? ?", "", str(error).splitlines()[0])
    text = re.sub(r"[bnm]=\d+(, [bnm]=\d+)*", "...", text)
    return f"{type(error).__name__}: {re.sub(r'-?[0-9][0-9.]*', '#', text)}"[:140]
