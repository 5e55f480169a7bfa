"""The small languages of options: `image=2x3x8x8:float32:0..1`, `image=0:batch`, `width=4`, `batch=7`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxport.cli.ending import CommandError
from onnxport.report.near_names import near

FLOATS = ("float32", "float", "float64", "double", "float16", "half", "bfloat16",
          "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")  # fmt: skip
INTEGERS = ("uint8", "int8", "int16", "short", "int32", "int", "int64", "long", "uint16", "uint32", "uint64")
COMPLEX = ("complex32", "complex64", "cfloat", "complex128", "cdouble")
DTYPES = (*FLOATS, *INTEGERS, *COMPLEX, "bool")
"""torch's names for dtypes."""

SHAPE = re.compile(r"(\d+(x\d+)*)?")


@dataclass(frozen=True)
class InputSpec:
    """One example input: its shape, its dtype, and the range of its content, if given."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None


def read_input(text: str) -> InputSpec:
    """``NAME=2x3x8[:DTYPE[:LOW..HIGH]]``; HIGH is not included."""
    name, rest = _named("--input", text, "NAME=2x3x8, with :DTYPE and :LOW..HIGH if needed")
    dims, _, rest = rest.partition(":")
    dtype, _, bounds = rest.partition(":")
    if not SHAPE.fullmatch(dims):
        raise CommandError(f"--input {text}: {dims!r} is not a shape; write sizes with an x between them, as in 2x3x8")
    if dtype and dtype not in DTYPES:
        raise CommandError(f"--input {text}: {dtype!r} is not a dtype of torch{near(dtype, DTYPES)}")
    shape = tuple(int(size) for size in dims.split("x")) if dims else ()
    low, high = _bounds(text, bounds) if bounds else (None, None)
    if bounds and dtype in COMPLEX:
        raise CommandError(f"--input {text}: {dtype} has no order, so it cannot have a range")
    return InputSpec(name, shape, dtype or "float32", low, high)


def _bounds(text: str, bounds: str) -> tuple[float, float]:
    low, _, high = bounds.partition("..")
    try:
        range_ = float(low), float(high)
    except ValueError:
        raise CommandError(f"--input {text}: {bounds!r} is not a range; write LOW..HIGH, as in 0..100") from None
    if range_[0] >= range_[1]:
        raise CommandError(f"--input {text}: the range {bounds} is empty; HIGH is not included")
    return range_


def read_inputs(texts: Iterable[str]) -> list[InputSpec]:
    specs = [read_input(text) for text in texts]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"--input {name}=… is given {names.count(name)} times")
    return specs


def read_dynamic(texts: Iterable[str]) -> dict[str, dict[int, str]] | dict[str, list[int]]:
    """``NAME=0:batch,2:height``, or ``NAME=0,2`` without labels, as the dynamic_axes of an export."""
    axes: dict[str, Any] = {}
    for text in texts:
        name, rest = _named("--dynamic", text, "NAME=0:batch,2:height")
        pairs = [part.strip().partition(":") for part in rest.split(",")]
        for dim, colon, label in pairs:
            if not re.fullmatch(r"-?\d+", dim):
                raise CommandError(f"--dynamic {text}: {dim!r} is not an axis number; write 0:batch")
            if bool(colon) != bool(pairs[0][1]) or (colon and not label):
                raise CommandError(f"--dynamic {text}: name every axis of {name}, or none")
        if name in axes:
            raise CommandError(f"--dynamic {name}=… is given twice; write its axes with a comma between them")
        axes[name] = {int(dim): label for dim, _, label in pairs} if pairs[0][1] else [int(dim) for dim, _, _ in pairs]
    return axes


def check_axes(axes: Mapping[str, Iterable[int]], specs: Iterable[InputSpec]) -> None:
    """Check the axes of the inputs whose shapes are given; other names may be those of outputs."""
    for spec in specs:
        for dim in axes.get(spec.name, ()):
            if not -len(spec.shape) <= dim < len(spec.shape):
                raise CommandError(f"--dynamic {spec.name}={dim}: --input {spec.name}=… has {len(spec.shape)} axes")


def check_points(points: Iterable[Mapping[str, int]], axes: Mapping[str, Any]) -> None:
    """Check that the sizes to check at are those of axes with labels."""
    labels = {label for labelled in axes.values() if isinstance(labelled, dict) for label in labelled.values()}
    for label in [label for point in points for label in point]:
        if labels and label not in labels:
            raise CommandError(f"--check-sizes {label}=…: --dynamic names no axis {label!r}{near(label, labels)}")


def read_arguments(texts: Iterable[str]) -> dict[str, Any]:
    """``NAME=VALUE`` with values as Python literals, else text."""
    given: dict[str, Any] = {}
    for text in texts:
        name, value = _named("--arg", text, "NAME=VALUE")
        try:
            given[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            given[name] = value
    return given


def read_sizes(texts: Sequence[str], option: str = "--sizes") -> list[dict[str, int]] | None:
    """``batch=7,height=64`` for each point to check at; None without any."""
    points = []
    for text in texts:
        point = {}
        for part in text.split(","):
            name, size = _named(option, part.strip(), "batch=7,height=64")
            if not size.isdecimal():
                raise CommandError(f"{option} {text}: {size!r} is not a size")
            point[name] = int(size)
        points.append(point)
    return points or None


def read_versions(texts: Iterable[str]) -> dict[str, int] | None:
    """``DOMAIN=VERSION`` for each domain."""
    versions = {}
    for text in texts:
        domain, version = _named("--custom-opsets", text, "DOMAIN=VERSION")
        if not version.isdecimal():
            raise CommandError(f"--custom-opsets {text}: {version!r} is not a version")
        versions[domain] = int(version)
    return versions or None


def read_names(text: str | None) -> list[str] | None:
    """``a,b,c``."""
    return None if text is None else [name.strip() for name in text.split(",")]


def _named(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{option} {text}: write {form}")
    return name, value
