"""Calls of scripted functions and modules from a recorded model: each is one call of the record, with its graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record.arguments import held_in
from onnxport.capture.record.numbers import carriers
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Call, Ref
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.source_lines import running_line
from onnxport.compat import patches


@dataclass(frozen=True, eq=False)
class ScriptCall:
    """The call of a script. ``graph`` is what it runs; ``returned`` its result with a `Ref` for each tensor and number.

    A method has its owner: the outermost scripted module with its path, and the attributes that lead on from there.
    """

    name: str
    graph: Any
    returned: Any
    owner: tuple[str, Any, tuple[str, ...]] | None = None

    @property
    def identity(self) -> Any:
        return self.name, self.owner and (self.owner[0], self.owner[2])


class Scripts:
    """The scripts that one recorded model calls. ``modules`` are its outermost scripted ones, by their paths."""

    def __init__(self, recorder: Recording, modules: Sequence[tuple[str, Any]]) -> None:
        self._recorder = recorder
        self._places: dict[Any, tuple[str, Any, tuple[str, ...]]] = {}
        for path, module in modules:
            root = compat.scripts.script_object(module)
            for name, inner in module.named_modules():
                steps = tuple(name.split(".")) if name else ()
                self._places.setdefault(compat.scripts.script_object(inner), (path, root, steps))

    def call(self, script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a script returns, with expressions in the numbers among it."""
        recorder, source = self._recorder, running_line()
        given = _bound(script, args, kwargs)
        if compat.scripts.writes(script.graph):
            for tensor in held_in(given, torch.Tensor):
                recorder.before_write(tensor)
        recorded = tuple(recorder.recorded(argument) for argument in given)
        results: list[Ref] = []
        with compat.dispatch.unseen(), compat.dispatch.unaided():
            result = compat.scripts.call(script, _plain(args), _plain(kwargs))
            template, returned = self._returned(result, results, recorded)
        call = ScriptCall(script.name, script.graph, template, self._owner(script))
        recorder.record.calls.append(Call(call, recorded, {}, list(results), source, recorder.scope))
        return returned

    def _owner(self, script: Any) -> tuple[str, Any, tuple[str, ...]] | None:
        if not compat.scripts.is_method(script):
            return None
        return self._places.get(script.owner) or (self._recorder.scope, script.owner, ())

    def _returned(self, result: Any, results: list[Ref], given: Any) -> tuple[Any, Any]:
        """A result with a `Ref` for each tensor and number, and as the model gets it."""
        recorder = self._recorder
        if isinstance(result, torch.Tensor):
            results.append(recorder.values.new(result))
            return results[-1], result
        if type(result) in (int, float):
            results.append(recorder.values.number(result))
            return results[-1], carriers.carried(result, "returned", results[-1])
        if isinstance(result, bool):
            of = next(held_in(given, Ref), None)
            if of is not None:
                recorder.note_read("bool", of, result)
            return result, result
        if isinstance(result, dict):
            pairs = {key: self._returned(part, results, given) for key, part in result.items()}
            return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
        if isinstance(result, (list, tuple)):
            parts = [self._returned(part, results, given) for part in result]
            return [part for part, _ in parts], _rebuilt(result, [part for _, part in parts])
        return result, result


@contextlib.contextmanager
def recorded(recorder: Recording, modules: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """While a model is recorded, each call of a script by Python is one call of the record."""
    recorder.scripts = Scripts(recorder, modules)
    with contextlib.ExitStack() as stack:
        for kind in compat.scripts.CALLED:
            stack.enter_context(patches.replaced(kind, "__call__", _instead))
        yield


def _instead(script: Any, *args: Any, **kwargs: Any) -> Any:
    recorder: Any = STATE.listener
    scripts = getattr(recorder, "scripts", None)
    if scripts is None or not (recorder.is_active() and compat.dispatch.is_seen()):
        return NotImplemented
    return scripts.call(script, args, kwargs)


def _bound(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments by the schema, defaults included."""
    parameters = list(script.schema.arguments)[int(compat.scripts.is_method(script)) :]
    rest = parameters[len(args) :]
    return [*args, *(kwargs.get(p.name, p.default_value) for p in rest)]


def _rebuilt(like: Any, parts: list[Any]) -> Any:
    """A list or tuple, also one with names, of other parts."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _plain(tree: Any) -> Any:
    if isinstance(tree, torch.Size):
        return tuple(map(_plain, tree))
    if isinstance(tree, (list, tuple)):
        return _rebuilt(tree, [_plain(leaf) for leaf in tree])
    if type(tree) is dict:
        return {key: _plain(leaf) for key, leaf in tree.items()}
    return carriers.plain(tree)
