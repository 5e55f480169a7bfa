"""`onnxport verify`: checks an existing file against its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import onnx_ir as ir
import typer

from onnxport.cli.answers import Answer
from onnxport.cli.commands.export import (
    ArgumentTexts,
    InputFile,
    InputTexts,
    SourceText,
    WeightsFile,
    load_with_inputs,
)
from onnxport.cli.drawing import draw_runnable
from onnxport.cli.ending import CommandError, ModelRun, described
from onnxport.cli.files import inputs_of, read_model, weights_of
from onnxport.cli.screen import table
from onnxport.cli.specs import read_sizes
from onnxport.errors import ExportError, InternalError, OptionError
from onnxport.report.near_names import near
from onnxport.report.report import cases_json

OTHER_WEIGHTS = (
    "no weight of the file is the model's: is it the model that was exported? --weights loads those of a state_dict"
)


def verify(
    file: Annotated[str, typer.Argument(metavar="F", help="An ONNX file.")],
    source: SourceText,
    sizes: Annotated[list[str] | None, typer.Option(metavar="batch=7,…", help="Sizes of the axes to check at.")] = None,
    input: InputTexts = None,
    inputs: InputFile = None,
    arg: ArgumentTexts = None,
    weights: WeightsFile = None,
) -> Answer:
    """Check an ONNX file against its torch model.

    Inputs are drawn as the file declares them, unless they are given.
    """
    points = read_sizes(sizes or ())
    declared = inputs_of(read_model(file))
    _check_points(file, points or (), declared)
    loaded, given = load_with_inputs(source, input, inputs, arg, weights)
    if given and (input or inputs):
        return _verified(file, loaded.model, (), given, points)
    return _verified(file, loaded.model, *_drawn(file, loaded.model, declared), points)


def _check_points(file: str, points: Sequence[Mapping[str, int]], declared: Sequence[ir.Value]) -> None:
    """Check that sizes are given for dynamic axes of the file."""
    known = sorted({name for value in declared for dim in value.shape or () for name in _names(dim)})
    for name in [name for point in points for name in point]:
        if name not in known:
            there = near(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise CommandError(f"--sizes {name}=…: {file} has no dynamic axis {name!r}{there}")


def _names(dim: int | ir.SymbolicDim) -> frozenset[str]:
    """The names in a dimension, which may be an expression of names."""
    return frozenset() if isinstance(dim, int) or dim.value is None else frozenset(dim.free_symbols())


def _drawn(file: str, model: Any, declared: list[ir.Value]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs as the file declares them: by name if the model's arguments have these names, else in order."""
    from onnxport.cli.tensors import argument_names, from_arrays  # noqa: PLC0415

    drawn = from_arrays(draw_runnable(file, declared))
    by_name = set(drawn) <= set(argument_names(model) or ())
    return ((), drawn) if by_name else (tuple(drawn.values()), {})


def _verified(file: str, model: Any, args: Any, kwargs: Any, points: list[dict[str, int]] | None) -> Answer:
    import onnxport  # noqa: PLC0415

    run = ModelRun(model)
    try:
        with run:
            found = onnxport.verify(file, model, args, kwargs, sizes=points)
    except OptionError as error:
        raise CommandError(str(error)) from error
    except InternalError:
        raise
    except ExportError as error:
        return _refused(error, str(error))
    if run.error is not None:
        return _refused(run.error, described(run.error))
    data = {"passed": found.passed, "cases": cases_json(found.cases), "skipped": found.skipped, "error": None}
    reason = None if found.passed or not _has_other_weights(file, model) else OTHER_WEIGHTS
    return Answer(found.passed, data, lambda console: _show(console, file, data), reason)


def _has_other_weights(file: str, model: Any) -> bool:
    """Whether no weight of the file equals the model's weight of that name. Folded weights are never equal."""
    import torch  # noqa: PLC0415

    own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    both = [(tensor.tobytes(), own[name]) for name, tensor in weights_of(read_model(file)).items() if name in own]
    content = (mine.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for _, mine in both)
    return bool(both) and not any(given == mine for (given, _), mine in zip(both, content, strict=True))


def _refused(error: BaseException, message: str) -> Answer:
    said = {"type": type(error).__name__, "message": str(error)}
    data = {"passed": False, "cases": [], "skipped": None, "error": said}
    return Answer(False, data, reason=f"refused: {message}", error=error)


def _show(console: Any, file: str, data: Mapping[str, Any]) -> None:
    console.print(f"{file}: {'passed' if data['passed'] else data['skipped'] or 'failed'}")
    rows = table("sizes", "largest error", "problems")
    for case in data["cases"]:
        at = ", ".join(f"{name}={size}" for name, size in case["sizes"].items()) or "as given"
        error = case["max_abs_error"]
        rows.add_row(at, "-" if error is None else f"{error:.2e}", "\n".join(case["problems"]))
    if data["cases"]:
        console.print(rows)
