"""A captured graph that is being built, as it is known to those who build one kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from onnxport.capture.build.contents import Contents
from onnxport.capture.record.record import Call, Number, Record, Ref
from onnxport.capture.sizes.record_points import RecordPoints
from onnxport.graph.ir import Argument, Node, Type, Value
from onnxport.graph.sizes import Operand


class Building(Protocol):
    """What `GraphBuilder` has for them."""

    record: Record
    points: RecordPoints
    contents: Contents
    nodes: list[Node]  # of the block so far
    values: dict[int, Argument]  # by the numbers of their refs
    parameters: dict[int, Value]

    def know(self, ref: Ref, value: Value) -> None: ...

    def value(self, ref: Ref) -> Value: ...

    def argument(self, recorded: Any, call: Call) -> Argument: ...

    def resolve(self, number: Any) -> Any: ...

    def expression(self, number: Any, call: Call) -> Any: ...

    def number_value(self, expression: Any, call: Call) -> Argument: ...

    def attempted(self, number: Number) -> Operand: ...

    def finish(self, node: Node, types: Sequence[Type], results: Sequence[Ref | None]) -> None: ...

    def forget(self, inner: set[Value], known: set[int]) -> None: ...
