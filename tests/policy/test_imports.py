"""The table of docs/architecture.md: which room may import which, and what of the outside. No cycles anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.policy.source import PACKAGE, ROOT, Import, Module, dotted, modules

OUTSIDE = ("onnx", "onnx_ir", "onnxruntime", "torch")
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
ROW = re.compile(r"^\| `(?P<room>\w+)/?` \|[^|]*\|(?P<allowed>[^|]*)\|$", re.MULTILINE)

# What is built around the exporter, on the public API.
AROUND = {"cli", "quant"}

# The flag behind torch.onnx.is_in_onnx_export(), which models ask.
IN_EXPORT_FLAG = "torch.onnx._internal.torchscript_exporter._globals.GLOBALS"

# Modules that need each other, with the reason.
KNOWN_CYCLES: dict[str, set[str]] = {
    "the operators of a size expression simplify it, and its simple form is made of expressions": {
        "graph.sizes.bounds",
        "graph.sizes.canonical",
        "graph.sizes.expr",
        "graph.sizes.forms",
        "graph.sizes.logic",
        "graph.sizes.quotients",
    },
}

EVERY_MODULE = pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)


def table() -> dict[str, set[str]]:
    """What each room may import: other rooms of onnxport, and of the packages in OUTSIDE."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    return {row["room"]: set(re.findall(r"\w+", row["allowed"])) for row in ROW.finditer(text)}


MAY_IMPORT = table()


def imported_part(found: Import) -> str | None:
    """The room of onnxport, or the package in OUTSIDE, that an import reaches; None for what is free to all."""
    top, _, rest = found.module.partition(".")
    if top == PACKAGE:
        return rest.partition(".")[0] or PACKAGE
    return top if top in OUTSIDE else None


def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports, wherever the import stands: under TYPE_CHECKING and in functions, too."""
    known = {module.dotted: module for module in modules()}
    graph: dict[str, set[str]] = {}
    for name, module in known.items():
        found = {i.module.removeprefix(f"{PACKAGE}.") for i in module.imports() if i.within(PACKAGE)}
        # ``from a.b import C`` is an import of a.b, unless C is a module.
        graph[name] = {m if m in known else m.rpartition(".")[0] for m in found} & known.keys() - {name}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """The sets of modules each of which imports all others of its set, directly or not."""
    reached = {name: reachable(graph, name) for name in graph}
    seen: set[str] = set()
    for name in graph:
        if name in reached[name] and name not in seen:
            together = {other for other in reached[name] if name in reached[other]}
            seen |= together
            yield together


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


@EVERY_MODULE
def test_rooms_import_only_what_the_table_allows(module: Module) -> None:
    if module.part not in MAY_IMPORT:
        return
    allowed = MAY_IMPORT[module.part] | {module.part, "errors", None}
    wrong = [f"{module.name}:{i.line} imports {i.module}" for i in module.imports() if imported_part(i) not in allowed]
    assert not wrong, "\n".join([f"{module.part} may import {sorted(MAY_IMPORT[module.part])}", *wrong])


def test_the_table_has_no_cycle() -> None:
    rooms = {room: allowed & MAY_IMPORT.keys() for room, allowed in MAY_IMPORT.items()}
    assert not list(cycles(rooms))


def test_modules_import_each_other_in_no_cycle_but_known_ones() -> None:
    found = list(cycles(import_graph()))
    new = [sorted(cycle) for cycle in found if not any(cycle <= known for known in KNOWN_CYCLES.values())]
    assert not new, f"these modules import each other: {new}"
    gone = [reason for reason, known in KNOWN_CYCLES.items() if not any(cycle == known for cycle in found)]
    assert not gone, f"smaller than the list says: {gone}"


def test_cycles_are_found() -> None:
    assert list(cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()})) == [{"a", "b", "c"}]


@EVERY_MODULE
def test_other_exporters_are_not_used(module: Module) -> None:
    allowed = {IN_EXPORT_FLAG} if module.name == "compat/__init__.py" else set()
    wrong = [
        f"{module.name}:{found.line} imports {found.module}"
        for found in module.imports()
        if (found.within("torch.onnx") or found.within("onnxscript")) and found.module not in allowed
    ]
    wrong += [
        f"{module.name}:{node.lineno} uses torch.onnx"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and dotted(node) == "torch.onnx"
    ]
    assert not wrong, "\n".join(wrong)


IMPORTS = re.compile(r"Imports (?P<names>[^.;]*)[.;]")


@pytest.mark.parametrize("room", [room for room in MAY_IMPORT if (ROOT / room).is_dir()])
def test_a_room_says_what_it_imports(room: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert "In: " in text and "Out: " in text, f"{room}/__init__.py does not say what comes in and what goes out"
    found = IMPORTS.search(text)
    names = set(re.findall(r"`(\w+)`", found["names"])) if found else set()
    assert names == MAY_IMPORT[room] & MAY_IMPORT.keys() | (MAY_IMPORT[room] & {"api"}), "as docs/architecture.md says"


def test_every_room_has_its_row() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= MAY_IMPORT.keys() | AROUND
    assert MAY_IMPORT.keys() <= folders | {path.stem for path in ROOT.glob("*.py")}
