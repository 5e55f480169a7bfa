"""Records one run of a model: every ATen call, with the sizes among its arguments as the expressions that they are."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record import arguments, attempts
from onnxport.capture.record.calls import squeezes
from onnxport.capture.record.calls.decider import Decider
from onnxport.capture.record.calls.writes import Writes
from onnxport.capture.record.handlers import handles_errors
from onnxport.capture.record.mode import SizeMode
from onnxport.capture.record.numbers.carriers import number_of
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import (
    TENSOR_OF,
    Call,
    Condition,
    Drawn,
    Loss,
    Number,
    Outcomes,
    Read,
    Record,
    Ref,
    leaves,
)  # fmt: skip
from onnxport.capture.record.recording import ScriptRecorder
from onnxport.capture.record.source_lines import is_read_by_torch, names_around_call, running_line, running_names
from onnxport.capture.record.speculation import Speculation
from onnxport.capture.record.tensors import autocast, functorch, in_place, subclasses
from onnxport.capture.record.tensors.parts import Parts
from onnxport.capture.record.tensors.sized_tensors import SizedTensor
from onnxport.capture.record.traits import ASKS_FOR_TYPE, Traits, counts, traits_of
from onnxport.capture.record.values import Values
from onnxport.graph.ir import Source, schema_of

LIFT = torch.ops.aten.lift_fresh.default
DETACH = torch.ops.aten.detach_.default
# What torch.tensor([1, 2]) calls before it hands over what it filled out of sight.
FILLED = frozenset({torch.ops.aten.empty.memory_format, torch.ops.aten.to.device, torch.ops.aten.to.dtype})
ALIAS = torch.ops.aten.alias.default
# Arguments that stand for themselves.
PLAIN = frozenset({bool, int, float, str, NoneType, torch.dtype, torch.device, torch.layout, torch.memory_format})
IS_AUTOCAST_ENABLED, IS_GRAD_ENABLED = torch.is_autocast_enabled, torch.is_grad_enabled
TRANSFORMS = compat.dispatch.transforms


class Recorder:
    """One recorded run. ``on_write`` is called with each tensor before it is written to.

    ``symbolic`` tells whether sizes carry expressions, which they need not where no axis is dynamic; ``forced`` maps
    conditions, by their number in the run, to the outcome that they are to have; ``outcomes`` says the same of
    conditions on data, which are only noted where it is given; ``speculation`` tells whether loops over indices that
    data choose are given every index.
    """

    def __init__(
        self,
        on_write: Callable[[torch.Tensor], None],
        *,
        symbolic: bool = True,
        forced: dict[int, bool] | None = None,
        outcomes: Outcomes | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        self.record = Record()
        self._decider = Decider(self, outcomes)
        self.speculation = speculation or Speculation(allowed=False)
        self.values = Values(self.record)
        self.symbolic = symbolic
        self.scope = ""
        self.is_guarded = False  # whether errors of the module that is called are handled around it
        self.line: Callable[[], Source | None] = running_line  # where a call is made
        self.plain_reads: list[Number] = []  # numbers that C++ wanted plain, for the call to come
        self.left: list[Number] = []  # those that no argument of a call was found for
        self.parts = Parts()
        self.function: Any = None  # the function that the mode is in, and its arguments
        self.call: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
        self.inside = 0
        self.last: list[tuple[torch.Tensor, Ref]] = []
        self.given: list[weakref.ref[Any]] = []  # numbers that Python was given
        self.generators: list[Callable[[], torch.Generator | None]] = []  # those that random numbers were drawn from
        self.casts = 0  # operators that autocast gave other arguments
        self.sized = False  # results are to tell C++ their sizes as expressions
        self.has_sized = False  # some tensors do
        self.has_plain_sizes = False  # C++ read such a tensor for sizes without expressions
        self._on_write = on_write
        self._forced = forced or {}
        self.mode = SizeMode(self)
        self.writes: list[Writes] = []  # those of the blocks that are being recorded
        self.scripts: ScriptRecorder | None = None  # how calls of scripts are recorded

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        outer = STATE.listener, STATE.given, STATE.counts
        STATE.listener, STATE.given, STATE.counts = self, self.given, False
        try:
            with functorch.entered(), subclasses.made(), compat.dispatch.seen_by(self._handle), self.mode:
                yield
        finally:
            STATE.listener, STATE.given, STATE.counts = outer
            self.last.clear()

    def is_active(self) -> bool:
        """Whether calls come here, and not to the recorder of an export inside of this one."""
        return compat.dispatch.current() == self._handle and compat.dispatch.is_seen()

    def handles_errors(self) -> bool:
        """Whether an error that torch raises now would lead the model to do something else."""
        return self.is_guarded or handles_errors()

    # What numbers tell

    def note_condition(self, op: str, left: Any, right: Any, outcome: bool, *, counts_iterations: bool = False) -> bool:
        if STATE.counts and not any(leaf.operands for leaf in leaves(left, right)):
            self.note_loss("compare", left if isinstance(left, Number) else right)  # no size decides
            return outcome
        conditions = self.record.conditions
        outcome = self._forced.get(len(conditions), outcome)
        outcome = self._decider.compared(op, left, right, outcome, counts_iterations=counts_iterations)
        index = running_line(), len(self.record.calls), is_read_by_torch(), names_around_call()
        conditions.append(Condition(op, left, right, outcome, *index))
        return outcome

    def note_iteration(self, index: Number, length: Any) -> bool:
        """Whether a loop over a range whose length data decide has another iteration."""
        count = length.value if isinstance(length, Number) else length
        return self.note_condition("lt", index, length, index.value < count, counts_iterations=True)

    def follows_data(self, *numbers: Any) -> bool:
        """Whether the content of inputs decides on numbers, and may decide otherwise than it does in this run."""
        return self._decider.may_turn(*numbers)

    def note_loss(self, how: str, number: Number, keys: tuple[int, ...] = ()) -> None:
        index = running_line(), len(self.record.calls), running_names(), is_read_by_torch()
        self.record.losses.append(Loss(how, number, *index, keys))

    def note_read(self, how: str, of: Ref, value: Any) -> None:
        """Content of a tensor that Python read."""
        by_torch = is_read_by_torch() and not self.handles_errors()
        line = running_line(), by_torch, len(self.record.calls), running_names()
        self.record.reads.append(Read(how, of, value, *line))

    def note_truth(self, of: Ref, outcome: bool) -> bool:
        """A tensor that Python takes for a truth value; the outcome that it is to have."""
        return self._decider.decided(of, outcome)

    def note_asked(self, number: Number) -> None:
        self.plain_reads.append(number)

    # Calls

    def _handle(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if IS_AUTOCAST_ENABLED("cpu"):
            result = autocast.handled(self, op, args, kwargs)
            if result is not NotImplemented:
                return result
        if self.has_sized or IS_GRAD_ENABLED() or TRANSFORMS():
            return functorch.handled(self, op, args, kwargs)
        return self.recorded_call(op, args, kwargs)

    def recorded_call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call of an operator, and its results."""
        traits = traits_of(op)
        if self.plain_reads and not traits.reads:
            args, kwargs = self._expressed(op, args, kwargs)
        if traits.writes and op in in_place.MOVES:
            return in_place.MOVES[op](self, op, args, kwargs)
        given = self.recorded(args), {name: self.recorded(value) for name, value in kwargs.items()}
        if traits.writes:
            self._before_write(op, args, kwargs)
            if op is in_place.INDEX_PUT:
                value = self.call[0][-1] if self.call[0] else None
                ref = self.values.known(value) if isinstance(value, torch.Tensor) else None
                given = in_place.with_whole_values(self.record, args, given[0], ref), given[1]
        source = self.line()
        if self.symbolic and op in squeezes.OPERATORS:
            squeezes.note_sizes(self, args, given[0])
        before = self._generator_state(traits, kwargs)
        result = attempts.run(self, op, args, kwargs, given)
        if op is DETACH:
            return result  # the same tensor: it has no history while a model is recorded
        if op is LIFT:
            return self._lifted(result, given)
        counted = counts(op, traits, args)
        if counted:
            self.record.counts = self.symbolic = True  # sizes that data decide are not those of the example
        made = len(self.record.calls)
        noted = self._note(op, *given, result, source)
        if counted:
            self.record.counted.update(ref.number for _, ref in self.last)
        self._note_memory(args, kwargs)
        if self.speculation.allowed and len(self.record.calls) > made:
            self.speculation.note(op, args, given[0], self.last, counted)
        if before is not None:
            self._note_drawn(before, self._generator_state(traits, kwargs), kwargs)
        return noted

    def _generator_state(self, traits: Traits, kwargs: dict[str, Any]) -> Any:
        """What changes where an operator draws random numbers; None for one that never does."""
        if not traits.draws:
            return None
        with compat.dispatch.unseen():
            return (kwargs.get("generator") or torch.default_generator).get_state()

    def _note_drawn(self, before: torch.Tensor, after: torch.Tensor, kwargs: dict[str, Any]) -> None:
        with compat.dispatch.unseen():
            if torch.equal(before, after):
                return
            self.record.drawn.update({ref.number: Drawn(part.detach().clone(), after) for part, ref in self.last})
        if kwargs.get("generator") is not None:
            self.generators.append(compat.generator_reference(kwargs["generator"]))

    def _expressed(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with expressions for the numbers that C++ wanted plain; what was read for that is followed."""
        plain_reads, self.plain_reads = self.plain_reads, []
        if arguments.is_binding_of(self.function, op):
            found = arguments.matched_by_schema(self.call, op, args, kwargs, plain_reads)
            if found is not None:
                return found
        args, kwargs, left = arguments.matched_by_value(self.call, args, kwargs, plain_reads, self.values.known)
        self.left += [number for number in left if not self._became_tensor(number, args)]
        followed = {number.operands[0] for number in plain_reads if number.op == "item" and number not in left}
        reads = self.record.reads
        while reads and reads[-1].of in followed and reads[-1].after == len(self.record.calls):
            reads.pop()
        return args, kwargs

    def _became_tensor(self, number: Number, args: tuple[Any, ...]) -> bool:
        """Whether C++ made a number a tensor, as the operator wants one: ``torch.div(n, 8)``."""
        for argument in args:
            if isinstance(argument, torch.Tensor) and argument.dim() == 0 and self.values.known(argument) is None:
                with compat.dispatch.unseen():
                    is_same = argument.item() == number.value
                if is_same:
                    self.note_tensor_of(argument, [number])
                    return True
        return False

    def _note(self, op: Any, args: Any, kwargs: dict[str, Any], result: Any, source: Any) -> Any:
        results: list[Any] = []
        flat = _flat_results(result)
        if any(isinstance(part, (int, float, bool, complex)) for part in flat):
            self._read(op, args, result, source)
            return result
        self.last.clear()
        for part in flat:
            ref = self.values.new(part) if isinstance(part, torch.Tensor) else None
            results.append(ref)
            if ref is not None:
                self.last.append((part, ref))
        self.record.calls.append(Call(op, args, kwargs, results, source, self.scope, isinstance(result, list)))
        return result

    def _note_memory(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note which results of a call lie on memory of their own."""
        given = arguments.instances_in((args, kwargs), torch.Tensor)
        shared = {compat.storage_key(tensor) for tensor in given if tensor.layout is torch.strided}
        made = [(compat.storage_key(part), ref) for part, ref in self.last if part.layout is torch.strided]
        self.record.new_memory.update(ref.number for memory, ref in made if memory not in shared)

    def _read(self, op: Any, args: Any, result: Any, source: Any) -> None:
        """Content that becomes a Python number. Where C++ parses arguments, it becomes one of those."""
        of = next((argument for argument in args if isinstance(argument, Ref)), None)
        if of is None or op._schema.name in ASKS_FOR_TYPE:
            return
        if self.inside and traits_of(op).reads:
            self.plain_reads.append(Number(result, "item", (of,)))
            # What C++ reads of a mask without dimensions is how many there are of what it selects.
            self.symbolic |= type(result) is bool
        self.note_read(op._opname, of, result)

    def _before_write(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for tensor in written_tensors(op, args, kwargs):
            self.before_write(tensor)

    def before_write(self, tensor: torch.Tensor) -> None:
        self._on_write(tensor)
        ref = self.values.known(tensor)
        constants = self.record.constants
        if ref is not None and ref.number in constants and constants[ref.number] is tensor:
            with compat.dispatch.unseen():
                constants[ref.number] = tensor.detach().clone()
        for writes in self.writes:
            writes.before(tensor, ref)

    def _lifted(self, result: torch.Tensor, given: tuple[Any, Any]) -> torch.Tensor:
        """A tensor that C++ filled out of sight: of numbers with expressions, or a constant."""
        calls = self.record.calls
        ref = given[0][0]
        while calls and calls[-1].op in FILLED and calls[-1].results == [ref]:
            ref = next((argument for argument in calls.pop().args if isinstance(argument, Ref)), None)
        if self.left and self.note_numbers(result):
            return result
        arrays = any(read.how in ("numpy", "__array__") for read in self.record.reads)
        shared = next(self.values.sharing(result), None) if arrays else None
        if shared is not None:  # an array of numpy's, in the memory of a known tensor
            self.note_alias(result, shared[0])
        else:
            self.values.constant(result)
        return result

    def note_numbers(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was filled with the numbers among the arguments of the function that made it."""
        found = arguments.numbers_that_fill(self.call, tensor)
        if found is None and not self.inside:  # no mode sees torch.LongTensor([n, 2])
            found = arguments.numbers_among(self.left, tensor)
            if found is None:
                for number in self.left:
                    self.note_loss("argument", number)
        if found is None:
            return False
        self.left = []
        self.note_tensor_of(tensor, found)
        return True

    def note_tensor_of(self, tensor: torch.Tensor, filling: Sequence[Any]) -> torch.Tensor:
        """A tensor that holds these numbers, some of which may have expressions."""
        if any(isinstance(number, Number) for number in filling):
            ref = self.values.new(tensor)
            given = list(filling), list(tensor.shape), tensor.dtype
            self.record.calls.append(Call(TENSOR_OF, given, {}, [ref], running_line(), self.scope))
        else:
            self.values.constant(tensor)
        return tensor

    # Values

    def ref(self, tensor: torch.Tensor) -> Ref:
        """The number of a tensor; one of unknown origin is another view of a known value, or a constant."""
        if type(tensor) is SizedTensor:
            tensor = tensor.held
        found = self.values.known(tensor)
        if found is not None:
            return found
        for other, _ in self.values.sharing(tensor):
            return self.note_alias(tensor, other)
        return self.values.constant(tensor)

    def note_alias(self, tensor: torch.Tensor, of: torch.Tensor) -> Ref:
        """Another tensor that lies in the memory of a known one, as that does."""
        ref = self.ref(of)
        if ref.number in self.record.constants:
            self.values.alias(tensor, ref)
            return ref
        made = self.values.new(tensor)
        self.record.calls.append(Call(ALIAS, (ref,), {}, [made], running_line(), self.scope))
        return made

    def recorded(self, tree: Any) -> Any:
        """Arguments as the record has them."""
        kind = type(tree)
        if kind in PLAIN:
            return tree
        if kind is tuple or kind is list:
            return kind([self.recorded(leaf) for leaf in tree])
        if isinstance(tree, torch.Tensor):
            return self.ref(tree)
        if kind is dict:
            return {name: self.recorded(leaf) for name, leaf in tree.items()}
        return [number_of(leaf) for leaf in tree] if kind is torch.Size else number_of(tree)

    def known_as(self, result: Any) -> None:
        """Factories return another tensor object than their operator did, on the same memory."""
        if isinstance(result, torch.Tensor) and self.last and self.values.known(result) is None:
            for made, ref in self.last:
                if made.shape == result.shape and compat.storage_key(made) == compat.storage_key(result):
                    self.values.alias(result, ref)
                    break


def _flat_results(result: Any) -> list[Any]:
    if not isinstance(result, (tuple, list)):
        return [] if result is None else [result]
    return [part for element in result for part in (element if isinstance(element, (tuple, list)) else (element,))]


def written_tensors(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that an operator writes to."""
    schema = schema_of(*_name(op))
    if schema is None:
        return
    for index, parameter in enumerate(schema.parameters):
        if parameter.writes:
            given = args[index] if index < len(args) else kwargs.get(parameter.name)
            yield from (t for t in (given if isinstance(given, (list, tuple)) else [given]) if t is not None)


def _name(op: Any) -> tuple[str, str]:
    return op._schema.name, op._schema.overload_name
