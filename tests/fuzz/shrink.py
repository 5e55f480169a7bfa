"""The smallest program that a verdict still holds for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.program import Program


def shrunk(program: Program, still: Callable[[Program], bool]) -> Program:
    """Take away what can be taken away, until nothing can."""
    while True:
        smaller = next((candidate for candidate in _smaller(program) if still(candidate)), None)
        if smaller is None:
            return program
        program = smaller


def _smaller(program: Program) -> Iterator[Program]:
    """Without a result, a line, a layer or an input; and with another tensor in the place of what a line makes."""
    for name in program.result if len(program.result) > 1 else ():
        yield replace(program, result=_without(program.result, program.result.index(name)))
    for place, line in reversed(list(enumerate(program.lines))):
        rest = _without(program.lines, place)
        yield replace(program, lines=rest or ("pass",))
        name, made, content = line.partition(" = ")
        if made and name.isidentifier() and not content.isidentifier():
            for other in _names_before(program, place):
                yield replace(program, lines=(*program.lines[:place], f"{name} = {other}", *program.lines[place + 1 :]))
    for place in range(len(program.layers)):
        yield replace(program, layers=_without(program.layers, place))
    for place in range(len(program.inputs) if len(program.inputs) > 1 else 0):
        yield replace(program, inputs=_without(program.inputs, place))


def _without(parts: tuple, place: int) -> tuple:  # type: ignore[type-arg]
    return (*parts[:place], *parts[place + 1 :])


def _names_before(program: Program, place: int) -> list[str]:
    made = [line.partition(" = ")[0] for line in program.lines[:place] if " = " in line]
    return [*(name for name in reversed(made) if name.isidentifier()), *(given.name for given in program.inputs)][:3]
