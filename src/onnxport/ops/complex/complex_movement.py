"""Operators that move, join, sum or multiply complex numbers: the converters for real tensors run on the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

from onnxport.graph import ir as captured
from onnxport.graph.ir import TensorType
from onnxport.lower import complexes, emit
from onnxport.lower.builder import Builder
from onnxport.lower.complexes import Complex
from onnxport.lower.registry import Converter, Entry, Kind
from onnxport.lower.value import Value

# Arguments with content for the result; indices, masks and sizes are the same for both parts.
CONTENT = frozenset(
    ["self", "other", "src", "source", "values", "value", "tensors", "fill_value", "input", "s", "prepend", "append"]
)
# Arguments that name axes.
AXES = frozenset(["dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "axis0", "axis1", "source", "destination"])
# Elements to add to a list argument for the axis of the parts: its size, its number of repeats, its padding.
BEHIND = {"size": [2], "shape": [2], "repeats": [1]}
BEFORE = {"pad": [0, 0], "padding": [0, 0]}


def _aten(names: str) -> list[str]:
    return [f"aten::{name}" for name in names.split()]


# Operators that move numbers along axes, or sum them.
BY_PARTS = _aten(
    "atleast_1d atleast_2d atleast_3d broadcast_tensors as_strided as_strided_scatter hstack vstack row_stack dstack "
    "column_stack meshgrid combinations cartesian_prod block_diag index_put _index_put_impl index_copy index_add "
    "index_fill take put take_along_dim masked_fill where.self where.ScalarSelf where.ScalarOther where.Scalar "
    "masked_select masked_scatter gather scatter.src scatter.value scatter_add tile repeat_interleave roll rot90 tril "
    "triu diagonal linalg_diagonal diag diagflat diag_embed diagonal_scatter trace slice_scatter select_scatter fill "
    "copy diff hsplit vsplit dsplit unfold im2col col2im zeros zeros_like new_zeros empty empty_like empty_strided "
    "empty_permuted new_empty new_empty_strided full full_like new_full scalar_tensor"
)
# Those with a converter that also works on the joined parts, with arguments adapted to the additional axis.
BY_PARTS_OR_JOINED = _aten(
    "view reshape expand broadcast_to expand_copy view_as reshape_as ravel expand_as unflatten flatten permute "
    "permute_copy transpose transpose_copy swapdims swapaxes movedim moveaxis squeeze squeeze_copy unsqueeze "
    "unsqueeze_copy slice narrow select index index_select split unsafe_split split_with_sizes split_with_sizes_copy "
    "unsafe_split_with_sizes chunk unsafe_chunk tensor_split unbind unbind_copy cat concat concatenate stack flip "
    "fliplr flipud repeat neg negative positive alias clone detach contiguous lift_fresh lift lift_fresh_copy "
    "detach_copy alias_copy resolve_conj resolve_neg pad _pad_enum constant_pad_nd reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d cumsum"
)
# Those that use all axes by default.
OVER_AXES = _aten("sum mean fft_fftshift fft_ifftshift")
# New tensors of real numbers.
REAL_NUMBERS = _aten("ones ones_like new_ones eye")
SHAPE_OF_OTHER = frozenset(_aten("view_as reshape_as expand_as"))


def is_content(g: Builder, name: str) -> bool:
    op = "" if g.origin is None else g.origin.op
    if (name == "other" and op in SHAPE_OF_OTHER) or op in ("aten::movedim", "aten::moveaxis"):
        return name == "self"
    return name in CONTENT


def part_of(g: Builder, name: str, argument: Any, index: int) -> Any:
    """The real (0) or imaginary (1) part of an argument; real content has zeros for the second."""
    if isinstance(argument, list):
        return [part_of(g, name, element, index) for element in argument]
    if isinstance(argument, Complex):
        return argument.parts(g)[index]
    if isinstance(argument, complex):
        return (argument.real, argument.imag)[index] if is_content(g, name) else g.unsupported(f"{name} is complex")
    if index == 0 or not is_content(g, name) or argument is None:
        return argument
    if isinstance(argument, Value):
        return complexes.zeros(g, g.realise(argument))
    return 0.0 if isinstance(argument, (bool, int, float)) else argument


def outputs_as(g: Builder, form: Callable[[captured.Value], captured.Value]) -> AbstractContextManager[None]:
    """The captured outputs with the types that a converter for real tensors has to return."""
    return g.giving([form(o) if o.is_tensor and o.dtype.is_complex else o for o in g.outputs])


def real_output(output: captured.Value) -> captured.Value:
    return captured.Value(TensorType(output.dtype.to_real(), output.shape))


def joined_output(output: captured.Value) -> captured.Value:
    return captured.Value(TensorType(output.dtype.to_real(), (*output.shape, 2)))


def as_list(results: Any) -> list[Value]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def on_parts(real: Converter, g: Builder, **arguments: Any) -> list[Value]:
    """Run the converter for real tensors on each part. A real result is that of the real parts."""
    wanted = 2 if g.outputs[0].dtype.is_complex else 1
    runs = []
    with outputs_as(g, real_output):
        for index in range(wanted):
            own = {name: part_of(g, name, argument, index) for name, argument in arguments.items()}
            runs.append([g.realise(result) for result in as_list(real(g, **own))])
    if wanted == 1:
        return runs[0]
    return [complexes.from_parts(g, first, second) for first, second in zip(*runs, strict=True)]


def on_parts_or_joined(real: Converter, g: Builder, **arguments: Any) -> list[Value]:
    """Run the converter once if the parts of all operands are joined, else on each part."""
    contents = [value for name, argument in arguments.items() if is_content(g, name) for value in _flat(argument)]
    operands = [value for value in contents if isinstance(value, Value) or value not in (None, 0)]
    joined = all(isinstance(operand, Complex) and not operand.has_parts for operand in operands)
    first = operands[0] if operands else None
    if not joined or not isinstance(first, Complex) or not first.rank:
        return on_parts(real, g, **arguments)
    adapted = {name: _with_axis(g, name, argument, first) for name, argument in arguments.items()}
    with outputs_as(g, joined_output):
        results = as_list(real(g, **adapted))
    return [complexes.from_joined(g, g.realise(result)) for result in results]


def _flat(argument: Any) -> Sequence[Any]:
    return argument if isinstance(argument, list) else [argument]


def _with_axis(g: Builder, name: str, argument: Any, x: Complex) -> Any:
    """An argument for the joined parts, which have one more axis at the end."""
    op = "" if g.origin is None else g.origin.op.removesuffix("_copy")
    if isinstance(argument, Complex):
        return argument.joined(g)
    if isinstance(argument, list) and any(isinstance(element, Complex) for element in argument):
        return [element.joined(g) for element in argument]
    if op == "aten::squeeze" and name == "dim" and argument is None:
        return [axis for axis, size in enumerate(x.shape or ()) if size == 1]
    if isinstance(argument, list) and (name in BEHIND or name in BEFORE):
        return [*BEFORE.get(name, ()), *argument, *BEHIND.get(name, ())]
    if name not in AXES or argument is None:
        return argument
    rank = x.rank + 1 if op in ("aten::unsqueeze", "aten::stack") else x.rank
    axes = [axis % rank for axis in _flat(argument)]
    return [*axes, x.rank] if op == "aten::permute" else axes if isinstance(argument, list) else axes[0]


def over_axes(real: Converter, g: Builder, self: Value, dim: Any = None, **arguments: Any) -> list[Value]:
    axes = dim if dim is not None and dim != [] else list(range(self.rank))
    return on_parts_or_joined(real, g, self=self, dim=axes, **arguments)


def real_numbers(real: Converter, g: Builder, **arguments: Any) -> Value:
    with outputs_as(g, real_output):
        own = {name: part_of(g, name, argument, 0) for name, argument in arguments.items()}
        made = g.realise(as_list(real(g, **own))[0])
    return complexes.from_parts(g, made, complexes.zeros(g, made))


# Products: operators that are linear in each of several operands


def multilinear(*names: str) -> Converter:
    """Write each complex operand as real + i * imaginary, and multiply the product out."""

    def convert(real: Converter, g: Builder, **arguments: Any) -> Value:
        bias = arguments.get("bias")
        arguments = arguments | ({"bias": None} if "bias" in arguments else {})
        operands = [(name, position) for name in names for position in _positions(arguments[name])]
        kinds = [range(2 if isinstance(_at(arguments, *where), Complex) else 1) for where in operands]
        dtype = g.outputs[0].dtype.to_real()
        sums: list[Value | None] = [None, None]
        with outputs_as(g, real_output):
            for choice in product(*kinds):
                own = _chosen(g, arguments, dict(zip(operands, choice, strict=True)), dtype)
                term = g.realise(as_list(real(g, **own))[0])
                turns = sum(choice)
                sums[turns % 2] = _added(g, sums[turns % 2], term, negative=turns % 4 >= 2)
        assert sums[0] is not None
        result = complexes.from_parts(g, sums[0], sums[1] if sums[1] is not None else complexes.zeros(g, sums[0]))
        return result if bias is None else _biased(g, result, bias, max(arguments["weight"].rank - 2, 0))

    return convert


def _positions(argument: Any) -> Sequence[int | None]:
    return range(len(argument)) if isinstance(argument, list) else [None]


def _at(arguments: dict[str, Any], name: str, position: int | None) -> Any:
    return arguments[name] if position is None else arguments[name][position]


def _chosen(
    g: Builder, arguments: dict[str, Any], choice: dict[tuple[str, int | None], int], dtype: Any
) -> dict[str, Any]:
    chosen = {name: list(argument) if isinstance(argument, list) else argument for name, argument in arguments.items()}
    for (name, position), index in choice.items():
        operand = _at(arguments, name, position)
        part = g.cast(operand.parts(g)[index] if isinstance(operand, Complex) else operand, dtype)
        if position is None:
            chosen[name] = part
        else:
            chosen[name][position] = part
    return chosen


def _added(g: Builder, total: Value | None, term: Value, *, negative: bool) -> Value:
    if total is None:
        return g.op("Neg", term) if negative else term
    return g.op("Sub" if negative else "Add", total, term)


def _biased(g: Builder, x: Complex, bias: Value, spatial: int) -> Complex:
    """One number per feature, reshaped so that ``trailing`` axes follow."""
    terms = [None if part is None else emit.unsqueeze(g, part, range(1, spatial + 1))
             for part in complexes.parts(g, bias, x.real_dtype)]  # fmt: skip
    sums = [part if term is None else g.op("Add", part, term) for part, term in zip(x.parts(g), terms, strict=True)]
    return complexes.from_parts(g, *sums)


def _rows(operators: Sequence[str], converter: Converter) -> list[Entry]:
    return [Entry((operator,), converter, Kind.BY_PARTS) for operator in operators]


EACH_PART = _rows(BY_PARTS, on_parts)
AT_ONCE = _rows(BY_PARTS_OR_JOINED, on_parts_or_joined)
ALONG_AXES = _rows(OVER_AXES, over_axes)
NUMBERS = _rows(REAL_NUMBERS, real_numbers)
PRODUCTS = [
    *_rows(_aten("matmul linalg_matmul kron cross linalg_cross inner tensordot"), multilinear("self", "other")),
    *_rows(_aten("mm bmm"), multilinear("self", "mat2")),
    *_rows(_aten("mv"), multilinear("self", "vec")),
    *_rows(_aten("dot"), multilinear("self", "tensor")),
    *_rows(_aten("outer ger"), multilinear("self", "vec2")),
    *_rows(_aten("einsum linalg_multi_dot"), multilinear("tensors")),
    *_rows(_aten("linear conv1d conv2d conv3d convolution _convolution"), multilinear("input", "weight")),
    *_rows(_aten("conv_transpose1d conv_transpose2d conv_transpose3d"), multilinear("input", "weight")),
]
