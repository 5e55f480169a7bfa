"""Modules that become one operator."""

from __future__ import annotations

import json
from collections.abc import Sequence

from onnxport.graph.ir import MODULE_CALL
from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value


@converter(MODULE_CALL)
def module_call(
    g: Builder,
    arguments: Sequence[Value],
    parameters: Sequence[Value],
    results: Sequence[Value],
    operator: str,
    attributes: str,
) -> Sequence[Value]:
    """module_call(Tensor[] arguments, Tensor[] parameters, Tensor[] results, str operator, str attributes)
    -> Tensor[]"""
    types = [(output.dtype, output.shape) for output in g.outputs]
    return g.foreign(operator, [*arguments, *parameters], types, json.loads(attributes))
