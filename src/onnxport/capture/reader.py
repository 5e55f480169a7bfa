"""Reads the tracer's graph into plain Python records, one per node, so that several traces can be laid side by side."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch

from onnxport import compat
from onnxport.capture import scopes
from onnxport.capture.functions import call_of, function_of, has_symbolic, is_tensor, results_in_order
from onnxport.errors import CaptureError
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


def read(
    graph: torch.Graph, keeps: Callable[[Any], bool] = has_symbolic, scripts: Sequence[tuple[str, Any]] = ()
) -> Trace:
    """The trace as records. ``keeps`` tells the autograd Functions whose calls stay nodes; others are inlined.

    ``scripts`` are the scripted modules that may be called, which one object holds that is the first input.
    """
    inputs = list(graph.inputs())
    holder = inputs.pop(0).unique() if scripts else None
    records = list(_records(graph.nodes(), {}, keeps))
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


def _records(nodes: Any, renamed: dict[int, int], keeps: Callable[[Any], bool]) -> Iterator[Record]:
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
            keep = keeps(function_of(node))
            yield from _call(node, number) if keep else _inline(node, number, keeps)
            continue
        # By position: each call of inputs() or outputs() costs as much as reading ten nodes.
        outputs = [node.outputsAt(place) for place in range(node.outputsSize())]
        yield Record(
            kind,
            _overload(node, kind),
            tuple(number(node.inputsAt(place)) for place in range(node.inputsSize())),
            tuple(number(value) for value in outputs),
            tuple(_type(value) for value in outputs),
            node.s("name") if kind == "prim::GetAttr" else None,
            node,
        )


def _call(node: Any, number: Any) -> Iterator[Record]:
    """An autograd Function as one node, which yields the tensors among the results."""
    output = node.output()
    call = call_of(node)
    if not any(call.tensors):
        return
    kind = output.type()
    types = tuple(_type_of(element) for element in (kind.elements() if kind.kind() == "TupleType" else [kind]))
    typed = tuple(element for element, kept in zip(types, call.tensors, strict=True) if kept)
    inputs = tuple(number(value) for value in node.inputs())
    name = call.function.__qualname__
    if kind.kind() != "TupleType":
        yield Record("prim::PythonOp", name, inputs, (number(output),), typed, call, node)
        return
    offset = -1_000_000 * (abs(number(output)) + 1)
    results = tuple(offset - place for place in range(len(typed)))
    yield Record("prim::PythonOp", name, inputs, results, typed, call, node)
    given = iter(results)
    elements = tuple(next(given) if kept else results[0] for kept in call.tensors)
    yield Record("prim::TupleConstruct", "", elements, (number(output),), (), None, node)


def _inline(node: Any, number: Any, keeps: Callable[[Any], bool]) -> Iterator[Record]:
    """The forward of an autograd Function as if it had been called directly."""
    inner = node.g("Subgraph")
    output = node.output()
    offset = -1_000_000 * (output.unique() + 1)
    renamed = {value.unique(): number(given) for value, given in zip(inner.inputs(), node.inputs(), strict=False)}
    for inner_node in inner.nodes():
        for value in inner_node.outputs():
            renamed[value.unique()] = offset - value.unique()
    results = [renamed[value.unique()] for value in results_in_order(node)]
    if not results:
        return  # a list: its elements are values of the outer graph, which holds the same nodes
    if node.i("inplace"):
        # The nodes that write are in the outer graph, too, where they follow.
        results = [number(value) for value in node.inputs()]
    else:
        yield from _records(inner.nodes(), renamed, keeps)
    is_tuple = output.type().kind() == "TupleType"
    wanted = list(is_tensor(output.type())) if is_tuple else [True]
    if len(results) != sum(wanted) or (is_tuple and node.i("inplace")):
        raise CaptureError(
            f"{source_of(node.sourceRange()) or 'the model'}: the autograd Function {node.pyname()} writes to one of "
            "several arguments or returns a tensor twice, which a trace does not show. Call its forward directly."
        )
    # What it returns may be one of its arguments: unpacked from a tuple, it has its own number.
    given = iter(results)
    packed = number(output) if is_tuple else offset
    elements = tuple(next(given) if typed else results[0] for typed in wanted)
    yield Record("prim::TupleConstruct", "", elements, (packed,), (), None, node)
    if not is_tuple:
        yield Record("prim::TupleUnpack", "", (packed,), (number(output),), (_type(output),), None, node)


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
