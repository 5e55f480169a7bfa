"""Notices, while a model is traced, where the content of a tensor becomes a Python number."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.branches import Branches
from onnxport.capture.direct import BUILT_IN, Direct
from onnxport.capture.functions import has_symbolic, running_functions
from onnxport.capture.inside import QUIET, is_inside
from onnxport.capture.liberty import Liberty
from onnxport.capture.listed import Listed, is_listable
from onnxport.capture.origins import Origins
from onnxport.capture.parts import JOINS, TAKEN_APART, Parts
from onnxport.capture.places import LISTS, MAY_HOLD_PLACES, Places
from onnxport.capture.recordable import OTHERWISE_RECORDED, recordable
from onnxport.capture.rounds import Rounds
from onnxport.capture.rules import UNKNOWN, Rule, Rules, constant
from onnxport.capture.scrambling import COUNTING, Scrambling
from onnxport.capture.stacks import OWN_FOLDER, Stacks, is_users, running_lines
from onnxport.capture.state import ModelState, WriteGuard, writes
from onnxport.errors import UnsupportedOperatorError
from onnxport.graph.ir import Source

MAKES_CONSTANTS = frozenset({"tensor", "as_tensor", "asarray", "from_numpy"})
COMPARISONS = frozenset(
    spelling
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal", "not_equal")
    for spelling in (name, f"{name}_", f"__{name}__")
)
READ_NAMES = {"__index__": "an index", "__bool__": "a condition", "__int__": "an int", "__float__": "a float"}
READ_NAMES |= {"__format__": "a text", "__array__": "an array", "__iter__": "the rounds of a loop"}
TENSOR_FILES = tuple(f"{compat.TORCH_FOLDER}{name}" for name in ("_tensor.py", "overrides.py"))
SHOWS = frozenset({"__format__", "__array__"})
READS = compat.READS_CONTENT | SHOWS


@dataclass(frozen=True)
class Comparison:
    """Two integers, at least one of which comes from sizes, and how they follow from the inputs' sizes."""

    name: str
    left: int
    right: int
    left_rule: Rule = field(default=UNKNOWN, compare=False)
    right_rule: Rule = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True)
class FrozenValue:
    """A tensor's content that Python read while tracing, and that is a constant from there on.

    It is harmless if it comes from sizes, which are traced at several values, or if torch itself reads it, which it
    does to check arguments. ``compared`` is how the condition came about, where it compares two integers;
    ``rule`` is how a size that became a number, on the user's lines ``stack``, follows from the inputs' sizes;
    ``followed`` tells that the tracer goes on following it, so that it is a constant only where it decides a size that
    no trace has shown to change.
    """

    how: str
    value: Any
    source: Source | None
    harmless: bool
    compared: Comparison | None = None
    rule: Rule | None = field(default=None, compare=False)
    followed: bool = False
    stack: tuple[Source, ...] = ()

    @property
    def message(self) -> str:
        what = READ_NAMES.get(self.how, f"a number by .{self.how}()")
        where = self.source or "the model"
        return (
            f"{where}: a tensor that depends on the input was used as {what}; its value {self.value!r} is frozen "
            "into the exported graph (a loop over it is unrolled, a condition on it is decided). If it must follow the "
            "input, use tensor operations or torch.jit.script for this part."
        )


class Watch(WriteGuard):
    """Collects, besides guarding writes, where the content of a traced tensor is read.

    What the forward of an autograd Function reads that stays a node (``keeps``) is not part of the graph.
    ``liberty`` tells whether numbers in lists are followed, and loops over places that depend on data given every
    place; ``scrambled`` is the seed for other content of what is counted.
    """

    def __init__(
        self,
        state: ModelState,
        parameter_ids: set[int],
        keeps: Callable[[Any], bool] = has_symbolic,
        liberty: Liberty | None = None,
        scrambled: int | None = None,
    ) -> None:
        super().__init__(state)
        self._keeps = keeps
        self._origins = Origins(parameter_ids)
        self._comparisons: dict[int, Comparison] = {}
        self._rules = Rules()
        self._listed = Listed()
        self._parts = Parts()
        self._liberty = liberty or Liberty(allowed=False)
        self._liberty.used = False
        self._places = Places(self._liberty, self._origins.is_content)
        self._scrambling = None if scrambled is None else Scrambling(scrambled, self._origins.is_content)
        self.frozen: list[FrozenValue] = []
        self.stacks = Stacks()
        self.direct = Direct(self.stacks)
        self.branches = Branches(self, self.direct, self._origins.is_content)

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(function) in BUILT_IN and _is_routine(function) and not self._listed and "out" not in kwargs:
            return self._call(function, args, kwargs, sys._getframe(1))
        name = getattr(function, "__name__", "")
        if "." in name:
            name = name.partition(".")[0]  # an operator, with its overload
        if name in QUIET:
            return function(*args, **kwargs)
        if self._listed and self._listed.holds([args, kwargs]):
            args, kwargs = self._listed_arguments(name, args, kwargs)
        if is_inside(frame := sys._getframe(1)):
            self.guard(name, args, kwargs)
            return self._call(function, args, kwargs, frame)
        if self._scrambling is not None and name in COUNTING and compat.is_tracing():
            self._scrambling.before(name, args, kwargs)
        for instead in INSTEAD[name] if name in INSTEAD and compat.is_tracing() else ():
            result = instead(self, name, function, args, kwargs)
            if result is not NotImplemented:
                return result
        if name in OTHERWISE_RECORDED:
            function, args, kwargs = recordable(function, args, kwargs)
        self.guard(name, args, kwargs)
        result = self._call(function, args, kwargs, frame)
        for after in AFTER[name] if name in AFTER and compat.is_tracing() else ():
            result = after(self, name, args, kwargs, result)
        return result

    def _call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
        """Call a function of torch so that the trace has it, made at the lines that lead to a frame."""
        place = self.stacks.note(frame)
        result = self.direct.call(function, args, kwargs, place)
        return self.stacks.call(place, function, args, kwargs) if result is NotImplemented else result

    def _take_places_apart(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._places.are_taken_apart(name, args, kwargs):
            return NotImplemented
        every = self._places.all_of(name, args[0])
        if every is None:
            self._freeze("__iter__", len(args[0]))
        return NotImplemented if every is None else every

    def _get(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The tracer does not see .data, and would take what it gives for a constant."""
        return args[0].detach() if getattr(function, "__self__", None) is torch.Tensor.data else NotImplemented

    def _control(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not compat.control.is_higher_order(function):
            return NotImplemented
        place = self.stacks.note(sys._getframe(2))
        if name == compat.control.COND:
            return self.branches.call(place, *args, **kwargs)
        if name == compat.control.WHILE_LOOP:
            return Rounds(self, self.branches).call(place, *args, **kwargs)
        raise UnsupportedOperatorError(
            f"{_user_source(sys._getframe(2)) or 'the model'}: the operator torch.ops.higher_order.{name} has no "
            "translation; write this with tensor operations, torch.cond, while_loop or a @torch.jit.script function"
        )

    def before_write(self, tensor: torch.Tensor) -> None:
        super().before_write(tensor)
        self.branches.before_write(tensor)

    def _join_parts(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        whole = self._parts.joined(name, args, kwargs)
        return NotImplemented if whole is None else whole

    def _note_constant(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """The trace keeps the tensor itself as the constant: what is written to it later must not change it."""
        return result.clone() if isinstance(result, torch.Tensor) else result

    def _note_parts(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        self._parts.note(args, kwargs, result)
        return result

    def _note_places(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        self._places.note(name, args, result)
        return result

    def _note_comparison(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        value = compat.traced_value(result) if isinstance(result, torch.Tensor) else None
        if value is not None and len(args) == 2 and all(map(_is_integer, args)):
            numbers = int(args[0]), int(args[1])
            self._comparisons[value.unique()] = Comparison(name.strip("_"), *numbers, *map(self._rule, args))
        return result

    def _read(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = compat.traced_value(args[0])
        depends = self._origins.of(value) if value is not None else None
        result = function(*args, **kwargs)
        if depends and name == "tolist" and is_listable(args[0]) and self._liberty.allowed:
            self._liberty.used = True
            source = _user_source(_reading_frame())
            self.frozen.append(FrozenValue(name, result, source, harmless=True, followed=True))
            return self._listed.of(args[0], result)
        if name in SHOWS and not depends:
            return result
        if depends is not None and not any(map(self._keeps, running_functions())):
            frame = _reading_frame()
            by_torch = frame is not None and frame.f_code.co_filename.startswith(compat.TORCH_FOLDER)
            harmless = by_torch or not depends
            self.frozen.append(
                FrozenValue(name, result, _user_source(frame), harmless, **self._size(name, value, args[0]))
            )
        return result

    def _listed_arguments(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Numbers that Python got as a list from a tensor, as the tracer follows them: a new constant cannot."""
        if name not in MAKES_CONSTANTS:
            followed: tuple[tuple[Any, ...], dict[str, Any]] = self._listed.followed((args, kwargs))
            return followed
        plain: tuple[tuple[Any, ...], dict[str, Any]] = self._listed.plain((args, kwargs))
        self._freeze("tolist", plain[0][0])
        return plain

    def _freeze(self, how: str, value: Any) -> None:
        self.frozen.append(FrozenValue(how, value, _user_source(_reading_frame()), harmless=False))

    def _size(self, name: str, value: Any, number: torch.Tensor) -> dict[str, Any]:
        """What is known of a size that is read: what it was compared with, or where it became a number."""
        if self._origins.of(value) is not False:
            return {}
        if name == "__bool__" or value.unique() in self._comparisons:
            return {"compared": self._comparisons.get(value.unique()) or self._truth(number)}
        return {"rule": self._rules.of(value), "stack": tuple(running_lines(sys._getframe(2)))}

    def _truth(self, number: torch.Tensor) -> Comparison | None:
        """A number that is taken for a condition is compared with 0."""
        if not _is_integer(number) or number.dtype == torch.bool:
            return None
        return Comparison("ne", int(number), 0, self._rule(number), constant(0))

    def _rule(self, number: torch.Tensor | int) -> Rule:
        if not isinstance(number, torch.Tensor):
            return constant(number)
        value = compat.traced_value(number)
        return constant(int(number)) if value is None else self._rules.of(value)


def _table(*rows: tuple[Iterable[str], Callable[..., Any]]) -> dict[str, list[Callable[..., Any]]]:
    """What is to be done at the functions of each name."""
    table: dict[str, list[Callable[..., Any]]] = {}
    for names, function in rows:
        for name in names:
            table.setdefault(name, []).append(function)
    return table


# What is done in place of the functions of each name, where it gives a result, and what after them.
INSTEAD = _table(
    (LISTS, Watch._take_places_apart),
    (READS, Watch._read),
    (("__get__",), Watch._get),
    (JOINS, Watch._join_parts),
    ((compat.control.COND, compat.control.WHILE_LOOP, *compat.control.OTHERS), Watch._control),
)
AFTER = _table(
    (MAKES_CONSTANTS, Watch._note_constant),
    (COMPARISONS, Watch._note_comparison),
    (TAKEN_APART, Watch._note_parts),
    (MAY_HOLD_PLACES, Watch._note_places),
)


ATTENDED = QUIET | COUNTING | OTHERWISE_RECORDED | INSTEAD.keys() | AFTER.keys()


@functools.cache
def _is_routine(function: Any) -> bool:
    """Whether nothing is to be done at calls of a function of torch but to let the trace have them, as most are."""
    return function.__name__ not in ATTENDED and not writes(function.__name__)


def _is_integer(argument: Any) -> bool:
    if isinstance(argument, torch.Tensor):
        return argument.dim() == 0 and not argument.is_floating_point() and not argument.is_complex()
    return type(argument) is int


def _reading_frame() -> FrameType | None:
    """The frame that reads: the innermost one that is not ours, nor a method of tensors that is written in Python."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((OWN_FOLDER, *TENSOR_FILES)):
        frame = frame.f_back
    return frame


def raised_at(error: BaseException) -> Source | None:
    """The innermost line of the user's code that an error went through."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [(code, line) for code, line in frames if is_users(code.co_filename)]
    return Source(users[-1][0].co_filename, users[-1][1], users[-1][0].co_name) if users else None


def _user_source(frame: FrameType | None) -> Source | None:
    return next(running_lines(frame), None)
