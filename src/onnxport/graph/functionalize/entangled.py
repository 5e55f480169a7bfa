"""Arguments and results of autograd Functions that share memory, which the graph does not show."""

from __future__ import annotations

from onnxport.errors import ExportError
from onnxport.graph.functionalize.aliases import Aliases
from onnxport.graph.ir import Argument, Node, PythonCall, Value, values_in


class Entangled:
    """After a write to one of these tensors, reading another one is an error."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._groups: dict[object, tuple[set[object], str]] = {}
        self._stale: dict[object, str] = {}

    def note(self, node: Node) -> None:
        """Note a node with results that may be views of its arguments."""
        call = node.inputs.get("call")
        if not isinstance(call, PythonCall) or not call.shared:
            return
        tensor_indices = [index for index, letter in enumerate(call.convention) if letter == "d"]
        arguments = [node.inputs[str(tensor_indices[index])] for index in call.shared if index < len(tensor_indices)]
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
                    f"{where}: this tensor shares memory with a result of the autograd Function {name}, and one of the "
                    "two was written to before. Return a copy from the Function's forward, or do not write in place."
                )

    def _memory(self, value: Value) -> object:
        return self._aliases.of(value).memory
