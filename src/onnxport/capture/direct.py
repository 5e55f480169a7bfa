"""Writes a call of torch that is given nothing but tensors and plain constants into the trace, without the tracer.

The tracer makes a node of every constant in a call, eighteen for a convolution, each with the Python stack beside it.
Here a call is one node, and calls of one kind share their constants. The node says the same, and what runs is the same:
the tracer, too, looks away while the operator that it has written down runs. Calls in which it would see more than
that one operator are left to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.inside import ELEMENTS, KINDS, LISTS, TENSORS, UNKNOWN, kind_of
from onnxport.capture.reader import Record, type_of
from onnxport.capture.stacks import Line, Stacks

BUILT_IN = (BuiltinFunctionType, MethodDescriptorType)
# What the types in schemas take, as the kinds of arguments.
TAKEN: dict[str, tuple[Any, ...]] = {
    "Tensor": (torch.Tensor,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "number": (int, float),
    "str": (str,),
} | {name: (name,) for name in ELEMENTS.values()}
CONVERTED: dict[str, Callable[[Any], Any]] = {"float": float}


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument of an operator: that in a place or of a name of the call, which is converted, or a default."""

    source: Any
    is_tensor: bool = False
    convert: Callable[[Any], Any] | None = None
    default: Any = None


# torch takes a number in the place of a tensor, and which overload that makes it is not told by the kinds alone.
NUMBER_AS_TENSOR = Slot("number")
NUMBERS = (int, float, bool)


class Plan:
    """How the arguments of a call become those of an operator, and how many tensors it gives."""

    def __init__(self, schema: Any, slots: Sequence[Slot]) -> None:
        self.kind: str = schema.name
        self.overload: str = schema.overload_name
        self.slots = tuple(slots)
        self.tensors = tuple((place, slot.source) for place, slot in enumerate(slots) if slot.is_tensor)
        self.constants = tuple(slot for slot in slots if slot.source is not None and not slot.is_tensor)
        self.results = len(schema.returns)


class Direct:
    """The calls of one trace that are written down here, as records by the numbers of their first results.

    Their inputs are known in the end only, when the tracer has normalised its graph; those that are constants at once.
    """

    def __init__(self, stacks: Stacks) -> None:
        self.records: dict[int, Record] = {}
        self._stacks = stacks
        self._state: Any = None
        self._graph: Any = None
        self._constants: dict[Any, tuple[list[Any], tuple[int | None, ...]]] = {}

    def call(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int) -> Any:
        """The result of a call, whose lines have this place among the stacks; NotImplemented if it is the tracer's."""
        plan = plan_of(function, args, kwargs)
        if plan is None or compat.writing.sees_more() or not self._is_traced(state := compat.tracing_state()):
            return NotImplemented
        values, given = self._values(plan, args, kwargs)
        compat.set_tracing_state(None)
        try:
            result = function(*args, **kwargs)
            tensors = (result,) if plan.results == 1 else tuple(result)
            types = tuple(map(type_of, tensors))
        finally:
            compat.set_tracing_state(state)
        node = self._graph.insertNode(self._graph.create(plan.kind, values, plan.results))
        numbers = tuple([compat.writing.set_traced_value(t, node.outputsAt(i)) for i, t in enumerate(tensors)])
        record = Record(plan.kind, plan.overload, given, numbers, types, None, node, self._stacks, place)
        self.records[numbers[0]] = record
        return result

    def _is_traced(self, state: Any) -> bool:
        """Whether the tracer is in this state while it writes the trace, and not another one inside of it."""
        if self._state is None and state is not None:
            self._state, self._graph = state, state.graph()
        return state is not None and state is self._state

    def lines(self, node: Any) -> list[Line]:
        """The lines that a node of the trace was made at."""
        record = self.records.get(node.outputsAt(0).unique()) if node.outputsSize() else None
        if record is not None and record.place is not None:
            return self._stacks.at(record.place)
        return self._stacks.lines(node.sourceRange())

    def _values(
        self, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], tuple[int | None, ...]]:
        """The tracer's values for the arguments, and the numbers of those that are constants.

        The constants of a call are looked up together: most come again.
        """
        constants = [args[slot.source] if type(slot.source) is int else kwargs[slot.source] for slot in plan.constants]
        # Not the numbers themselves: 0.0 and -0.0 are equal.
        key = (plan, repr(constants)) if constants else plan
        known = self._constants.get(key)
        if known is None:
            contents = iter(constants)
            values = [self._constant(slot, contents) for slot in plan.slots]
            known = self._constants[key] = values, tuple([None if v is None else v.unique() for v in values])
        values = known[0].copy()
        for place, source in plan.tensors:
            given = args[source] if type(source) is int else kwargs[source]
            if type(given) in TENSORS:
                values[place] = compat.writing.known_value(given)
            else:
                values[place] = compat.writing.packed(self._graph, list(map(compat.writing.known_value, given)))
        return values, known[1]

    def _constant(self, slot: Slot, given: Iterator[Any]) -> Any:
        """The value of the constant in an argument's place; None where that is a tensor's."""
        if slot.is_tensor:
            return None
        content = slot.default if slot.source is None else next(given)
        content = content if slot.convert is None else slot.convert(content)
        return self._graph.insertConstant(list(content) if type(content) in LISTS else content)


def plan_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Plan | None:
    """How a call becomes one operator; None where it does not, or where that is not sure."""
    if type(function) not in BUILT_IN:
        return None
    kinds = tuple([KINDS.get(type(argument)) or kind_of(argument) for argument in args])
    return _plan(function, kinds, tuple([(name, kind_of(kwargs[name])) for name in kwargs]))


@functools.cache
def _plan(function: Any, kinds: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Plan | None:
    given = [*kinds, *(kind for _, kind in named)]
    if UNKNOWN in given or not {torch.Tensor, "List[Tensor]"} & set(given):
        return None
    schemas = compat.writing.schemas_of(function)
    of_tensors = type(function) is MethodDescriptorType
    found = [_bound(schema, kinds, dict(named), of_tensors=of_tensors) for schema in schemas]
    plans = [plan for plan in found if plan is not None]
    return plans[0] if len(plans) == 1 and NUMBER_AS_TENSOR not in plans[0].slots else None


def _bound(schema: Any, kinds: tuple[Any, ...], named: dict[str, Any], *, of_tensors: bool) -> Plan | None:
    """The plan for an overload that takes arguments of these kinds, and gives new tensors.

    A method ``of_tensors`` has the tensor first.
    """
    parameters = schema.arguments
    if of_tensors and not (parameters and parameters[0].name == "self"):
        return None  # as Tensor.where, whose condition comes second
    if any(entry.alias_info is not None for entry in (*parameters, *schema.returns)) or len(kinds) > len(parameters):
        return None
    if not schema.returns or any(str(entry.type) != "Tensor" for entry in schema.returns):
        return None
    slots = []
    for place, parameter in enumerate(parameters):
        if place < len(kinds):
            slot = None if parameter.kwarg_only else _slot(parameter, place, kinds[place])
        elif parameter.name in named:
            slot = _slot(parameter, parameter.name, named.pop(parameter.name))
        elif parameter.has_default_value() and parameter.default_value != []:
            slot = Slot(None, default=parameter.default_value)
        else:
            return None
        if slot is None:
            return None
        slots.append(slot)
    return None if named else Plan(schema, slots)


def _slot(parameter: Any, source: int | str, kind: Any) -> Slot | None:
    taken = str(parameter.type)
    if taken.startswith("Optional["):
        taken = taken.removeprefix("Optional[").removesuffix("]")
        if kind is type(None):
            return Slot(source)
    if taken == "List[int]" and kind is int and parameter.N:
        return Slot(source, convert=functools.partial(_repeated, parameter.N))
    if taken == "Tensor" and kind in NUMBERS:
        return NUMBER_AS_TENSOR
    if kind not in TAKEN.get(taken, ()):
        return None
    return Slot(source, taken in ("Tensor", "List[Tensor]"), CONVERTED.get(taken))


def _repeated(times: int, number: int) -> list[int]:
    return [number] * times
