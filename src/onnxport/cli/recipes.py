"""The recipes of a batch: a TOML file, read and checked as a whole before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxport.cli.ending import CommandError
from onnxport.cli.files import check_exists
from onnxport.report.near_names import near

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIMITS = ("timeout", "memory")


@dataclass(frozen=True)
class Option:
    """An option of `onnxport export` in a recipe: by its name with ``_`` for ``-``."""

    flag: str
    off: str | None
    is_switch: bool
    repeats: bool


@dataclass(frozen=True)
class Recipe:
    """One model: the arguments of its command, and its limits in seconds and MiB."""

    name: str
    words: tuple[str, ...]
    timeout: float | None
    memory: float | None


def read_recipes(path: str, options: Mapping[str, Option]) -> list[Recipe]:
    """The models of a file. All are checked before the first is run."""
    check_exists(path)
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not a TOML file: {error}") from error
    unknown = sorted(content.keys() - {"defaults", "model"})
    if unknown:
        raise CommandError(f"{path}: {unknown[0]!r} is neither [defaults] nor [[model]]")
    defaults, models = content.get("defaults", {}), content.get("model", [])
    if not isinstance(defaults, dict) or not isinstance(models, list) or not models:
        raise CommandError(f"{path}: it has no [[model]], or [defaults] is not a table")
    recipes = [_recipe(path, number, {**defaults, **model}, options) for number, model in enumerate(models, 1)]
    names = [recipe.name for recipe in recipes]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"{path}: {names.count(name)} models have the name {name!r}")
    return recipes


def _recipe(path: str, number: int, given: Mapping[str, Any], options: Mapping[str, Option]) -> Recipe:
    for required in ("name", "source", "output"):
        if not isinstance(given.get(required), str):
            raise CommandError(f"{path}: model {given.get('name', number)} has no {required}, or it is not a string")
    where = f"{path}, model {given['name']!r}"
    for limit in LIMITS:
        value = given.get(limit)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise CommandError(f"{where}: {limit} = {value!r} is not a positive number")
    words = [given["source"], "-o", given["output"]]
    for key, value in given.items():
        if key in ("name", "source", "output", *LIMITS):
            continue
        if key not in options:
            raise CommandError(f"{where}: there is no option {key!r}{near(key, options)}")
        words += _words(f"{where}: {key}", options[key], value)
    return Recipe(given["name"], tuple(words), given.get("timeout"), given.get("memory"))


def _words(where: str, option: Option, value: Any) -> list[str]:
    if option.is_switch:
        if not isinstance(value, bool):
            raise CommandError(f"{where} = {value!r}: true or false")
        return [option.flag] if value else [option.off] if option.off else []
    values = value if isinstance(value, list) and option.repeats else [value]
    if any(isinstance(element, list | dict) for element in values):
        raise CommandError(f"{where} takes one value, not {value!r}")
    texts = [str(element).lower() if isinstance(element, bool) else str(element) for element in values]
    return [word for text in texts for word in (option.flag, text)]
