"""The nodes of a graph with numbers that follow from sizes as expressions, in the places where they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.graph.ir import NUMBER, Argument, Block, Graph, Node, ScalarType, Scope, TensorType, Value, map_values
from onnxport.graph.sizes import SizeExpr, leaves_of, substitute


class NotLifted(Exception):
    """A graph whose sizes follow from more than the axes of its inputs."""


@dataclass(frozen=True)
class Lifted:
    nodes: list[Node]
    outputs: list[Value]


def lifted(graph: Graph, values: Mapping[Value, Value], axes: Mapping[str, SizeExpr]) -> Lifted:
    """A copy of a graph over other values for its inputs and parameters, with its sizes over these sizes of axes."""
    copy = _Copy(dict(values), axes)
    nodes = copy.nodes(graph.block.nodes)
    return Lifted(nodes, [copy.value(output) for output in graph.block.outputs])


class _Copy:
    def __init__(self, values: dict[Value, Any], axes: Mapping[str, SizeExpr]) -> None:
        self._values = values
        self._axes = axes

    def nodes(self, nodes: Sequence[Node]) -> list[Node]:
        made = []
        for node in nodes:
            if isinstance(node.scope, Scope):
                raise NotLifted
            if node.op == NUMBER:
                self._values[node.outputs[0]] = self._size(node.inputs["expression"])
            else:
                made.append(self._node(node))
        return made

    def _node(self, node: Node) -> Node:
        inputs = {name: map_values(argument, self.value) for name, argument in node.inputs.items()}
        blocks = [self._block(block) for block in node.blocks]
        return copied(node, inputs, [self._new(output) for output in node.outputs], blocks)

    def _block(self, block: Block) -> Block:
        inputs = [self._new(value) for value in block.inputs]
        nodes = self.nodes(block.nodes)
        return Block(inputs, nodes, [self.value(output) for output in block.outputs])

    def value(self, value: Value) -> Any:
        return self._values.get(value, value)

    def _new(self, value: Value) -> Value:
        kind = value.type
        if isinstance(kind, TensorType):
            kind = TensorType(kind.dtype, tuple(map(self._size, kind.shape)))
        elif not isinstance(kind, ScalarType):
            raise NotLifted
        made = Value(kind, name=value.name, data=value.data, size=self._size(value.size))
        self._values[value] = made
        return made

    def _size(self, size: Any) -> Any:
        if not isinstance(size, SizeExpr):
            return size
        leaves = leaves_of(size)
        if any(leaf.op != "axis" or leaf.operands[0] not in self._axes for leaf in leaves):
            raise NotLifted
        return substitute(size, {leaf: self._axes[leaf.operands[0]] for leaf in leaves})


def copied(node: Node, inputs: dict[str, Argument], outputs: Sequence[Value], blocks: Sequence[Block]) -> Node:
    return Node(
        node.op, inputs, outputs, overload=node.overload, scope=node.scope, source=node.source, blocks=blocks,
        returns_list=node.returns_list,
    )  # fmt: skip


def lowered(nodes: Sequence[Node], inputs: Sequence[Value]) -> list[Node]:
    """The nodes with expressions among their arguments as numbers that are computed from the sizes of the inputs."""
    carriers: dict[SizeExpr, tuple[Value, int]] = {}
    for value in inputs:
        for axis, size in enumerate(value.shape):
            if isinstance(size, SizeExpr):
                carriers.setdefault(size, (value, axis))
    return list(_lowered(nodes, carriers, {}))


def _lowered(
    nodes: Sequence[Node], carriers: Mapping[SizeExpr, tuple[Value, int]], known: dict[SizeExpr, Value]
) -> Iterator[Node]:
    for node in nodes:
        for expression in dict.fromkeys(_expressions(node.inputs)):
            if expression not in known:
                number = _number(expression, carriers, node)
                known[expression] = number.outputs[0]
                yield number
        for block in node.blocks:
            block.nodes = list(_lowered(block.nodes, carriers, dict(known)))
        node.inputs = {name: _with_numbers(argument, known) for name, argument in node.inputs.items()}
        yield node


def _expressions(argument: Any) -> Iterator[SizeExpr]:
    if isinstance(argument, SizeExpr):
        yield argument
    elif isinstance(argument, (list, tuple, dict)):
        for element in argument.values() if isinstance(argument, dict) else argument:
            yield from _expressions(element)


def _with_numbers(argument: Any, known: Mapping[SizeExpr, Value]) -> Any:
    if isinstance(argument, SizeExpr):
        return known[argument]
    if isinstance(argument, (list, tuple)):
        return type(argument)(_with_numbers(element, known) for element in argument)
    return argument


def _number(expression: SizeExpr, carriers: Mapping[SizeExpr, tuple[Value, int]], user: Node) -> Node:
    leaves = leaves_of(expression)
    if any(leaf not in carriers for leaf in leaves):
        raise NotLifted
    value = Value(ScalarType(expression.kind), size=expression if expression.kind is int else None)
    inputs = {
        "expression": expression,
        "leaves": tuple((leaf, carriers[leaf][1]) for leaf in leaves),
        "of": [carriers[leaf][0] for leaf in leaves],
    }
    return Node(NUMBER, inputs, [value], scope=user.scope, source=user.source)
