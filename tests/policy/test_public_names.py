"""What onnxport offers is declared and documented."""

from __future__ import annotations

import inspect

import pytest

import onnxport


def is_documentable(value: object) -> bool:
    """Classes, functions and modules; the docstring of a constant would be that of its type."""
    return inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)


def test_declared_names_exist_and_are_declared_once() -> None:
    assert not [name for name in onnxport.__all__ if not hasattr(onnxport, name)]
    assert len(onnxport.__all__) == len(set(onnxport.__all__))


def test_public_names_are_declared() -> None:
    """Submodules are there once imported, declared or not."""
    public = {
        name for name, value in vars(onnxport).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    undeclared = public - set(onnxport.__all__) - {"annotations", "Any", "TYPE_CHECKING"}
    assert not undeclared


@pytest.mark.parametrize("name", onnxport.__all__)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(onnxport, name)
    if is_documentable(value):
        # Of the object itself: a class inherits the docstring of its base, and a dataclass or enum gets a made-up one.
        text = inspect.cleandoc(vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or "")
        assert text and not text.startswith(f"{name}("), f"{name} has no docstring"


@pytest.mark.parametrize("name", onnxport.__all__)
def test_public_functions_are_annotated(name: str) -> None:
    value = getattr(onnxport, name)
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        bare = [p.name for p in signature.parameters.values() if p.annotation is inspect.Parameter.empty]
        assert not bare and signature.return_annotation is not inspect.Signature.empty
