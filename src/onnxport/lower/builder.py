"""The builder with which converters write the ONNX graph: ``g.op("Elu", x, alpha=1.0)``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, overload

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import UnsupportedOperatorError, UnsupportedOpsetError
from onnxport.graph import ir as captured
from onnxport.graph.data_sizes import counted_sizes
from onnxport.graph.ir import Graph, Node
from onnxport.graph.python_nodes import title_of
from onnxport.graph.sizes import Shape, SizeExpr
from onnxport.lower.dtypes import as_float, number_dtype, onnx_type, result_type
from onnxport.lower.inference import element_types
from onnxport.lower.inference.infer import infer
from onnxport.lower.naming import DimNames
from onnxport.lower.node_attributes import attribute
from onnxport.lower.value import Operand, Value

SHARED_CONSTANT_BYTES = 256
PLAIN_IN_NUMPY = frozenset({torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool})
NOT_FOR_COMPLEX = "its converter does not support complex numbers; ONNX has no operators for them"


class Stored(ir.tensor_adapters.TorchTensor):
    """A torch tensor that is stored in the file. Properties that are read several times are cached."""

    def __init__(self, tensor: torch.Tensor, dtype: ir.DataType, shape: ir.Shape, name: str) -> None:
        # Not TorchTensor's own __init__, which would compute both again.
        ir.Tensor.__init__(self, tensor, dtype=dtype, shape=shape, name=name)

    def numpy(self) -> np.ndarray[Any, Any]:
        tensor: torch.Tensor = self.raw
        if tensor.dtype in PLAIN_IN_NUMPY and tensor.is_cpu and not tensor.requires_grad and not tensor.is_neg():
            return tensor.numpy()
        return super().numpy()

    @property
    def nbytes(self) -> int:
        return int(self.raw.nbytes)


class Context:
    """The state that all blocks of one export share: the opset, names, constants and parameters.

    ``nan_as_in_runtime`` gets the nodes that order NaN as the runtime happens to, for lack of ``exact_nan``. With
    ``weights_stay`` the weights are in files that have them in one form.
    """

    def __init__(
        self, graph: Graph, opset: int, *, train: bool = False, exact_nan: bool = False, weights_stay: bool = False
    ) -> None:
        self.graph = graph
        self.opset = opset
        self.dims = DimNames(graph)
        self.train = train
        self.exact_nan = exact_nan
        self.weights_stay = weights_stay
        self.nan_as_in_runtime: set[Node] = set()
        self.initializers: dict[str, ir.Value] = {}
        self.constant_names: set[str] = set()
        self.constants: dict[tuple[Any, ...], Value] = {}
        self.numbers: dict[captured.Value, Value] = {}  # those that are only known at run time
        self.functions: dict[tuple[str, str], ir.Function] = {}  # those that users bring, by domain and name
        self.domains: dict[str, int] = {}  # the versions of their domains
        self._names: dict[str, int] = {}
        self._shapes: dict[Shape, ir.Shape] = {}

    @functools.cached_property
    def read(self) -> frozenset[captured.Value]:
        """The captured values that are used, for converters that can omit unused results."""
        return frozenset(self.graph.block.outer_values())

    @functools.cached_property
    def counted(self) -> frozenset[SizeExpr]:
        """The data-dependent sizes, for converters with a special case for empty tensors."""
        return counted_sizes(self.graph)

    def unique(self, name: str) -> str:
        """The name, or with the smallest number appended that makes it unique."""
        count = self._names.get(name)
        if count is None:
            self._names[name] = 0
            return name
        while True:
            count += 1
            candidate = f"{name}_{count}"
            if candidate not in self._names:
                self._names[name] = count
                self._names[candidate] = 0
                return candidate

    def knows(self, name: str) -> bool:
        return name in self._names

    def number(self, leaf: SizeExpr) -> Value:
        """The run-time number that is a leaf of an expression."""
        return self.numbers[leaf.operands[0]]

    def type_of(self, dtype: torch.dtype) -> ir.TensorType:
        return ir.TensorType(onnx_type(dtype))

    def shape_of(self, shape: Shape) -> ir.Shape:
        known = self._shapes.get(shape)
        if known is None:
            named = [self.dims.name(d) if isinstance(d, SizeExpr) else d for d in shape]
            known = ir.Shape(named, frozen=True)
            if named == list(shape):
                self._shapes[shape] = known  # without names, which sizes may get later
        return known


class Builder:
    """Adds nodes to one block. Converters get it as ``g``."""

    def __init__(self, context: Context, realise: Callable[[Value], Value]) -> None:
        self.context = context
        self._realise = realise
        self.opset = context.opset
        self.nodes: list[ir.Node] = []
        self.carriers: dict[SizeExpr, tuple[Value, int]] = {}
        self.origin: Node | None = None
        self.outputs: list[captured.Value] = []

    # Nodes

    @overload
    def op(
        self, op_type: str, *inputs: Operand | Sequence[int] | None, outputs: int, **attributes: Any
    ) -> tuple[Value, ...]: ...
    @overload
    def op(
        self, op_type: str, *inputs: Operand | Sequence[int] | None, outputs: None = None, **attributes: Any
    ) -> Value: ...

    def op(
        self, op_type: str, *inputs: Operand | Sequence[int] | None, outputs: int | None = None, **attributes: Any
    ) -> Value | tuple[Value, ...]:
        """Add a node. Numbers among the inputs become constants of the first tensor's dtype.

        An element type that the operator or the runtime lacks is widened and the results are narrowed back.
        With ``outputs`` the result is a tuple.
        """
        if not element_types.exists(op_type, self.opset):
            self.require(element_types.since(op_type), f"ONNX's {op_type}")
        values = self._values(inputs)
        widened = element_types.casts(op_type, self.opset, values)
        if not widened:
            return self._add(op_type, values, outputs, attributes)
        found = element_types.signature(op_type, self.opset)
        narrow: dict[str, torch.dtype] = {}
        for index, value in enumerate(values):
            variable = found.input_variable(index) if value is not None else ""
            if value is not None and variable in widened:
                narrow.setdefault(variable, value.dtype)
                values[index] = self.cast(value, widened[variable])
        results = self._add(op_type, values, outputs, attributes)
        if isinstance(results, Value):
            return self.cast(results, narrow.get(found.outputs[0], results.dtype))
        return tuple(
            self.cast(result, narrow.get(variable, result.dtype))
            for result, variable in zip(results, found.outputs, strict=False)
        )

    def _values(self, inputs: Sequence[Any]) -> list[Value | None]:
        like = next((value.dtype for value in inputs if isinstance(value, Value)), None)
        values: list[Value | None] = []
        for operand in inputs:
            if operand is None:
                values.append(None)
            elif isinstance(operand, Value):
                values.append(self.realise(operand))
            elif isinstance(operand, (list, tuple)):
                values.append(self.constant(list(operand), torch.int64))
            else:
                values.append(self.constant(operand, like))
        while values and values[-1] is None:
            values.pop()
        return values

    def _add(
        self, op_type: str, values: Sequence[Value | None], outputs: int | None, attributes: dict[str, Any]
    ) -> Value | tuple[Value, ...]:
        dtype, shape = infer(op_type, values, attributes)
        results = self._node("", op_type, values, outputs or 1, attributes)
        first = Value(results[0], dtype, shape)
        self._type(first)
        if outputs is None:
            return first
        rest = [Value(result, dtype, None) for result in results[1:]]
        for value in rest:
            self._type(value)
        return (first, *rest)

    def foreign(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        types: Sequence[tuple[torch.dtype, Shape | None]],
        attributes: dict[str, Any],
    ) -> tuple[Value, ...]:
        """Add a node of another domain, ``domain::Op``, with these result types."""
        domain, _, op_type = operator.rpartition("::")
        realised = [None if value is None else self.realise(value) for value in inputs]
        results = self._node(domain, op_type, realised, len(types), attributes)
        values = tuple(Value(result, *kind) for result, kind in zip(results, types, strict=True))
        for value in values:
            self._type(value)
        return values

    def _node(
        self, domain: str, op_type: str, values: Sequence[Value | None], outputs: int, attributes: dict[str, Any]
    ) -> Sequence[ir.Value]:
        scope = self.origin.scope if self.origin else ""
        name = self.context.unique(f"{scope}/{op_type}" if scope else op_type)
        operands = [None if value is None else value.ir for value in values]
        for key, value in attributes.items():
            if isinstance(value, Value):
                self.unsupported(f"{key} of ONNX's {op_type} must be a constant; here it depends on a size or on data")
        attrs = [attribute(key, value) for key, value in attributes.items() if value is not None]
        node = ir.Node(domain, op_type, operands, attrs, num_outputs=outputs, name=name)
        for index, output in enumerate(node.outputs):
            output.name = name if outputs == 1 else f"{name}.{index}"
        if self.origin is not None:
            node.meta["origin"] = self.origin
            node.doc_string = self.origin.source.stack if self.origin.source else None
        self.nodes.append(node)
        return node.outputs

    def _type(self, value: Value) -> None:
        assert value.ir is not None
        value.ir.type = self.context.type_of(value.dtype)
        if value.shape is not None:
            value.ir.shape = self.context.shape_of(value.shape)

    def typed(self, value: Value, dtype: torch.dtype, shape: Shape | None = None) -> Value:
        """Set the dtype and shape of a new value that type inference does not know."""
        value.dtype = dtype
        value.shape = shape if shape is not None else value.shape
        self._type(value)
        return value

    # Constants and casts

    def constant(self, content: Any, dtype: torch.dtype | None = None) -> Value:
        """A constant: numbers, nested lists, numpy arrays and torch tensors. Equal small ones are stored once."""
        tensor = _tensor(content, None if dtype is None else as_float(dtype))
        if tensor.is_complex():
            self.unsupported(NOT_FOR_COMPLEX)
        key: tuple[Any, ...] | None = None
        if tensor.numel() * tensor.element_size() <= SHARED_CONSTANT_BYTES:
            packed = tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
            key = (tensor.dtype, tuple(tensor.shape), packed.numpy().tobytes())
            if key in self.context.constants:
                return self.context.constants[key]
        name = self.context.unique("constant")
        value = self.initializer(name, tensor)
        self.context.constant_names.add(name)
        if key is not None:
            self.context.constants[key] = value
        return value

    def initializer(self, name: str, tensor: torch.Tensor) -> Value:
        """A tensor that is stored in the file."""
        shape = tuple(tensor.shape)
        kind, dims = self.context.type_of(tensor.dtype), self.context.shape_of(shape)
        made = ir.Value(name=name, type=kind, shape=dims, const_value=Stored(tensor, kind.dtype, dims, name))
        self.context.initializers[name] = made
        return Value(made, tensor.dtype, shape, data=tensor)

    def cast(self, value: Operand, dtype: torch.dtype) -> Value:
        """The value in this dtype; without a node if it has it already."""
        dtype = as_float(dtype)
        if not isinstance(value, Value):
            return self.constant(value, dtype)
        if value.dtype == dtype:
            return value
        if dtype.is_complex:
            self.unsupported(NOT_FOR_COMPLEX)
        if value.data is not None and value.data.numel() <= SHARED_CONSTANT_BYTES and self.is_constant(value):
            return self.constant(value.data.to(dtype))
        if torch.bfloat16 in (dtype, value.dtype):
            self.require(13, "bfloat16")
        result = self._add("Cast", [self.realise(value)], None, {"to": dtype})
        assert isinstance(result, Value)
        return result

    def is_constant(self, value: Value) -> bool:
        """Whether the value is a constant of the graph, not a parameter that a user may want to change."""
        return value.ir is not None and value.ir.name in self.context.constant_names

    def promoted(self, *operands: Operand, dtype: torch.dtype | None = None) -> list[Value]:
        """The operands in the dtype that torch computes in, or in the given one."""
        to = dtype or result_type(*operands)
        return [self.cast(operand, to) for operand in operands]

    # Sizes

    def realise(self, value: Value) -> Value:
        """A value that exists in the ONNX graph: sizes are computed only when they are needed as tensors."""
        if value.dtype.is_complex:
            self.unsupported(NOT_FOR_COMPLEX)
        return value if value.ir is not None else self._realise(value)

    def carry(self, value: Value) -> None:
        """Remember that this value's dimensions can be read at run time."""
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, SizeExpr) and dim not in self.carriers:
                self.carriers[dim] = (value, axis)

    def runs(self, op_type: str, dtype: torch.dtype) -> bool:
        """Whether an operator exists at the target opset and accepts this dtype, in ONNX and in the runtime.

        For converters with an alternative: ONNX Runtime lacks many float64 kernels.
        """
        if not element_types.exists(op_type, self.opset):
            return False
        return element_types.runs(op_type, self.opset, element_types.signature(op_type, self.opset).inputs[0], dtype)

    @contextmanager
    def giving(self, outputs: Sequence[captured.Value]) -> Iterator[None]:
        """Let converters called within the with statement see these as the results of the node."""
        before, self.outputs = self.outputs, list(outputs)
        try:
            yield
        finally:
            self.outputs = before

    def nested(self) -> Builder:
        """A builder for a block inside this one, which may use this one's values."""
        inner = Builder(self.context, self._realise)
        inner.origin, inner.outputs, inner.carriers = self.origin, self.outputs, dict(self.carriers)
        return inner

    def subgraph(
        self,
        name: str,
        entries: Sequence[tuple[torch.dtype, Shape | None]],
        body: Callable[[Builder, list[Value]], Sequence[Value]],
    ) -> ir.Graph:
        """The body of a Scan, Loop or If, from the results of ``body``. It may use the values of this block."""
        inner = self.nested()
        arguments = [Value(ir.Value(name=self.context.unique(f"{name}_input")), dtype, None) for dtype, _ in entries]
        for value, (dtype, shape) in zip(arguments, entries, strict=True):
            inner.typed(value, dtype, shape)
        results = [inner.realise(result) for result in body(inner, arguments)]
        values = [[value.ir for value in values_ if value.ir is not None] for values_ in (arguments, results)]
        return ir.Graph(*values, nodes=inner.nodes, name=name)

    # Errors

    def require(self, opset: int, what: str) -> None:
        """Raise unless the target opset is at least this one."""
        if self.opset < opset:
            needed = f"{what} needs opset_version={opset} or newer; the export is for {self.opset}"
            raise UnsupportedOpsetError(f"{self.where()}: {needed}")

    def unsupported(self, reason: str) -> NoReturn:
        raise UnsupportedOperatorError(f"{self.where()}: {reason}")

    def where(self) -> str:
        """The current operator, with its module and source line."""
        if self.origin is None:
            return "the model"
        at = f" at {self.origin.source}" if self.origin.source else ""
        return f"{title_of(self.origin)} in {self.context.graph.scope_name(self.origin.scope)}{at}"


def _tensor(content: Any, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(content, torch.Tensor):
        return content.detach().to(dtype or content.dtype).contiguous()
    if isinstance(content, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(content)).to(dtype)
    if dtype is None and isinstance(content, (bool, int, float)):
        dtype = number_dtype(content)
    if isinstance(content, (int, float)) and dtype is not None:
        return torch.tensor(content).to(dtype) if isinstance(content, int) else _converted(content, dtype)
    return torch.tensor(content, dtype=dtype)


def _converted(number: float, dtype: torch.dtype) -> torch.Tensor:
    """Convert by way of float64: numbers that do not fit an integer type are truncated as in torch."""
    return torch.tensor(number, dtype=torch.float64).to(dtype)
