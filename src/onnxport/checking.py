"""Checks of a file against its model: what the model computes, on the example and on other data at other sizes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes import points as rows_at
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.axes.sums import with_sums
from onnxport.capture.exported import opened
from onnxport.capture.model.inputs import Inputs, numbers_of, signature_of, split_keywords
from onnxport.capture.model.other_data import fitted, last_bits_changed, redraw
from onnxport.capture.model.refusals import REFUSALS
from onnxport.capture.model.runner import ModelRunner
from onnxport.errors import CaptureError, ExportError, OptionError
from onnxport.program.program import Program
from onnxport.save import serialize
from onnxport.verify import (
    RUNTIME_ERRORS,
    UNREADABLE,
    Check,
    MissingKernel,
    Sample,
    Verification,
    lacking_kernel,
    not_loading,
)
from onnxport.verify import verify as run_checks
from onnxport.verify.runtime import Session, real_form


@dataclass(frozen=True)
class ModelRun:
    """The model as the reference. Where it froze content of its inputs, that content is kept at other sizes.

    ``refused`` gets the points that the model did not take, with what it said.
    """

    runner: ModelRunner
    axes: Sequence[Axis]
    constants: Mapping[int, Any] = field(default_factory=dict)
    frozen: bool = False
    refused: list[tuple[Sizes, str]] = field(default_factory=list)

    def samples(self, points: Sequence[Sizes]) -> Iterator[Sample]:
        """The example itself, then one sample at each point, with other content if the model takes it."""
        example = self.runner.inputs.tensors
        yield self._sample(sizes.example_sizes(self.axes), example)
        for seed, point in enumerate(points):
            resized = sizes.resize(example, self.axes, point)
            lengths = {axis.size: point[axis.label] for axis in self.axes}
            drawn = () if self.frozen else (redraw(example, resized, seed, keep_masks=True),)
            refusal = ""
            for inputs in (*drawn, resized, fitted(example, resized, lengths)):
                try:
                    sample = self._sample(point, inputs)
                except (*REFUSALS, CaptureError) as error:  # of which the latter is that it gives no tensor there
                    if isinstance(error, ExportError) and not isinstance(error, CaptureError):
                        raise
                    refusal = str(error) or type(error).__name__
                else:
                    yield sample
                    break
            else:
                self.refused.append((point, refusal))

    def _sample(self, point: Sizes, inputs: list[torch.Tensor]) -> Sample:
        expected = self._results(inputs)

        def again() -> list[torch.Tensor]:
            moved, repeated = self._results(last_bits_changed(inputs)), self._results(inputs)
            # A model that gives something else each time is not one that depends on last bits.
            return moved if all(map(_is_close, expected, repeated)) else expected

        return Sample(point, inputs, expected, again, functools.partial(self._truth, inputs))

    def _truth(self, inputs: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """What the model gives in double precision, if it runs so."""
        try:
            return [real_form(tensor) for tensor in self.runner.execute_in_double(inputs, self.constants)]
        except ExportError:
            raise
        except REFUSALS:
            return None

    def _results(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [real_form(tensor) for tensor in self.runner.execute(inputs, self.constants)]


def unlike_plain(runner: ModelRunner) -> str | None:
    """How a model that asked whether it is exported differs on the example from a plain call; None if it does not."""
    try:
        plain = runner.leaves(exported=False)
    except ExportError:
        raise
    except REFUSALS as error:
        return f"a plain call raises {type(error).__name__}: {error}"
    given = runner.leaves(exported=True)
    if len(plain) != len(given):
        return f"it gives {len(given)} results then, and {len(plain)} in a plain call"
    for place, (left, right) in enumerate(zip(given, plain, strict=True)):
        tensors = isinstance(left, torch.Tensor), isinstance(right, torch.Tensor)
        if not all(tensors):
            same = not any(tensors) and bool(left == right)
        else:
            same = left.dtype == right.dtype and _is_close(left, right)
        if not same:
            return f"result {place} is another one then than in a plain call"
    return None


def _is_close(left: Any, right: Any) -> bool:
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)) or left.shape != right.shape:
        return left is right or isinstance(left, list)
    return torch.allclose(left, right, rtol=1e-3, atol=1e-5, equal_nan=True)


def verify(
    exported: Program | str | bytes | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    sizes: Sequence[Mapping[str, int]] | None = None,
) -> Verification:
    """Check an exported model, or a file made earlier, against its torch model in evaluation mode.

    It is run on the arguments and at other sizes of its dynamic axes: those given as ``{axis label: size}``, or some
    that are chosen. Nothing is raised for a mismatch: look at ``passed`` and at the cases.
    """
    source = _source(exported)
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
    points = _chosen(axes, inputs.tensors) if sizes is None else [_checked(point, axes) for point in sizes]
    check = Check(session.input_names, session.output_names)
    return run_checks(source, check, lambda: run.samples(points))


def _source(exported: Program | str | bytes | os.PathLike[str]) -> str | bytes:
    if isinstance(exported, Program):
        return serialize(exported.model)
    return exported if isinstance(exported, bytes) else os.fspath(exported)


def _loaded(source: str | bytes) -> Session | Verification:
    """The file in the runtime, or what to say where the runtime does not take it."""
    try:
        return Session(source)
    except UNREADABLE as error:
        what = "the bytes" if isinstance(source, bytes) else repr(source)
        raise OptionError(f"{what} cannot be read as an ONNX file: {error}") from error
    except MissingKernel as error:
        return lacking_kernel(error)
    except RUNTIME_ERRORS as error:
        return not_loading(error)


def _axes(session: Session, tensors: Sequence[torch.Tensor]) -> list[Axis]:
    """The free dimensions that the file declares on its inputs."""
    declared = [{dim: label for dim, label in enumerate(shape) if isinstance(label, str)} for shape in session.shapes]
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
