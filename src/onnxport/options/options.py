"""The keyword arguments of `onnxport.export`, read and checked before any work begins."""

from __future__ import annotations

import enum
import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from onnxport.capture.model.modules import ModuleCalls
from onnxport.errors import OptionError, OptionTypeError
from onnxport.options.enums import OperatorExportTypes, TrainingMode
from onnxport.options.paths import report_path, weights_path
from onnxport.options.plain import read_names, read_opset, read_skip_passes
from onnxport.report.progress import Progress
from onnxport.save import check_target, is_path
from onnxport.verification.runners import Verify, checked_verify

FIRST_WITH_FUNCTIONS = 15

OPERATOR = re.compile(r"[A-Za-z_][\w.-]*::[A-Za-z_]\w*")

DynamicAxes: TypeAlias = "Mapping[str, Mapping[int, str] | Sequence[int]]"


@dataclass(frozen=True)
class Options:
    """A checked call. ``dynamic_axes`` maps a name to its dimensions and their labels, None for no label."""

    target: Any
    export_params: bool
    verbose: bool
    training: TrainingMode
    input_names: tuple[str, ...]
    output_names: tuple[str, ...] | None
    opset: int
    fold_constants: bool
    strip_doc_string: bool
    dynamic_axes: dict[str, dict[int, str | None]]
    dynamic_shapes: Any
    keep_initializers_as_inputs: bool
    custom_opsets: dict[str, int]
    check: bool
    external_data: bool | None
    intermediate_outputs: tuple[str, ...]
    verify: Verify
    operators: OperatorExportTypes = OperatorExportTypes.ONNX
    module_calls: ModuleCalls = field(default_factory=ModuleCalls)
    optimize: bool = True
    skip_passes: tuple[str, ...] = ()
    exact_nan: bool = False
    control_flow: str = "merge"
    progress: Progress = None
    report: Path | None = None
    weights: Path | None = None
    check_sizes: tuple[dict[str, int], ...] = ()

    @property
    def weights_stay(self) -> bool:
        """Whether the file refers to weights where they are, instead of holding a copy."""
        return self.weights is not None and self.external_data is None and is_path(self.target)

    @property
    def train(self) -> bool | None:
        """The mode to switch the model to; None leaves it as it is."""
        return switch_of(self.training)


def read_options(
    *,
    f: Any = None,
    export_params: bool = True,
    verbose: bool | None = False,
    training: TrainingMode | bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: OperatorExportTypes | None = None,
    opset_version: int | None = None,
    do_constant_folding: bool = True,
    strip_doc_string: bool = True,
    dynamic_axes: DynamicAxes | None = None,
    dynamic_shapes: Any = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    enable_onnx_checker: bool = True,
    use_external_data_format: bool | None = None,
    intermediate_outputs: Sequence[str] | None = None,
    verify: Verify = True,
    deprecated: tuple[bool | None, bool | None, bool | None] = (None, None, None),
    modules_as_ops: Mapping[type[nn.Module], str] | None = None,
    export_modules_as_functions: bool | Collection[type[nn.Module]] = False,
    external_data: bool | None = None,
    optimize: bool = True,
    skip_passes: Sequence[str] = (),
    exact_nan: bool = False,
    control_flow: str = "merge",
    progress: Progress = None,
    report: bool | str | os.PathLike[str] = False,
    weights: str | os.PathLike[str] | None = None,
    check_sizes: Sequence[Mapping[str, int]] = (),
) -> Options:
    """Check every argument on its own; what needs the model (how many inputs it has) is checked when that is known.

    ``deprecated`` are ``aten``, ``export_raw_ir`` and ``_retain_param_name``.
    """
    operator_export_type = _deprecated(operator_export_type, *deprecated)
    if dynamic_shapes is not None and dynamic_axes is not None:
        raise OptionError("dynamic_axes and dynamic_shapes both declare dynamic axes: give only one of them")
    check_target(f)
    inputs = read_names("input_names", input_names)
    outputs = read_names("output_names", output_names)
    return Options(
        target=f,
        export_params=_boolean("export_params", export_params),
        verbose=_boolean("verbose", verbose or False),
        training=read_training(training),
        input_names=inputs or (),
        output_names=outputs,
        opset=read_opset(opset_version),
        fold_constants=_boolean("do_constant_folding", do_constant_folding),
        strip_doc_string=_boolean("strip_doc_string", strip_doc_string),
        dynamic_axes=_dynamic_axes(dynamic_axes),
        dynamic_shapes=dynamic_shapes,
        keep_initializers_as_inputs=_boolean("keep_initializers_as_inputs", keep_initializers_as_inputs or False),
        custom_opsets=_custom_opsets(custom_opsets),
        check=_boolean("enable_onnx_checker", enable_onnx_checker),
        external_data=_external_data(external_data, use_external_data_format),
        intermediate_outputs=read_names("intermediate_outputs", intermediate_outputs) or (),
        verify=checked_verify(verify),
        operators=operator_export_type,
        optimize=_boolean("optimize", optimize),
        skip_passes=read_skip_passes(skip_passes),
        exact_nan=_boolean("exact_nan", exact_nan),
        control_flow=_control_flow(control_flow),
        progress=_progress(progress),
        report=report_path(report, f),
        check_sizes=_check_sizes(check_sizes),
        weights=weights_path(weights, export_params=export_params),
        module_calls=ModuleCalls(
            _modules_as_ops(modules_as_ops),
            _modules_as_functions(export_modules_as_functions, read_opset(opset_version), operator_export_type),
        ),
    )


def _deprecated(
    kind: OperatorExportTypes | None, aten: bool | None, raw: bool | None, retain: bool | None
) -> OperatorExportTypes:
    """Deprecated arguments, as the operator_export_type that they mean."""
    for name, given, meaning in (
        ("aten", aten, OperatorExportTypes.ONNX_ATEN),
        ("export_raw_ir", raw, OperatorExportTypes.RAW),
    ):
        if given is None:
            continue
        warnings.warn(f"{name} is deprecated, use operator_export_type={meaning}", DeprecationWarning, stacklevel=5)
        if given and kind is not None:
            raise OptionError(f"{name} and operator_export_type cannot be given together")
        kind = meaning if given else kind
    if retain is not None:
        warnings.warn("_retain_param_name is deprecated: names are always kept", DeprecationWarning, stacklevel=5)
    kind = _ours(OperatorExportTypes, kind)
    if kind is not None and not isinstance(kind, OperatorExportTypes):
        raise OptionTypeError(f"operator_export_type must be an OperatorExportTypes, not {kind!r}")
    return kind or OperatorExportTypes.ONNX


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionTypeError(f"{name} must be True or False, not {value!r}")
    return value


def _control_flow(value: Any) -> str:
    if value not in ("merge", "trace"):
        raise OptionError(f'control_flow must be "merge" or "trace", not {value!r}')
    return str(value)


def _progress(value: Any) -> Progress:
    if value is None or isinstance(value, bool) or callable(value):
        return value  # type: ignore[no-any-return]
    raise OptionTypeError(f"progress must be None, True, False or a function(phase, done, total), not {value!r}")


def _external_data(external: Any, classic: Any) -> bool | None:
    """True for a second file with the weights, False for one file whatever the size, None for a second above 2 GiB."""
    automatic = _boolean("use_external_data_format", classic or False) or None
    if external is None:
        return automatic
    if automatic and not external:
        raise OptionError("use_external_data_format=True and external_data=False ask for opposite things")
    return _boolean("external_data", external)


def _ours(kind: type[enum.Enum], value: Any) -> Any:
    """The member with the same name, if the value is from an enumeration of that name, such as torch.onnx's."""
    same = type(value).__name__ == kind.__name__ and getattr(value, "name", None) in kind.__members__
    return kind[value.name] if same else value


def switch_of(mode: TrainingMode) -> bool | None:
    """The value for the model's ``training``; None leaves it as it is."""
    return {TrainingMode.EVAL: False, TrainingMode.TRAINING: True, TrainingMode.PRESERVE: None}[mode]


def read_training(training: Any) -> TrainingMode:
    """The mode as its name, or as a bool, which old versions of torch.onnx accepted."""
    if training is None:
        return TrainingMode.EVAL
    if isinstance(training, bool):
        return TrainingMode.TRAINING if training else TrainingMode.EVAL
    training = _ours(TrainingMode, training)
    if not isinstance(training, TrainingMode):
        raise OptionTypeError(f"training must be a TrainingMode or a bool, not {training!r}")
    return training


def _dynamic_axes(declared: Any) -> dict[str, dict[int, str | None]]:
    if declared is None:
        return {}
    if not isinstance(declared, Mapping):
        raise OptionTypeError(f"dynamic_axes must be a dict of input and output names, not {declared!r}")
    axes: dict[str, dict[int, str | None]] = {}
    for name, dims in declared.items():
        if isinstance(dims, Mapping):
            axes[name] = dict(dims)
        elif isinstance(dims, Sequence) and not isinstance(dims, str):
            axes[name] = dict.fromkeys(dims)
        else:
            raise OptionTypeError(
                f"dynamic_axes[{name!r}] must be a list of axes or a dict of axis to name, not {dims!r}"
            )
        for dim, label in axes[name].items():
            if isinstance(dim, bool) or not isinstance(dim, int):
                raise OptionTypeError(f"dynamic_axes[{name!r}]: an axis must be an int, not {dim!r}")
            if label is not None and (not isinstance(label, str) or not label):
                raise OptionTypeError(f"dynamic_axes[{name!r}][{dim}] must be a name, not {label!r}")
    return axes


def _check_sizes(points: Any) -> tuple[dict[str, int], ...]:
    if isinstance(points, str) or not isinstance(points, Sequence) or not all(isinstance(p, Mapping) for p in points):
        raise OptionTypeError(f"check_sizes must be a list of dicts of axis label to size, not {points!r}")
    for point in points:
        for label, size in point.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise OptionTypeError(f"check_sizes: {label!r} must have a size, not {size!r}")
    return tuple(dict(point) for point in points)


def _modules_as_ops(modules: Any) -> dict[type[nn.Module], str]:
    if modules is None:
        return {}
    if not isinstance(modules, Mapping) or not all(_is_module_class(kind) for kind in modules):
        raise OptionTypeError(f"modules_as_ops must be a dict of module class to 'domain::Operator', not {modules!r}")
    for kind, operator in modules.items():
        if not isinstance(operator, str) or not OPERATOR.fullmatch(operator):
            raise OptionError(f"modules_as_ops[{kind.__name__}] must look like 'domain::Operator', not {operator!r}")
    return dict(modules)


def _modules_as_functions(modules: Any, opset: int, kind: OperatorExportTypes) -> tuple[type[nn.Module], ...]:
    if modules is False or modules is None:
        return ()
    classes = (nn.Module,) if modules is True else modules
    if not isinstance(classes, Collection) or isinstance(classes, str) or not all(map(_is_module_class, classes)):
        raise OptionTypeError(f"export_modules_as_functions must be a bool or a set of module classes, not {modules!r}")
    if opset < FIRST_WITH_FUNCTIONS:
        raise OptionError(
            f"export_modules_as_functions needs opset_version={FIRST_WITH_FUNCTIONS} or newer; {opset} was asked for"
        )
    if kind is OperatorExportTypes.RAW:
        raise OptionError("export_modules_as_functions does not work with RAW, which writes the graph as captured")
    return tuple(classes)


def _is_module_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, nn.Module)


def _custom_opsets(versions: Any) -> dict[str, int]:
    if versions is None:
        return {}
    if not isinstance(versions, Mapping) or not all(
        isinstance(domain, str) and isinstance(version, int) for domain, version in versions.items()
    ):
        raise OptionTypeError(f"custom_opsets must be a dict of domain to version, not {versions!r}")
    return dict(versions)
