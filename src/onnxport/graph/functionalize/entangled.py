"""Tensors that share memory unseen by the graph: results of an autograd Function and its arguments."""

from __future__ import annotations

from onnxport.errors import ExportError
from onnxport.graph.functionalize.aliases import Aliases
from onnxport.graph.ir import Argument, Node, PythonCall, Value, values_in


class Entangled:
    """A write to one of them is seen by the others, which cannot be said: reading one afterwards is an error."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._groups: dict[object, tuple[set[object], str]] = {}
        self._stale: dict[object, str] = {}

    def note(self, node: Node) -> None:
        """Take in a node whose results may look at the memory of its arguments."""
        call = node.inputs.get("call")
        if not isinstance(call, PythonCall) or not call.shared:
            return
        given = [index for index, letter in enumerate(call.convention) if letter == "d"]
        arguments = [node.inputs[str(given[index])] for index in call.shared if index < len(given)]
        memories = {self._memory(value) for value in [*arguments, *node.outputs] if isinstance(value, Value)}
        for memory in memories:
            self._groups[memory] = (memories, call.function.__name__)

    def write(self, target: Value) -> None:
        memory = self._memory(target)
        others, name = self._groups.get(memory, (set(), ""))
        self._stale.update((other, name) for other in others if other is not memory)

    def read(self, argument: Argument, where: str) -> None:
        if not self._stale:
            return
        for value in values_in(argument):
            name = self._stale.get(self._memory(value))
            if name is not None:
                raise ExportError(
                    f"{where}: a tensor is read that shares its memory with a result of the autograd Function {name}, "
                    "after one of the two was written to. Return a copy from its forward, or do not write in place."
                )

    def _memory(self, value: Value) -> object:
        return self._aliases.of(value).memory
