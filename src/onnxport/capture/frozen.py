"""Notices, while a model is traced, where the content of a tensor becomes a Python number."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.bools import recordable
from onnxport.capture.functions import has_symbolic, running_functions
from onnxport.capture.reader import OWN_FOLDER
from onnxport.capture.rules import UNKNOWN, Rule, Rules, constant
from onnxport.capture.state import ModelState, WriteGuard
from onnxport.graph.ir import Source

MAKES_CONSTANTS = frozenset({"tensor", "as_tensor", "asarray", "from_numpy"})
COMPARISONS = frozenset(
    {"lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal", "not_equal"}
)
READ_NAMES = {"__index__": "an index", "__bool__": "a condition", "__int__": "an int", "__float__": "a float"}


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
    ``rule`` is how a size that became a number, on the user's lines ``stack``, follows from the inputs' sizes.
    """

    how: str
    value: Any
    source: Source | None
    harmless: bool
    compared: Comparison | None = None
    rule: Rule | None = field(default=None, compare=False)
    stack: tuple[Source, ...] = ()

    @property
    def message(self) -> str:
        what = READ_NAMES.get(self.how, f"a number by .{self.how}()")
        return (
            f"{self.source}: a tensor that depends on the input was used as {what}; its value {self.value!r} is frozen "
            "into the exported graph (a loop over it is unrolled, a condition on it is decided). If it must follow the "
            "input, use tensor operations or torch.jit.script for this part."
        )


class Watch(WriteGuard):
    """Collects, besides guarding writes, where the content of a traced tensor is read.

    What the forward of an autograd Function reads that stays a node (``keeps``) is not part of the graph.
    """

    def __init__(self, state: ModelState, parameter_ids: set[int], keeps: Callable[[Any], bool] = has_symbolic) -> None:
        super().__init__(state)
        self._keeps = keeps
        self._parameters = parameter_ids
        self._origins: dict[int, bool | None] = {}
        self._comparisons: dict[int, Comparison] = {}
        self._rules = Rules()
        self.frozen: list[FrozenValue] = []

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in compat.READS_CONTENT and compat.is_tracing():
            return self._read(name, function, args, kwargs or {})
        if name == "__get__" and getattr(function, "__self__", None) is torch.Tensor.data and compat.is_tracing():
            # The tracer does not see .data, and would take what it gives for a constant.
            return args[0].detach()
        function, args, kwargs = recordable(function, args, kwargs or {})
        self.guard(name, args, kwargs)
        # Not through super(): the tracer writes down the whole stack for each node, and time goes with its depth.
        result = function(*args, **kwargs)
        if name in MAKES_CONSTANTS and isinstance(result, torch.Tensor) and compat.is_tracing():
            # The trace keeps the tensor itself as the constant: what is written to it later must not change it.
            return result.clone()
        if name.strip("_") in COMPARISONS and compat.is_tracing():
            self._note_comparison(name.strip("_"), args, result)
        return result

    def _note_comparison(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        value = compat.traced_value(result) if isinstance(result, torch.Tensor) else None
        if value is not None and len(args) == 2 and all(map(_is_integer, args)):
            self._comparisons[value.unique()] = Comparison(name, int(args[0]), int(args[1]), *map(self._rule, args))

    def _read(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = compat.traced_value(args[0])
        depends = self._depends_on_content(value) if value is not None else None
        result = function(*args, **kwargs)
        if depends is not None and not any(map(self._keeps, running_functions())):
            frame = _reading_frame()
            by_torch = frame is not None and frame.f_code.co_filename.startswith(compat.TORCH_FOLDER)
            harmless = by_torch or not depends
            self.frozen.append(FrozenValue(name, result, _user_source(frame), harmless, **self._size(name, value)))
        return result

    def _size(self, name: str, value: Any) -> dict[str, Any]:
        """What is known of a size that is read: what it was compared with, or where it became a number."""
        if self._origins[value.unique()] is not False:
            return {}
        if name == "__bool__":
            return {"compared": self._comparisons.get(value.unique())}
        return {"rule": self._rules.of(value), "stack": tuple(_user_lines())}

    def _rule(self, number: torch.Tensor | int) -> Rule:
        if not isinstance(number, torch.Tensor):
            return constant(number)
        value = compat.traced_value(number)
        return constant(int(number)) if value is None else self._rules.of(value)

    def _depends_on_content(self, value: Any) -> bool | None:
        """True if the value comes from what an input holds, False if from its sizes only, None for a constant."""
        pending = [value]
        while pending:
            current = pending[-1]
            key = current.unique()
            inputs = self._origin_inputs(current)
            missing = [given for given in inputs if given.unique() not in self._origins]
            if key not in self._origins and not missing:
                found = [self._origins[given.unique()] for given in inputs]
                self._origins[key] = _join(current, found, key in self._parameters)
            pending.extend(missing)
            if key in self._origins:
                pending.pop()
        return self._origins[value.unique()]

    def _origin_inputs(self, value: Any) -> list[Any]:
        node = value.node()
        return [] if node.kind() in ("aten::size", "prim::Param", "prim::Constant") else list(node.inputs())


def _join(value: Any, found: list[bool | None], is_parameter: bool) -> bool | None:
    kind = value.node().kind()
    if kind == "aten::size":
        return False
    if kind == "prim::Param":
        return None if is_parameter else True
    return True if True in found else False if False in found else None


def _is_integer(argument: Any) -> bool:
    if isinstance(argument, torch.Tensor):
        return argument.dim() == 0 and not argument.is_floating_point() and not argument.is_complex()
    return type(argument) is int


def _reading_frame() -> FrameType | None:
    """The frame that reads: the innermost one that is not ours."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return frame


def raised_at(error: BaseException) -> Source | None:
    """The innermost line of the user's code that an error went through."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [
        (code, line) for code, line in frames if not code.co_filename.startswith((compat.TORCH_FOLDER, OWN_FOLDER))
    ]
    return Source(users[-1][0].co_filename, users[-1][1], users[-1][0].co_name) if users else None


def _user_lines() -> Iterator[Source]:
    """The lines of the user's code that are running, the innermost first."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(OWN_FOLDER) and code.co_name == "run_flat":
            return
        if not code.co_filename.startswith((compat.TORCH_FOLDER, OWN_FOLDER)):
            yield Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back


def _user_source(frame: FrameType | None) -> Source | None:
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((compat.TORCH_FOLDER, OWN_FOLDER)):
            return Source(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
