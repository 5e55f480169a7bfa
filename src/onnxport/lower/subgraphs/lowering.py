"""The part of the walk's interface that the translation of subgraphs needs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from onnxport.graph import ir as captured
from onnxport.graph.ir import Block, Node
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value


class NodeLowering(Protocol):
    """Translates nodes one by one; ``builder`` and ``values`` belong to the current block."""

    builder: Builder
    values: dict[captured.Value, Value]

    def lower(self, node: Node) -> None: ...

    def lower_block(self, node: Node, block: Block) -> None: ...

    def argument(self, value: captured.Value) -> Value: ...

    def realise(self, value: Value) -> Value: ...

    def is_parameter(self, value: captured.Value) -> bool: ...

    def inside(
        self, builder: Builder, values: dict[captured.Value, Value] | None = None, *, forget: bool = True
    ) -> AbstractContextManager[None]: ...
