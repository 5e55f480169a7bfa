"""Names for the free dimensions of values: those of the axes, and expressions of them such as ``height//2 + 1``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnxport.graph.dims import Dim, Shape, Size, product
from onnxport.graph.ir import Graph
from onnxport.graph.sizes.expr import AXIS, Operand, substitute
from onnxport.graph.sizes.text import text
from onnxport.graph.solve import simple
from onnxport.lower.value import Value

WINDOWS = frozenset({"Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool"})
# How many other sizes a size may be a multiple of.
MOST_BASES = 8


class DimNames:
    """How the sizes of one export are called. What a node's form tells of its sizes is noted as the node is made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # The axes are known when the graph is lowered, not yet when a builder is made.
        self._axes_known = False
        # Sizes that have a name, as expressions of the axes, and their names.
        self._expressions: dict[Dim, Operand] = {}
        self._texts: dict[Dim, str] = {}
        self._noted: list[Dim] = []
        self._nameless: set[Dim] = set()

    @property
    def texts(self) -> dict[Dim, str]:
        if not self._axes_known:
            self._axes_known = True
            self._texts.update(self.graph.axes)
            self._expressions.update({axis: axis for axis in self.graph.axes})
        return self._texts

    def note(self, op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], shape: Shape | None) -> None:
        """Remember how the sizes of a node's first result follow from those of its inputs."""
        for size in itertools.chain(shape or (), _windows(op, inputs, attributes)):
            if isinstance(size, Dim) and not size.is_leaf and size not in self.texts:
                self._learn(size, size)

    def name(self, dim: Dim) -> str | None:
        if dim not in self.texts and dim not in self._nameless:
            made = self._made(dim)
            if made is None or not self._learn(dim, made):
                self._nameless.add(dim)
        return self.texts.get(dim)

    def _learn(self, dim: Dim, made: Size) -> bool:
        """Take what is known of how a size is computed for its name; whether that gives one."""
        found = substitute(made, self._expressions)
        name = text(found, self._leaf_name)
        if name is None:
            return False
        self._expressions[dim], self._texts[dim] = found, name
        self._noted.append(dim)
        self._nameless.discard(dim)
        return True

    def _leaf_name(self, leaf: Dim) -> str | None:
        return leaf.operands[0] if leaf.op == AXIS else self.graph.axes.get(leaf)

    def _made(self, dim: Dim) -> Size | None:
        """How a size is computed: as Python did it, or as the simplest function of the axes that fits."""
        known = dim if not dim.is_leaf or dim.op == AXIS else self.graph.expressions.get(dim)
        if known is not None:
            return known
        return simple(dim, list(self.graph.axes)) or simple(dim, self._noted[-MOST_BASES:])


def _windows(op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Iterator[Size]:
    """The spatial sizes that a convolution or pooling leaves, and the product of a flattening."""
    first = inputs[0].shape if inputs and inputs[0] is not None else None
    if first is None:
        return
    if op == "Flatten":
        axis = attributes.get("axis", 1)
        yield product(first[:axis])
        yield product(first[axis:])
    if op not in WINDOWS or "auto_pad" in attributes:
        return
    rank = len(first) - 2
    weight = inputs[1] if len(inputs) > 1 else None
    kernel = attributes.get("kernel_shape") or (weight.shape[2:] if weight is not None and weight.shape else None)
    if kernel is None:
        return
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * 2 * rank
    for place, size in enumerate(first[2:]):
        span = dilations[place] * (kernel[place] - 1) + 1
        room = size + (pads[place] + pads[place + rank] - span)
        if attributes.get("ceil_mode"):
            room = room + (strides[place] - 1)
        yield room // strides[place] + 1
