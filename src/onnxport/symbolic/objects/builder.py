"""The builder for users' symbolic functions: any operator of ONNX, and operators of other domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.errors import CustomOperatorError
from onnxport.graph.ir import Node
from onnxport.lower.builder import Builder
from onnxport.lower.dtypes import SCHEMA_NAMES, number_dtype, result_type
from onnxport.lower.inference import element_types
from onnxport.lower.inference.node_contents import Contents
from onnxport.lower.inference.node_types import OutputType, output_types
from onnxport.lower.value import Value
from onnxport.symbolic.objects.functions import (
    FIRST_FUNCTIONS,
    domain_version,
    function_name,
    given_function,
    with_called,
)

Number = bool | int | float
DTYPES = {f"tensor({name})": dtype for dtype, name in SCHEMA_NAMES.items()}
# Dtypes for a number if an operator does not accept its own dtype, the most likely first.
NUMBER_DTYPES = (torch.int64, torch.float32, torch.int32, torch.float64, torch.bool)


class UserBuilder(Builder):
    """Adds to the block of another builder, for one node of the captured graph.

    The types of results come from onnx's own inference. Those of another domain's operators are guessed: floats like
    the first floating-point input, until a symbolic function sets them.
    """

    def __init__(self, outer: Builder) -> None:
        super().__init__(outer.context, outer.realise)
        self.nodes = outer.nodes
        self.carriers = outer.carriers
        self.origin = outer.origin
        self.outputs = outer.outputs
        known: Contents | None = getattr(outer, "contents", None)
        self.contents: Contents = known or Contents(outer.context.graph.captures)

    def standard(
        self, op_type: str, inputs: Sequence[Value | Number | None], outputs: int, attributes: Mapping[str, ir.Attr]
    ) -> tuple[Value, ...]:
        """A node of ONNX's own domain. Constants get the dtype of the other operands of their type variable."""
        if not element_types.exists(op_type, self.opset):
            self.require(element_types.since(op_type), f"ONNX's {op_type}")
        made: tuple[Value, ...] = self.op(op_type, *self._alike(op_type, inputs), outputs=outputs, **attributes)
        return made

    def other_domain(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[Value | Number | None],
        outputs: int,
        attributes: Mapping[str, ir.Attr],
    ) -> tuple[Value, ...]:
        """A node that ONNX does not define."""
        given = [self.constant(i, number_dtype(i)) if isinstance(i, Number) else i for i in inputs]
        values = [None if value is None else self.realise(value) for value in given]
        results = self._node(domain, op_type, values, outputs, dict(attributes))
        dtype = next((value.dtype for value in values if value and value.is_float), torch.get_default_dtype())
        return tuple(Value(result, dtype, None, guessed=True) for result in results)

    def bring(self, function: Any) -> tuple[str, str]:
        """Take an ONNX function, and those that it calls, into the file: the domain and name that call it."""
        self.require(FIRST_FUNCTIONS, f"the function {function_name(function)}")
        for given in with_called(function):
            made = given_function(given, self.opset)
            key = made.domain, made.name
            there = self.context.functions.setdefault(key, made)
            self.context.domains[made.domain] = domain_version(given)
            if ir.to_proto(there) != ir.to_proto(made):
                raise CustomOperatorError(f"{self.where()}: two functions {key[0]}::{key[1]} have other bodies")
        return key

    def op(self, op_type: str, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """Without widening if a dtype is a guess: narrowing back to it may lose digits."""
        values = self._values(inputs)
        if any(value is not None and value.guessed for value in values):
            return self._add(op_type, values, outputs, attributes)
        return super().op(op_type, *values, outputs=outputs, **attributes)

    def _alike(self, op_type: str, inputs: Sequence[Value | Number | None]) -> list[Value | None]:
        """The inputs, with those of one type variable in their promoted dtype."""
        found = element_types.signature(op_type, self.opset)
        if len(inputs) > len(found.inputs) and not found.variadic:
            raise CustomOperatorError(
                f"{self.where()}: ONNX's {op_type} has {len(found.inputs)} inputs at opset {self.opset}, and the "
                f"symbolic function passes {len(inputs)}"
            )
        groups: dict[str, list[int]] = {}
        for index, given in enumerate(inputs):
            if given is not None:
                groups.setdefault(found.input_variable(index), []).append(index)
        alike: list[Value | None] = [None] * len(inputs)
        for variable, indices in groups.items():
            dtype = self._dtype(found, variable, [i for index in indices if (i := inputs[index]) is not None])
            for index in indices:
                given = inputs[index]
                assert given is not None
                keep = isinstance(given, Value) and (given.guessed or dtype is None)
                alike[index] = given if keep else self.cast(given, dtype or torch.float32)  # type: ignore[assignment]
        return alike

    def _dtype(
        self, found: element_types.Signature, variable: str, operands: Sequence[Value | Number]
    ) -> torch.dtype | None:
        """The dtype of a type variable; None if the operands may differ or the dtype of one is a guess."""
        if variable in DTYPES:
            return DTYPES[variable] if any(isinstance(operand, Number) for operand in operands) else None
        tensors = [operand for operand in operands if isinstance(operand, Value)]
        if tensors:
            if any(value.guessed for value in tensors):
                return next((value.dtype for value in tensors if not value.guessed), tensors[0].dtype)
            same = len({value.dtype for value in tensors}) == 1
            return tensors[0].dtype if same else result_type(*tensors)
        natural = result_type(*operands)
        allowed = found.in_schema.get(variable, frozenset())
        if not allowed or SCHEMA_NAMES[natural] in allowed:
            return natural
        return next((dtype for dtype in NUMBER_DTYPES if SCHEMA_NAMES[dtype] in allowed), natural)

    def _add(
        self, op_type: str, values: Sequence[Value | None], outputs: int | None, attributes: dict[str, Any]
    ) -> Value | tuple[Value, ...]:
        made = self._node("", op_type, values, outputs or 1, attributes)
        node = made[0].producer()
        assert node is not None
        types: list[OutputType] = [(None, None)] * len(made)
        if not any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
            types = output_types(node, values, self.contents, self.opset, self.context.graph.captures)
            self.contents.note(node, values, self.opset)
        like = next((value.dtype for value in values if value is not None), torch.get_default_dtype())
        results = tuple(
            Value(value, dtype or like, shape, guessed=dtype is None)
            for value, (dtype, shape) in zip(made, types, strict=True)
        )
        for result in results:
            if not result.guessed:
                self._type(result)
        return results[0] if outputs is None else results

    def acting_for(self, node: Node) -> UserBuilder:
        """A builder on the same block for another node, which represents a call of a built-in converter."""
        other = UserBuilder(self)
        other.origin, other.outputs = node, node.outputs
        return other
