"""The steps to compute a graph, and control flow with torch nodes in its body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from onnxport.backend.device import Device
from onnxport.backend.partition import Part, Side, needed, partition, subgraphs
from onnxport.backend.session import ELEMENT_TYPES, Piece, open_session
from onnxport.backend.torch_nodes import check_runs, compile_node
from onnxport.errors import BackendError

Values: TypeAlias = "MutableMapping[str, Any]"

# From this size on a weight is passed to the runtime separately, so that all parts and torch share one copy.
SHARED_BYTES = 1024
DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}


class Source:
    """The shared state of the parts of one graph: declared types, opsets, functions, constants, the device.

    A subgraph has access to that of the graphs around it.
    """

    def __init__(
        self, model: onnx.ModelProto, device: Device, graph: onnx.GraphProto | None = None, outer: Source | None = None
    ) -> None:
        graph = graph or model.graph
        self.model = model
        self.device = device
        self._outer = outer
        self._own = {tensor.name for tensor in graph.initializer}
        self.types: dict[str, onnx.TypeProto] = {**(outer.types if outer else {}), **_declared_types(graph)}
        self.tensors: dict[str, onnx.TensorProto] = dict(outer.tensors) if outer else {}
        self.tensors |= {tensor.name: tensor for tensor in graph.initializer}
        self._constants: dict[str, torch.Tensor] = {}
        self._memory: set[int] = set()
        self._inner: list[Source] = []
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._weights: dict[str, Any] = {}

    def within(self, graph: onnx.GraphProto) -> Source:
        inner = Source(self.model, self.device, graph, self)
        self._inner.append(inner)
        return inner

    def constant(self, name: str) -> torch.Tensor:
        """An initializer as a torch tensor, sharing memory with the runtime's if both need it."""
        if self._outer is not None and name not in self._own:
            return self._outer.constant(name)
        if name not in self._constants:
            tensor = self.tensors[name]
            dtype = DTYPES.get(tensor.data_type)
            if dtype is None:
                raise BackendError(f"the initializer {name!r} has an element type that torch does not have")
            bits = self._array(name)
            content = torch.from_numpy(bits).view(dtype).reshape(tuple(tensor.dims))
            self._constants[name] = content.to(self.device.torch)
            self._memory.add(self._constants[name].untyped_storage().data_ptr())
        return self._constants[name]

    def weight(self, name: str) -> Any:
        """An initializer for ONNX Runtime in shared memory; None for one that is stored in the part's model."""
        if self._outer is not None and name not in self._own:
            return self._outer.weight(name)
        tensor = self.tensors[name]
        if tensor.data_type not in DTYPES or not tensor.HasField("raw_data") or len(tensor.raw_data) < SHARED_BYTES:
            return None
        if name not in self._weights:
            bits = self._array(name)
            array = bits.view(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).reshape(tuple(tensor.dims))
            self._weights[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, tensor.data_type)
        return self._weights[name]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor shares memory with a constant that was passed to torch."""
        address = tensor.untyped_storage().data_ptr()
        return address in self._memory or any(inner.holds(tensor) for inner in self._inner)

    def _array(self, name: str) -> np.ndarray[Any, Any]:
        """The bytes of an initializer, copied once: torch needs writable memory."""
        if name not in self._arrays:
            content = np.array(numpy_helper.to_array(self.tensors[name]))
            self._arrays[name] = content.reshape(-1).view(np.uint8)
        return self._arrays[name]


@dataclass
class Step:
    """One part with its inputs and outputs, and the values that are not needed afterwards."""

    reads: list[str]
    writes: list[str]
    run: Callable[[Sequence[Any], Mapping[str, Any]], Sequence[Any]]
    last_reads: list[str] = field(default_factory=list)


class Plan:
    """A graph, ready to compute the wanted values from its inputs and outer values."""

    def __init__(self, graph: onnx.GraphProto, wanted: Sequence[str], source: Source, *, alone: bool = False) -> None:
        self.wanted = list(wanted)
        self._source = source
        for node in graph.node:
            check_runs(node)
        parts = partition(needed(graph.node, wanted))
        read_later = set(wanted)
        self._steps: list[Step] = []
        for part in reversed(parts):
            step = self._step(part, read_later, alone)
            made = {name for node in graph.node for name in node.output}
            step.last_reads = [name for name in step.reads if name in made and name not in read_later]
            read_later.update(step.reads)
            self._steps.insert(0, step)
        self.pieces = sum(part.side is Side.RUNTIME for part in parts)

    def run(self, values: Values) -> list[Any]:
        """The wanted values; ``values`` has the inputs and outer values, and results are added to it."""
        for step in self._steps:
            results = step.run([self._value(name, values) for name in step.reads], values)
            values.update(zip(step.writes, results, strict=False))
            for name in step.last_reads:
                values.pop(name, None)
        return [self._value(name, values) for name in self.wanted]

    def _value(self, name: str, values: Mapping[str, Any]) -> Any:
        if not name:
            return None
        return values[name] if name in values else self._source.constant(name)

    def _step(self, part: Part, read_later: set[str], alone: bool) -> Step:
        if part.side is Side.RUNTIME:
            return _runtime_step(part, [name for name in part.writes() if name in read_later], self._source, alone)
        (node,) = part.nodes
        if part.side is Side.TORCH:
            kernel = compile_node(node, self._source.device.torch)
            return Step(list(node.input), list(node.output), lambda given, _: kernel(given))
        control = {"If": _if_step, "Loop": _loop_step}.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if control is None:
            raise BackendError(
                f"the node {node.name!r}: operators of torch are run inside If and Loop, not inside {node.op_type}"
            )
        return control(part, self._source)


def _runtime_step(part: Part, writes: list[str], source: Source, alone: bool) -> Step:
    reads = part.reads()
    stored = [name for name in reads if name in source.tensors]
    given = [name for name in reads if name not in source.tensors]
    loaded: dict[tuple[Any, ...], Piece] = {}

    def piece(values: Sequence[Any]) -> Piece:
        key = tuple(value.dtype if isinstance(value, torch.Tensor) else None for value in values)
        if key not in loaded:
            loaded[key] = _load(part, given, writes, stored, source, values, alone)
        return loaded[key]

    if all(name in source.types for name in given):
        only = _load(part, given, writes, stored, source, (), alone)
        return Step(given, writes, lambda values, _: only.run(values))
    return Step(given, writes, lambda values, _: piece(values).run(values))


def _load(
    part: Part,
    given: Sequence[str],
    writes: Sequence[str],
    stored: Sequence[str],
    source: Source,
    values: Sequence[Any],
    alone: bool,
) -> Piece:
    """A session for a part. Types that the model does not declare are taken from the present ``values``."""
    model = onnx.ModelProto(ir_version=source.model.ir_version)
    domains = {node.domain for node in _all_nodes(part.nodes)} | {""}
    domains.update(node.domain for function in source.model.functions for node in function.node)
    model.opset_import.extend(entry for entry in source.model.opset_import if entry.domain in domains)
    model.functions.extend(source.model.functions)
    model.graph.name = source.model.graph.name or "piece"
    model.graph.node.extend(part.nodes)
    for index, name in enumerate(given):
        if name in source.types:
            model.graph.input.add(name=name, type=source.types[name])
        else:
            element = ELEMENT_TYPES[values[index].dtype]
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, element, None))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in writes)
    weights: dict[str, Any] = {}
    for name in stored:
        weight = source.weight(name)
        if weight is None:
            model.graph.initializer.append(source.tensors[name])
            continue
        weights[name] = weight
        header = model.graph.initializer.add(
            name=name,
            data_type=source.tensors[name].data_type,
            dims=source.tensors[name].dims,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        header.external_data.add(key="location", value="memory")
    return Piece(open_session(model.SerializeToString(), source.device, alone=alone, weights=weights), source.device)


def _if_step(part: Part, source: Source) -> Step:
    (node,) = part.nodes
    plans = {a.name: Plan(a.g, [value.name for value in a.g.output], source.within(a.g)) for a in node.attribute}

    def run(given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        plan = plans["then_branch" if bool(given[0]) else "else_branch"]
        return plan.run(dict(around))

    return Step([*node.input, *_outer(part)], list(node.output), run)


def _loop_step(part: Part, source: Source) -> Step:
    (node,) = part.nodes
    (body,) = subgraphs(node)
    plan = Plan(body, [value.name for value in body.output], source.within(body))
    states = len(node.input) - 2

    def run(given: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        limit, condition, *carried = given[: len(node.input)]
        collected: list[list[Any]] = [[] for _ in body.output[1 + states :]]
        turn = 0
        while (limit is None or turn < int(limit)) and (condition is None or bool(condition)):
            entries = [torch.tensor(turn), torch.tensor(True) if condition is None else condition, *carried]
            named = dict(zip((value.name for value in body.input), entries, strict=True))
            going, *results = plan.run({**around, **named})
            condition = None if not node.input[1] and going is None else going
            carried = results[:states]
            for column, value in zip(collected, results[states:], strict=True):
                column.append(value)
            turn += 1
        scans = zip(collected, body.output[1 + states :], strict=True)
        return [*carried, *(_stacked(column, declared) for column, declared in scans)]

    return Step([*node.input, *_outer(part)], list(node.output), run)


def _outer(part: Part) -> list[str]:
    """The outer values that the subgraphs of a part's node read: they have to be computed before."""
    own = set(part.nodes[0].input)
    return [name for name in part.reads() if name not in own]


def _stacked(column: list[torch.Tensor], declared: onnx.ValueInfoProto) -> torch.Tensor:
    if column:
        return torch.stack(column)
    kind = declared.type.tensor_type
    return torch.zeros((0, *(dim.dim_value for dim in kind.shape.dim)), dtype=DTYPES[kind.elem_type])


def _declared_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    declared = (*graph.input, *graph.output, *graph.value_info)
    return {value.name: value.type for value in declared if _has_element(value.type)}


def _has_element(kind: onnx.TypeProto) -> bool:
    if kind.WhichOneof("value") is None:
        return False
    return not kind.HasField("tensor_type") or kind.tensor_type.elem_type != onnx.TensorProto.UNDEFINED


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)
