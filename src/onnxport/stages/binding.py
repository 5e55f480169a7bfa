"""The model bound to its example: arguments as named tensors, the dynamic axes, the training mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes.axis import Axis, find_axes
from onnxport.capture.axes.declared import by_argument, declared_numbers, read_axes
from onnxport.capture.axes.sums import with_sums
from onnxport.capture.exported import ExportedModule, axes_of, opened
from onnxport.capture.model.inputs import Inputs, numbers_of, signature_of, split_keywords
from onnxport.capture.model.runner import ModelRunner
from onnxport.capture.model.stand_in import StandIns, filled, hollow_bytes, with_content
from onnxport.errors import OptionError, OptionTypeError
from onnxport.lower.subgraphs.blocks import HAS_UNRANKED_RESULTS
from onnxport.options.names_and_axes import assign_names, check_axis_names, check_output_names, input_axes
from onnxport.options.options import Options
from onnxport.save import References
from onnxport.save.checkpoint import filled_from, open_checkpoint
from onnxport.verification.memory import no_room_for_copies


@dataclass(frozen=True)
class GivenCall:
    """What the caller gave, ready to run. ``has_weights`` is False where weights only have stand-ins.

    ``references`` has the weights that are in files already.
    """

    model: Callable[..., Any]
    args: Any
    kwargs: Mapping[str, Any] | None
    has_weights: bool
    references: References | None = None


@contextmanager
def weights_in_memory(
    model: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None, options: Options
) -> Iterator[GivenCall]:
    """The call with content in all weights, meta tensors for example: from the files that have it, or stand-ins."""
    model, args, kwargs = opened(model, args, kwargs)
    if options.weights is not None:
        with filled_from(open_checkpoint(options.weights), model) as references:
            yield GivenCall(model, args, kwargs, True, references if options.weights_stay else None)
        return
    if options.export_params:
        yield GivenCall(model, args, kwargs, has_weights=True)
        return
    hollow = hollow_bytes(model)
    stand_ins = StandIns(roomy=no_room_for_copies(hollow) is None)
    args, kwargs = with_content((args, kwargs), stand_ins)
    with filled(model, stand_ins):
        yield GivenCall(model, args, kwargs, has_weights=not hollow)


@dataclass(frozen=True)
class BoundCall:
    """The model with its example, under the names that the graph will have.

    ``references`` has the weights that are in files, and stay there.
    """

    runner: ModelRunner
    axes: list[Axis]
    input_names: list[str]
    parameter_names: list[str]
    references: References | None = None

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers by their names in the graph."""
        return {name: tensor for name, (_, tensor) in zip(self.parameter_names, self.runner.parameters, strict=True)}

    @property
    def trains(self) -> bool:
        """Whether some submodule is exported in training mode."""
        modes = (getattr(module, "training", False) for module in self.runner.paths.values())
        return any(mode if self.runner.train is None else self.runner.train for mode in modes)


def bind_call(call: GivenCall, options: Options, keeps_function: Callable[[Any], bool]) -> BoundCall:
    """Bind the arguments, name the inputs, and check the declared axes.

    ``keeps_function`` says which autograd Functions are recorded as one node.
    """
    model = compat.wrapped_module(call.model)
    if not callable(model):
        raise OptionTypeError(f"model must be a module or a function, not {type(model).__name__}")
    signature = signature_of(model)
    arguments = split_keywords(signature, call.args, call.kwargs)
    inputs = Inputs(signature, *arguments, numbers_of(model))
    shapes = by_argument(options.dynamic_shapes, inputs, options.input_names or ())
    numbers = declared_numbers(shapes, inputs)
    if numbers:
        inputs = Inputs(signature, *arguments, numbers, read=True)
    runner = ModelRunner(
        model,
        inputs,
        options.train,
        options.intermediate_outputs,
        keeps=keeps_function,
        module_calls=options.module_calls,
        keeps_stacks=not options.strip_doc_string,
        merges=options.control_flow == "merge",
        unranked=options.opset >= HAS_UNRANKED_RESULTS,
        names=len(options.output_names or ()),
    )
    options.module_calls.check(runner.paths)
    for path in options.intermediate_outputs:
        if path not in runner.paths:
            raise OptionError(f"intermediate_outputs: the model has no submodule {path!r}")
    names = assign_names("input_names", options.input_names, inputs.names, [name for name, _ in runner.parameters])
    count = len(inputs.names)
    check_output_names(options, names)
    if options.output_names is not None:
        check_axis_names(options, names[:count], [*options.output_names, *options.intermediate_outputs])
    if isinstance(model, ExportedModule):
        inputs.call(model.check, inputs.tensors)
    axes = _axes(options, model, inputs, names[:count])
    _check_labels(options.check_sizes, [axis.label for axis in axes])
    return BoundCall(runner, axes, names[:count], names[count:], call.references)


def _check_labels(points: Sequence[Mapping[str, int]], labels: Sequence[str]) -> None:
    unknown = sorted({label for point in points for label in point} - set(labels))
    if unknown:
        raise OptionError(f"check_sizes: there is no dynamic axis {unknown[0]!r}; there are {list(labels)}")


def _axes(options: Options, model: Any, inputs: Inputs, names: Sequence[str]) -> list[Axis]:
    """The dynamic axes declared in the call; else those of an exported program."""
    if options.dynamic_shapes is not None:
        return read_axes(by_argument(options.dynamic_shapes, inputs, options.input_names or ()), inputs, names)
    if not options.dynamic_axes and isinstance(model, ExportedModule):
        return axes_of(model, inputs, names)
    declared, named = input_axes(options, names, [tensor.dim() for tensor in inputs.tensors])
    return with_sums(find_axes(declared, named, inputs.tensors))
