"""The built-in translations, called from symbolic functions: ``opset9.unsqueeze(g, x, 0)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.errors import CustomOperatorError
from onnxport.graph import ir as captured
from onnxport.graph.interpret import evaluate
from onnxport.graph.ir import Node, Schema, TensorType, schemas_of
from onnxport.graph.sizes import Size, SizeExpr, size
from onnxport.lower import value as lower
from onnxport.symbolic.objects.types import pytorch_name_to_type, scalar_type_to_pytorch_type
from onnxport.symbolic.objects.values import GraphObject, Value

# What an operator raises if it does not accept its arguments, or has no meta kernel.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
Number = bool | int | float


def lookup(name: str) -> Callable[..., Any]:
    """The function of a ``symbolic_opset`` module: the translation of torch's operator of this name.

    Arguments follow the operator's schema by position; they may be values or Python values. The nodes are those of the
    export's own opset, whichever module the function is taken from.
    """
    if name in OTHERS:
        return OTHERS[name]
    if name.startswith("_cast_") and name.removeprefix("_cast_") in pytorch_name_to_type:
        dtype = pytorch_name_to_type[name.removeprefix("_cast_")]
        return lambda g, x, non_blocking=False: g.cast(x, dtype)
    if name.startswith("__") or not hasattr(torch.ops.aten, name):
        raise AttributeError(f"torch has no operator aten::{name}")

    def symbolic(g: GraphObject, *arguments: Any, **keywords: Any) -> Any:
        return call_builtin(g, name, arguments, keywords)

    symbolic.__name__ = symbolic.__qualname__ = name
    return symbolic


def _unused(g: GraphObject) -> Value:
    """The value for an omitted input."""
    return Value(g)


OTHERS: dict[str, Callable[..., Any]] = {"unused": _unused}


def call_builtin(g: GraphObject, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Translate one call of an operator as onnxport itself does."""
    op = f"aten::{name.removeprefix('aten::')}"
    fitting = [
        (overload, schema, bound)
        for overload, schema in schemas_of(op)
        if not schema.mutates and (bound := _bound(schema, arguments, keywords)) is not None
    ]
    # The closest one is taken, with the fewest missing arguments.
    for overload, schema, bound in sorted(fitting, key=lambda found: len(found[1].parameters)):
        converted = {p.name: _converted(p.type, bound[p.name]) for p in schema.parameters if p.name in bound}
        node = _node(g, op, overload, converted)
        function = g.builtins.of(node)
        if function is not None:
            results = function(g.builder.acting_for(node), **converted)
            typed = [_typed(g, r, out) for r, out in zip(_listed(results), node.outputs, strict=True)]
            return typed if node.returns_list else typed[0] if len(typed) == 1 else tuple(typed)
    raise CustomOperatorError(
        f"{g.builder.where()}: its symbolic function calls {op} with arguments of the types "
        f"{[type(a).__name__ for a in arguments]}, for which onnxport has no translation"
    )


def _bound(schema: Schema, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by name, if the schema takes them."""
    if len(arguments) > len(schema.parameters) or not keywords.keys() <= {p.name for p in schema.parameters}:
        return None
    bound = {p.name: a for p, a in zip(schema.parameters, arguments, strict=False)} | dict(keywords)
    if any(p.required and p.name not in bound for p in schema.parameters):
        return None
    fits = all(_fits(p.type, bound[p.name]) for p in schema.parameters if p.name in bound)
    return bound if fits else None


def _fits(kind: str, argument: Any) -> bool:
    content = _python(argument, kind)
    if kind.startswith("Optional["):
        return content is None or _fits(kind[len("Optional[") : -1], argument)
    if isinstance(content, lower.Value):
        return kind == "Tensor" or (kind in ("int", "float", "number", "bool") and content.shape == ())
    if kind.startswith("List["):
        inner = kind[len("List[") : -1]
        elements = content if isinstance(content, (list, tuple)) else [content]
        return (inner != "Tensor" or isinstance(content, (list, tuple))) and all(_fits(inner, e) for e in elements)
    if kind == "Tensor":
        return isinstance(content, (Number, torch.Tensor))
    if kind == "str":
        return isinstance(content, str)
    if kind in ("int", "bool"):
        return isinstance(content, int) or (isinstance(content, torch.dtype) and kind == "int")
    if kind in ("float", "number"):
        return isinstance(content, Number)
    return not isinstance(content, (list, tuple, str))


def _python(argument: Any, kind: str) -> Any:
    """A value's content: tensors as those of the graph, constants as Python values where no tensor is wanted."""
    if not isinstance(argument, Value):
        return argument
    if argument.elements is not None:
        return list(argument.elements)
    if argument.lowered is None:
        return argument.content
    return argument.data.tolist() if argument.data is not None and "Tensor" not in kind else argument.lowered


def _converted(kind: str, argument: Any) -> Any:
    """An argument as converters get it."""
    content = _python(argument, kind)
    if content is None:
        return None
    if kind.startswith("Optional["):
        return _converted(kind[len("Optional[") : -1], argument)
    if kind.startswith("List["):
        elements = content if isinstance(content, (list, tuple)) else [content]
        return [_converted(kind[len("List[") : -1], element) for element in elements]
    if kind == "int" and isinstance(content, int) and not isinstance(content, bool):
        return content
    if "ScalarType" in kind and isinstance(content, int):
        return scalar_type_to_pytorch_type[content]
    if kind == "bool" and isinstance(content, int):
        return bool(content)
    if kind == "float" and isinstance(content, int):
        return float(content)
    return content


def _node(g: GraphObject, op: str, overload: str, arguments: dict[str, Any]) -> Node:
    """A captured node for the call; torch computes the types of its results."""
    inputs: dict[str, Any] = {}
    for name, argument in arguments.items():
        if isinstance(argument, (Number, torch.Tensor)) and _is_tensor_parameter(op, overload, name):
            argument = arguments[name] = g.builder.constant(argument)
        inputs[name] = _stand_in(argument)
    origin = g.original_node.node
    node = Node(op, inputs, [], overload=overload, scope=origin.scope, source=origin.source)
    captures = g.builder.context.graph.captures
    try:
        runs = [evaluate(node, {n: _example(a, capture) for n, a in inputs.items()}) for capture in range(captures)]
    except REFUSALS as error:
        raise CustomOperatorError(
            f"{g.builder.where()}: its symbolic function calls {op}, whose result type is not known: {error}. Set "
            "the types of its arguments with setType."
        ) from error
    schema = node.schema
    node.returns_list = bool(schema and len(schema.returns) == 1 and schema.returns[0].type.startswith("List["))
    columns = list(zip(*runs, strict=True))
    node.outputs = [
        captured.Value(TensorType(c[0].dtype, tuple(map(size, zip(*(t.shape for t in c), strict=True)))))
        if isinstance(c[0], torch.Tensor)
        else captured.Value(captured.ScalarType(type(c[0])))
        for c in columns
    ]
    for output in node.outputs:
        output.node = node
    return node


def _is_tensor_parameter(op: str, overload: str, name: str) -> bool:
    schema = captured.schema_of(op, overload)
    kinds = {p.name: p.type for p in schema.parameters} if schema else {}
    return kinds.get(name) in ("Tensor", "Optional[Tensor]")


def _stand_in(argument: Any) -> Any:
    """A captured value for each tensor of the graph."""
    if isinstance(argument, lower.Value):
        if argument.shape is None:
            return captured.Value(TensorType(argument.dtype, ()), name="?")
        return captured.Value(TensorType(argument.dtype, argument.shape), data=argument.data, size=argument.size)
    if isinstance(argument, list):
        return [_stand_in(element) for element in argument]
    return argument


def _example(argument: Any, capture: int) -> Any:
    """A tensor without content for each captured value."""
    if isinstance(argument, captured.Value):
        if argument.name == "?":
            raise ValueError("the shape of an argument is not known")
        sizes = [_at(length, capture) for length in argument.shape]
        if argument.size is not None:
            return torch.tensor(_at(argument.size, capture), dtype=argument.dtype)
        return torch.empty(sizes, dtype=argument.dtype, device="meta")
    if isinstance(argument, list):
        return [_example(element, capture) for element in argument]
    return argument


def _at(length: Size, capture: int) -> int:
    return length.at[capture] if isinstance(length, SizeExpr) else length


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _typed(g: GraphObject, result: Any, output: captured.Value) -> Any:
    """A result as a value, of the type that the operator gives."""
    if not isinstance(result, lower.Value):
        return g.value(result)
    if not output.is_tensor:
        return g.wrap(result)
    result = g.builder.realise(result)
    if not result.guessed:
        result = g.builder.cast(result, output.dtype)
    if result.data is None and result.ir is not None and result.ir.producer() is not None:
        result = lower.Value(result.ir, output.dtype, output.shape, guessed=result.guessed)
        if not result.guessed:
            g.builder.typed(result, output.dtype, output.shape)
    return g.wrap(result)
