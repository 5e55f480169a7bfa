"""The result of every capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnxport.capture.axes.axis import Axis, Sizes
from onnxport.capture.model.structure import Structure
from onnxport.graph.ir import Graph, Source

READ_NAMES = {
    "__index__": "an index",
    "__bool__": "a condition",
    "compare": "a condition",
    "__int__": "an int",
    "__float__": "a float",
    "__format__": "a text",
    "__repr__": "a text",
    "__array__": "an array",
    "__iter__": "the number of iterations of a loop",
    "parts": "the number of iterations of a loop",
    "look-up": "a key",
    "argument": "an argument that only takes plain numbers",
    "raise": "the cause of an error that the model handles",
    "repeat": "the length of a list",
    "step": "the step of a slice",
    "complex": "a complex number",
    "__len__": "a length",
}


@dataclass(frozen=True)
class FrozenValue:
    """A tensor's content that Python read while the model was recorded, and that is a constant of the graph.

    It is harmless if it follows from sizes, or if torch itself read it to check arguments.
    """

    how: str
    value: Any
    source: Source | None
    harmless: bool
    drawn: bool = False  # whether it is a random number
    reason: str = ""  # why a condition is decided, and not in the file

    @property
    def message(self) -> str:
        what = READ_NAMES.get(self.how, f"a number by .{self.how}()")
        where, why = self.source or "the model", f": {self.reason}" if self.reason else ""
        kind = "a random number" if self.drawn else "a tensor that depends on the input"
        follow = "is to be drawn each time the file runs" if self.drawn else "must follow the input"
        return (
            f"{where}: {kind} was used as {what}; its value {self.value!r} is frozen "
            f"into the exported graph (a loop over it is unrolled, a condition on it is decided{why}). If it {follow}, "
            "use tensor operations or torch.jit.script for this part."
        )


@dataclass
class Capture:
    """A captured model, with what is needed to call the exported file like the model itself.

    ``points`` are the sizes of the axes at which the model ran, ``checks`` those to check the file at, and
    ``spare_checks`` replacements for axes that would otherwise not vary at any check that the model accepts.
    """

    graph: Graph
    structure: Structure
    output_names: list[str]
    constants: dict[int, Any]
    axes: list[Axis]
    points: list[Sizes]
    checks: list[Sizes]
    frozen: list[FrozenValue] = field(default_factory=list)
    spare_checks: list[Sizes] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    branches_on_data: bool = False  # whether conditions of the model's own code on data are branches or loops
    axis_warnings: list[str] = field(default_factory=list)
