"""Runs of a model on several paths, and the errors for paths that cannot be merged into one graph."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.axes.axis import Axis, Sizes, shown
from onnxport.capture.axes.relations import Relations
from onnxport.capture.build.choices import Turned, Unexplained
from onnxport.capture.build.graph import Built
from onnxport.capture.paths.forced.frozen_conditions import FrozenCondition
from onnxport.capture.paths.merge import Difference
from onnxport.capture.record.calls.marks import Mark
from onnxport.capture.record.record import Loss, Record
from onnxport.capture.record.run import Run
from onnxport.errors import CaptureError, DynamicAxisError
from onnxport.graph.ir import Source
from onnxport.graph.sizes import SizeExpr


@dataclass(eq=False)
class PathRun:
    """A run of the model at a point.

    Where conditions, by their number in the run, were ``decided`` from outside, it stands for the point ``forced``.
    """

    run: Run
    point: Sizes
    forced: Sizes | None = None
    decided: dict[int, bool] = field(default_factory=dict)

    @property
    def stands_for(self) -> Sizes:
        return self.forced or self.point

    @property
    def shown(self) -> str:
        return shown(self.stands_for)


@dataclass
class Found:
    """The graph of a model: the ``rows`` are its evaluation points, ``points`` those at which the model ran, ``checks``
    those to check at, with ``spare`` ones."""

    run: Run
    built: Built
    related: Relations
    rows: list[Sizes]
    points: list[Sizes]
    checks: list[Sizes]
    spare: list[Sizes]
    narrowed: list[str]
    notes: list[str]
    left: list[FrozenCondition]  # conditions on data that stay frozen
    branches_on_data: bool


Disputed = tuple[PathRun, Difference | None]


@dataclass
class Attempt:
    """The runs so far merged into one record, and its graph at the points ``rows``; or the number that is unexplained.

    On the ``disputed`` paths only a comparison of results can show whether the record is valid; each has the lines at
    which the records differ. ``dead`` has the reason for each point at which the graph is not valid.
    """

    record: Record
    disputed: list[Disputed]
    rows: list[Sizes]
    built: Any = None
    dead: Mapping[int, Any] = field(default_factory=dict)
    unexplained: Unexplained | None = None


def too_many(record: Record, most: int) -> DynamicAxisError:
    """The error at the first line that compares sizes, or drops the expression of one."""
    lines = [*(condition.source for condition in record.conditions), *(loss.source for loss in record.losses)]
    where = shown_line(next((line for line in lines if line is not None), None))
    return DynamicAxisError(
        f"{where}: conditions on sizes lead to more than {most} paths through the model. Write this without "
        "conditions, or give the axes smaller ranges."
    )


def unexplained(found: Unexplained, sides: Sequence[PathRun]) -> DynamicAxisError:
    first: dict[str, str] = {}
    for side, option in found.options.items():
        first.setdefault(str(option), sides[side].shown)
    seen = "; ".join(f"{option} at {point}" for option, point in first.items())
    losses = [loss.source for side in sides for loss in side.run.record.losses if loss.source]
    where = losses[0] if losses else found.call.source or "the model"
    if any(isinstance(option, SizeExpr) for option in found.options.values()):
        points = "; ".join(sides[side].shown for side in found.options)
        return DynamicAxisError(
            f"{where}: Python computes a number in another way at each of {points}: with the elements of a list, or in "
            "a loop, of which there are more or fewer there. Use tensor operations, or leave the axis static."
        )
    return DynamicAxisError(
        f"{where}: a number that Python computed from a size is {seen}, in a way that the file cannot follow. "
        "Compute it from x.shape with plain arithmetic or tensor operations, or leave the axis static."
    )


def parted(base: PathRun, side: PathRun, difference: Difference | None) -> DynamicAxisError:
    left, right = base.run.record, side.run.record
    for line, reason in left.unrolled.items():
        return DynamicAxisError(
            f"{shown_line(line)}: this loop over a size has another number of iterations at {side.shown} than at "
            f"{base.shown}, and cannot be a loop in the file. {reason}. Write this with tensor operations, or so that "
            "each iteration does the same, script it (torch.jit.script), or leave the axis static."
        )
    loops = [call.source for call in left.calls if call.op is Mark.LOOP]
    pairs = zip(left.conditions, right.conditions, strict=False)
    turned = [one.source for one, other in pairs if one.outcome != other.outcome][:1]
    both = zip(left.losses, right.losses, strict=False)
    differing = [one.source for one, other in both if one.number.value != other.number.value]
    lines: list[Source | None] = [*turned, *(line for line in differing if line not in loops)]
    if difference is not None:
        lines += [difference.source, difference.other]
    lines += [*(loss.source for loss in left.losses if loss.source not in loops), *loops]
    where = shown_line(next((line for line in lines if line is not None), None))
    differs = next((label for label, size in side.point.items() if size != base.point[label]), next(iter(side.point)))
    return DynamicAxisError(
        f"{where}: the model takes another path at {side.shown} than at {base.shown}: a condition on "
        "sizes, or a loop over one, decides what it computes. Write this without a condition, script the part that "
        "decides (torch.jit.script, torch.cond), or give the axis a range on one side of it "
        f'(dynamic_shapes with torch.export.Dim("{differs}", min=..., max=...)).'
    )


def other_path(start: PathRun, row: Sizes, reason: Any, losses: Sequence[Loss]) -> str:
    """The message about a point that the model accepts, but at which a record is not valid."""
    lost = next((loss for loss in losses if loss.source is not None and not loss.by_torch), None)
    if lost is None:
        return f"{reason}: the model does something else at {shown(row)} than at {start.shown}"
    return (
        f"{shown_line(lost.source)}: the model does something else at {shown(row)} than at {start.shown}: a plain "
        "number that Python takes from a size here, such as the number of iterations of a loop, decides what it "
        f"computes. Write this with tensor operations, or script the part that decides (torch.jit.script) ({reason})"
    )


def shown_line(source: Source | None) -> str:
    """A line of the model with its text."""
    if source is None:
        return "the model"
    text = linecache.getline(source.file, source.line).strip()
    return f"{source} ({text})" if text else str(source)


def check_data(rows: Sequence[Sizes], dead: Mapping[int, Any]) -> None:
    """Raise the error of a point that has the sizes of the run and differs only in data-dependent numbers."""
    for index, reason in dead.items():
        if rows[index] == rows[0]:
            raise CaptureError(
                f"{reason}: the model does something else on other data of the same sizes. Write this so that it does "
                "the same whatever number of elements it counts or finds."
            )


def check_varying(axes: Sequence[Axis], alive: Sequence[Sizes], dead: Sequence[Any]) -> None:
    """Each axis has several sizes at which the record holds; the model takes them, so it is not refused there."""
    for axis in axes:
        if len({row[axis.label] for row in alive}) == 1:
            lines = [d.condition.source if isinstance(d, Turned) else getattr(d, "source", None) for d in dead]
            where = next((line for line in lines if line is not None), "the model")
            raise DynamicAxisError(
                f"{where}: the model does something else at every other size of {axis.label!r}: a loop over the "
                "axis, or a number that Python computed from its size, decides what it computes. Write this with "
                "tensor operations, or leave the axis static."
            )
