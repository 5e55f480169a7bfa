"""Names of dynamic dimensions: those of the axes, and expressions such as ``height//2 + 1``."""

from __future__ import annotations

from onnxport.graph.ir import Graph
from onnxport.graph.sizes import SizeExpr
from onnxport.graph.sizes.expr import AXIS
from onnxport.graph.sizes.text import text


class DimNames:
    """The names of the sizes of one export."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._texts: dict[SizeExpr, str] = {}

    def name(self, size: SizeExpr) -> str | None:
        """The name of an axis, or the expression; None for a size that follows from the axes in no known way."""
        if size in self.graph.axes:
            return self.graph.axes[size]
        if size not in self._texts:
            found = text(size, self._leaf_name)
            if found is None:
                return None
            self._texts[size] = found
        return self._texts[size]

    def _leaf_name(self, leaf: SizeExpr) -> str | None:
        return leaf.operands[0] if leaf.op == AXIS else self.graph.axes.get(leaf)
