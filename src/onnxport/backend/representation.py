"""A model that is ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import inliner
from onnx.backend.base import BackendRep

from onnxport.backend.device import Device
from onnxport.backend.loading import Loaded
from onnxport.backend.partition import has_torch_nodes
from onnxport.backend.plan import Plan, Source
from onnxport.backend.session import LOAD_ERRORS, content_of, open_session
from onnxport.backend.torch_nodes import claims_torch, is_torch_node
from onnxport.errors import BackendError
from onnxport.report.tracebacks import public

# torch's dtypes that numpy has only by ml_dtypes, and the dtypes for their bits.
EXTENDED: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
}

# The element types that numpy lacks: ONNX Runtime's names, ONNX's numbers for them.
EXTENDED_KINDS = {
    "tensor(bfloat16)": onnx.TensorProto.BFLOAT16,
    "tensor(float8e4m3fn)": onnx.TensorProto.FLOAT8E4M3FN,
    "tensor(float8e4m3fnuz)": onnx.TensorProto.FLOAT8E4M3FNUZ,
    "tensor(float8e5m2)": onnx.TensorProto.FLOAT8E5M2,
    "tensor(float8e5m2fnuz)": onnx.TensorProto.FLOAT8E5M2FNUZ,
}
EXTENDED_NUMBERS = {onnx.helper.tensor_dtype_to_np_dtype(number): number for number in EXTENDED_KINDS.values()}


class OnnxportRep(BackendRep):
    """A prepared model: ``run(inputs)`` gives its outputs, ``run(inputs, outputs=[names])`` any values of its graph."""

    def __init__(self, loaded: Loaded, device: Device) -> None:
        self._loaded = loaded
        self._device = device
        stored = {tensor.name for tensor in loaded.proto.graph.initializer}
        stored |= {tensor.values.name for tensor in loaded.proto.graph.sparse_initializer}
        graph = loaded.proto.graph
        self.input_names = [value.name for value in graph.input if value.name not in stored]
        self.output_names = [value.name for value in graph.output]
        self._optional = {value.name for value in graph.input if value.name in stored}
        self._known = {*self.input_names, *stored, *(name for node in graph.node for name in node.output if name)}
        self._sessions: dict[tuple[str, ...], onnxruntime.InferenceSession] = {}
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._source = self._with_torch()
        if self._source is None:
            self._session(tuple(self.output_names))
        else:
            self._plan(tuple(self.output_names))

    @property
    def pieces(self) -> int:
        """The number of parts that ONNX Runtime computes."""
        return self._plan(tuple(self.output_names)).pieces if self._source is not None else 1

    @public
    def run(self, inputs: Any, outputs: Sequence[str] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Run on arrays: one, a list in the order of the inputs, or a dict by name."""
        if kwargs:
            raise BackendError(f"run takes inputs and outputs, not {sorted(kwargs)[0]!r}")
        wanted = tuple(self.output_names if outputs is None else outputs)
        for name in wanted:
            if name not in self._known:
                raise BackendError(f"the graph has no value {name!r}")
        feeds = self._named(inputs)
        if self._source is None:
            return self._run_session(wanted, feeds)
        results = self.run_tensors(_entered(feeds), wanted)
        return tuple(_to_numpy(result) for result in results)

    def run_tensors(self, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str] | None = None) -> list[Any]:
        """Run on torch tensors; the results are torch tensors that share no memory with inputs or weights."""
        wanted = tuple(self.output_names if outputs is None else outputs)
        if self._source is None:
            results = self._run_session(wanted, {name: _to_numpy(value) for name, value in inputs.items()})
            return [_to_torch(result) for result in results]
        values = {name: value.to(self._device.torch) for name, value in inputs.items()}
        given = {value.untyped_storage().data_ptr() for value in values.values()}
        with torch.no_grad():
            found = self._plan(wanted).run(dict(values))
        return [value.clone() if self._is_shared(value, given) else value for value in found]

    def _is_shared(self, value: Any, given: set[int]) -> bool:
        """Whether a result shares memory with an input or a weight."""
        assert self._source is not None
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            return False
        return value.untyped_storage().data_ptr() in given or self._source.holds(value)

    def _with_torch(self) -> Source | None:
        """The plan for a model with torch operators, with functions that have them inlined; None without any."""
        proto = self._loaded.proto
        mixed = _mixed_functions(proto)
        if not has_torch_nodes(proto.graph.node) and not any(map(claims_torch, proto.graph.node)) and not mixed:
            return None
        self._loaded.read_external_data()
        if mixed:
            proto = inliner.inline_selected_functions(proto, mixed)
        return Source(proto, self._device)

    def _plan(self, wanted: tuple[str, ...]) -> Plan:
        assert self._source is not None
        if wanted not in self._plans:
            self._plans[wanted] = Plan(self._source.model.graph, wanted, self._source)
        return self._plans[wanted]

    def _session(self, wanted: tuple[str, ...]) -> onnxruntime.InferenceSession:
        if wanted not in self._sessions:
            self._sessions[wanted] = open_session(self._session_source(wanted), self._device)
        return self._sessions[wanted]

    def _session_source(self, wanted: tuple[str, ...]) -> str | bytes:
        if self._loaded.path is not None and set(wanted) <= set(self.output_names):
            return str(self._loaded.path)
        self._loaded.read_external_data()
        model = self._loaded.proto
        extra = [name for name in wanted if name not in self.output_names]
        if extra:
            model = onnx.ModelProto()
            model.CopyFrom(self._loaded.proto)
            declared = {value.name: value for value in (*model.graph.value_info, *model.graph.input)}
            model.graph.output.extend(declared.get(name, onnx.ValueInfoProto(name=name)) for name in extra)
        return model.SerializeToString()  # type: ignore[no-any-return]

    def _run_session(self, wanted: tuple[str, ...], feeds: Mapping[str, Any]) -> tuple[Any, ...]:
        session = self._session(wanted)
        given = {name: _to_numpy(value) for name, value in feeds.items()}
        kinds = {entry.type for entry in (*session.get_inputs(), *session.get_outputs())}
        try:
            if kinds.isdisjoint(EXTENDED_KINDS):
                return tuple(session.run(list(wanted), given))
            values = session.run_with_ort_values(list(wanted), {name: _to_runtime(v) for name, v in given.items()})
            return tuple(map(_to_numpy, values))
        except LOAD_ERRORS as error:
            raise BackendError(f"ONNX Runtime fails: {error}") from error

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            unknown = sorted(set(inputs) - set(self.input_names) - (self._optional if self._source is None else set()))
            if unknown:
                raise BackendError(f"the model has no input {unknown[0]!r}; it has {self.input_names}")
            missing = [name for name in self.input_names if name not in inputs]
            if missing:
                raise BackendError(f"the input {missing[0]!r} is missing")
            return dict(inputs)
        given = [inputs] if isinstance(inputs, (np.ndarray, torch.Tensor)) else list(inputs)
        if len(given) != len(self.input_names):
            raise BackendError(f"{len(given)} inputs were given, the model has {self.input_names}")
        return dict(zip(self.input_names, given, strict=True))


def _entered(feeds: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The inputs as tensors over the arrays' own memory."""
    entered = {}
    for name, value in feeds.items():
        if not isinstance(value, (np.ndarray, np.generic, torch.Tensor, int, float, bool)):
            raise BackendError(
                f"the input {name!r} is a {type(value).__name__}: beside operators of torch it is an array"
            )
        entered[name] = _to_torch(value)
    return entered


def _to_torch(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    array = np.asarray(value)
    for dtype, (bits, extended) in EXTENDED.items():
        if array.dtype == extended:
            plain = np.int16 if bits is torch.int16 else np.uint8
            return torch.from_numpy(np.require(array, requirements=["C", "W"]).view(plain)).view(dtype)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _to_runtime(value: Any) -> onnxruntime.OrtValue:
    number = EXTENDED_NUMBERS.get(value.dtype)
    if number is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(value)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(value, number)


def _to_numpy(value: Any) -> Any:
    if isinstance(value, onnxruntime.OrtValue):
        number = EXTENDED_KINDS.get(value.data_type())
        if number is None:
            return value.numpy()
        return content_of(value).view(onnx.helper.tensor_dtype_to_np_dtype(number)).reshape(value.shape())
    if isinstance(value, np.generic):
        return np.asarray(value)
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.dtype in EXTENDED:
        bits, extended = EXTENDED[value.dtype]
        return value.contiguous().view(bits).numpy().view(extended)
    return value.numpy()


def _mixed_functions(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """The functions of a model that contain torch operators, or have the name of one."""
    mixed: set[tuple[str, str]] = set()
    grew = True
    while grew:
        before = len(mixed)
        for function in model.functions:
            inside = has_torch_nodes(function.node) or any((n.domain, n.op_type) in mixed for n in function.node)
            named_alike = is_torch_node(onnx.NodeProto(domain=function.domain, op_type=function.name))
            if inside or named_alike:
                mixed.add((function.domain, function.name))
        grew = len(mixed) > before
    return sorted(mixed)
