"""Reads the tracer's graph into plain Python records, one per node, so that several traces can be laid side by side."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch

from onnxport.capture import scopes
from onnxport.capture.functions import PYTHON_OP, call_of
from onnxport.capture.stacks import Line, Stacks, users_lines
from onnxport.graph.ir import Source

# Attributes of a branch in a trace: the place of its lines, and that its condition was decided while tracing.
PLACE, DECIDED = "place", "decided"
# A branch in the list of records: it begins with its condition, then come the records of one side and what that gives,
# and those of the other side, and what that gives, which is where its results are.
IF, ELSE, END_IF = "onnxport::if", "onnxport::else", "onnxport::end_if"
# A loop: whether it begins, with what, and as what a round knows that; then the records of a round, and what it gives.
LOOP, END_LOOP = "onnxport::loop", "onnxport::end_loop"
MARKS = frozenset({IF, ELSE, END_IF, LOOP, END_LOOP})
PACKS = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})


class Origin(TypedDict):
    """Where a node comes from, as `Node` takes it."""

    source: Source | None
    scope: str


@dataclass(slots=True)
class Record:
    """One traced node. ``inputs`` and ``outputs`` are the tracer's numbers for values; None for one that only the
    finished trace tells.

    ``place`` is that of its lines among the stacks, where it is known without asking the tracer.
    """

    kind: str
    overload: str
    inputs: tuple[Any, ...]
    outputs: tuple[int, ...]
    types: tuple[Any, ...]
    constant: Any
    node: Any
    stacks: Stacks
    place: int | None = None

    @property
    def source(self) -> Source | None:
        return self.origin["source"]

    @property
    def scope(self) -> str:
        return self.origin["scope"]

    @property
    def origin(self) -> Origin:
        """The line of the user's code that made the node, and the module."""
        return _origin(self.stacks.lines(_stack(self.node)) if self.place is None else self.stacks.at(self.place))

    @property
    def stack(self) -> tuple[Source, ...]:
        """All lines of the user's code that led to the node, the innermost first."""
        if self.place is not None:
            return tuple(users_lines(self.stacks.at(self.place)))
        return tuple(users_lines(self.stacks.lines(self.node.sourceRange())))


@dataclass(slots=True)
class Trace:
    """One run of the model under the tracer. Constants, most of what it writes down, are no records."""

    inputs: tuple[int, ...]
    input_types: tuple[Any, ...]
    records: list[Record]
    constants: dict[int, Any]
    outputs: tuple[int, ...]
    graph: Any
    scripts: Sequence[tuple[str, Any]] = ()
    holder: int | None = None


def read(
    graph: torch.Graph,
    scripts: Sequence[tuple[str, Any]] = (),
    stacks: Stacks | None = None,
    written: Mapping[int, Record] | None = None,
    given: Sequence[Any] | None = None,
) -> Trace:
    """The trace as records. ``scripts`` are the scripted modules that may be called: the first input holds them.

    ``stacks`` has where the calls were made, if they were made through it; ``written`` are the records that are known
    already, by the number of their first output; ``given`` are the types of the inputs, if they are known.
    """
    inputs = list(graph.inputs())
    holder = inputs.pop(0).unique() if scripts else None
    constants: dict[int, Any] = {}
    records = list(_records(graph.nodes(), constants, Stacks() if stacks is None else stacks, written or {}))
    outputs = tuple(output.unique() for output in graph.outputs())
    if records and records[-1].kind == "prim::TupleConstruct" and outputs == records[-1].outputs:
        outputs = records.pop().inputs
    return Trace(
        tuple([value.unique() for value in inputs]),
        tuple([_type_of(value.type()) for value in inputs] if given is None else given),
        records,
        constants,
        outputs,
        graph,
        scripts,
        holder,
    )


def _records(nodes: Any, constants: dict[int, Any], stacks: Stacks, written: Mapping[int, Record]) -> Iterator[Record]:
    """The nodes in order; ``constants`` gets the content of those that are constants."""
    for node in nodes:
        kind = node.kind()
        if kind == "prim::Constant":
            output = node.output()
            constants[output.unique()] = output.toIValue()
            continue
        if kind == PYTHON_OP:
            yield from _call(node, stacks)
            continue
        if kind in CONTROL_FLOW:
            yield from CONTROL_FLOW[kind](node, constants, stacks, written)
            continue
        # By position: each call of inputs() or outputs() costs as much as reading ten nodes.
        known = written.get(node.outputsAt(0).unique()) if node.outputsSize() else None
        if known is not None:
            # The tracer puts other nodes in the places of those that it renames in the end.
            known.inputs = tuple(
                [node.inputsAt(at).unique() if number is None else number for at, number in enumerate(known.inputs)]
            )
            yield known
            continue
        inputs = [node.inputsAt(place).unique() for place in range(node.inputsSize())]
        if kind in PACKS:
            yield Record(kind, "", tuple(inputs), (node.output().unique(),), (), None, node, stacks)
            continue
        outputs = [node.outputsAt(place) for place in range(node.outputsSize())]
        yield Record(
            kind,
            _overload(node, kind),
            tuple(inputs),
            tuple([value.unique() for value in outputs]),
            tuple([_type_of(value.type()) for value in outputs]),
            node.s("name") if kind == "prim::GetAttr" else None,
            node,
            stacks,
        )


def _branch(node: Any, constants: dict[int, Any], stacks: Stacks, written: Mapping[int, Record]) -> Iterator[Record]:
    """Both sides of a branch, one after the other; nothing where the condition was decided while tracing."""
    if node.hasAttribute(DECIDED):
        return

    first, second = node.blocks()
    yield _mark(IF, node, node.inputs(), (), stacks)
    yield from _records(first.nodes(), constants, stacks, written)
    yield _mark(ELSE, node, first.outputs(), (), stacks)
    yield from _records(second.nodes(), constants, stacks, written)
    yield _mark(END_IF, node, second.outputs(), list(node.outputs()), stacks)


def _loop(node: Any, constants: dict[int, Any], stacks: Stacks, written: Mapping[int, Record]) -> Iterator[Record]:
    """A loop without its limit, which none has."""
    (block,) = node.blocks()
    yield _mark(LOOP, node, list(node.inputs())[1:], list(block.inputs()), stacks)
    yield from _records(block.nodes(), constants, stacks, written)
    yield _mark(END_LOOP, node, block.outputs(), list(node.outputs()), stacks)


def _mark(kind: str, node: Any, inputs: Any, outputs: Sequence[Any], stacks: Stacks) -> Record:
    numbers = tuple(value.unique() for value in outputs)
    types = tuple(_type_of(value.type()) for value in outputs)
    given = tuple(value.unique() for value in inputs)
    return Record(kind, "", given, numbers, types, None, node, stacks, node.i(PLACE))


CONTROL_FLOW = {"prim::If": _branch, "prim::Loop": _loop}


def _call(node: Any, stacks: Stacks) -> Iterator[Record]:
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
        yield Record(PYTHON_OP, name, inputs, (output.unique(),), typed, call, node, stacks)
        return
    offset = -1_000_000 * (output.unique() + 1)
    results = tuple(offset - place for place in range(len(typed)))
    yield Record(PYTHON_OP, name, inputs, results, typed, call, node, stacks)
    given = iter(results)
    elements = tuple(next(given) if kept else results[0] for kept in call.tensors)
    yield Record("prim::TupleConstruct", "", elements, (output.unique(),), (), None, node, stacks)


def type_of(tensor: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...]]:
    """What the tracer takes down of a tensor."""
    return tensor.dtype, tuple(tensor.shape)


def _type_of(kind: Any) -> Any:
    """``(dtype, sizes)`` for a tensor, the kind's name for anything else."""
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


def _origin(lines: Sequence[Line]) -> Origin:
    called = tuple([function for file, _, function in lines if file == scopes.FILE])
    return {"source": next(users_lines(lines), None), "scope": scopes.scope_in(called)}
