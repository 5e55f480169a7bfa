"""Reads the tracer's graph into plain Python records, one per node, so that several traces can be laid side by side."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.errors import CaptureError, NotYetSupportedError
from onnxport.graph.ir import Source

OWN_FOLDER = __file__.rsplit("capture", 1)[0]
FRAME = re.compile(r"^(.*)\((\d+)\): (.*)$")


@dataclass(slots=True)
class Record:
    """One traced node. ``inputs`` and ``outputs`` are the tracer's numbers for values."""

    kind: str
    overload: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[Any, ...]
    constant: Any
    node: Any

    @property
    def source(self) -> Source | None:
        return source_of(self.node.sourceRange())

    @property
    def scope(self) -> str:
        return str(self.node.scopeName()).rpartition("/")[2]


@dataclass(slots=True)
class Trace:
    """One run of the model under the tracer."""

    inputs: tuple[int, ...]
    input_types: tuple[Any, ...]
    records: list[Record]
    outputs: tuple[int, ...]
    graph: Any


def read(graph: torch.Graph) -> Trace:
    inputs = list(graph.inputs())
    records = list(_records(graph.nodes(), {}))
    outputs = tuple(output.unique() for output in graph.outputs())
    if records and records[-1].kind == "prim::TupleConstruct" and outputs == records[-1].outputs:
        outputs = records.pop().inputs
    return Trace(
        tuple(value.unique() for value in inputs),
        tuple(_type(value) for value in inputs),
        records,
        outputs,
        graph,
    )


def _records(nodes: Any, renamed: dict[int, int]) -> Iterator[Record]:
    """The nodes in order. ``renamed`` maps the numbers inside an inlined graph to ones that are unique outside."""

    def number(value: Any) -> int:
        unique: int = value.unique()
        return renamed.get(unique, unique)

    for node in nodes:
        kind = node.kind()
        if kind == "prim::Constant":
            output = node.output()
            yield Record(kind, "", (), (number(output),), (), _content(output), node)
            continue
        if kind == "prim::PythonOp":
            yield from _inline(node, number)
            continue
        if kind == "prim::CallFunction" or kind == "prim::CallMethod":
            raise NotYetSupportedError(
                f"{source_of(node.sourceRange()) or 'the model'}: a scripted function is called from the traced model; "
                "scripted code is not yet supported. Call the Python function instead of its torch.jit.script form."
            )
        # By position: each call of inputs() or outputs() costs as much as reading ten nodes.
        outputs = [node.outputsAt(place) for place in range(node.outputsSize())]
        yield Record(
            kind,
            _overload(node, kind),
            tuple(number(node.inputsAt(place)) for place in range(node.inputsSize())),
            tuple(number(value) for value in outputs),
            tuple(_type(value) for value in outputs),
            None,
            node,
        )


def _inline(node: Any, number: Any) -> Iterator[Record]:
    """The forward of an autograd Function as if it had been called directly."""
    inner = node.g("Subgraph")
    output = node.output()
    offset = -1_000_000 * (output.unique() + 1)
    renamed = {value.unique(): number(given) for value, given in zip(inner.inputs(), node.inputs(), strict=False)}
    for inner_node in inner.nodes():
        for value in inner_node.outputs():
            renamed[value.unique()] = offset - value.unique()
    results = [renamed[value.unique()] for value in inner.outputs()]
    if not results:
        return  # a list: its elements are values of the outer graph, which holds the same nodes
    if node.i("inplace"):
        # The nodes that write are in the outer graph, too, where they follow.
        results = [number(value) for value in node.inputs()]
    else:
        yield from _records(inner.nodes(), renamed)
    is_tuple = output.type().kind() == "TupleType"
    wanted = [_is_typed(kind) for kind in output.type().elements()] if is_tuple else [True]
    if len(results) != sum(wanted) or (is_tuple and node.i("inplace")):
        raise CaptureError(
            f"{source_of(node.sourceRange()) or 'the model'}: the autograd Function {node.pyname()} writes to one of "
            "several arguments or returns a tensor twice, which a trace does not show. Call its forward directly."
        )
    # What it returns may be one of its arguments: unpacked from a tuple, it has its own number.
    given = iter(results)
    packed = number(output) if is_tuple else offset
    elements = tuple(next(given) if is_tensor else results[0] for is_tensor in wanted)
    yield Record("prim::TupleConstruct", "", elements, (packed,), (), None, node)
    if not is_tuple:
        yield Record("prim::TupleUnpack", "", (packed,), (number(output),), (_type(output),), None, node)


def _is_typed(kind: Any) -> bool:
    """Whether an element of what a Function returns is a tensor: what is none has a type without a dtype."""
    return kind.kind() == "TensorType" and kind.dtype() is not None


def _content(constant: Any) -> Any:
    return constant.toIValue() if constant.type().kind() != "FunctionType" else None


def _type(value: Any) -> Any:
    """``(dtype, sizes)`` for a tensor, the kind's name for anything else."""
    kind = value.type()
    if kind.kind() != "TensorType":
        return kind.kind()
    sizes = kind.sizes()
    return (kind.dtype(), None if sizes is None else tuple(sizes))


def _overload(node: Any, kind: str) -> str:
    if kind.startswith("prim::"):
        return ""
    return _overload_in(node.schema())


@functools.cache
def _overload_in(schema: str) -> str:
    return schema.partition("(")[0].partition(".")[2]


@functools.lru_cache(maxsize=10_000)
def source_of(stack: str) -> Source | None:
    """The innermost frame of the user's code in a traced node's stack; None where all of it is torch's."""
    for line in stack.splitlines():
        match = FRAME.match(line)
        if match is None:
            continue
        file, number, function = match.groups()
        if file.startswith(OWN_FOLDER):
            if f"{OWN_FOLDER}capture" in file and function == "run_flat":
                return None
            continue
        if not file.startswith(compat.TORCH_FOLDER):
            return Source(file, int(number), function)
    return None
