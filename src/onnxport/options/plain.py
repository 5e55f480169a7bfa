"""Arguments that are checked without torch: the command line looks at them before it imports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.errors import OptionError, OptionTypeError
from onnxport.optimize import OPTIONAL

DEFAULT_OPSET = 20
OLDEST_OPSET, NEWEST_OPSET = 7, 26


def read_skip_passes(names: Any) -> tuple[str, ...]:
    skipped = read_names("skip_passes", names) or ()
    for name in skipped:
        if name not in OPTIONAL:
            raise OptionError(
                f"skip_passes: {name!r} is no pass that can be left out; these can: {', '.join(OPTIONAL)}"
            )
    return skipped


def read_opset(version: Any) -> int:
    if version is None:
        return DEFAULT_OPSET
    if isinstance(version, bool) or not isinstance(version, int):
        raise OptionTypeError(f"opset_version must be an int, not {version!r}")
    if not OLDEST_OPSET <= version <= NEWEST_OPSET:
        raise OptionError(f"opset_version={version} is not supported: {OLDEST_OPSET} to {NEWEST_OPSET} are")
    return version


def read_names(argument: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise OptionTypeError(f"{argument} must be a list of strings, not {names!r}")
    for name in names:
        if not isinstance(name, str) or not name:
            raise OptionTypeError(f"{argument} must hold non-empty strings, not {name!r}")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise OptionError(f"{argument} has the same name twice: {twice[0]!r}")
    return tuple(names)
