"""A plot of the error along the model: the difference of each value from torch's, relative to the tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnxport.report.markup import Markup, element, joined, table

WIDTH, HEIGHT = 800, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 20, 34
LOWEST, HIGHEST = -4.0, 6.0
"""The range of the plot in powers of ten of the tolerance."""

SHOWN = 12


@dataclass(frozen=True)
class Step:
    """One operator of the model. ``node`` is the name of its ONNX node."""

    operator: str
    module: str
    location: str
    error: float
    allowed: float
    node: str | None
    is_first_wrong: bool = False

    @property
    def power(self) -> float:
        """The error relative to the tolerance, as a power of ten within the plot."""
        if self.error == 0:
            return LOWEST
        if not math.isfinite(self.error) or not self.allowed:
            return HIGHEST
        return min(max(math.log10(self.error / self.allowed), LOWEST), HIGHEST)

    @property
    def title(self) -> str:
        error = f"{self.error:.3g}" if math.isfinite(self.error) else "dtype, shape or NaN"
        return f"{self.operator} at {self.location or self.module}: error {error}, allowed {self.allowed:.3g}"


def plot(steps: Sequence[Step]) -> Markup:
    """The plot and the steps around the first wrong one."""
    return joined(_svg(steps), _rows(steps))


def _svg(steps: Sequence[Step]) -> Markup:
    xs = [_x(index, len(steps)) for index in range(len(steps))]
    points = " ".join(f"{x:.1f},{_y(step.power):.1f}" for x, step in zip(xs, steps, strict=True))
    marks = [_mark(x, step) for x, step in zip(xs, steps, strict=True) if step.is_first_wrong]
    ticks = [_tick(power) for power in range(int(LOWEST), int(HIGHEST) + 1, 2)]
    allowed = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_y(0), y2=_y(0), class_="allowed")
    label = element("text", "operators, in the order of the model →", x=LEFT, y=HEIGHT - 8, class_="label")
    line = element("polyline", points=points, class_="errors")
    said = "The error of each operator's result as a part of what is allowed, along the model"
    return element(
        "svg", ticks, allowed, label, line, marks, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=said
    )


def _tick(power: int) -> Markup:
    y = _y(power)
    text = "allowed" if power == 0 else f"× 10{_superscript(power)}"
    return joined(
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"),
        element("text", text, x=LEFT - 6, y=y + 4, class_="tick"),
    )


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _mark(x: float, step: Step) -> Markup:
    """The first wrong step, with a link to its node."""
    y = _y(step.power)
    circle = element("circle", element("title", step.title), cx=f"{x:.1f}", cy=f"{y:.1f}", r=6)
    anchor = "end" if x > WIDTH / 2 else "start"
    text = element("text", f"first wrong: {step.operator}", class_="mark", x=f"{x:.1f}", y=y - 12, text_anchor=anchor)
    target = None if step.node is None else f"#node:{step.node}"
    return element("a" if target else "g", circle, text, href=target, data_first_wrong=True)


def _x(index: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / max(count, 1)


def _y(power: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (HIGHEST - power) / (HIGHEST - LOWEST)


def _rows(steps: Sequence[Step]) -> Markup:
    """The steps before and after the first wrong one, with their indices."""
    first = next((index for index, step in enumerate(steps) if step.is_first_wrong), 0)
    start = max(0, first - SHOWN // 2)
    rows = []
    for step in steps[start : start + SHOWN]:
        name = element("a", step.operator, href=f"#node:{step.node}") if step.node else step.operator
        error = f"{step.error:.3g}" if math.isfinite(step.error) else "∞"
        rows.append((name, step.module, step.location, error, f"{step.allowed:.3g}"))
    return table(("operator", "module", "line", "error", "allowed"), rows, numbers=(3, 4))
