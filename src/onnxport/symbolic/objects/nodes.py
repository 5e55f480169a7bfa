"""Nodes for classic symbolic functions: the producer of a value, and the node that is being translated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import CustomOperatorError
from onnxport.graph import ir as captured
from onnxport.symbolic.objects.attributes import attribute, content_of
from onnxport.symbolic.objects.subgraphs import Block
from onnxport.symbolic.objects.values import GraphObject, Type, Value, type_of_captured

LETTERS = {
    ir.AttributeType.INT: "i", ir.AttributeType.INTS: "is", ir.AttributeType.FLOAT: "f", ir.AttributeType.FLOATS: "fs",
    ir.AttributeType.STRING: "s", ir.AttributeType.STRINGS: "ss", ir.AttributeType.TENSOR: "t",
    ir.AttributeType.TENSORS: "ts", ir.AttributeType.GRAPH: "g", ir.AttributeType.GRAPHS: "gs",
}  # fmt: skip


class NodeView:
    """The common interface of nodes: kind, inputs, outputs and attributes."""

    def kind(self) -> str:
        raise NotImplementedError

    def inputs(self) -> Iterator[Value]:
        return iter(())

    def outputs(self) -> Iterator[Any]:
        return iter(())

    def attributes(self) -> dict[str, Any]:
        """The attributes by name, as Python values."""
        return {}

    def output(self) -> Any:
        found = list(self.outputs())
        if len(found) != 1:
            raise CustomOperatorError(f"{self.kind()} has {len(found)} outputs; output() is for nodes with one output")
        return found[0]

    def input(self) -> Value:
        return next(self.inputs())

    def inputsAt(self, index: int) -> Value:
        return list(self.inputs())[index]

    def outputsAt(self, index: int) -> Any:
        return list(self.outputs())[index]

    def inputsSize(self) -> int:
        return len(list(self.inputs()))

    def outputsSize(self) -> int:
        return len(list(self.outputs()))

    def mustBeNone(self) -> bool:
        return False

    def hasAttribute(self, name: str) -> bool:
        return name in self.attributes()

    def attributeNames(self) -> list[str]:
        return list(self.attributes())

    def __getitem__(self, name: str) -> Any:
        return self.attributes()[name]

    def i(self, name: str) -> Any:
        return self[name]

    f = s = t = g = ints = fs = ss = ts = gs = i

    def kindOf(self, name: str) -> str:
        """The letter of an attribute's type: ``i``, ``is``, ``f``, ``t``."""
        return _letter(self[name])

    def scopeName(self) -> str:
        return ""

    def sourceRange(self) -> str:
        return ""

    def schema(self) -> str:
        return "(no schema)"


# A Python keyword, which a class body cannot define.
setattr(NodeView, "is", NodeView.ints)


class ConstantNode(NodeView):
    """The node of a constant. Numbers and tensors are ONNX constants; other constants are not in the graph."""

    def __init__(self, value: Value) -> None:
        self._value = value

    def kind(self) -> str:
        return "prim::Constant" if self._value.data is None else "onnx::Constant"

    def outputs(self) -> Iterator[Value]:
        return iter((self._value,))

    def attributes(self) -> dict[str, Any]:
        if self._value.is_none:
            return {}
        data = self._value.data
        return {"value": self._value.content if data is None else data}

    def mustBeNone(self) -> bool:
        return self._value.is_none


class ListNode(NodeView):
    """The node of a list."""

    def __init__(self, value: Value) -> None:
        self._value = value

    def kind(self) -> str:
        return "prim::ListConstruct"

    def inputs(self) -> Iterator[Value]:
        return iter(self._value.elements or ())

    def outputs(self) -> Iterator[Value]:
        return iter((self._value,))


class EntryNode(NodeView):
    """The producer of the graph's inputs and parameters."""

    def kind(self) -> str:
        return "prim::Param"


class OnnxNode(NodeView):
    """A node of the ONNX graph. Attributes may be set until the symbolic function returns."""

    def __init__(self, graph: GraphObject, node: ir.Node) -> None:
        self.graph = graph
        self.node = node

    def kind(self) -> str:
        return f"{self.node.domain or 'onnx'}::{self.node.op_type}"

    def inputs(self) -> Iterator[Value]:
        return (self.graph.value_of(value) for value in self.node.inputs)

    def outputs(self) -> Iterator[Value]:
        return (self.graph.value_of(value) for value in self.node.outputs)

    def attributes(self) -> dict[str, Any]:
        return {name: content_of(attr) for name, attr in self.node.attributes.items()}

    def kindOf(self, name: str) -> str:
        return LETTERS[self.node.attributes[name].type]

    def i_(self, name: str, value: Any) -> OnnxNode:
        return self._set(name, "i", value)

    def f_(self, name: str, value: Any) -> OnnxNode:
        return self._set(name, "f", value)

    def s_(self, name: str, value: Any) -> OnnxNode:
        return self._set(name, "s", value)

    def t_(self, name: str, value: Any) -> OnnxNode:
        return self._set(name, "t", value)

    is_, fs_, ss_, ts_ = i_, f_, s_, t_

    def addBlock(self) -> Block:
        """A new block of an If, Loop or Scan: the branches in order, or the body."""
        block: Block = self.graph.add_block(self.node)
        return block

    def scopeName(self) -> str:
        return self.graph.original_node.scopeName()

    def sourceRange(self) -> str:
        return self.graph.original_node.sourceRange()

    def _set(self, name: str, letter: str, value: Any) -> OnnxNode:
        self.node.attributes[name] = attribute(self.graph, name, letter, value)
        return self


class OriginalOutput:
    """An output of the node that is being translated, with its captured type."""

    def __init__(self, value: captured.Value) -> None:
        self._value = value

    def type(self) -> Type:
        return type_of_captured(self._value)

    def isCompleteTensor(self) -> bool:
        return self.type().kind() == "TensorType" and self.type().sizes() is not None

    def debugName(self) -> str:
        return self._value.name

    def requiresGrad(self) -> bool:
        return False


class OriginalNode(NodeView):
    """The captured node that is being translated, with the symbolic function's arguments."""

    def __init__(self, graph: GraphObject, node: captured.Node) -> None:
        self.graph = graph
        self.node = node
        self.values: Sequence[Any] = ()

    def kind(self) -> str:
        return self.node.op

    def inputs(self) -> Iterator[Value]:
        return (value for value in self.values if isinstance(value, Value))

    def outputs(self) -> Iterator[OriginalOutput]:
        return map(OriginalOutput, self.node.outputs)

    def scopeName(self) -> str:
        return self.graph.builder.context.graph.scope_name(self.node.scope)

    def sourceRange(self) -> str:
        return self.node.location or ""

    def schema(self) -> str:
        return self.node.full_name

    # Of an autograd Function.

    def pyname(self) -> str:
        return str(self._call().function.__name__)

    def pyobj(self) -> Any:
        return self._call().function.apply

    def cconv(self) -> str:
        """One letter for each argument of ``apply``: d for a tensor, c for anything else."""
        return str(self._call().convention)

    def scalar_args(self) -> list[Any]:
        call = self._call()
        return [given for given, letter in zip(call.arguments, call.convention, strict=True) if letter == "c"]

    def _call(self) -> captured.PythonCall:
        call = self.node.inputs.get("call")
        if not isinstance(call, captured.PythonCall):
            raise CustomOperatorError(f"{self.kind()} is not an autograd Function")
        return call

    def __repr__(self) -> str:
        return repr(self.node)


def _letter(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{_letter(value[0])}s" if value else "is"
    if isinstance(value, torch.Tensor):
        return "t"
    return "f" if isinstance(value, float) else "s" if isinstance(value, str) else "i"
