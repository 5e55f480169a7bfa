"""The graph object that is passed to symbolic functions as ``g``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir as ir
import torch

from onnxport.errors import CustomOperatorError
from onnxport.graph.ir import Node
from onnxport.graph.sizes import Shape
from onnxport.lower import sizes
from onnxport.lower import value as lower
from onnxport.lower.builder import Builder
from onnxport.lower.inference import element_types
from onnxport.lower.inference.node_types import DTYPES
from onnxport.lower.registry import Converters
from onnxport.symbolic.helpers.builtin import call_builtin
from onnxport.symbolic.objects.attributes import as_tensor, read_attributes
from onnxport.symbolic.objects.builder import Number, UserBuilder
from onnxport.symbolic.objects.nodes import ConstantNode, EntryNode, ListNode, NodeView, OnnxNode, OriginalNode
from onnxport.symbolic.objects.subgraphs import Block, block_types, names_of_blocks
from onnxport.symbolic.objects.values import Type, Value

ATEN_DOMAIN = "org.pytorch.aten"
# Attributes of older opsets that are now inputs with another name.
RENAMED = {("Pad", "value"): "constant_value", ("TopK", "k"): "K"}


class GraphContext:
    """What a symbolic function writes its nodes with: ``g.op("Elu", x, alpha_f=0.5)``.

    ``opset`` is the target opset, ``original_node`` the node that is being translated, ``params_dict`` the model's
    parameters by name.
    """

    def __init__(self, builder: Builder, node: Node, builtins: Converters) -> None:
        self.builder = UserBuilder(builder)
        self.builtins = builtins
        self.original_node = OriginalNode(self, node)
        self.values: dict[int, Value] = {}
        self.nodes_before = len(builder.nodes)
        self._open: list[tuple[ir.Node, list[Block]]] = []

    @property
    def opset(self) -> int:
        return self.builder.opset

    @property
    def params_dict(self) -> dict[str, torch.Tensor]:
        parameters = self.builder.context.graph.parameters
        return {value.name: value.data for value in parameters if value.data is not None}

    @property
    def graph(self) -> GraphContext:
        return self

    @property
    def block(self) -> GraphContext:
        return self

    # Nodes

    def op(self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node of ``Op`` or ``domain::Op``: its value, or a tuple of values if ``outputs`` is more than 1.

        Inputs are values, numbers, tensors and lists of integers. A letter after an attribute's name is its type.
        """
        domain, _, op_type = operator.rpartition("::")
        if domain in ("prim", "aten"):
            return self._torch_node(domain, op_type, inputs, outputs, attributes)
        if domain == "onnx":
            domain = ""
        read = read_attributes(self, attributes)
        if op_type == "Constant" and domain == "":
            return self._constant(read)
        given = [self._input(operator, value) for value in inputs]
        if domain or not onnx.defs.has(op_type, ""):
            made = self.builder.other_domain(domain, op_type, given, outputs, read)
        else:
            given, read = self._in_form(op_type, given, read)
            made = self.builder.standard(op_type, given, outputs, read)
            for result, kind in zip(made, block_types(op_type, attributes), strict=False):
                result.guessed = kind.dtype() is None
                self.state(result, kind)
        values = tuple(self.wrap(value) for value in made)
        return values[0] if outputs == 1 else values

    def at(self, operator: str, *inputs: Any, overload_name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """Add an operator of torch as a node ``org.pytorch.aten::ATen``."""
        return self.op(
            f"{ATEN_DOMAIN}::ATen",
            *inputs,
            outputs=outputs,
            operator_s=operator,
            overload_name_s=overload_name,
            **attributes,
        )

    aten_op = at

    def onnxscript_op(self, function: Any, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Call an ONNX function, such as ``onnxscript.script`` makes: its body is written into the file."""
        domain, name = self.builder.bring(function)
        return self.op(f"{domain}::{name}", *inputs, outputs=outputs, **attributes)

    def constant(self, content: Any, dtype: torch.dtype | None = None) -> Value:
        """A constant: a number, a nested list, a tensor or an array."""
        return self.wrap(self.builder.constant(content, dtype))

    def cast(self, value: Any, dtype: torch.dtype) -> Value:
        """The value in this dtype; without a node if it has it already."""
        return self.wrap(self.builder.cast(self.tensor(value), dtype))

    def builtin(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """Call onnxport's own converter for an operator: ``g.builtin("unsqueeze", x, 0)``."""
        return call_builtin(self, name, arguments, keywords)

    # Blocks

    def subgraph(self, body: Callable[..., Any], *entries: Any) -> Block:
        """A branch of an If, or the body of a Loop or Scan, as an attribute: ``then_branch_g=g.subgraph(...)``.

        ``body(block, *values)`` writes its nodes with ``block.op`` and returns the results; it may use values from
        outside. ``entries`` are types, or values of the type that each entry of the body has.
        """
        block = Block(self)
        values = [block.add_input(entry if isinstance(entry, Type) else self.value(entry).type()) for entry in entries]
        results = body(block, *values)
        for result in results if isinstance(results, (tuple, list)) else (results,):
            block.add_output(result)
        return block

    def inner(self, builder: Builder) -> GraphContext:
        """The graph object of a block, which writes with a builder of its own."""
        made = GraphContext(builder, self.original_node.node, self.builtins)
        made.values, made.original_node = self.values, self.original_node
        return made

    def add_block(self, node: ir.Node) -> Block:
        """A new block of an existing node; the node gets it when the symbolic function returns."""
        block = Block(self, before=node)
        for owner, blocks in self._open:
            if owner is node:
                blocks.append(block)
                return block
        self._open.append((node, [block]))
        return block

    def close(self) -> None:
        """Add the finished blocks to their nodes."""
        for node, blocks in self._open:
            for name, block in zip(names_of_blocks(node.op_type), blocks, strict=True):
                node.attributes[name] = ir.AttrGraph(name, block.close())
        self._open.clear()

    # Values

    def value(self, content: Any) -> Value:
        """An argument of a symbolic function: a tensor, list or constant as a value."""
        if isinstance(content, Value):
            return content
        if isinstance(content, lower.Value):
            return self.wrap(content)
        if isinstance(content, (list, tuple)):
            return Value(self, elements=[self.value(element) for element in content])
        if isinstance(content, (torch.Tensor, np.ndarray)):
            return self.constant(content)
        return Value(self, content=content)

    def wrap(self, lowered: lower.Value) -> Value:
        """The value object for a tensor of the graph, one per tensor."""
        key = id(lowered if lowered.ir is None else lowered.ir)
        found = self.values.setdefault(key, Value(self, lowered))
        found.lowered = lowered
        return found

    def value_of(self, found: ir.Value | None) -> Value:
        if found is None:
            return Value(self)
        if id(found) in self.values:
            return self.values[id(found)]
        shape: Shape | None = None
        if found.shape is not None and all(isinstance(dim, int) for dim in found.shape):
            shape = tuple(int(dim) for dim in found.shape if isinstance(dim, int))
        dtype = None if found.dtype is None else DTYPES.get(int(found.dtype))
        return self.wrap(lower.Value(found, dtype or torch.float32, shape, guessed=dtype is None))

    def tensor(self, value: Any) -> lower.Value:
        """The tensor of the graph for a value, a number, or a list of integers."""
        given = self._input("this", value)
        if given is None:
            raise CustomOperatorError(f"{self.builder.where()}: None is passed where a tensor is needed")
        if isinstance(given, lower.Value):
            return self.builder.realise(given)
        return self.builder.constant(given)

    def is_constant(self, lowered: lower.Value) -> bool:
        return lowered.data is not None and self.builder.is_constant(lowered)

    def state(self, lowered: lower.Value, kind: Type) -> None:
        """Set the type of a value; sizes that it does not have stay unknown."""
        dtype, known = kind.dtype(), kind.sizes()
        if dtype is not None and lowered.data is None:
            # It remains a guess for the check at the end: many types are set only for their sizes.
            lowered.dtype = dtype
            shape = lowered.shape if known is None else tuple(known)
            self.builder.typed(lowered, dtype, shape)

    def node_of(self, value: Value) -> NodeView:
        if value.elements is not None:
            return ListNode(value)
        if value.lowered is None or self.is_constant(value.lowered):
            return ConstantNode(value)
        made = self.builder.realise(value.lowered).ir
        producer = None if made is None else made.producer()
        return EntryNode() if producer is None else OnnxNode(self, producer)

    def _input(self, operator: str, value: Any) -> lower.Value | Number | None:
        if isinstance(value, Value):
            if value.lowered is not None:
                return value.lowered
            value = value.content if value.elements is None else value.elements
        if value is None or isinstance(value, (Number, lower.Value)):
            return value
        if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            return self.builder.constant(as_tensor(self, "an input", value))
        if isinstance(value, (list, tuple)):
            found = self._vector(value)
            if found is not None:
                return found
        raise CustomOperatorError(
            f"{self.builder.where()}: {operator} has {value!r} ({type(value).__name__}) as an input. An input is a "
            "value from g.op or an argument of the symbolic function, a number, a tensor or a list of integers; "
            "pass anything else as an attribute, with the letter of its type after its name (name_s=...)."
        )

    def _vector(self, elements: Sequence[Any]) -> lower.Value | None:
        """A list of numbers as one tensor; None for a list of something else."""
        given = [e.content if isinstance(e, Value) and e.lowered is None else e for e in elements]
        given = [e.lowered if isinstance(e, Value) else e for e in given]
        if all(isinstance(e, Number) for e in given):
            whole = all(isinstance(e, int) for e in given)
            return self.builder.constant(given, torch.int64 if whole else torch.get_default_dtype())
        if all(isinstance(e, (int, lower.Value)) for e in given) and all(
            e.shape == () for e in given if isinstance(e, lower.Value)
        ):
            return sizes.vector(self.builder, given)
        return None

    def _constant(self, attributes: dict[str, ir.Attr]) -> Value:
        for attr in attributes.values():
            if attr.type == ir.AttributeType.TENSOR:
                return self.constant(attr.value.raw)
            if attr.type in (ir.AttributeType.INT, ir.AttributeType.INTS):
                return self.constant(attr.value, torch.int64)
            if attr.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
                return self.constant(attr.value, torch.float32)
        raise CustomOperatorError(f"{self.builder.where()}: a Constant needs its content, as value_t=tensor")

    def _torch_node(
        self, domain: str, name: str, inputs: Sequence[Any], outputs: int, attributes: dict[str, Any]
    ) -> Any:
        """TorchScript nodes in symbolic functions: constants, lists, and torch operators."""
        if domain == "aten":
            return (
                self.at(name, *inputs, outputs=outputs, **attributes) if name == "ATen" else self.builtin(name, *inputs)
            )
        if name == "Constant":
            return self._constant(read_attributes(self, attributes)) if attributes else Value(self)
        if name in ("ListConstruct", "TupleConstruct"):
            return Value(self, elements=[self.value(value) for value in inputs])
        if name in ("ListUnpack", "TupleUnpack") and inputs and self.value(inputs[0]).elements is not None:
            return tuple(self.value(inputs[0]))
        raise CustomOperatorError(f"{self.builder.where()}: prim::{name} is not an operator that can be exported")

    def _in_form(
        self, op_type: str, inputs: list[Any], attributes: dict[str, ir.Attr]
    ) -> tuple[list[Any], dict[str, ir.Attr]]:
        """The node in the form of the target opset: attributes of older opsets become inputs."""
        if not element_types.exists(op_type, self.opset):
            return inputs, attributes
        schema = onnx.defs.get_schema(op_type, self.opset)
        names = [formal.name for formal in schema.inputs]
        kept: dict[str, ir.Attr] = {}
        for name, attr in attributes.items():
            wanted = RENAMED.get((op_type, name), name)
            if name in schema.attributes:
                kept[name] = attr
            elif wanted in names:
                position = names.index(wanted)
                inputs = [*inputs, *[None] * (position + 1 - len(inputs))]
                inputs[position] = self._as_input(attr, position)
            else:
                raise CustomOperatorError(
                    f"{self.builder.where()}: ONNX's {op_type} has no attribute {name!r} at opset {self.opset}; it has "
                    f"{', '.join(sorted(schema.attributes)) or 'none'}"
                )
        return inputs, kept

    def _as_input(self, attr: ir.Attr, position: int) -> Any:
        """Axes, bounds and similar become vectors; a single number gets the dtype of the other inputs."""
        if attr.type == ir.AttributeType.INTS:
            return self.builder.constant(list(attr.value), torch.int64)
        if attr.type == ir.AttributeType.FLOATS:
            return self.builder.constant(list(attr.value), torch.float32)
        return attr.value
