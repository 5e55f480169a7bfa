"""Paths among the arguments: the report page, and the weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from onnxport.errors import OptionError, OptionTypeError
from onnxport.save import check_target


def report_path(given: Any, target: Any) -> Path | None:
    """Where the report page goes: beside the model with True."""
    if given is False or given is None:
        return None
    if given is True:
        if not isinstance(target, str | os.PathLike):
            raise OptionError("report=True puts the page beside the model's file: give a path as f, or as report")
        given = Path(os.fspath(target)).with_suffix(".html")
    if not isinstance(given, str | os.PathLike):
        raise OptionTypeError(f"report must be a path, True or False, not {given!r}")
    check_target(given)
    if isinstance(target, str | os.PathLike) and os.path.realpath(given) == os.path.realpath(target):
        raise OptionError(f"report: the page and the model cannot both be {os.fspath(given)}")
    return Path(given)


def weights_path(given: Any, *, export_params: bool) -> Path | None:
    """The safetensors file or folder that has the weights."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise OptionTypeError(f"weights must be the path of a safetensors file or of a folder with some, not {given!r}")
    if not export_params:
        raise OptionError("weights are for the file, and export_params=False leaves them out: give one of the two")
    return Path(given)
