"""Calls of scripts in a record: replaced by the nodes of their TorchScript graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxport.capture.build.building import Building
from onnxport.capture.record.calls.script_calls import ScriptCall
from onnxport.capture.record.record import Call, Ref
from onnxport.capture.script.calls import Callee, Calls
from onnxport.capture.script.items import Item, Maybe, ScriptDict, ScriptList
from onnxport.capture.sizes.points import Seen
from onnxport.errors import CaptureError
from onnxport.graph.ir import Scope, SequenceType, Value
from onnxport.graph.sizes import SizeExpr, values


class ScriptReader:
    """The scripts that the model of one record calls."""

    def __init__(self, builder: Building, parameters: Mapping[int, Value]) -> None:
        self._builder = builder
        self._calls = Calls(builder.points, parameters)

    def read(self, call: Call) -> None:
        builder, script = self._builder, call.op
        assert isinstance(script, ScriptCall)
        given = [builder.argument(argument, call) for argument in call.args]
        path = call.scope
        if script.owner is not None:
            root, module, steps = script.owner
            given.insert(0, self._calls.item(root, module, steps))
            path = Scope.inside(".".join(filter(None, (root, *steps))), call.scope)
        where = str(call.source or call.scope or "the model")
        callee = Callee(script.graph, path, call.source, where, script.owner is None)
        builder.points.reading_script = True
        try:
            result = self._calls.read(callee, given, builder.nodes)
        finally:
            builder.points.reading_script = False
        self._bind(script.returned, result, where)

    def _bind(self, returned: Any, item: Item, where: str) -> None:
        """Bind the results in the record to what was read from the script."""
        builder = self._builder
        if isinstance(returned, Ref):
            if isinstance(item, Value) and item.is_tensor:
                self._check_seen(returned, item)
                builder.know(returned, item)
                return
            if isinstance(item, Value) and item.size is not None:
                builder.points.numbers[item] = values(item.size, builder.points.count)
            builder.values[returned.number] = item
            return
        parts = _parts(item)
        if isinstance(returned, dict) and isinstance(parts, dict):
            for key, part in returned.items():
                self._bind(part, parts[key], where)
        elif isinstance(returned, (list, tuple)) and isinstance(parts, (list, tuple)) and len(parts) == len(returned):
            for part, inner in zip(returned, parts, strict=True):
                self._bind(part, inner, where)
        elif isinstance(returned, (list, tuple, dict)) or isinstance(item, Maybe):
            raise CaptureError(
                f"{where}: the structure of this scripted function's result is only known at run time: a list of "
                "unknown length, or an optional value. Return tensors, or script the module that makes the call."
            )

    def _check_seen(self, returned: Ref, value: Value) -> None:
        """Raise `Seen` if the guess for a size of a result differs from its size in the run."""
        builder = self._builder
        for size, seen in zip(value.shape, builder.record.types[returned.number][1], strict=True):
            site = builder.points.site_of(size) if isinstance(size, SizeExpr) and size.at[0] != seen else None
            if site is not None:
                raise Seen(site, seen)


def _parts(item: Item) -> Any:
    if isinstance(item, ScriptList):
        state = item.state
        return None if isinstance(state, Value) or isinstance(getattr(state, "type", None), SequenceType) else state
    return item.state if isinstance(item, ScriptDict) else item if isinstance(item, Sequence) else None
