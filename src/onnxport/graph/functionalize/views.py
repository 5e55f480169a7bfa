"""Views: which nodes share the memory of an argument, and how a write to a view is written back to its source."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from onnxport.errors import ExportError
from onnxport.graph.functionalize.layouts import Layouts
from onnxport.graph.interpret import operator
from onnxport.graph.ir import Argument, Node, ScalarType, Scope, TensorType, Type, Value, schema_of
from onnxport.graph.sizes import Size

END = torch.iinfo(torch.int64).max


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


RESHAPES = _aten(
    "view view_as reshape reshape_as flatten unflatten ravel _unsafe_view _reshape_alias squeeze unsqueeze "
    "atleast_1d atleast_2d atleast_3d"
)
PERMUTATIONS = _aten("permute transpose t movedim moveaxis swapaxes swapdims numpy_T mT mH matrix_H adjoint")
SECTIONS = _aten(
    "split split_with_sizes chunk tensor_split hsplit vsplit dsplit unsafe_split unsafe_split_with_sizes unsafe_chunk"
)
CASTS = _aten("to type_as as_tensor _autocast_to_full_precision _autocast_to_reduced_precision")
DROPOUTS = _aten("dropout feature_dropout alpha_dropout feature_alpha_dropout")
# These have the content of their source if they have its dtype and shape.
IDENTITIES = (
    RESHAPES
    | CASTS
    | DROPOUTS
    | _aten("detach alias data lift lift_fresh contiguous positive resolve_conj resolve_neg conj real cpu pin_memory")
    | _aten("expand expand_as broadcast_to")
)
COPIES = _aten("clone _to_copy")
# The conjugate and the parts of a complex number differ from it, even if dtype and shape agree.
CONJUGATES = _aten("conj _conj resolve_conj resolve_neg _neg_view real imag mH matrix_H adjoint")
# Views that schemas do not declare: those that return lists, and those that sometimes return their argument.
UNDECLARED = (
    dict.fromkeys(SECTIONS | _aten("unbind type_as data _unsafe_view atleast_1d atleast_2d atleast_3d"), "self")
    | dict.fromkeys(DROPOUTS, "input")
)  # fmt: skip


def source_name(node: Node) -> str | None:
    """The argument that the results may share memory with; None for a node that is never a view."""
    name = _source_name(node.op, node.overload)
    return name if name is not None and node.outputs and isinstance(node.inputs.get(name), Value) else None


@functools.cache
def _source_name(op: str, overload: str) -> str | None:
    schema = schema_of(op, overload)
    declared = None if schema is None else schema.view_of()
    return declared or UNDECLARED.get(op)


def is_copy(node: Node, source: Value, layouts: Layouts) -> bool:
    """Whether a node that may return a view of its source returned a copy."""
    output = node.outputs[0]
    if node.op in CASTS:
        memory_format = argument(node, "memory_format")
        fits = memory_format in (None, torch.preserve_format) or layouts.is_contiguous(source, memory_format)
        return output.type != source.type or bool(argument(node, "copy")) or not fits
    if node.op in DROPOUTS:
        return bool(argument(node, "train")) and argument(node, "p") != 0
    if node.op == "aten::contiguous":
        return not layouts.is_contiguous(source, argument(node, "memory_format"))
    if node.op in RESHAPES:
        return not layouts.is_viewable(source, output.shape)
    return False


def is_identity(node: Node, source: Value) -> bool:
    """Whether the result has the content of the source, with the same dtype and shape."""
    if node.op in CONJUGATES and source.dtype.is_complex:
        return False
    if len(node.outputs) != 1 or node.outputs[0].type != source.type:
        return False
    if node.op in DROPOUTS:
        return not argument(node, "train")
    if node.op in PERMUTATIONS:
        return permutation(node, source) == tuple(range(len(source.shape)))
    if node.op == "aten::slice":
        return _covers(node, source)
    if node.op in SECTIONS or node.op == "aten::narrow":
        return isinstance(source.shape[section_axis(node, source)], int)
    return node.op in IDENTITIES


def _covers(node: Node, source: Value) -> bool:
    """Whether a slice that has the size of its source at all points has it at every size."""
    size = source.shape[section_axis(node, source)]
    start, end, step = (argument(node, name) for name in ("start", "end", "step"))
    if isinstance(size, int):
        return True
    reaches_end = end is None or (isinstance(end, int) and end == END) or (isinstance(end, Value) and end.size == size)
    return start in (0, None) and step == 1 and reaches_end


def permutation(node: Node, source: Value) -> tuple[int, ...]:
    """The axis of the source for each axis of the result."""
    arguments = tuple((name, _hashable(given)) for name, given in node.inputs.items() if name != "self")
    return _permutation(node.op, node.overload, arguments, len(source.shape))


@functools.cache
def _permutation(op: str, overload: str, arguments: tuple[tuple[str, Any], ...], rank: int) -> tuple[int, ...]:
    """The axes are read from a meta tensor with distinct sizes."""
    probe = torch.empty(tuple(range(rank)), device="meta")
    return tuple(operator(op, overload)(probe, **dict(arguments)).shape)


def section_axis(node: Node, source: Value) -> int:
    rank = len(source.shape)
    if node.op in ("aten::hsplit", "aten::vsplit", "aten::dsplit"):
        return {"aten::hsplit": min(1, rank - 1), "aten::vsplit": 0, "aten::dsplit": 2}[node.op]
    dim: int = argument(node, "dim")
    return dim % rank


def argument(node: Node, name: str) -> Argument:
    """An argument, or its default in the schema."""
    if name in node.inputs:
        return node.inputs[name]
    schema = node.schema
    return None if schema is None else next((p.default for p in schema.parameters if p.name == name), None)


class Emitter:
    """Appends nodes to a block under construction."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._sizes: dict[tuple[Value, int], Value] = {}

    def add(
        self, writer: Node, op: str, inputs: dict[str, Argument], output: Type | Value, *, overload: str = ""
    ) -> Value:
        """Add a node with the source line of ``writer``; returns its result."""
        value = output if isinstance(output, Value) else Value(output)
        self.nodes.append(writer.like(op, inputs, [value], overload=overload))
        return value

    def size(self, writer: Node, of: Value, axis: int) -> int | Value:
        """The size of an axis: a number, or a value if it is dynamic."""
        size = of.shape[axis]
        if isinstance(size, int):
            return size
        if (of, axis) not in self._sizes:
            value = Value(ScalarType(int), size=size)
            inputs: dict[str, Argument] = {"self": of, "dim": axis}
            self._sizes[of, axis] = self.add(writer, "aten::size", inputs, value, overload="int")
        return self._sizes[of, axis]

    def sum(self, writer: Node, left: int | Value, right: int | Value) -> int | Value:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        sizes = [number.size if isinstance(number, Value) else number for number in (left, right)]
        total = None if sizes[0] is None or sizes[1] is None else sizes[0] + sizes[1]
        value = Value(ScalarType(int), size=total)
        return self.add(writer, "aten::add", {"a": left, "b": right}, value, overload="int")


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A node that is a view of its argument ``source``; its other arguments are final."""

    node: Node
    source: str

    def key(self) -> Hashable:
        """Equal for two equal views of one source.

        Calls of modules that become functions have views of their own, so that each computes all that it needs.
        """
        calls = self.node.scope.calls if isinstance(self.node.scope, Scope) else ()
        others = ((name, _hashable(given)) for name, given in self.node.inputs.items() if name != self.source)
        return (self.node.op, self.node.overload, calls, *others)

    def replay(self, emitter: Emitter, source: Value) -> list[Value]:
        """The same view of a newer content of its source."""
        node = self.node.like(
            self.node.op,
            {**self.node.inputs, self.source: source},
            [Value(output.type) for output in self.node.outputs],
            overload=self.node.overload,
        )
        node.returns_list = self.node.returns_list
        emitter.nodes.append(node)
        return node.outputs


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """New content for one result of a view, to be written back to the ``target``."""

    emitter: Emitter
    writer: Node
    view: View
    position: int
    target: Value
    content: Value

    def argument(self, name: str) -> Argument:
        return argument(self.view.node, name)

    def emit(self, op: str, inputs: dict[str, Argument]) -> Value:
        type = TensorType(self.content.dtype, self.target.shape)
        return self.emitter.add(self.writer, op, inputs, type)

    def scatter(self, op: str, **where: Argument) -> Value:
        return self.emit(op, {"self": self.target, "src": self.content, **where})

    def slice_scatter(self, axis: int, start: Argument, end: Argument, step: Argument = 1) -> Value:
        return self.scatter("aten::slice_scatter", dim=axis, start=start, end=end, step=step)


Inverse: TypeAlias = Callable[[Write], Value]


def write_back(write: Write) -> Value:
    """The target with the new content in the part that is the view."""
    op = write.view.node.op
    opaque = op in CONJUGATES and write.target.dtype.is_complex
    overlaps = op in SECTIONS and not is_disjoint(write.view, write.target)
    inverse = None if opaque or overlaps or write.content.dtype != write.target.dtype else INVERSES.get(op)
    if write.target.dtype.is_complex or write.content.dtype.is_complex:
        inverse = COMPLEX_INVERSES.get(op, inverse)
    if inverse is None:
        raise ExportError(
            f"{write.writer.source or write.writer.scope or 'the model'}: {write.writer.full_name} writes to a view "
            f"made by {write.view.node.full_name} (at {write.view.node.source}), which cannot be written back to its "
            "base. Write to the base tensor itself, or to a copy made with clone()."
        )
    return inverse(write)


def _reshape(write: Write) -> Value:
    shape = [write.emitter.size(write.writer, write.target, axis) for axis in range(len(write.target.shape))]
    return write.emit("aten::reshape", {"self": write.content, "shape": shape})


def _permute(write: Write) -> Value:
    order = permutation(write.view.node, write.target)
    inverse = [order.index(axis) for axis in range(len(order))]
    return write.emit("aten::permute", {"self": write.content, "dims": inverse})


def _slice(write: Write) -> Value:
    return write.slice_scatter(*(write.argument(name) for name in ("dim", "start", "end", "step")))


def _narrow(write: Write) -> Value:
    emitter, writer = write.emitter, write.writer
    axis, start, length = (write.argument(name) for name in ("dim", "start", "length"))
    if isinstance(start, Value) and start.is_tensor:
        number = Value(ScalarType(int), size=start.size)
        start = emitter.add(writer, "aten::Int", {"a": start}, number, overload="Tensor")
    end = emitter.sum(writer, start, length)
    reaches_end = isinstance(start, int) and start < 0 and end == 0
    return write.slice_scatter(axis, start, END if reaches_end else end)


def _select(write: Write) -> Value:
    dim, index = write.argument("dim"), write.argument("index")
    if write.target.shape[dim] == 1:
        return write.emit("aten::unsqueeze", {"self": write.content, "dim": dim % len(write.target.shape)})
    return write.scatter("aten::select_scatter", dim=dim, index=index)


def _unbind(write: Write) -> Value:
    return write.scatter("aten::select_scatter", dim=write.argument("dim"), index=write.position)


def _diagonal(write: Write) -> Value:
    where = {name: write.argument(name) for name in ("offset", "dim1", "dim2")}
    return write.scatter("aten::diagonal_scatter", **where)


def _as_strided(write: Write) -> Value:
    where = {name: write.argument(name) for name in ("size", "stride", "storage_offset")}
    return write.scatter("aten::as_strided_scatter", **where)


def _section(write: Write) -> Value:
    axis = section_axis(write.view.node, write.target)
    sizes: list[Size] = [output.shape[axis] for output in write.view.node.outputs]
    if all(isinstance(size, int) for size in sizes):
        parts = write.view.node.outputs
    else:
        parts = write.view.replay(write.emitter, write.target)
    start: int | Value = 0
    for part in parts[: write.position]:
        start = write.emitter.sum(write.writer, start, write.emitter.size(write.writer, part, axis))
    if write.position == len(parts) - 1:
        return write.slice_scatter(axis, start, END)
    length = write.emitter.size(write.writer, parts[write.position], axis)
    return write.slice_scatter(axis, start, write.emitter.sum(write.writer, start, length))


def _real(write: Write) -> Value:
    return _complex(write, real=write.content, imag=_part(write, "aten::imag"))


def _imag(write: Write) -> Value:
    return _complex(write, real=_part(write, "aten::real"), imag=write.content)


def _part(write: Write, op: str) -> Value:
    type = TensorType(write.content.dtype, write.target.shape)
    return write.emitter.add(write.writer, op, {"self": write.target}, type)


def _complex(write: Write, **parts: Argument) -> Value:
    return write.emitter.add(write.writer, "aten::complex", parts, write.target.type)


def _unary(op: str) -> Inverse:
    return lambda write: write.emitter.add(write.writer, op, {"self": write.content}, write.target.type)


# Views of complex numbers, and views of other numbers as complex ones.
COMPLEX_INVERSES: dict[str, Inverse] = {
    "aten::real": _real,
    "aten::imag": _imag,
    "aten::view_as_real": _unary("aten::view_as_complex"),
    "aten::view_as_complex": _unary("aten::view_as_real"),
    **dict.fromkeys(_aten("conj _conj"), _unary("aten::conj")),
    **dict.fromkeys(_aten("mH matrix_H adjoint"), _unary("aten::mH")),
}
INVERSES: dict[str, Inverse] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(PERMUTATIONS, _permute),
    **dict.fromkeys(SECTIONS, _section),
    "aten::slice": _slice,
    "aten::narrow": _narrow,
    "aten::select": _select,
    "aten::unbind": _unbind,
    "aten::diagonal": _diagonal,
    "aten::linalg_diagonal": _diagonal,
    "aten::as_strided": _as_strided,
}


def is_disjoint(view: View, source: Value) -> bool:
    """Whether the results of the view share no element; ``tensor_split`` at decreasing indices may repeat some."""
    if view.node.op not in SECTIONS:
        return view.node.op == "aten::unbind"
    axis = section_axis(view.node, source)
    return source.shape[axis] == sum((output.shape[axis] for output in view.node.outputs), 0)


def squeezed_sizes(node: Node) -> dict[int, Size]:
    """The sizes, by their axes, that a squeeze would drop if they were 1."""
    shape = node.inputs["self"].shape
    dims = node.inputs.get("dim")
    given = range(len(shape)) if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
    return {dim % len(shape): shape[dim] for dim in given if isinstance(dim, int) and shape}


def kept_axis(source: object) -> str:
    """The warning about a squeeze of an axis whose size follows from data."""
    return (
        f"{source or 'the model'}: the size of an axis depends on the data here. Where it is 1, torch drops the axis "
        "and the file keeps it. Name the axes to drop, as in squeeze(-1)."
    )


def _hashable(given: Argument) -> Hashable:
    if isinstance(given, (list, tuple)):
        return tuple(map(_hashable, given))
    if isinstance(given, Value) and not given.is_tensor and given.size is not None:
        return given.size
    hashable: Hashable = given
    return hashable
