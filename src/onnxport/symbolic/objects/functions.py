"""ONNX functions that symbolic functions call. Those of onnxscript are known by their methods: it is not imported."""

from __future__ import annotations

from typing import Any

import onnx.defs
import onnx_ir as ir

from onnxport.errors import OptionTypeError, UnsupportedOpsetError

# The first opset whose files hold functions.
FIRST_FUNCTIONS = 15
# What the meta data of these functions holds.
BROUGHT = "brought"


def function_name(function: Any) -> str:
    return str(getattr(function, "name", None) or getattr(function, "__name__", function))


def with_called(function: Any) -> list[Any]:
    """A function behind those that it calls."""
    if not hasattr(function, "to_function_proto"):
        raise OptionTypeError(
            f"g.onnxscript_op takes a function that onnxscript.script made, or another object with "
            f"to_function_proto(); {function_name(function)} is a {type(function).__name__}"
        )
    called: Any = getattr(getattr(function, "function_ir", None), "get_called_functions", dict)
    return [*called().values(), function]


def given_function(function: Any, opset: int) -> ir.Function:
    """The function, for a file of an opset: its operators have to be in the same form there."""
    made: ir.Function = ir.from_proto(function.to_function_proto())
    own = made.opset_imports.get("", opset)
    standard = [node for node in made.all_nodes() if node.domain == ""]
    changed = sorted({node.op_type for node in standard if not _is_same(node, own, opset)})
    if changed:
        raise UnsupportedOpsetError(
            f"the function {made.name} is written for opset {own}, and {', '.join(changed)} has another form at opset "
            f"{opset}: write it for that one, or export with opset_version={own}"
        )
    made.opset_imports[""] = opset
    made.meta[BROUGHT] = True
    return made


def domain_version(function: Any) -> int:
    """onnxscript's functions belong to an opset of their own."""
    return int(getattr(getattr(function, "opset", None), "version", 1))


def users_functions(model: ir.Model) -> list[ir.OperatorIdentifier]:
    """The functions of a model that symbolic functions brought along."""
    return [identifier for identifier, function in model.functions.items() if BROUGHT in function.meta]


def _is_same(node: ir.Node, own: int, opset: int) -> bool:
    """Whether what an operator takes at one opset it takes at another, but for dtypes."""
    try:
        before, after = (onnx.defs.get_schema(node.op_type, version) for version in (own, opset))
    except onnx.defs.SchemaError:
        return own == opset
    kept = _attributes(before).items() <= _attributes(after).items()
    return kept and all(
        [entry.name for entry in old] == [entry.name for entry in new][: len(old)]
        for old, new in ((before.inputs, after.inputs), (before.outputs, after.outputs))
    )


def _attributes(schema: onnx.defs.OpSchema) -> dict[str, tuple[object, ...]]:
    return {
        name: (attribute.type, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    }
