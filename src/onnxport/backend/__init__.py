"""An ONNX backend: standard operators run in ONNX Runtime, operators of torch in torch, on the same memory.

    rep = onnxport.backend.prepare("model.onnx", device="CPU")
    outputs = rep.run([array, ...])
    hidden, = rep.run([array, ...], outputs=["encoder/Add_3"])

In: an ONNX model. Out: an `OnnxportRep` that runs it. Imports `graph`, `report`, `symbolic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto
from onnx.backend.base import Backend, namedtupledict

from onnxport.backend.device import Device
from onnxport.backend.loading import ModelLike, load
from onnxport.backend.representation import OnnxportRep
from onnxport.errors import BackendError
from onnxport.report.tracebacks import public

__all__ = [
    "OnnxportBackend",
    "OnnxportRep",
    "is_compatible",
    "prepare",
    "run",
    "run_model",
    "run_node",
    "supports_device",
]

# The newest opset and IR version that ONNX Runtime accepts.
DEFAULT_OPSET = 26
IR_VERSION = 13


class OnnxportBackend(Backend):
    """Runs models of standard operators and operators of torch. Models are messages, their bytes, or paths."""

    @classmethod
    def is_compatible(cls, model: ModelLike, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model loads on this device."""
        try:
            cls.prepare(model, device, **kwargs)
        except BackendError:
            return False
        return True

    @classmethod
    @public
    def prepare(cls, model: ModelLike, device: str = "CPU", **kwargs: Any) -> OnnxportRep:
        """Load a model, to be run many times."""
        if kwargs:
            raise BackendError(f"prepare takes a model and a device, not {sorted(kwargs)[0]!r}")
        found = Device.of(device)
        if not found.present:
            raise BackendError(f"the device {device} is not available in torch or in ONNX Runtime")
        return OnnxportRep(load(model), found)

    @classmethod
    def run_model(cls, model: ModelLike, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Load a model and run it once; the arguments of `OnnxportRep.run` may follow."""
        return cls.prepare(model, device).run(inputs, **kwargs)

    @classmethod
    @public
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays in the order of its inputs; ``opset_version`` is its opset."""
        opset = kwargs.pop("opset_version", DEFAULT_OPSET)
        given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        names = [name for name in node.input if name]
        if len(given) != len(names):
            raise BackendError(f"{len(given)} inputs were given, the node has {names}")
        entries = [_declared(name, value) for name, value in zip(names, given, strict=True)]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        imports = [onnx.helper.make_opsetid("", opset)]
        if node.domain not in ("", "ai.onnx"):
            imports.append(onnx.helper.make_opsetid(node.domain, 1))
        graph = onnx.helper.make_graph([node], "node", entries, outputs)
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        results = cls.prepare(model, device).run(given, **kwargs)
        return namedtupledict("Outputs", [value.name for value in outputs])(*results)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether torch and ONNX Runtime both support this device here."""
        try:
            return Device.of(device).present
        except BackendError:
            return False


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    array = np.asarray(value)
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


is_compatible = OnnxportBackend.is_compatible
prepare = OnnxportBackend.prepare
run = OnnxportBackend.run_model
run_model = OnnxportBackend.run_model
run_node = OnnxportBackend.run_node
supports_device = OnnxportBackend.supports_device
