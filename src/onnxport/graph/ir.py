"""The captured graph: ATen operators with arguments bound by their schemas, the same form for every capture."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from onnxport.compat import schemas
from onnxport.graph.sizes import Shape, Size, SizeExpr
from onnxport.graph.source_paths import shown_path

QUANTIZED = (torch.quint8, torch.qint8)


@dataclass(frozen=True, slots=True)
class TensorType:
    dtype: torch.dtype
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python number that is only known at run time."""

    kind: type[bool] | type[int] | type[float]


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A list of tensors of a length that is only known at run time; ``element`` is the common type of its elements."""

    element: TensorType


@dataclass(frozen=True, slots=True)
class UnrankedType:
    """An output with another number of dimensions in each branch; the shape with the most, None where sizes differ."""

    dtype: torch.dtype
    shape: tuple[Size | None, ...]


Type: TypeAlias = TensorType | ScalarType | SequenceType | UnrankedType


@dataclass(frozen=True, slots=True)
class Source:
    """The source line of a node: the innermost frame that is neither torch's nor ours.

    ``callers`` are the user's frames around it, the innermost first, if they were requested.
    """

    file: str
    line: int
    function: str = ""
    callers: tuple[Source, ...] = field(default=(), compare=False, repr=False)

    @property
    def stack(self) -> str:
        """The line and those of the callers, each on its own."""
        return "\n".join(f"{s.full} in {s.inner}" if s.inner else s.full for s in (self, *self.callers))

    def __str__(self) -> str:
        """``model.py:53, in Block.forward``, for messages."""
        return f"{self.short}, in {self.inner}" if self.inner not in ("", "<module>") else self.short

    @property
    def inner(self) -> str:
        """``Block.forward``, without the function that a class or function is defined in."""
        return self.function.rpartition("<locals>.")[2]

    @property
    def short(self) -> str:
        """``model.py:53``."""
        return f"{shown_path(self.file)}:{self.line}"

    @property
    def full(self) -> str:
        """With the whole path."""
        return f"{self.file}:{self.line}"


class Scope(str):
    """The path of the module that called a node, with the calls that become functions around it, outermost first.

    Such a call is its number and the path of the module called.
    """

    __slots__ = ("calls",)

    calls: tuple[tuple[int, str], ...]

    def __new__(cls, path: str, calls: tuple[tuple[int, str], ...]) -> Scope:
        scope = super().__new__(cls, path)
        scope.calls = calls
        return scope

    @staticmethod
    def inside(path: str, outer: str) -> str:
        """The path of a module that is called in another one, with the calls around that."""
        return Scope(path, outer.calls) if isinstance(outer, Scope) else path


class Value:
    """The result of a node: a tensor, or a number that is only known at run time.

    ``data`` is the content of a parameter, buffer or constant tensor.
    ``size`` is set on integers (scalars and 0-dim tensors) that were computed from sizes alone.
    """

    __slots__ = ("data", "name", "node", "size", "type")

    def __init__(
        self, type: Type, *, name: str = "", data: torch.Tensor | None = None, size: Size | None = None
    ) -> None:
        self.type = type
        self.name = name
        self.data = data
        self.size = size
        self.node: Node | None = None

    @property
    def tensor_type(self) -> TensorType:
        assert isinstance(self.type, TensorType), f"{self} is not a tensor"
        return self.type

    @property
    def dtype(self) -> torch.dtype:
        return self.type.dtype if isinstance(self.type, UnrankedType) else self.tensor_type.dtype

    @property
    def shape(self) -> Shape:
        return self.tensor_type.shape

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self))} : {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class PythonCall:
    """The call of an autograd Function, for a ``prim::PythonOp`` node.

    ``convention`` has a letter for each argument of ``apply``: d for a tensor, which is an argument of the node by its
    index ("0", "1", ...), and c for anything else, which is at that index in ``arguments``. ``tensors`` are the indices
    of results that are tensors, ``shared`` those of tensor arguments that share memory with a result.
    """

    function: Any
    arguments: tuple[Any, ...]
    convention: str
    tensors: tuple[bool, ...]
    shared: tuple[int, ...] = ()


# The operator of a node that computes a number from sizes: an ``expression`` over ``leaves``, each the size of one of
# the values ``of`` along an axis, or that value itself if it is a number.
NUMBER = "onnxport::number"

# The operator of a node that stands for the call of a whole module.
MODULE_CALL = "onnxport::module_call"

# The arguments of a node: values, Python constants, and lists of those.
Argument: TypeAlias = Any


class Node:
    """One operator call. ``inputs`` follow the schema by name; ``outputs`` are its results in order.

    ``returns_list`` says that the outputs are the elements of one list (``aten::split``).
    """

    __slots__ = ("blocks", "inputs", "op", "outputs", "overload", "returns_list", "scope", "source")

    def __init__(
        self,
        op: str,
        inputs: dict[str, Argument],
        outputs: Sequence[Value],
        *,
        overload: str = "",
        scope: str = "",
        source: Source | None = None,
        blocks: Sequence[Block] = (),
        returns_list: bool = False,
    ) -> None:
        self.op = op
        self.overload = overload
        self.inputs = inputs
        self.outputs = list(outputs)
        self.scope = scope
        self.source = source
        self.blocks = list(blocks)
        self.returns_list = returns_list
        for output in self.outputs:
            output.node = self

    @property
    def full_name(self) -> str:
        return f"{self.op}.{self.overload}" if self.overload else self.op

    @property
    def location(self) -> str | None:
        """The line of the user's code, as ``model.py:53``."""
        return self.source.short if self.source else None

    @property
    def schema(self) -> Schema | None:
        return schema_of(self.op, self.overload)

    def values(self) -> list[Value]:
        """The values among the arguments, lists included, in order."""
        return values_in(*self.inputs.values())

    @property
    def is_complex(self) -> bool:
        """Whether an argument or a result is a tensor of complex numbers."""
        for argument in (*self.outputs, *self.inputs.values()):
            kind = type(argument)  # called three times for every node: most arguments are numbers
            if (kind is Value or kind is list or kind is tuple) and _has_complex(argument):
                return True
        return False

    def like(self, op: str, inputs: dict[str, Argument], outputs: Sequence[Value], *, overload: str = "") -> Node:
        """Another node with the same source line and scope."""
        return Node(op, inputs, outputs, overload=overload, scope=self.scope, source=self.source)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.inputs.items())
        return f"{self.outputs} = {self.full_name}({arguments})"


@dataclass(slots=True)
class Block:
    """Nodes in order, with inputs and outputs: a whole graph, a branch, or the body of a loop."""

    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def remove_dead_nodes(self) -> None:
        """Drop nodes with unused results. Valid once no node mutates its arguments."""
        alive = {id(output) for output in self.outputs}
        kept = []
        for node in reversed(self.nodes):
            if any(id(output) in alive for output in node.outputs):
                kept.append(node)
                alive.update(id(value) for value in node.values())
                for block in node.blocks:
                    block.remove_dead_nodes()
                    alive.update(id(value) for value in block.outer_values())
        kept.reverse()
        self.nodes[:] = kept

    def all_nodes(self) -> Iterator[Node]:
        """The nodes of this block and of the blocks inside it, in order."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.all_nodes()

    def outer_values(self) -> Iterator[Value]:
        """Values that this block reads from the blocks around it (and its own; a superset is enough for liveness)."""
        yield from self.outputs
        for node in self.nodes:
            yield from node.values()
            for block in node.blocks:
                yield from block.outer_values()


@dataclass(slots=True)
class Graph:
    """A captured model. Parameters and constant tensors are values with ``data`` and without a node.

    ``captures`` is the number of points at which its sizes were evaluated, ``axes`` has the names of dynamic sizes.
    """

    block: Block
    parameters: list[Value]
    captures: int = 1
    axes: dict[SizeExpr, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)

    def scope_name(self, path: str) -> str:
        """``features.0`` as ``AlexNet/Sequential[features]/Conv2d[0]``."""
        parts = [self.modules.get("", "")]
        prefix = ""
        for part in path.split(".") if path else ():
            prefix = f"{prefix}.{part}" if prefix else part
            kind = self.modules.get(prefix)
            if kind is not None:
                parts.append(f"{kind}[{part}]")
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operator's schema. ``alias`` names the set it may alias; ``writes`` that it is mutated."""

    name: str
    type: str
    default: Any
    required: bool
    alias: frozenset[str]
    writes: bool
    keyword_only: bool


@dataclass(frozen=True, slots=True)
class Schema:
    parameters: tuple[Parameter, ...]
    returns: tuple[Parameter, ...]

    @property
    def mutates(self) -> bool:
        return any(parameter.writes for parameter in self.parameters)

    def written(self) -> Iterator[Parameter]:
        return (parameter for parameter in self.parameters if parameter.writes)

    def view_of(self) -> str | None:
        """The parameter that the first result is a view of, if the operator writes to nothing."""
        if self.mutates or not self.returns or not self.returns[0].alias:
            return None
        return next((p.name for p in self.parameters if p.alias & self.returns[0].alias), None)


def schema_of(op: str, overload: str = "") -> Schema | None:
    """The schema of a registered operator; None for operators without one, such as ``prim::`` nodes."""
    # A user's operator may be removed and defined again.
    own = op.startswith(("aten::", "prim::", "prims::"))
    return _schema_of(op, overload) if own else _schema_of.__wrapped__(op, overload)


@functools.cache
def _schema_of(op: str, overload: str) -> Schema | None:
    return schema_from(found) if (found := schemas.of_overload(op, overload)) is not None else None


def schemas_of(op: str) -> Iterator[tuple[str, Schema]]:
    """The overloads of an operator with their schemas."""
    for found in schemas.registered(op):
        yield found.overload_name, schema_from(found)


def schema_from(found: Any) -> Schema:
    def read(argument: Any) -> Parameter:
        alias = argument.alias_info
        return Parameter(
            name=argument.name,
            type=str(argument.real_type),
            default=argument.default_value,
            required=not argument.has_default_value(),
            alias=frozenset(alias.before_set) if alias else frozenset(),
            writes=bool(alias and alias.is_write),
            keyword_only=argument.kwarg_only,
        )

    return Schema(tuple(map(read, found.arguments)), tuple(map(read, found.returns)))


def values_in(*arguments: Argument) -> list[Value]:
    """The values in arguments, in order."""
    found: list[Value] = []
    _collect(arguments, found)
    return found


def _collect(arguments: Sequence[Argument], found: list[Value]) -> None:
    for argument in arguments:
        if type(argument) is Value:
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            _collect(argument, found)


def _has_complex(argument: Argument) -> bool:
    if type(argument) is Value:
        return type(argument.type) is TensorType and argument.type.dtype.is_complex
    return type(argument) in (list, tuple) and any(map(_has_complex, argument))


def map_values(argument: Argument, function: Callable[[Value], Argument]) -> Argument:
    """The argument with each value in it replaced."""
    if isinstance(argument, Value):
        return function(argument)
    if isinstance(argument, (list, tuple)):
        return type(argument)(map_values(element, function) for element in argument)
    return argument
