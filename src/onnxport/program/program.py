"""The exported program: called like the model, saved, edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onnxport.backend.torch_session import TorchSession
from onnxport.capture.axes.axis import Axis
from onnxport.capture.model.inputs import as_input
from onnxport.capture.model.structure import Structure, flatten
from onnxport.errors import ExportError, OptionError
from onnxport.lower.dtypes import onnx_type
from onnxport.program.edits import apply_weights, rename_axes
from onnxport.report.markup import counted
from onnxport.report.report import Report
from onnxport.report.sections import compact
from onnxport.report.tracebacks import public
from onnxport.save import serialize, stage, to_proto
from onnxport.verification import Verification
from onnxport.verification.runtime import RUNTIME_ERRORS, Loaded, Session, real_form


@dataclass(frozen=True)
class Interface:
    """How to call the exported graph: names in order, and the structure of the model's result.

    Outputs that are complex have their two parts along a last axis in the graph. ``arguments`` are the names of the
    arguments in the order of the inputs.
    ``parameters`` are the weights that are inputs, None if the model had no content for them. ``numbers`` are the
    indices of results that are Python numbers in the model and outputs of the graph, and ``number_arguments`` the
    arguments that are numbers and inputs of the graph.
    """

    input_names: Sequence[str]
    parameters: dict[str, torch.Tensor] | None
    structure: Structure
    constants: dict[int, Any]
    complex_outputs: frozenset[int] = frozenset()
    axes: Sequence[Axis] = ()
    arguments: Sequence[str] = ()
    numbers: Mapping[int, type] = field(default_factory=dict)
    number_arguments: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self, args: Sequence[Any], keywords: dict[str, Any]) -> list[torch.Tensor]:
        """The inputs of the graph among the arguments of a call."""
        named = [*zip(self.arguments, args, strict=False), *self.in_order(keywords).items()]
        values = [as_input(value, self.number_arguments.get(name)) for name, value in named]
        leaves = flatten([*values, *args[len(self.arguments) :]])[0]
        return [x.dequantize() if x.is_quantized else x for x in leaves if isinstance(x, torch.Tensor)]

    def in_order(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments in the order of the model's parameters, which is that of the inputs."""
        order = {name: index for index, name in enumerate(self.arguments)}
        for name, value in keywords.items():
            if name not in order and any(isinstance(leaf, torch.Tensor) for leaf in flatten(value)[0]):
                raise OptionError(f"the model was exported with the arguments {list(order)}, not with {name!r}")
        return dict(sorted(keywords.items(), key=lambda item: order.get(item[0], len(order))))


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
        weights: Mapping[str, torch.Tensor],
        external_data: bool | None,
    ) -> None:
        self.model = model
        self.report = report
        self.verification = verification
        self._interface = interface
        self._weights = weights
        self._versions = [(tensor, tensor._version) for tensor in weights.values()]
        self._external_data = external_data
        self._session: Loaded | None = None

    def without_content(self) -> Program:
        """This program for a model without weights: it can be saved, but not called."""
        self._interface = replace(self._interface, parameters=None)
        self._versions = []
        return self

    @property
    @public
    def model_proto(self) -> onnx.ModelProto:
        """The whole model as a protobuf message, weights included."""
        self._check_unchanged()
        return to_proto(self.model)

    @public
    def save(self, path: Any, *, external_data: bool | None = None) -> None:
        """Write the model to a path or file object; ``external_data`` as the export has it, if it is not given."""
        self._check_unchanged()
        with stage(self.model, path, self._external_data if external_data is None else external_data) as staged:
            staged.commit()

    @public
    def rename_axes(self, names: Mapping[str, str]) -> None:
        """Give dynamic axes other names: ``{"batch": "N"}``, also within expressions such as ``batch*sequence``.

        Files written afterwards have the new names; the report keeps those of the export.
        """
        rename_axes(self.model, names)

    @public
    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Replace weights, by their names in the model's ``state_dict``.

        Later runs and files have them, and are not verified. Weights from which the export computed something, as in
        folded batch norms, cannot be replaced: that is an error, and nothing changes.
        """
        self._check_unchanged()
        if self._interface.parameters is None or self._interface.parameters:
            raise OptionError(
                "apply_weights: the weights are inputs of this model (export_params=False); pass them as inputs"
            )
        self._weights = apply_weights(self.model, self._weights, state_dict)
        self._versions = [(tensor, tensor._version) for tensor in self._weights.values()]
        self._session = None
        self.verification = Verification(skipped="the weights were replaced by apply_weights")

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run in ONNX Runtime on the tensors in the arguments; keyword arguments may be in any order.

        Numbers are accepted where a scripted model declares them, or ``dynamic_shapes`` made them inputs.
        """
        if self._interface.parameters is None:
            raise ExportError("the model was exported without weights: run the file with them as inputs")
        tensors = self._interface.tensors(args, kwargs)
        names = self._interface.input_names
        if len(tensors) != len(names):
            raise ExportError(f"{len(tensors)} tensors were given, the model has the inputs {list(names)}")
        self._check_given(dict(zip(names, tensors, strict=True)))
        try:
            outputs = self._loaded().run({**dict(zip(names, tensors, strict=True)), **self._interface.parameters})
        except RUNTIME_ERRORS as error:
            shapes = ", ".join(f"{name}: {list(tensor.shape)}" for name, tensor in zip(names, tensors, strict=True))
            raise ExportError(f"ONNX Runtime fails on the inputs {shapes}: {error}") from error
        return self._in_structure(outputs)

    def _loaded(self) -> Loaded:
        if self._session is None:
            self._check_unchanged()
            self._session = (TorchSession if self.report.fallbacks else Session)(serialize(self.model))
        return self._session

    @public
    def initialize_inference_session(self) -> None:
        """Load the model in ONNX Runtime now; else the first call does."""
        self._loaded()

    @public
    def release(self) -> None:
        """Give back the memory that ONNX Runtime has for calls. A later call loads the model again."""
        self._session = None

    @public
    def optimize(self) -> None:
        """Nothing: the export has optimized the graph, unless ``optimize=False`` asked it not to."""

    def _check_given(self, tensors: dict[str, torch.Tensor]) -> None:
        """Check the dtypes and static sizes of the inputs."""
        for value in self.model.graph.inputs:
            if value.name not in tensors or value.dtype is None or value.shape is None:
                continue
            tensor = real_form(tensors[value.name])
            dims = [dim if isinstance(dim, int) else dim.value or "?" for dim in value.shape]
            fits = len(dims) == tensor.dim() and all(
                isinstance(dim, str) or dim == size for dim, size in zip(dims, tensor.shape, strict=True)
            )
            if onnx_type(tensor.dtype) != value.dtype or not fits:
                raise OptionError(
                    f"the input {value.name!r} is {tensor.dtype} of shape {list(tensor.shape)}; the model takes "
                    f"{value.dtype} of shape [{', '.join(map(str, dims))}]"
                )

    def _in_structure(self, outputs: list[torch.Tensor]) -> Any:
        complex_ones = self._interface.complex_outputs
        remaining = iter([torch.view_as_complex(x) if i in complex_ones else x for i, x in enumerate(outputs)])
        structure = self._interface.structure
        constants = self._interface.constants
        numbers = self._interface.numbers
        leaves = [constants[index] if index in constants else next(remaining) for index in range(len(structure.names))]
        return structure.unflatten([numbers[i](x) if i in numbers else x for i, x in enumerate(leaves)])

    def _check_unchanged(self) -> None:
        if any(tensor._version != version for tensor, version in self._versions):
            raise ExportError("the weights of the model have changed since it was exported: export it again")

    def _repr_html_(self) -> str:
        """The summary in a notebook."""
        return compact(self.report, self.model)

    def __repr__(self) -> str:
        graph = self.model.graph
        inputs = ", ".join(f"{value.name}: {value.dtype}{value.shape}" for value in graph.inputs)
        outputs = ", ".join(f"{value.name}: {value.dtype}{value.shape or ''}" for value in graph.outputs)
        checked = "verified" if self.verification.passed else "not verified"
        what = f"({inputs}) -> ({outputs}), opset {self.report.opset}, {counted(self.report.nodes, 'node')}"
        return f"<onnxport.Program {what}, {checked}>"
