"""`onnxport export`: a model from its source to a checked file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from onnxport.cli.answers import Answer
from onnxport.cli.ending import CommandError, ModelRun, described
from onnxport.cli.files import check_exists, check_writable, read_arrays
from onnxport.cli.screen import table
from onnxport.cli.sources import Loaded, load_source, read_source
from onnxport.cli.specs import (
    check_axes,
    check_points,
    read_arguments,
    read_dynamic,
    read_inputs,
    read_names,
    read_sizes,
    read_versions,
)
from onnxport.errors import ExportError, InternalError, OptionError, SaveError
from onnxport.options.enums import OperatorExportTypes, TrainingMode
from onnxport.options.plain import DEFAULT_OPSET, read_opset, read_skip_passes
from onnxport.options.plain import read_names as check_names
from onnxport.report.markup import byte_size, counted

Training = Literal["eval", "preserve", "training"]
Operators = Literal["onnx", "onnx_aten", "onnx_aten_fallback", "raw", "onnx_fallthrough"]
ControlFlow = Literal["merge", "trace"]
Check = Literal["true", "warn", "false"]

SOURCE_HELP = (
    "file.py:NAME or package.module:NAME (a model, class or factory), a TorchScript or .pt2 file, the folder of a "
    "transformers model, or timm:NAME."
)
INPUT_HELP = "An example input, by the argument's name. HIGH is not included; integers without a range are 0 and 1."
ARGUMENT_HELP = "An argument of the class or factory: a Python literal, else text."
WEIGHTS_HELP = "Weights: safetensors, or what torch.save wrote of a state_dict. No code in it is run."

SourceText = Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)]
InputTexts = Annotated[
    list[str] | None, typer.Option("--input", metavar="NAME=2x3x8[:DTYPE[:LOW..HIGH]]", help=INPUT_HELP)
]
InputFile = Annotated[str | None, typer.Option("--inputs", metavar="F.npz", help="Example inputs from a file.")]
ArgumentTexts = Annotated[list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help=ARGUMENT_HELP)]
WeightsFile = Annotated[str | None, typer.Option("--weights", metavar="F", help=WEIGHTS_HELP)]
AxisTexts = Annotated[list[str] | None, typer.Option(metavar="NAME=0:batch,2:height", help="Dynamic axes of an input.")]
Versions = Annotated[list[str] | None, typer.Option(metavar="DOMAIN=VERSION", help="The version of a domain.")]
PointTexts = Annotated[
    list[str] | None, typer.Option(metavar="batch=7,height=64", help="Sizes of axes at which to check as well.")
]
PageFile = Annotated[
    str | None, typer.Option(metavar="F.html", help="Write a page about the export, also if it fails.")
]


# Arguments of torch's exporters, which `onnxport.export` takes too: what they ask for is an error that says what to do.
OLD = typer.Option(hidden=True)
# The options that are arguments of `onnxport.export` as they are.
AS_GIVEN = (
    "opset_version", "external_data", "export_params", "verbose", "do_constant_folding", "strip_doc_string",
    "keep_initializers_as_inputs", "enable_onnx_checker", "use_external_data_format", "export_modules_as_functions",
    "optimize", "exact_nan", "control_flow", "dynamo", "profile", "dump_exported_program", "artifacts_dir", "fallback",
    "autograd_inlining", "aten", "export_raw_ir",
)  # fmt: skip


def names(help: str) -> Any:
    return typer.Option(metavar="a,b", help=help)


def switch(help: str, *flags: str) -> Any:
    return typer.Option(*flags, help=help, show_default=False)


def export(
    source: SourceText,
    output: Annotated[str, typer.Option("--output", "-o", metavar="F", help="The ONNX file to write.")],
    input: InputTexts = None,
    inputs: InputFile = None,
    dynamic: AxisTexts = None,
    opset_version: Annotated[int | None, typer.Option("--opset", "--opset-version", help="7 to 26.")] = None,
    input_names: Annotated[str | None, names("Other names for the inputs.")] = None,
    output_names: Annotated[str | None, names("Names for the outputs.")] = None,
    arg: ArgumentTexts = None,
    weights: WeightsFile = None,
    verify: Annotated[
        Check, typer.Option(help="Whether a mismatch is an error, a warning or not looked for.")
    ] = "true",
    no_verify: Annotated[bool, switch("The same as --verify false.", "--no-verify")] = False,
    check_sizes: PointTexts = None,
    external_data: Annotated[bool | None, switch("Weights in a file beside the model's.")] = None,
    report: PageFile = None,
    export_params: Annotated[bool, switch("Weights in the file, or as inputs.")] = True,
    verbose: Annotated[bool, switch("Show the graph, on standard error.", "--verbose")] = False,
    training: Annotated[Training, typer.Option(help="The mode of the model.")] = "eval",
    operator_export_type: Annotated[Operators, typer.Option(help="What operators are written as.")] = "onnx",
    do_constant_folding: Annotated[bool, switch("Compute what depends on weights alone, or not.")] = True,
    strip_doc_string: Annotated[bool, switch("Leave source lines out of the file, or not.")] = True,
    keep_initializers_as_inputs: Annotated[bool, switch("Weights are inputs as well, or not.")] = False,
    custom_opsets: Versions = None,
    enable_onnx_checker: Annotated[bool, switch("Run onnx's checker, or not.")] = True,
    use_external_data_format: Annotated[bool, switch("As --external-data.", "--use-external-data-format")] = False,
    intermediate_outputs: Annotated[str | None, names("Paths of modules whose results are outputs.")] = None,
    export_modules_as_functions: Annotated[bool, switch("Each module is an ONNX function, or not.")] = False,
    optimize: Annotated[bool, switch("Simplify the graph, or not.")] = True,
    exact_nan: Annotated[bool, switch("Order NaN as torch does, with more nodes.", "--exact-nan")] = False,
    control_flow: Annotated[ControlFlow, typer.Option(help="Whether an if on data is in the file.")] = "merge",
    skip_passes: Annotated[str | None, names("Passes that are left out: AddBiasLast, ShareHeads.")] = None,
    dynamo: Annotated[bool | None, OLD] = None,
    profile: Annotated[bool, OLD] = False,
    dump_exported_program: Annotated[bool, OLD] = False,
    artifacts_dir: Annotated[str, OLD] = ".",
    fallback: Annotated[bool, OLD] = False,
    autograd_inlining: Annotated[bool, OLD] = True,
    aten: Annotated[bool | None, OLD] = None,
    export_raw_ir: Annotated[bool | None, OLD] = None,
    quiet: bool = False,
) -> Answer:
    """Export a model to an ONNX file, and check it in ONNX Runtime."""
    given = locals()
    settings = {name: given[name] for name in AS_GIVEN} | {
        "dynamic_axes": read_dynamic(dynamic or ()) or None,
        "input_names": read_names(input_names),
        "output_names": read_names(output_names),
        "verify": {"true": True, "warn": "warn", "false": False}["false" if no_verify else verify],
        "check_sizes": read_sizes(check_sizes or (), "--check-sizes") or (),
        "report": report or False,
        "training": TrainingMode[training.upper()],
        "operator_export_type": OperatorExportTypes[operator_export_type.upper()],
        "custom_opsets": read_versions(custom_opsets or ()),
        "intermediate_outputs": read_names(intermediate_outputs),
        "skip_passes": read_names(skip_passes) or (),
        "progress": False if quiet else None,
    }
    _check(settings, input or ())
    check_writable(output, "-o")
    if report is not None:
        check_writable(report, "--report")
    loaded, example = load_with_inputs(source, input, inputs, arg, weights)
    _check_complete(loaded.model, example)
    return _exported(loaded.model, example, output, settings)


def _check(settings: Mapping[str, Any], input: Sequence[str]) -> None:
    """Find what is plainly wrong before torch is imported."""
    try:
        read_opset(settings["opset_version"])
        read_skip_passes(settings["skip_passes"])
        for option in ("input_names", "output_names", "intermediate_outputs"):
            check_names(option, settings[option])
    except OptionError as error:
        raise CommandError(str(error)) from error
    axes = settings["dynamic_axes"] or {}
    check_axes(axes, read_inputs(input))
    check_points(settings["check_sizes"], axes)


def load_with_inputs(
    source: str, input: list[str] | None, inputs: str | None, arg: list[str] | None, weights: str | None
) -> tuple[Loaded, dict[str, Any]]:
    """The model and its inputs. Obvious mistakes are found before torch is imported."""
    found, specs, arguments = read_source(source), read_inputs(input or ()), read_arguments(arg or ())
    if weights is not None:
        check_exists(weights, "--weights")
    arrays = read_arrays(inputs) if inputs is not None else {}
    loaded = load_source(found, arguments, weights)
    return loaded, example_inputs(loaded, specs, arrays)


def example_inputs(loaded: Loaded, specs: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The given inputs by argument name; without any, those of the source."""
    from onnxport.cli.tensors import check_arguments, draw_inputs, from_arrays  # noqa: PLC0415

    check_arguments(loaded.model, list(arrays), "--inputs")
    check_arguments(loaded.model, [spec.name for spec in specs], "--input")
    given = from_arrays(arrays) | draw_inputs(specs)
    return given or dict(loaded.inputs or {})


def _check_complete(model: Any, example: Mapping[str, Any]) -> None:
    """Check that arguments without a default are given. A torch.export program has its own example."""
    import torch  # noqa: PLC0415

    if isinstance(model, torch.export.ExportedProgram) and not example:
        return
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [p.name for p in parameters if p.kind in plain and p.default is p.empty and p.name not in example]
    if missing:
        raise CommandError(f"the model needs {', '.join(missing)}: give it as --input {missing[0]}=2x3x8")


def _exported(model: Any, example: Mapping[str, Any], output: str, settings: Mapping[str, Any]) -> Answer:
    import onnxport  # noqa: PLC0415

    run = ModelRun(model)
    try:
        with run:
            program = onnxport.export(model, (), output, kwargs=dict(example), **settings)
    except (OptionError, SaveError) as error:
        raise CommandError(str(error)) from error
    except InternalError:
        raise
    except ExportError as error:
        made = error.report or onnxport.Report(settings["opset_version"] or DEFAULT_OPSET)
        return Answer(False, made.to_json(), reason=f"{made.verdict}: {error}", error=error)
    if run.error is not None:
        made = onnxport.Report(settings["opset_version"] or DEFAULT_OPSET)
        made.fail(run.error)
        return Answer(False, made.to_json(), reason=f"refused: {described(run.error)}", error=run.error)
    data = program.report.to_json()
    return Answer(data["verdict"] != "failed", data, lambda console: _show(console, output, data))


def _show(console: Any, output: str, data: Mapping[str, Any]) -> None:
    console.print(f"{output}: {data['verdict']}")
    nodes, seconds = counted(data["nodes"], "node"), sum(data["phases"].values())
    file_bytes, weight_bytes = byte_size(data["file_bytes"]), byte_size(data["weight_bytes"])
    console.print(f"opset {data['opset']}, {nodes}, {file_bytes}, {weight_bytes} of weights, {seconds:.1f} s")
    if data["axes"]:
        rows = table("axis", "of", "traced at", "verified at")
        for axis in data["axes"]:
            sizes = [", ".join(map(str, axis[kind])) or "-" for kind in ("traced", "verified")]
            rows.add_row(axis["name"], ", ".join(axis["of"]), *sizes)
        console.print(rows)
    for note in data["notes"]:
        console.print(f"note: {note}")
