"""What an export returns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onnxport.capture.structure import Structure, flatten
from onnxport.errors import ExportError
from onnxport.save import serialize, stage, to_proto
from onnxport.verify import Verification
from onnxport.verify.runtime import Session


@dataclass
class Report:
    """What happened during an export: seconds per phase, sizes of the result, and what the user should know."""

    opset: int
    phases: dict[str, float] = field(default_factory=dict)
    nodes: int = 0
    file_size: int | None = None
    weight_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sizes_traced: list[dict[str, int]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    def __str__(self) -> str:
        lines = [f"opset {self.opset}, {self.nodes} nodes, {self.weight_bytes / 1e6:.1f} MB of weights"]
        lines += [f"  {phase:<10} {seconds:8.3f} s" for phase, seconds in self.phases.items()]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True)
class Interface:
    """How the exported graph is called: names in order, and the structure of what the model returns."""

    input_names: Sequence[str]
    parameters: dict[str, torch.Tensor]
    structure: Structure
    constants: dict[int, Any]


class Program:
    """An exported model. Call it like the model itself: it runs in ONNX Runtime and returns the same structure.

    The weights stay in the torch model's memory; once they are changed there, this program refuses to be used.
    """

    def __init__(
        self,
        model: ir.Model,
        interface: Interface,
        report: Report,
        verification: Verification,
        weights: Sequence[torch.Tensor],
        external_data: bool | None,
    ) -> None:
        self.model = model
        self.report = report
        self.verification = verification
        self._interface = interface
        self._versions = [(tensor, tensor._version) for tensor in weights]
        self._external_data = external_data
        self._session: Session | None = None

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The whole model as a protobuf message, weights included."""
        self._check_unchanged()
        return to_proto(self.model)

    def save(self, path: Any) -> None:
        """Write the model to a path or file object."""
        self._check_unchanged()
        with stage(self.model, path, self._external_data) as staged:
            staged.commit()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run in ONNX Runtime on the tensors found in the arguments, in order."""
        tensors = [leaf for leaf in flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        names = self._interface.input_names
        if len(tensors) != len(names):
            raise ExportError(f"{len(tensors)} tensors were given, the model has the inputs {list(names)}")
        if self._session is None:
            self._check_unchanged()
            self._session = Session(serialize(self.model))
        outputs = self._session.run({**dict(zip(names, tensors, strict=True)), **self._interface.parameters})
        return self._in_structure(outputs)

    def _in_structure(self, outputs: list[torch.Tensor]) -> Any:
        given = iter(outputs)
        structure, constants = self._interface.structure, self._interface.constants
        return structure.unflatten(
            [constants[index] if index in constants else next(given) for index in range(len(structure.names))]
        )

    def _check_unchanged(self) -> None:
        if any(tensor._version != version for tensor, version in self._versions):
            raise ExportError("the weights of the model have changed since it was exported: export it again")

    def __repr__(self) -> str:
        graph = self.model.graph
        inputs = ", ".join(f"{value.name}: {value.dtype}{value.shape}" for value in graph.inputs)
        outputs = ", ".join(f"{value.name}: {value.dtype}{value.shape}" for value in graph.outputs)
        checked = "verified" if self.verification.passed else "not verified"
        what = f"({inputs}) -> ({outputs}), opset {self.report.opset}, {self.report.nodes} nodes"
        return f"<onnxport.Program {what}, {checked}>"
