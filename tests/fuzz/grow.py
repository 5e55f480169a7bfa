"""Random programs, line by line: a line is taken if the model runs with it at some sizes."""

from __future__ import annotations

import dataclasses
import random
import tempfile
import warnings
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from tests.capture.paths.programs import SOURCE
from tests.capture.paths.programs import program as program_of_numbers
from tests.fuzz.families import FAMILIES, KEPT, Family
from tests.fuzz.judge import EAGER_ERRORS
from tests.fuzz.program import EXAMPLE, TRIED, Input, Program

# How often a line is looked for that the model runs with, and how large what it makes may be.
ATTEMPTS = 8
MOST_ELEMENTS = 20_000


def grown(seed: int, family: str | None = None) -> Program:
    """The program of a seed: the same in every run."""
    rng = random.Random(seed)
    chosen = next((one for one in FAMILIES if one.name == family), FAMILIES[seed % len(FAMILIES)])
    if chosen.name == "sizes" and rng.random() < 0.3:
        return _of_numbers(seed)
    inputs = rng.choice(chosen.inputs)
    state = chosen.name == "state"
    program = Program(
        chosen.name, inputs, chosen.begin, (inputs[0].name,), layers=KEPT if state else (), script=chosen.script
    )
    if chosen.begin:
        program = dataclasses.replace(program, result=("v",))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rng.randrange(2, chosen.length + 1)):
            program = _with_a_line(program, chosen, rng, Path(folder))
    return program


def _with_a_line(program: Program, family: Family, rng: random.Random, folder: Path) -> Program:
    for _ in range(ATTEMPTS):
        longer = _longer(program, family, rng)
        if runs(longer, folder):
            return longer
    return program


def _longer(program: Program, family: Family, rng: random.Random) -> Program:
    number = len(program.lines)
    layer, form = None, ""
    if family.layers and rng.random() < 0.35:
        layer, form = rng.choice(family.layers)
    else:
        form = rng.choice(family.lines)
    line = form
    statements = family.script or family.statements
    same = "v" if family.statements else _tensor(program, rng) if program.script else None
    while "{t}" in line:
        line = line.replace("{t}", same or _tensor(program, rng), 1)
    line = line.replace("{k}", str(number))
    for place, numbers in PLACES.items():
        while place in line:
            line = line.replace(place, str(rng.choice(numbers)), 1)
    layers = program.layers if layer is None else (*program.layers, f"self.l{number} = {layer}")
    if statements or _is_statement(form):
        return dataclasses.replace(program, lines=(*program.lines, line), layers=layers)
    name = f"v{number}"
    # Now and then what was the result stays one.
    kept = program.result if rng.random() < 0.5 else ()
    lines = (*program.lines, f"{name} = {line}")
    return dataclasses.replace(program, lines=lines, layers=layers, result=(*kept, name)[-3:])


PLACES = {"{i}": (1, 2, 2, 3, 4), "{j}": (-3, -2, -1, 0, 1, 2, 5), "{a}": (0, 0, 1, -1), "{f}": (0.25, 0.5, -0.5, 1.5)}


def _is_statement(form: str) -> bool:
    return any(sign in form for sign in ("] = ", " += ", " -= ", " *= ", "self.last = ")) or form.endswith("_()") or (
        form.partition("(")[0].endswith("_") and form.endswith(")") and not form.startswith(("torch.", "F."))
    )  # fmt: skip


def _tensor(program: Program, rng: random.Random) -> str:
    made = [line.partition(" = ")[0] for line in program.lines if " = " in line]
    names = [*(given.name for given in program.inputs), *(name for name in made if name.isidentifier())]
    if program.family in ("state", "scripts", "writes"):
        names = names[len(program.inputs) :]
    return rng.choice((names[-1], names[-1], *names))


def runs(program: Program, folder: Path) -> bool:
    """Whether the model takes the example and other sizes, and makes tensors that are not too large."""
    taken = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make = program.load(folder)
            for sizes in TRIED:
                tensors = program.tensors(sizes, 0)
                try:
                    with torch.no_grad():
                        leaves = tree_leaves(make()(*tensors))
                except EAGER_ERRORS:
                    if sizes is EXAMPLE:
                        return False
                    continue
                if not all(isinstance(leaf, torch.Tensor) and leaf.numel() <= MOST_ELEMENTS for leaf in leaves):
                    return False
                taken += 1
    except (*EAGER_ERRORS, NameError, AttributeError, SyntaxError):
        return False
    return taken > 1


def _of_numbers(seed: int) -> Program:
    """A program that computes with sizes in Python, of the kind that tests/capture/paths tries by itself."""
    case = program_of_numbers(seed)
    axes = tuple(name if name in case.axes else EXAMPLE[name] for name in "bn")
    lines = (*case.lines.split("; "), f"v = {case.use}")
    return Program("sizes", (Input("x", (*axes, 2)),), lines, ("v",), helpers=HELPERS)


HELPERS = SOURCE.partition("def forward")[0].replace("{{", "{").replace("}}", "}")
