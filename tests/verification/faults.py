"""Converters and passes with faults put in on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onnxport import pipeline
from onnxport.graph.ir import Node
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, Registry
from onnxport.verification.runtime import Session

Change = Callable[[Builder, Any], Any]


class FaultyRegistry(Registry):
    """The registry with one operator translated wrongly, everywhere or in one module."""

    def __init__(self, right: Registry, operator: str, change: Change, scope: str | None = None) -> None:
        self._right = right
        self._operator, self._change, self._scope = operator, change, scope

    def find(self, op: str, overload: str = "") -> Converter | None:
        return self._wrong(op, self._right.find(op, overload))

    def of(self, node: Node) -> Converter | None:
        return self._wrong(node.op, self._right.of(node))

    def _wrong(self, op: str, right: Converter | None) -> Converter | None:
        if op != self._operator or right is None:
            return right

        def faulty(g: Builder, **arguments: Any) -> Any:
            results = right(g, **arguments)
            if self._scope is not None and (g.origin is None or g.origin.scope != self._scope):
                return results
            if isinstance(results, (tuple, list)):
                return [self._change(g, results[0]), *results[1:]]
            return self._change(g, results)

        return faulty


def put_in(patch: pytest.MonkeyPatch, operator: str, change: Change, scope: str | None = None) -> None:
    patch.setattr(pipeline, "REGISTRY", FaultyRegistry(pipeline.REGISTRY, operator, change, scope))


def count_sessions(patch: pytest.MonkeyPatch) -> list[int]:
    """The number of sessions made from now on, as the only element of a list."""
    counted = [0]
    make = Session.__init__

    def counting(self: Session, *args: Any, **kwargs: Any) -> None:
        counted[0] += 1
        make(self, *args, **kwargs)

    patch.setattr(Session, "__init__", counting)
    return counted
