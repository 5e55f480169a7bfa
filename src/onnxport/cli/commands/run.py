"""`onnxport run`: an ONNX file on inputs from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import onnx_ir as ir
import typer

from onnxport.cli.answers import Answer
from onnxport.cli.drawing import STOPS, Session
from onnxport.cli.ending import CommandError
from onnxport.cli.files import Array, check_writable, dims, inputs_of, nodes_of, read_arrays, read_model, type_name
from onnxport.cli.screen import shape, table
from onnxport.report.near_names import near

RUNTIME_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""The domains of ONNX Runtime's operators."""


def run(
    file: Annotated[str, typer.Argument(metavar="F", help="An ONNX file.")],
    inputs: Annotated[str, typer.Option("--inputs", metavar="in.npz", help="The inputs, by name.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="out.npz", help="Where the outputs go, by name.")],
    tap: Annotated[list[str] | None, typer.Option(metavar="VALUE", help="An inner value to write as well.")] = None,
) -> Answer:
    """Run an ONNX file in ONNX Runtime."""
    check_writable(output, "-o")
    model, arrays = read_model(file), read_arrays(inputs)
    _check_given(model, arrays, inputs)
    _add_outputs(model, tap or ())
    try:
        results = _session(file, model, tapped=bool(tap))(arrays)
    except STOPS as error:
        data = {"outputs": [], "error": {"type": type(error).__name__, "message": str(error)}}
        return Answer(False, data, reason=f"ONNX Runtime stops: {error}", error=error)
    # savez takes names as keywords, of which `file` is its own.
    with open(output, "wb") as target:
        np.savez(target, **results)
    rows = [{"name": name, "type": value.dtype.name, "shape": list(value.shape)} for name, value in results.items()]
    return Answer(True, {"outputs": rows, "error": None}, lambda console: _show(console, output, rows))


def _session(file: str, model: ir.Model, *, tapped: bool) -> Any:
    """A function that runs the file: by ONNX Runtime, or by `onnxport.backend` for torch operators."""
    functions = {(domain, name) for domain, name, _ in model.functions}
    if any(n.domain not in RUNTIME_DOMAINS and (n.domain, n.op_type) not in functions for n in nodes_of(model)):
        from onnxport import backend  # noqa: PLC0415

        prepared = backend.prepare(ir.to_proto(model) if tapped else file)
        names = [value.name or "" for value in model.graph.outputs]
        wanted = [value.name for value in inputs_of(model)]
        return lambda arrays: dict(zip(names, prepared.run([arrays[name] for name in wanted]), strict=True))
    return Session(ir.to_proto(_loaded(file, model)).SerializeToString() if tapped else file).run


def _loaded(file: str, model: ir.Model) -> ir.Model:
    """The model with its external data loaded."""
    try:
        return ir.external_data.load_to_model(model)
    except OSError as error:
        raise CommandError(f"{file}: its external data cannot be read: {error}") from error


def _check_given(model: ir.Model, arrays: Mapping[str, Array], file: str) -> None:
    """Check names, types and static sizes of the inputs."""
    known = {value.name or "": value for value in inputs_of(model)}
    optional = {value.name for value in model.graph.inputs}
    missing = [name for name in known if name not in arrays]
    unknown = [name for name in arrays if name not in optional]
    if missing or unknown:
        raise CommandError(
            f"--inputs {file} has {', '.join(arrays) or 'nothing'}; the model takes {', '.join(known) or 'nothing'}"
        )
    for name, value in known.items():
        given, wanted = arrays[name], dims(value)
        fits = wanted is None or (
            len(wanted) == given.ndim
            and all(dim == size for dim, size in zip(wanted, given.shape, strict=True) if isinstance(dim, int))
        )
        if not fits or type_name(value) not in (given.dtype.name, "string"):
            raise CommandError(
                f"--inputs {file}: {name} is {given.dtype.name}{shape(list(given.shape))}; the model takes "
                f"{type_name(value)}{shape(wanted or [])}"
            )


def _add_outputs(model: ir.Model, names: Sequence[str]) -> None:
    values = {value.name: value for node in model.graph for value in node.outputs if value.name}
    taken = {value.name for value in model.graph.outputs}
    for name in dict.fromkeys(names):
        if name not in values:
            raise CommandError(f"--tap {name}: the model computes no such value{near(name, filter(None, values))}")
        if name not in taken:
            model.graph.outputs.append(values[name])


def _show(console: Any, output: str, rows: Sequence[Mapping[str, Any]]) -> None:
    console.print(f"{output}:")
    shown = table("name", "type", "shape")
    for row in rows:
        shown.add_row(row["name"], row["type"], shape(row["shape"]))
    console.print(shown)
