"""SOURCE, which names a model: parsed and checked before torch is imported, then loaded."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from onnxport.cli.ending import CommandError, SourceRun
from onnxport.report.near_names import near

if TYPE_CHECKING:
    import torch

FORMS = (
    "write file.py:NAME, package.module:NAME, a TorchScript or .pt2 file, the folder of a transformers model, or timm:"
    "NAME"
)


@dataclass(frozen=True)
class Source:
    """A parsed SOURCE: its kind, the file, module or folder, and the name of the object in it."""

    text: str
    kind: Literal["file", "module", "script", "program", "transformers", "timm"]
    location: str
    name: str = ""


@dataclass(frozen=True)
class Loaded:
    """A model, and inputs for it if its source has them."""

    model: Any
    inputs: Mapping[str, torch.Tensor] | None = None


def read_source(text: str) -> Source:
    """Parse SOURCE, and find obvious mistakes without torch."""
    location, colon, name = text.rpartition(":")
    if os.path.isdir(text):
        return _folder(text)
    if os.path.isfile(text) and not text.endswith(".py"):
        return _archive(text)
    if text.endswith(".py") or (colon and not name):
        raise CommandError(f"{text}: which model of it? Write {text.rstrip(':')}:NAME{_names_in(text.rstrip(':'))}")
    if not colon:
        raise CommandError(f"{text}: there is no such file; {FORMS}")
    if location == "timm":
        return Source(text, "timm", "timm", name)
    if location.endswith(".py"):
        if not os.path.isfile(location):
            raise CommandError(f"{text}: there is no file {location}")
        return Source(text, "file", location, name)
    if not all(part.isidentifier() for part in location.split(".")):
        raise CommandError(f"{text}: {location!r} is neither an existing file nor the name of a module; {FORMS}")
    return Source(text, "module", location, name)


def load_source(source: Source, arguments: Mapping[str, Any], weights: str | None) -> Loaded:
    """The model with its weights. Exceptions of its own code are command errors.

    Random weights of a class or factory are the same in each command, so a file can be verified against them.
    """
    if source.kind in ("file", "module"):
        found = _looked_up(source)
        _seed()
        loaded = Loaded(_made(source, found, arguments))
    else:
        _seed()
        loaded = _loaded_archive(source, arguments)
    if weights is not None:
        load_weights(loaded.model, weights)
    return loaded


def _seed() -> None:
    import torch  # noqa: PLC0415

    torch.manual_seed(0)


def load_weights(model: Any, path: str) -> None:
    """Tensors from a safetensors file, or from one that torch.save made; a pickle that needs code is refused."""
    import pickle  # noqa: PLC0415

    import torch  # noqa: PLC0415

    if not isinstance(model, torch.nn.Module):
        raise CommandError(f"--weights {path}: the source is a {type(model).__name__}, whose weights are fixed")
    try:
        if path.endswith(".safetensors"):
            safetensors = _package("safetensors.torch", "hf")
            state = safetensors.load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CommandError(
            f"--weights {path}: reading it would run code, or it is not a file of torch.save; only tensors are read. "
            "Save model.state_dict() by itself, or as safetensors"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        raise CommandError(f"--weights {path} cannot be read: {error}") from error
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CommandError(f"--weights {path} do not fit the model: {error}") from error


def _folder(text: str) -> Source:
    if not Path(text, "config.json").is_file():
        raise CommandError(f"{text}: the folder has no config.json, so it is not a transformers model")
    return Source(text, "transformers", text)


def _archive(text: str) -> Source:
    """A TorchScript or .pt2 file, by what is in it."""
    try:
        with zipfile.ZipFile(text) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()} | set(archive.namelist())
    except zipfile.BadZipFile:
        raise CommandError(f"{text} is not a TorchScript or .pt2 file; {FORMS}") from None
    if "constants.pkl" in names:
        return Source(text, "script", text)
    if names & {"archive_format", "serialized_exported_program.json"}:
        return Source(text, "program", text)
    raise CommandError(
        f"{text} is neither a TorchScript nor a .pt2 file. If it contains weights, give the model as file.py:NAME and "
        f"add --weights {text}"
    )


def _names_in(file: str) -> str:
    """The classes and functions that a file defines, as a hint."""
    import ast  # noqa: PLC0415

    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return f" ({', '.join(names)})" if names else ""


def _looked_up(source: Source) -> Any:
    """The object with that name, from the imported source."""
    with SourceRun(f"{source.text}: {source.location} cannot be imported"):
        found: Any = _imported(source)
    for part in source.name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{source.text}: {source.location} has no {part!r}{near(part, dir(found))}")
        found = getattr(found, part)
    return found


def _imported(source: Source) -> ModuleType:
    if source.kind == "module":
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(source.location)
    path = os.path.abspath(source.location)
    sys.path.insert(0, os.path.dirname(path))
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name if name not in sys.modules else f"{name}_source", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _made(source: Source, found: Any, arguments: Mapping[str, Any]) -> Any:
    """The model itself; a class or a factory is called."""
    import torch  # noqa: PLC0415

    if isinstance(found, torch.nn.Module | torch.jit.ScriptFunction | torch.export.ExportedProgram):
        if arguments:
            raise CommandError(f"--arg {next(iter(arguments))}=…: {source.text} is a model already, and takes none")
        return found
    if not callable(found):
        raise CommandError(
            f"{source.text} is of type {type(found).__name__}: neither a model nor a class or function that makes one"
        )
    _check_arguments(source, found, arguments)
    with SourceRun(f"{source.text}: making the model failed"):
        model = found(**arguments)
    if not callable(model) and not isinstance(model, torch.export.ExportedProgram):
        raise CommandError(f"{source.text} returned {model!r:.100}, which is not a model")
    return model


def _check_arguments(source: Source, function: Any, arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        unknown = [name for name in arguments if name not in signature.parameters]
        hint = near(unknown[0], signature.parameters) if unknown else ""
        raise CommandError(f"{source.text}{signature}: {error}{hint or '; give it as --arg NAME=VALUE'}") from None


def _loaded_archive(source: Source, arguments: Mapping[str, Any]) -> Loaded:
    import torch  # noqa: PLC0415

    from onnxport.cli import derived  # noqa: PLC0415

    if source.kind == "timm":
        return Loaded(*derived.timm_model(_package("timm", None), source.name, arguments))
    if arguments:
        raise CommandError(f"--arg {next(iter(arguments))}=…: {source.text} is a model already, and takes none")
    if source.kind == "transformers":
        return Loaded(*derived.transformers_model(_package("transformers", "hf"), source.location))
    with SourceRun(f"{source.text} cannot be loaded"):
        if source.kind == "script":
            return Loaded(torch.jit.load(source.location, map_location="cpu"))  # type: ignore[no-untyped-call]
        return Loaded(torch.export.load(source.location))


def _package(name: str, extra: str | None) -> Any:
    """A package that only some sources need."""
    top = name.partition(".")[0]
    if importlib.util.find_spec(top) is None:
        wanted = f"onnxport[{extra}]" if extra else top
        raise CommandError(f"this needs {top}, which is not installed: pip install '{wanted}'")
    with SourceRun(f"this needs {top}, which cannot be imported"):
        return importlib.import_module(name)
