"""`onnxport diff`: the differences between two ONNX files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import onnx_ir as ir
import typer

from onnxport.cli.answers import Answer
from onnxport.cli.drawing import STOPS, Session, draw_runnable
from onnxport.cli.ending import CommandError
from onnxport.cli.files import Array, inputs_of, interface, nodes_of, read_model, weights_of
from onnxport.cli.screen import shape, table
from onnxport.report.report import count_operators
from onnxport.report.tolerances import NO_MAGNITUDE, OTHERWISE, TOLERANCES


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An ONNX file.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
) -> Answer:
    """Compare two ONNX files: interface, operators, weights and outputs.

    Outputs are those on one drawn input. The names of nodes and of inner values do not count.
    """
    first, second = read_model(a), read_model(b)
    sides = _interface(first, second)
    operators = _operators(first, second)
    weights = _weights(first, second)
    outputs = None if sides is not None and sides["inputs"] is not None else _outputs(a, b, first)
    same = sides is None and not operators and not any(weights.values()) and outputs is None
    data = {"same": same, "interface": sides, "operators": operators, "weights": weights, "outputs": outputs}
    return Answer(same, data, lambda console: _show(console, a, b, data))


def _interface(first: ir.Model, second: ir.Model) -> dict[str, Any] | None:
    """Inputs and outputs where they differ, of both files."""
    pairs = {
        "inputs": [interface(inputs_of(model)) for model in (first, second)],
        "outputs": [interface(list(model.graph.outputs)) for model in (first, second)],
    }
    if all(left == right for left, right in pairs.values()):
        return None
    return {kind: None if left == right else [left, right] for kind, (left, right) in pairs.items()}


def _operators(first: ir.Model, second: ir.Model) -> dict[str, list[int]]:
    left, right = count_operators(nodes_of(first)), count_operators(nodes_of(second))
    names = sorted({*left, *right})
    return {name: [left.get(name, 0), right.get(name, 0)] for name in names if left.get(name) != right.get(name)}


def _weights(first: ir.Model, second: ir.Model) -> dict[str, Any]:
    left, right = weights_of(first), weights_of(second)
    changed: dict[str, float | None] = {}
    for name in left.keys() & right.keys():
        one, other = _content(name, left[name]), _content(name, right[name])
        if one.dtype != other.dtype or one.shape != other.shape:
            changed[name] = None
        elif one.tobytes() != other.tobytes():
            changed[name] = _largest(one, other)
    return {
        "added": sorted(right.keys() - left.keys()),
        "removed": sorted(left.keys() - right.keys()),
        "changed": dict(sorted(changed.items())),
    }


def _content(name: str, tensor: ir.TensorProtocol) -> Array:
    try:
        return np.asarray(tensor.numpy())
    except (OSError, ValueError) as error:
        raise CommandError(f"the weight {name} cannot be read from its file: {error}") from error


def _largest(one: Array, other: Array) -> float | None:
    """The largest difference of two arrays; None if it is NaN."""
    if one.dtype.kind not in "biufcV":
        return None
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(one.astype(wide) - other.astype(wide))
    same = (one == other) | ((one != one) & (other != other))
    apart = np.where(same, 0.0, apart)
    found = float(apart.max()) if apart.size else 0.0
    return found if np.isfinite(found) else None


def _outputs(a: str, b: str, first: ir.Model) -> dict[str, Any] | None:
    """The outputs that differ by more than rounding on one drawn input; None where all agree."""
    inputs = draw_runnable(a, inputs_of(first))
    left = Session(a).run(inputs)
    try:
        right = Session(b).run(inputs)
    except STOPS as error:
        return {"error": f"{b} does not run on an input on which {a} runs: {error}"}
    apart = {}
    for one, other, name in zip(left.values(), right.values(), left, strict=False):
        if not _is_close(one, other):
            comparable = one.shape == other.shape and one.dtype == other.dtype
            apart[name] = _largest(one, other) if comparable else None
    return apart or None


def _is_close(one: Any, other: Any) -> bool:
    """Whether two outputs are the same up to rounding, by the tolerance that an export is checked with."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_close, one, other))
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind not in "fcV":
        return bool(np.array_equal(one, other))
    tolerance = TOLERANCES.get(one.dtype.name, OTHERWISE)
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    one, other = one.astype(wide), other.astype(wide)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return False
    magnitude = float(np.abs(one[finite]).max()) if finite.any() else 0.0
    return bool((np.abs(one[finite] - other[finite]) <= max(tolerance * magnitude, tolerance * NO_MAGNITUDE)).all())


def _show(console: Any, a: str, b: str, data: Mapping[str, Any]) -> None:
    console.print(f"{a} and {b} {'are the same' if data['same'] else 'differ'}")
    for kind, pair in (data["interface"] or {}).items():
        for file, values in zip((a, b), pair or (), strict=False):
            text = ", ".join(f"{value['name']}: {value['type']}{shape(value['shape'] or [])}" for value in values)
            console.print(f"{kind} of {file}: {text}")
    if data["operators"]:
        rows = table("operator", a, b, right=(a, b))
        for name, counts in data["operators"].items():
            rows.add_row(name, *map(str, counts))
        console.print(rows)
    for kind in ("added", "removed"):
        for name in data["weights"][kind]:
            console.print(f"weight {kind}: {name}")
    for name, error in data["weights"]["changed"].items():
        console.print(f"weight changed: {name}, {'in dtype or shape' if error is None else f'by up to {error:g}'}")
    for name, error in (data["outputs"] or {}).items():
        text = (
            error if isinstance(error, str) else "in dtype, shape or kind" if error is None else f"by up to {error:g}"
        )
        console.print(f"output differs: {name}, {text}")
