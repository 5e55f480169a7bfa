"""Reads the tracer's graph into plain Python records, one per node, so that several traces can be laid side by side."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch

from onnxport import compat
from onnxport.capture import scopes
from onnxport.capture.functions import PYTHON_OP, call_of
from onnxport.graph.ir import Source

OWN_FOLDER = __file__.rsplit("capture", 1)[0]
CAPTURE_FOLDER = f"{OWN_FOLDER}capture"
FRAME = re.compile(r"^(.*)\((\d+)\): (.*)$")


class Origin(TypedDict):
    """Where a node comes from, as `Node` takes it."""

    source: Source | None
    scope: str


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
        return self.origin["source"]

    @property
    def scope(self) -> str:
        return self.origin["scope"]

    @property
    def origin(self) -> Origin:
        """The line of the user's code that made the node, and the module."""
        return _origin(_stack(self.node))


@dataclass(slots=True)
class Trace:
    """One run of the model under the tracer."""

    inputs: tuple[int, ...]
    input_types: tuple[Any, ...]
    records: list[Record]
    outputs: tuple[int, ...]
    graph: Any
    scripts: Sequence[tuple[str, Any]] = ()
    holder: int | None = None


def read(graph: torch.Graph, scripts: Sequence[tuple[str, Any]] = ()) -> Trace:
    """The trace as records. ``scripts`` are the scripted modules that may be called: the first input holds them."""
    inputs = list(graph.inputs())
    holder = inputs.pop(0).unique() if scripts else None
    records = list(_records(graph.nodes()))
    outputs = tuple(output.unique() for output in graph.outputs())
    if records and records[-1].kind == "prim::TupleConstruct" and outputs == records[-1].outputs:
        outputs = records.pop().inputs
    return Trace(
        tuple(value.unique() for value in inputs),
        tuple(_type(value) for value in inputs),
        records,
        outputs,
        graph,
        scripts,
        holder,
    )


def _records(nodes: Any) -> Iterator[Record]:
    """The nodes in order."""
    for node in nodes:
        kind = node.kind()
        if kind == "prim::Constant":
            output = node.output()
            yield Record(kind, "", (), (output.unique(),), (), _content(output), node)
            continue
        if kind == PYTHON_OP:
            yield from _call(node)
            continue
        # By position: each call of inputs() or outputs() costs as much as reading ten nodes.
        outputs = [node.outputsAt(place) for place in range(node.outputsSize())]
        yield Record(
            kind,
            _overload(node, kind),
            tuple(node.inputsAt(place).unique() for place in range(node.inputsSize())),
            tuple(value.unique() for value in outputs),
            tuple(_type(value) for value in outputs),
            node.s("name") if kind == "prim::GetAttr" else None,
            node,
        )


def _call(node: Any) -> Iterator[Record]:
    """An autograd Function as one node, which yields the tensors among the results."""
    output = node.output()
    call = call_of(node)
    if not any(call.tensors):
        return
    kind = output.type()
    types = tuple(_type_of(element) for element in (kind.elements() if kind.kind() == "TupleType" else [kind]))
    typed = tuple(element for element, kept in zip(types, call.tensors, strict=True) if kept)
    inputs = tuple(value.unique() for value in node.inputs())
    name = call.function.__qualname__
    if kind.kind() != "TupleType":
        yield Record(PYTHON_OP, name, inputs, (output.unique(),), typed, call, node)
        return
    offset = -1_000_000 * (output.unique() + 1)
    results = tuple(offset - place for place in range(len(typed)))
    yield Record(PYTHON_OP, name, inputs, results, typed, call, node)
    given = iter(results)
    elements = tuple(next(given) if kept else results[0] for kept in call.tensors)
    yield Record("prim::TupleConstruct", "", elements, (output.unique(),), (), None, node)


def _content(constant: Any) -> Any:
    return constant.toIValue() if constant.type().kind() != "FunctionType" else None


def _type(value: Any) -> Any:
    """``(dtype, sizes)`` for a tensor, the kind's name for anything else."""
    return _type_of(value.type())


def _type_of(kind: Any) -> Any:
    if kind.kind() != "TensorType":
        return kind.kind()
    sizes = kind.sizes()
    return (kind.dtype(), None if sizes is None else tuple(sizes))


def _overload(node: Any, kind: str) -> str:
    if kind.startswith("prim::"):
        return ""
    return overload_in(node.schema())


@functools.cache
def overload_in(schema: str) -> str:
    return schema.partition("(")[0].partition(".")[2]


def _stack(node: Any) -> str:
    """The stack in which a node was made; of a number that the tracer converts, where the number comes from."""
    stack: str = node.sourceRange()
    while not stack and node.inputsSize():
        node = node.inputsAt(0).node()
        stack = node.sourceRange()
    return stack


@functools.lru_cache(maxsize=1000)
def _origin(stack: str) -> Origin:
    return Origin(source=next(_frames(stack), None), scope=scopes.scope_in(_functions(stack)))


def source_of(stack: str) -> Source | None:
    """The innermost frame of the user's code in a traced node's stack; None where all of it is torch's."""
    return _origin(stack)["source"]


def stack_of(stack: str) -> tuple[Source, ...]:
    """All frames of the user's code in a traced node's stack, the innermost first."""
    return tuple(_frames(stack))


def _frames(stack: str) -> Iterator[Source]:
    for line in stack.splitlines():
        if line.startswith(compat.TORCH_FOLDER):
            continue
        match = FRAME.match(line)
        if match is None:
            continue
        file, number, function = match.groups()
        if not file.startswith(OWN_FOLDER):
            yield Source(file, int(number), function)
        elif file.startswith(CAPTURE_FOLDER) and function == "run_flat":
            return


def _functions(stack: str) -> list[str]:
    """The functions that call modules in a traced node's stack, the innermost first."""
    return [line.partition("): ")[2] for line in stack.splitlines() if line.startswith(scopes.FILE)]
