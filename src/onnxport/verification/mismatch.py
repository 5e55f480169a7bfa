"""The first wrong value of an exported model: the operator, the line of the user's code, and the two values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from onnxport.errors import ExportError
from onnxport.verification.reproducer import Reproducer
from onnxport.verification.statistics import Contrast


class Cause(Enum):
    """Whose fault a mismatch is."""

    CONVERTER = "converter"
    """The translation of an operator gives another result than torch's operator on the same inputs."""
    STOPS = "stops"
    """ONNX Runtime does not load or stops at the translation of an operator."""
    OPTIMISATION = "optimisation"
    """The graph is right before a pass of onnxport's and wrong after it."""
    CAPTURE = "capture"
    """The captured graph, run by torch itself, is not what the model computes."""
    RUNTIME = "runtime"
    """The file is right as ONNX Runtime computes it step by step, and wrong with its own optimisations."""
    QUANTIZER = "quantizer"
    """The integers of a quantizer are not torch's, although those that it is computed from are."""
    TIES = "ties"
    """An operator chose otherwise among equal elements, which torch leaves open; nothing else is wrong."""
    ROUNDING = "rounding"
    """Each operator is right by itself; their rounding errors add up to more than is allowed."""


@dataclass(frozen=True)
class Mismatch:
    """The first wrong value of an exported model.

    ``operator`` is torch's (``aten::elu``), ``translation`` the converter or pass at fault with its file and line,
    ``module`` the path of the module that calls the operator, ``location`` the line of the user's code, and ``sizes``
    those of the dynamic axes at which it shows. ``contrast`` lays torch's value and the runtime's side by side.
    """

    cause: Cause
    sizes: Mapping[str, int]
    operator: str | None = None
    translation: str | None = None
    module: str = ""
    location: str | None = None
    contrast: Contrast | None = None
    detail: str = ""
    reproducer: Reproducer | None = field(default=None, repr=False, compare=False)

    def save_reproducer(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model in question, its inputs and a script that runs both sides; returns the script's path."""
        if self.reproducer is None:
            raise ExportError("this mismatch has no reproducer: it could not be traced to a part of the model")
        return self.reproducer.save(folder)

    @property
    def place(self) -> str:
        """The operator and where it is called."""
        module = f" in {self.module}" if self.module else ""
        at = f" at {self.location}" if self.location else ""
        return f"{self.operator or 'the model'}{module}{at}"

    def __str__(self) -> str:
        lines = [self._verdict()]
        lines += [f"  {line}" for line in self.detail.splitlines()]
        if self.translation and self.cause in (Cause.CONVERTER, Cause.STOPS):
            lines.append(f"  translated by {self.translation}")
        if self.contrast is not None:
            lines += [f"  {line}" for line in str(self.contrast).splitlines()]
        if self.reproducer is not None:
            lines.append("  error.mismatch.save_reproducer(folder) writes its inputs and a script that runs both sides")
        return "\n".join(lines)

    def _verdict(self) -> str:
        at = f" at {', '.join(f'{label}={size}' for label, size in self.sizes.items())}" if self.sizes else ""
        unfollowed = f": {self.place}" if self.operator else ""
        return {
            Cause.CONVERTER: f"{self.place} is the first operator that gives another result{at}",
            Cause.STOPS: f"{self.place} is where ONNX Runtime fails{at}",
            Cause.OPTIMISATION: f"{self.place} is wrong{at} since the optimisation {self.translation}",
            Cause.CAPTURE: f"the captured graph does not follow the model{at}{unfollowed}",
            Cause.RUNTIME: f"ONNX Runtime's own optimisation changes the result{at}: step by step the file is right",
            Cause.QUANTIZER: f"{self.place} is the first quantizer that gives other integers{at}",
            Cause.TIES: f"{self.place} chooses otherwise among equal elements{at}, which torch leaves open",
            Cause.ROUNDING: f"no operator is wrong by itself{at}: rounding errors add up, most of them in {self.place}",
        }[self.cause]
