"""The torch model as the reference that a file is compared with, on the example and on other data at other sizes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport.capture.axes import axis as sizes
from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.model.other_data import fitted, last_bits_changed, redraw
from onnxport.capture.model.refusals import REFUSALS, REFUSALS_ELSEWHERE, is_ours
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.model.sides import SidesTaken
from onnxport.errors import CaptureError, ExportError
from onnxport.graph.equality import is_close
from onnxport.verification.runtime import real_form
from onnxport.verification.sample import Refusal, Sample

# So many samples of other content at the example's sizes, where no other size is checked.
OTHER_DATA = 2


@dataclass(frozen=True)
class ModelRun:
    """The model as the reference. Where it froze content of its inputs, that content is kept at other sizes."""

    runner: ModelRunner
    axes: Sequence[Axis]
    constants: Mapping[int, Any] = field(default_factory=dict)
    frozen: bool = False
    sides: SidesTaken | None = None  # where conditions on data are branches of the graph

    def samples(self, points: Sequence[Sizes], spare: Sequence[Sizes] = ()) -> Iterator[Sample | Refusal]:
        """The example itself, then one sample at each point, with other content if the model takes it.

        Where it takes no other size of an axis among these, ``spare`` points are tried. Where there is no sample but
        the example, other content is tried at its sizes.
        """
        for sample in self._samples(points, spare):
            if self.sides is not None and isinstance(sample, Sample):
                self.sides.on(sample.inputs)
            yield sample
        if self.sides is not None and not self.frozen:
            for tensors in self.sides.new(self.runner.inputs.tensors):
                yield from self._taken(tensors)

    def _samples(self, points: Sequence[Sizes], spare: Sequence[Sizes]) -> Iterator[Sample | Refusal]:
        example = sizes.example_sizes(self.axes)
        yield self._sample(example, self.runner.inputs.tensors)
        unchecked = {axis.label for axis in self.axes}
        alone = True
        for seed, point in enumerate([*points, *spare]):
            varying = {label for label, size in example.items() if point.get(label, size) not in (1, size)}
            if seed >= len(points) and unchecked.isdisjoint(varying):
                continue
            found = self._at(point, seed)
            if isinstance(found, Sample):
                unchecked -= varying
                alone = False
            yield found
        if alone and not self.frozen:
            yield from self._on_other_data()

    def _on_other_data(self) -> Iterator[Sample]:
        """Samples at the example's sizes, with content that the model takes."""
        tensors = self.runner.inputs.tensors
        for seed in range(OTHER_DATA):
            drawn = redraw(tensors, tensors, seed, keep_masks=True)
            if self.sides is None or self.sides.on(drawn) is not None:
                yield from self._taken(drawn)

    def _taken(self, tensors: list[torch.Tensor]) -> Iterator[Sample]:
        """A sample at the example's sizes, if the model takes it."""
        try:
            sample = self._sample(sizes.example_sizes(self.axes), tensors, other_data=True)
        except REFUSALS_ELSEWHERE as error:
            if is_ours(error):
                raise
        else:
            yield sample

    def _at(self, point: Sizes, seed: int) -> Sample | Refusal:
        example = self.runner.inputs.tensors
        resized = sizes.resize(example, self.axes, point)
        lengths = {axis.size: point[axis.label] for axis in self.axes}
        drawn = () if self.frozen else (redraw(example, resized, seed, keep_masks=True),)
        if self.sides is not None and drawn and self.sides.on(drawn[0]) is None:
            drawn = ()  # a loop of the model may never end on it
        refusal = ""
        for inputs in (*drawn, resized, fitted(example, resized, lengths)):
            try:
                return self._sample(point, inputs)
            except (*REFUSALS, CaptureError) as error:  # of which the latter is that it gives no tensor there
                if isinstance(error, ExportError) and not isinstance(error, CaptureError):
                    raise
                refusal = str(error) or type(error).__name__
        return Refusal(point, refusal)

    def _sample(self, point: Sizes, inputs: list[torch.Tensor], *, other_data: bool = False) -> Sample:
        expected = self._results(inputs)

        def again(errors: int) -> list[torch.Tensor]:
            moved, repeated = self._results(last_bits_changed(inputs, errors)), self._results(inputs)
            # A model that gives something else each time is not one that depends on last bits.
            return moved if all(map(is_close, expected, repeated)) else expected

        return Sample(point, inputs, expected, again, functools.partial(self._truth, inputs), other_data)

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
            same = left.dtype == right.dtype and is_close(left, right)
        if not same:
            return f"result {place} is another one then than in a plain call"
    return None
