"""What of torch is used where: private names in compat/, and replacements of its attributes in compat/patches.py."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

import pytest

from onnxport.compat import patches
from tests.policy.source import PACKAGE, Module, dotted, modules

EVERY_MODULE = pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)


def is_private(name: str) -> bool:
    """Whether some part of ``torch._C._nn`` is private. Operators of ``torch.ops`` are public by any name."""
    parts = name.split(".")
    if parts[0] != "torch" or parts[1:2] == ["ops"]:
        return False
    return any(part.startswith("_") and not part.startswith("__") for part in parts)


def private_names(module: Module) -> Iterator[str]:
    """The private names of torch that a module imports or reaches by attributes."""
    for found in module.imports():
        if is_private(found.module):
            yield f"{module.name}:{found.line} imports {found.module}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and is_private(dotted(node)):
            yield f"{module.name}:{node.lineno} uses {dotted(node)}"


def foreign_names(tree: ast.Module) -> set[str]:
    """The names that other packages' modules, classes and functions have in a module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(PACKAGE):
            names |= {alias.asname or alias.name for alias in node.names}
    for node in tree.body:  # such as TENSOR = torch.Tensor
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Attribute):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if root(node.value) in names:
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def root(node: ast.AST) -> str:
    """The name that ``a.b.c``, ``vars(a)`` and ``a.__dict__["b"]`` start with."""
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and dotted(node.func) == "vars" and node.args:
            node = node.args[0]
        else:
            return ""
    return node.id


def changed(node: ast.AST) -> list[ast.expr]:
    """What a statement or a call assigns to or deletes; of ``setattr(a, "b", c)`` the ``a``."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        return [element for t in node.targets for element in (t.elts if isinstance(t, ast.Tuple) else [t])]
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and dotted(node.func) in ("setattr", "delattr"):
        return [ast.Starred(node.args[0])]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
        return [node.func.value] if isinstance(node.func.value, ast.Call) else []
    return []


OF_THE_PROCESS = ("os.environ[", "sys.modules[", "warnings.showwarning")


def patched(tree: ast.Module) -> Iterator[int]:
    """The lines that set, replace or delete an attribute of another package's module or class.

    What the process has for the program to change is none: its environment, the modules that it has loaded, and how
    warnings are shown inside of ``catch_warnings``.
    """
    foreign = foreign_names(tree)
    for node in ast.walk(tree):
        for target in changed(node):
            own = ast.unparse(target).startswith(OF_THE_PROCESS)
            if not isinstance(target, ast.Name) and root(target) in foreign and not own:
                yield getattr(node, "lineno", 0)


@EVERY_MODULE
def test_private_names_of_torch_stand_in_compat(module: Module) -> None:
    if module.part == "compat":
        return
    wrong = list(private_names(module))
    assert not wrong, "\n".join(wrong)


@EVERY_MODULE
def test_nothing_is_replaced_but_by_patches(module: Module) -> None:
    if module.name == "compat/patches.py":
        return
    wrong = [f"{module.name}:{line}" for line in patched(module.tree)]
    assert not wrong, f"replace it with compat.patches.replaced, which has a reason for it: {', '.join(wrong)}"


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch.jit.fork = None",
        "import torch\nTENSOR = torch.Tensor\nsetattr(TENSOR, 'x', None)",
        "from torch.nn import functional as f\nvars(f)['relu'] = None",
        "from torch import jit\nvars(jit).update({})",
        "import builtins\ndel builtins.len",
    ],
)
def test_a_replacement_is_seen(code: str) -> None:
    assert list(patched(ast.parse(code)))


@pytest.mark.parametrize("name", patches.REASONS)
def test_what_is_replaced_exists(name: str) -> None:
    """The names of classes stand without their modules."""
    holder, _, attribute = name.rpartition(".")
    if holder[0].isupper() or holder.startswith("_"):
        return
    assert hasattr(importlib.import_module(holder), attribute)
