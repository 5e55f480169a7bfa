"""Interpreter of captured graphs: runs them with torch, node by node, as the reference for later stages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import torch

from onnxport.graph.ir import NUMBER, Argument, Block, Graph, Node, Value, schema_of
from onnxport.graph.python_nodes import compute, is_special
from onnxport.graph.sizes import evaluate as evaluate_size

Observer: TypeAlias = Callable[[Node, list[Any]], None]

RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
# Nodes without an overload, and the overload that computes them.
UNBOUND_OVERLOADS = {"prim::NumToTensor": "Scalar"}
# Operators that need the strides that their argument had in the model's run.
NEEDS_LAYOUT = frozenset(
    {"aten::view", "aten::view_as", "aten::unflatten", "aten::as_strided", "aten::view_as_complex"}
)


def run(graph: Graph, inputs: Sequence[torch.Tensor], *, on_node: Observer | None = None) -> list[Any]:
    """The outputs of the graph; ``on_node`` is called with each node and its results.

    Neither the inputs nor the parameters are changed, even if the graph writes to them.
    """
    return Interpreter(mutates(graph.block), on_node).run(graph.block, inputs)


def evaluate(node: Node, arguments: dict[str, Any]) -> list[Any]:
    """The results of one node called with these arguments, in the order of its outputs."""
    if node.op in RECURRENT and "input" in arguments:
        _check_states(node.op, **arguments)
    result = operator(node.op, node.overload)(**arguments)
    if result is None:
        return []
    if not isinstance(result, (list, tuple)):
        return [result]
    parts = [part for element in result for part in (element if isinstance(element, (list, tuple)) else (element,))]
    # A list among the results is flattened, unless nothing reads it.
    return parts if len(parts) == len(node.outputs) else list(result)


def _check_states(op: str, input: torch.Tensor, hx: Any, batch_first: bool, **_: Any) -> None:
    """torch's modules check the batch size of states in Python; its kernels write beyond memory that is smaller."""
    batch = input.shape[0 if batch_first else 1] if input.dim() == 3 else 1
    if any(state.dim() == 3 and state.shape[1] != batch for state in (hx if isinstance(hx, (list, tuple)) else [hx])):
        raise RuntimeError(f"{op}: the states have another batch size than the input")


def mutates(block: Block) -> bool:
    """Whether a node of the block writes to its arguments."""
    return any(writes(node) for node in block.all_nodes())


def writes(node: Node) -> bool:
    return _writes(node.op, node.overload)


def operator(op: str, overload: str) -> Callable[..., Any]:
    """torch's function for an operator."""
    # A user's operator may be removed and defined again.
    own = op.startswith(("aten::", "prim::", "prims::"))
    return _operator(op, overload) if own else _operator.__wrapped__(op, overload)


@functools.cache
def _operator(op: str, overload: str) -> Callable[..., Any]:
    namespace, _, name = op.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    function: Callable[..., Any] = getattr(packet, overload or UNBOUND_OVERLOADS.get(op, "default"))
    return function


@functools.cache
def has_tag(op: str, overload: str, tag: torch.Tag) -> bool:
    """Whether torch tags an operator, for example as pointwise or as random."""
    return schema_of(op, overload) is not None and tag in getattr(operator(op, overload), "tags", ())


@functools.cache
def _writes(op: str, overload: str) -> bool:
    schema = schema_of(op, overload)
    return schema is not None and schema.mutates


class Interpreter:
    """One run: the content of each value computed so far. Subclasses override ``step``."""

    def __init__(self, mutates: bool = False, on_node: Observer | None = None) -> None:
        self._mutates = mutates
        self._on_node = on_node
        self._contents: dict[Value, Any] = {}

    def run(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a whole graph; contents are freed after their last use."""
        return self.block(block, inputs, {} if self._mutates else _last_uses(block))

    def block(
        self, block: Block, inputs: Sequence[Any], release: Mapping[Node, Sequence[Value]] = MappingProxyType({})
    ) -> list[Any]:
        for value, content in zip(block.inputs, inputs, strict=True):
            self._contents[value] = content.clone() if self._mutates and isinstance(content, torch.Tensor) else content
        for node in block.nodes:
            results = self.step(node, self._arguments(node))
            self._contents.update(zip(node.outputs, results, strict=True))
            if self._on_node is not None:
                self._on_node(node, results)
            for value in release.get(node, ()):
                self._contents.pop(value, None)
        return [self._content(value) for value in block.outputs]

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        """The results of one node."""
        if node.op == NUMBER:
            return [_number(**arguments)]
        if node.op == "prim::If":
            return self.block(node.blocks[0 if arguments["condition"] else 1], [])
        if node.op == "prim::Loop":
            return self._loop(node.blocks[0], **arguments)
        return compute(node, arguments) if is_special(node) else evaluate(node, arguments)

    def _loop(self, body: Block, limit: Any, condition: Any, carried: list[Any]) -> list[Any]:
        iteration = 0
        while condition and (limit is None or iteration < int(limit)):
            condition, *carried = self.block(body, [iteration, *carried])
            iteration += 1
        return carried

    def _arguments(self, node: Node) -> dict[str, Any]:
        arguments = {name: self._argument(argument) for name, argument in node.inputs.items()}
        if node.op in NEEDS_LAYOUT and not self._mutates:
            # Without mutation only the content of a value counts, and copies that only change strides are gone.
            arguments["self"] = arguments["self"].contiguous()
        return arguments

    def _argument(self, argument: Argument) -> Any:
        if isinstance(argument, Value):
            return self._content(argument)
        if isinstance(argument, (list, tuple)):
            return [self._argument(element) for element in argument]
        return argument

    def _content(self, value: Value) -> Any:
        if value.data is not None and value not in self._contents:
            self._contents[value] = value.data.clone() if self._mutates else value.data
        return self._contents[value]


def _number(expression: Any, leaves: Sequence[tuple[Any, int | None]], of: Sequence[Any]) -> Any:
    """The value of an expression, with its leaves read from these values."""
    pairs = zip(leaves, of, strict=True)
    return evaluate_size(expression, {leaf: v if axis is None else v.shape[axis] for (leaf, axis), v in pairs})


def _last_uses(block: Block) -> dict[Node, list[Value]]:
    """For each node the values that are not read after it."""
    last: dict[Value, Node] = {}
    for node in block.nodes:
        inner = (value for nested in node.blocks for value in nested.outer_values())
        last.update(dict.fromkeys([*node.outputs, *node.values(), *inner], node))
    kept = set(block.outputs)
    found: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if value not in kept:
            found.setdefault(node, []).append(value)
    return found
