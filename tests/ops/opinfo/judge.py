"""One sample on its way through onnxport and ONNX Runtime."""

from __future__ import annotations

import io
import warnings
from dataclasses import replace

import onnx
import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import compare
from tests.ops.opinfo.samples import UNDEFINED, Sample
from tests.ops.opinfo.verdict import OPSET, PASS, VOID, Verdict

# Several steps in 16 bits lose more than one.
LOW_PRECISION = {torch.float16: 2.0, torch.bfloat16: 2.0}

DETAIL = 400


def judge(sample: Sample, opset: int = OPSET) -> Verdict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = sample.run(seed=0)
        except (RuntimeError, AssertionError) as error:
            return Verdict(VOID.kind, str(error)[:DETAIL])
        try:
            return _judged(sample, expected, opset)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, in three libraries, is the verdict
            return Verdict(type(error).__name__, " ".join(str(error).split())[:DETAIL])


def _judged(sample: Sample, expected: list[object], opset: int) -> Verdict:
    want = [_real(result) for result in expected if isinstance(result, torch.Tensor)]
    if not want:
        return Verdict("no tensor", "the result is a number of Python")
    data = _exported(sample, opset)
    onnx.checker.check_model(data, full_check=opset == OPSET)
    got = Session(data).run({f"x{index}": tensor for index, tensor in enumerate(sample.inputs())})
    content = sample.operator not in UNDEFINED and not sample.is_random(expected)
    try:
        compare(sample.settled(want), sample.settled(got), content, _tolerance(sample))
    except AssertionError:
        wide = _widened(sample)
        if wide is None:
            raise
        found = [_real(result) for result in wide.run(seed=0) if isinstance(result, torch.Tensor)]
        want = [result.to(one.dtype) for result, one in zip(found, want, strict=True)]
        compare(sample.settled(want), sample.settled(got), content, _tolerance(sample))
    return PASS


def _widened(sample: Sample) -> Sample | None:
    """The sample in 32 bits, if it is in 16: where torch overflows or loses digits on the way, the runtime need not."""
    if not any(tensor.dtype in LOW_PRECISION for tensor in sample.tensors):
        return None
    wide = [tensor.float() if tensor.dtype in LOW_PRECISION else tensor for tensor in sample.tensors]
    return replace(sample, tensors=wide)


def _exported(sample: Sample, opset: int) -> bytes:
    target = io.BytesIO()
    names = [f"x{index}" for index in range(len(sample.tensors))]
    onnxport.export(sample.call, sample.inputs(), target, input_names=names, opset_version=opset, verify=False)
    return target.getvalue()


def _real(result: torch.Tensor) -> torch.Tensor:
    """Complex numbers leave the file as pairs."""
    return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result


def _tolerance(sample: Sample) -> float:
    return max((LOW_PRECISION.get(tensor.dtype, 1.0) for tensor in sample.tensors), default=1.0)
