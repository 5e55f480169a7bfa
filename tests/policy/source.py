"""The package's source as the policy tests read it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "onnxport"
# Where modules are imported by the names that a table has. Commands import the user's modules, too.
NAMES_FROM_TABLES = {"public_names.py"}
ROOT = Path(__file__).parents[2] / "src" / PACKAGE


@dataclass(frozen=True)
class Import:
    """A module that is imported, by its full name, and the line where."""

    module: str
    line: int

    def within(self, package: str) -> bool:
        return self.module == package or self.module.startswith(f"{package}.")


@dataclass(frozen=True)
class Module:
    path: Path

    @property
    def name(self) -> str:
        """``capture/trace.py``."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def dotted(self) -> str:
        """``capture.trace``; that of a package is its folder's."""
        name = ".".join(self.path.relative_to(ROOT).with_suffix("").parts)
        return name.removesuffix("__init__").removesuffix(".")

    @property
    def part(self) -> str:
        """The part of the package that it belongs to: a folder, or a module that stands by itself."""
        top = self.path.relative_to(ROOT).parts[0]
        return top.removesuffix(".py")

    @functools.cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    def imports(self) -> Iterator[Import]:
        """Every import, wherever it stands; ``from a import b`` as ``a.b``, since ``b`` may be a module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: imports are absolute"
                yield from (Import(f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
            elif isinstance(node, ast.Call) and dotted(node.func).endswith("import_module") and node.args:
                name = node.args[0]
                known = isinstance(name, ast.Constant) or self.name in NAMES_FROM_TABLES or self.part == "cli"
                assert known, f"{self.name}:{node.lineno}: the name of a module is a constant"
                if isinstance(name, ast.Constant):
                    yield Import(str(name.value), node.lineno)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def dotted(node: ast.expr) -> str:
    """``torch.onnx.export`` of an expression of that form, otherwise nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def modules() -> list[Module]:
    return [Module(path) for path in sorted(ROOT.rglob("*.py"))]
