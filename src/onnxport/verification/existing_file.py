"""Checks of a file that was exported earlier against its torch model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxport import compat
from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.axes.sums import with_sums
from onnxport.capture.exported import opened
from onnxport.capture.model.inputs import Inputs, numbers_of, signature_of, split_keywords
from onnxport.capture.model.runner import ModelRunner
from onnxport.errors import ExportError, OptionError
from onnxport.graph.ir import Graph
from onnxport.verification.cases import compare_file, lacking_kernel, not_loading
from onnxport.verification.quantized import (
    PartwiseCheck,
    integers_of,
    matched,
    own_matches,
    partwise_check,
    read_model,
    rounds_inside,
)
from onnxport.verification.reference import ModelRun
from onnxport.verification.results import Verification
from onnxport.verification.runtime import RUNTIME_ERRORS, UNREADABLE, MissingKernel, Session
from onnxport.verification.sample import Check

# From the names of inputs, their free dimensions and an opset to the captured graph and its ONNX model.
Translate: TypeAlias = Callable[[Sequence[str], dict[str, dict[int, str]], int], tuple[Graph, ir.Model]]


def verify_file(
    source: str | bytes,
    model: Callable[..., Any],
    args: Any,
    kwargs: Mapping[str, Any] | None,
    points: Sequence[Mapping[str, int]] | None,
    translate: Translate,
) -> Verification:
    """Compare a file, given by its path or as bytes, with the model at the example's sizes and at ``points``.

    Where the file has quantizers, ``translate`` captures the model again, and the file is judged part by part.
    """
    session = _loaded(source)
    if isinstance(session, Verification):
        return session
    model, args, kwargs = opened(compat.wrapped_module(model), args, kwargs)
    signature = signature_of(model)
    inputs = Inputs(signature, *split_keywords(signature, args, kwargs), numbers_of(model))
    if len(inputs.tensors) != len(session.input_names):
        raise OptionError(f"args hold {len(inputs.tensors)} tensors, the file has the inputs {session.input_names}")
    axes = _axes(session, inputs.tensors)
    run = ModelRun(ModelRunner(model, inputs, False, ()), axes)
    chosen = _chosen(axes, inputs.tensors) if points is None else [_checked(point, axes) for point in points]
    check = Check(session.input_names, session.output_names)
    parts, note, inside = _partwise(source, session, translate)
    check = replace(check, rounds_inside=inside)
    judge = None if parts is None else parts.outcome
    verification = compare_file(source, check, run.samples(chosen), judge=judge).decided().verification
    cases = (case if case.parts else replace(case, parts=note) for case in verification.cases)
    return replace(verification, cases=tuple(cases))


def _partwise(source: str | bytes, session: Session, translate: Translate) -> tuple[PartwiseCheck | None, str, bool]:
    """The check of the file part by part, if it has quantizers that are found in the model, what to say if not, and
    whether the model has layers that quantize in each of their steps."""
    file = read_model(source)
    count = len(integers_of(file.graph))
    if not count:
        return None, "", False
    axes = {name: named for name, named in zip(session.input_names, _named_dims(session), strict=True) if named}
    opset = max(entry.version for entry in file.opset_import if entry.domain in ("", "ai.onnx"))
    try:
        graph, model = translate(session.input_names, axes, opset)
    except ExportError as error:
        return None, f"its {count} quantizers were not looked for, it is judged end to end: {error}", False
    parts = partwise_check(source, graph, matched(own_matches(model), file))
    note = f"its {count} quantizers could not be matched with those of the model, it is judged end to end"
    return parts, note, rounds_inside(graph)


def _named_dims(session: Session) -> list[dict[int, str]]:
    """The free dimensions of each input."""
    return [{dim: label for dim, label in enumerate(shape) if isinstance(label, str)} for shape in session.shapes]


def _loaded(source: str | bytes) -> Session | Verification:
    """The file in the runtime, or what to say where the runtime does not take it."""
    try:
        return Session(source)
    except UNREADABLE as error:
        what = "the bytes" if isinstance(source, bytes) else repr(source)
        raise OptionError(f"{what} cannot be read as an ONNX file: {error}") from error
    except MissingKernel as error:
        return Verification(skipped=lacking_kernel(error))
    except RUNTIME_ERRORS as error:
        return Verification((not_loading(error),))


def _axes(session: Session, tensors: Sequence[torch.Tensor]) -> list[Axis]:
    """The free dimensions that the file declares on its inputs."""
    declared = _named_dims(session)
    return with_sums(sizes.find_axes(declared, [True] * len(declared), tensors))


def _chosen(axes: Sequence[Axis], tensors: Sequence[torch.Tensor]) -> list[Sizes]:
    """Each axis at another size, one at a time, and all of them at others."""
    example = sizes.example_sizes(axes)
    rows = [*rows_at.doubled(axes, example), *rows_at.nearby(axes, example)] if axes else []
    return [row for row in rows if row != example and rows_at.is_bearable(tensors, axes, row)]


def _checked(point: Mapping[str, int], axes: Sequence[Axis]) -> Sizes:
    labels = [axis.label for axis in axes]
    unknown = sorted(set(point) - set(labels))
    if unknown:
        raise OptionError(f"sizes: the file has no dynamic axis {unknown[0]!r}; it has {labels}")
    return {**sizes.example_sizes(axes), **point}
