"""How the operators of a model are written: as ONNX, or on request as torch operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir

from onnxport.graph.interpret import UNBOUND_OVERLOADS
from onnxport.graph.ir import Graph, Node
from onnxport.lower.registry import Converters
from onnxport.options.enums import OperatorExportTypes
from onnxport.symbolic.aten import KeptOperators
from onnxport.symbolic.overlay import PYTHON_OP, Layered

EVERY_OPERATOR = (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)
CONTROL_FLOW = ("If", "Loop")
DECIDED_BY_SYMBOLIC = (OperatorExportTypes.ONNX, OperatorExportTypes.ONNX_ATEN_FALLBACK)
OWN_DOMAINS = (OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.RAW)


class Translation:
    """The converters of one export, and which of the steps around them are taken."""

    def __init__(self, kind: OperatorExportTypes, known: Layered) -> None:
        self._kind = kind
        self.known = known
        self.is_raw = kind is OperatorExportTypes.RAW
        self.keeps_every = kind in EVERY_OPERATOR
        self._kept: KeptOperators | None = None
        if kind is not OperatorExportTypes.ONNX:
            self._kept = KeptOperators(known, every=self.keeps_every, own_domains=kind in OWN_DOMAINS)
        self.keeps_torch = self._kept is not None
        self.converters: Converters = self._kept or known

    def keeps_function(self, function: Any) -> bool:
        """Whether an autograd Function stays one node; the forward of others is taken as if it were called directly."""
        if self._kind in DECIDED_BY_SYMBOLIC:
            return self.known.keeps_function(function)
        return self._kind is not OperatorExportTypes.ONNX_ATEN

    @property
    def kept(self) -> list[Node]:
        """The captured nodes that stayed operators of torch."""
        return self._kept.kept if self._kept else []

    def settle(self, model: ir.Model) -> None:
        """In a raw graph, branches and loops are those of the captured graph, too."""
        for node in model.graph.all_nodes() if self.is_raw else ():
            if node.domain == "" and node.op_type in CONTROL_FLOW:
                node.domain = "prim"

    def why_not_run(self) -> str | None:
        """The reason why no runtime can run the file, or None."""
        if self.is_raw:
            return "the graph is written as it was captured"
        if any(map(_is_python, self.kept)):
            return "some operators were kept that only exist in the model's Python code"
        return None

    def fallbacks(self, graph: Graph) -> list[str]:
        """Each operator that stayed one of torch, how often, and where it is first used."""
        lines = []
        for name, count in Counter(node.full_name for node in self.kept).items():
            first = next(node for node in self.kept if node.full_name == name)
            at = f" at {first.source}" if first.source else ""
            lines.append(f"{name} ({count} x), first in {graph.scope_name(first.scope)}{at}")
        return lines


def _is_python(node: Node) -> bool:
    """Whether an operator is a function of the model's, which no other program has."""
    return node.op == PYTHON_OP or (node.schema is None and node.op not in UNBOUND_OVERLOADS)
