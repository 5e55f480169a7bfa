"""The public calls that make a model a quantized one, let it learn from data, and undo it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import nn

from onnxport import compat
from onnxport.errors import ExportError
from onnxport.quant.constrain import settle_constraints
from onnxport.quant.mode import Run, stored_tensors
from onnxport.quant.quantizers import NAME, Quantizers
from onnxport.quant.settings import Plan, read_config, read_plan
from onnxport.report.tracebacks import public

Model = TypeVar("Model", bound=nn.Module)

# The runs that the thread or task at hand is in, the innermost last.
_RUNS: ContextVar[tuple[Run, ...]] = ContextVar("runs of quantized models", default=())


class _Enter:
    """A hook that is called before a module runs."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, module: nn.Module, args: Any) -> None:
        if not self.path:
            run = Run(quantizers_of(module), stored_tensors(module))
            _RUNS.set((*_RUNS.get(), run))
            run.__enter__()  # type: ignore[no-untyped-call]
        runs = _RUNS.get()
        if runs:
            runs[-1].scopes.append(self.path)
        elif compat.is_in_onnx_export():
            raise ExportError(
                f"{self.path} is a part of a quantized model, which rounds nothing when the part runs alone. Export "
                "the model, or call quant.remove(model) and quant.init on the part."
            )


class _Leave:
    """A hook that is called after a module ran, or failed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, module: nn.Module, args: Any, result: Any) -> None:
        runs = _RUNS.get()
        if not runs:
            return
        run = runs[-1]
        run.scopes.pop()
        if not self.path:
            _RUNS.set(runs[:-1])
            run.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            if run.empty and compat.is_in_onnx_export():
                raise ExportError(_without_data(run.empty))


def _without_data(names: Collection[str]) -> str:
    modules = sorted({name.rpartition(".")[0] or name for name in names})
    return (
        f"{len(names)} quantizers of the model have seen no data: those of {', '.join(modules)}. Train the model, or "
        "run it on some data inside `with onnxport.quant.calibration(model):`, before it is exported."
    )


@public
def init(
    model: Model,
    *,
    weight_bits: int = 8,
    activation_bits: int | None = 8,
    per_channel: bool = True,
    symmetric: bool = False,
    power_of_two: bool = False,
    observer: str = "minmax",
    group: int | None = None,
    skip: Collection[str | type[nn.Module]] = (),
    parts: Mapping[str, Mapping[str, Any]] | None = None,
    config: Any = None,
    example: Any = None,
    target: str = "onnxruntime",
) -> Model:
    """Let a model round the inputs and weights of its layers to what integers hold; it is changed in place.

    Train it then, or run it on data inside of `calibration`, and export it.
    ``config`` has the same keys, of which those count whose argument is left as it is. ``example`` are the arguments of
    a call, a tuple of them or a single one: the model is run on it once, so that its quantizers exist.
    """
    _check_model(model)
    settings = {
        "weight_bits": weight_bits,
        "activation_bits": activation_bits,
        "per_channel": per_channel,
        "symmetric": symmetric,
        "power_of_two": power_of_two,
        "observer": observer,
        "group": group,
        "target": target,
    }
    given = read_config(config)
    plan = read_plan(model, settings, skip, parts, given)
    example = given.get("example") if example is None else example
    if example is None and "learned" in {part.observer for part in (plan.default, *plan.parts.values())}:
        raise ValueError(
            'observer: "learned" needs an example, so that the parameters exist before the optimizer is made'
        )
    if hasattr(model, NAME):
        raise ValueError(f"the model has an attribute {NAME!r} of its own, which is the name of its quantizers")
    _check_precision(model, plan)
    settle_constraints(model)
    _add_hooks(model)
    model.add_module(NAME, Quantizers(plan).train(model.training))
    if example is not None:
        try:
            with calibration(model), torch.no_grad():
                model(*example) if isinstance(example, (tuple, list)) else model(example)
        except BaseException:
            remove(model)
            raise
    return model


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, not {model!r}")
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise ValueError("model is a script, or has one inside: call quant.init on the module it was made of")
    if is_initialised(model):
        raise ValueError("the model is already initialised: quant.remove(model) undoes it")


def _check_precision(model: nn.Module, plan: Plan) -> None:
    """Steps of 8 bits take all the digits that a number of 16 bits has: scales and ranges need float32."""
    for name, parameter in model.named_parameters():
        settings = plan.of(name.rpartition(".")[0])
        if settings is None or settings.activation_bits is None:
            continue
        if parameter.is_floating_point() and parameter.element_size() < 4:
            raise ValueError(
                f"{name} is {parameter.dtype}, in which activations cannot be quantized: call quant.init on "
                "model.float(), or round the weights alone with activation_bits=None"
            )


def _add_hooks(model: nn.Module) -> None:
    for path, module in list(model.named_modules()):
        module.register_forward_pre_hook(_Enter(path))
        module.register_forward_hook(_Leave(path), always_call=True)


def is_initialised(model: nn.Module) -> bool:
    """Whether a model is quantized, or a part of it, or what it is a part of."""
    hooks = (hook for module in model.modules() for hook in module._forward_pre_hooks.values())
    return any(isinstance(hook, _Enter) for hook in hooks)


def quantizers_of(model: nn.Module) -> Quantizers:
    """The quantizers of an initialised model."""
    found = getattr(model, NAME, None)
    if not isinstance(found, Quantizers):
        raise ValueError("the model is not initialised: call quant.init(model) first")
    return found


@contextlib.contextmanager
def calibration(model: nn.Module) -> Iterator[None]:
    """Let the quantizers of a model learn from what it is run on inside, in evaluation mode; it gets its modes back."""
    quantizers = quantizers_of(model)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    quantizers.calibrate(True)
    try:
        yield
    finally:
        quantizers.calibrate(False)
        for module in model.modules():
            module.training = modes.get(module, modes[model])


@public
def remove(model: Model) -> Model:
    """Make a model the float model that it was, with its weights as they are now."""
    settle_constraints(model)
    for module in model.modules():
        # What torch keeps of hooks are mappings; copies of a model have hooks of their own.
        for kept in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in kept.items() if isinstance(hook, (_Enter, _Leave))]:
                del kept[key]
                module._forward_hooks_always_called.pop(key, None)
    if isinstance(getattr(model, NAME, None), Quantizers):
        delattr(model, NAME)
    return model
