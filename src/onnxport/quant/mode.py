"""One run of a quantized model: a mode that sees the functions of torch it calls, and rounds their inputs."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from onnxport.quant.of_parameters import Constants
from onnxport.quant.quantizer import BiasQuantizer, Grid, Quantizer
from onnxport.quant.rules import RULES, Call, Rule

if TYPE_CHECKING:
    from onnxport.quant.quantizers import Quantizers

ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@functools.cache
def _body(function: FunctionType) -> FunctionType:
    """A function of torch.nn.functional that calls others without asking whether a mode would take its own call."""
    names = {**function.__globals__, **dict.fromkeys(ASKING, lambda *arguments: False)}
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class Run(TorchFunctionMode):
    """One run of the model. ``scopes`` are the paths of the modules that are running, the innermost last."""

    def __init__(self, quantizers: Quantizers, stored: Mapping[int, Stored]) -> None:
        super().__init__()
        self.quantizers = quantizers
        self.scopes: list[str] = []
        self.empty: list[str] = []
        self._stored = stored
        self._constants = Constants(stored)
        self._counts: Counter[str] = Counter()
        self._layers: dict[int, tuple[Any, BiasQuantizer, torch.Tensor | None]] = {}
        self._rounded: dict[int, tuple[Any, int | None, torch.Tensor, Quantizer]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if isinstance(func, FunctionType):
            if func.__globals__ is vars(functional):
                with self:
                    return _body(func)(*args, **given)
            return func(*args, **given)
        name = func.__name__ if isinstance(func, (BuiltinFunctionType, MethodDescriptorType)) else ""
        result = self._called(func, args, given, name)
        self._constants.note((args, given), result)
        return result

    def _called(self, func: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any], name: str) -> Any:
        rule = RULES.get(name)
        if rule is None or self.quantizers.plan.of(self.scope) is None:
            return func(*args, **given)
        if name.endswith("_"):
            return self._in_place(func, args, given, rule)
        call = Call(list(args), given)
        rule(self, call, name)
        result = func(*call.args, **call.kwargs)
        if call.bias is not None:
            self._layers[id(result)] = (weakref.ref(result), *call.bias)
        return result

    def _in_place(self, func: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any], rule: Rule) -> Any:
        """A tensor that is written to: a copy of it is rounded, since autograd may need what was."""
        name, copied = func.__name__.removesuffix("_"), args[0].clone()
        call = Call([copied, *args[1:]], given)
        rule(self, call, name)
        if call.args[0] is copied:
            return func(*args, **given)
        return args[0].copy_(getattr(torch, name)(*call.args, **call.kwargs))

    @property
    def scope(self) -> str:
        return self.scopes[-1] if self.scopes else ""

    # What the rules ask for

    def activation(self, x: Any, role: str) -> tuple[Any, Quantizer | None]:
        settings = self.quantizers.plan.of(self.scope)
        if settings is None or settings.activation_bits is None or not _is_quantizable(x):
            return x, None
        known = self._rounded.get(id(x))
        if known is not None and known[0]() is x and known[1] == _version(x):
            return known[2], known[3]
        name = self._unique(role)
        quantizer = self.quantizers.get(name)
        if not isinstance(quantizer, Quantizer):
            quantizer = Quantizer(Grid.of_activation(settings), settings, is_weight=False)
            self.quantizers.add(name, quantizer, x.device)
        return self._remember(x, self._applied(name, quantizer, x), quantizer), quantizer

    def weight(self, weight: Any, axis: int | None, *, grouped: bool = False) -> tuple[Any, Quantizer | None]:
        settings = self.quantizers.plan.of(self.scope)
        if settings is None or not _is_quantizable(weight):
            return weight, None
        known = self._stored.get(id(weight))
        name = self._unique("weight") if known is None else known.name
        quantizer = self.quantizers.get(name)
        if not isinstance(quantizer, Quantizer):
            if grouped and settings.group is not None:
                _check_group(name, weight.shape[0 if axis == 1 else -1], settings.group)
            quantizer = Quantizer(Grid.of_weight(settings, axis, grouped), settings, is_weight=True)
            self.quantizers.add(name, quantizer, weight.device)
        return self._applied(name, quantizer, weight), quantizer

    def bias(self, weight: Any) -> BiasQuantizer | None:
        settings = self.quantizers.plan.of(self.scope)
        if settings is None or not settings.has_integer_biases:
            return None
        name = self._unique("bias")
        quantizer = self.quantizers.get(name)
        if not isinstance(quantizer, BiasQuantizer):
            quantizer = BiasQuantizer()
            self.quantizers.add(name, quantizer, weight.device)
        return quantizer

    def bias_behind(self, x: Any) -> tuple[BiasQuantizer | None, Any]:
        known = self._layers.get(id(x))
        if known is None or known[0]() is not x or not known[1].scale.numel():
            return None, None
        return known[1:]

    def is_stored(self, tensor: Any) -> bool:
        return id(tensor) in self._stored

    def is_constant(self, tensor: Any) -> bool:
        return self._constants.holds(tensor)

    def _applied(self, name: str, quantizer: Quantizer, x: torch.Tensor) -> torch.Tensor:
        rounded: torch.Tensor = quantizer(x)
        if not quantizer.has_data:
            self.empty.append(name)
        return rounded

    def _remember(self, x: torch.Tensor, rounded: torch.Tensor, quantizer: Quantizer) -> torch.Tensor:
        """One quantizer rounds a tensor, whoever reads it. What nobody has any more is not kept."""
        key = id(x)
        reference = weakref.ref(x, lambda _: self._rounded.pop(key, None))
        self._rounded[key] = (reference, _version(x), rounded, quantizer)
        return rounded

    def _unique(self, role: str) -> str:
        name = f"{self.scope}.{role}" if self.scope else role
        count = self._counts[name]
        self._counts[name] += 1
        return f"{name}_{count}" if count else name


def _is_quantizable(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() > 0


def _check_group(name: str, count: int, group: int) -> None:
    if count % group:
        raise ValueError(
            f"group: {name} has {count} weights for each output, which is no multiple of {group}; "
            'give its module another group or none, as in parts={"head": {"group": None}}'
        )


def _version(x: torch.Tensor) -> int | None:
    """How often a tensor was written to."""
    return None if x.is_inference() else x._version


@dataclasses.dataclass(frozen=True)
class Stored:
    """A parameter or buffer. It is kept while the model runs: where a module replaces it, nothing else gets its id."""

    name: str
    tensor: torch.Tensor


def stored_tensors(model: nn.Module) -> dict[int, Stored]:
    """The parameters and buffers of a model, by what identifies the tensors."""
    named = [*model.named_buffers(), *model.named_parameters()]
    return {id(tensor): Stored(name, tensor) for name, tensor in named}
