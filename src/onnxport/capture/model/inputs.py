"""The arguments of a call as flat named tensors, and calls with other tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture.model.structure import Structure, flatten
from onnxport.errors import CaptureError, OptionTypeError

# Quantized tensors with one scale: their dequantized values are the inputs.
PER_TENSOR = (torch.per_tensor_affine, torch.per_tensor_symmetric)


class Inputs:
    """One call of the model: ``tensors`` are the tensor leaves of its arguments, ``names`` their names.

    ``grids`` has the scale, zero point and dtype of those that are quantized, by their index.
    ``numbers`` are the parameters with numbers that are inputs, not constants: they are 0-dim tensors in ``tensors``.
    With ``read`` the model is called with numbers there; a script reads them from the tensors itself.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        numbers: Mapping[str, Any] = MappingProxyType({}),
        *,
        read: bool = False,
    ) -> None:
        kwargs = _in_order(function, kwargs)
        named = [(name, as_input(value, numbers.get(name))) for name, value in _bind(function, args, kwargs)]
        self.arguments = named
        self.numbers = dict(numbers)
        self._read = [read and name in numbers for name, _ in named]
        self.positional = len(args)
        self._keywords = list(kwargs)
        self._leaves: list[Any] = []
        self._structures: list[tuple[int, Structure]] = []
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.grids: dict[int, tuple[float, int, torch.dtype]] = {}
        for name, value in named:
            leaves, structure = flatten(value, name)
            self._leaves += leaves
            self._structures.append((len(leaves), structure))
            for leaf_name, leaf in zip(structure.names, leaves, strict=True):
                if isinstance(leaf, torch.Tensor):
                    _check_plain(leaf_name, leaf)
                    self.names.append(leaf_name)
                    if leaf.is_quantized:
                        self.grids[len(self.tensors)] = (leaf.q_scale(), leaf.q_zero_point(), leaf.dtype)
                    self.tensors.append(leaf.dequantize() if leaf.is_quantized else leaf)

    def call(self, function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
        """Call with these tensors instead of the example's; they are quantized where the example's are."""
        remaining = iter([self._quantized(index, tensor) for index, tensor in enumerate(tensors)])
        leaves = iter([next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves])
        values = [s.unflatten([next(leaves) for _ in range(count)]) for count, s in self._structures]
        values = [value.item() if is_read else value for value, is_read in zip(values, self._read, strict=True)]
        keywords = dict(zip(self._keywords, values[self.positional :], strict=True))
        return function(*values[: self.positional], **keywords)

    def _quantized(self, index: int, tensor: torch.Tensor) -> torch.Tensor:
        if index not in self.grids or not isinstance(tensor, torch.Tensor):  # a script is read, not run
            return tensor
        scale, zero_point, dtype = self.grids[index]
        return torch.quantize_per_tensor(tensor, scale, zero_point, dtype)


def as_input(value: Any, kind: Any) -> Any:
    """A number that is an input, as a 0-dim tensor; of a tuple those that ``kind`` has a type for."""
    if isinstance(kind, tuple) and isinstance(value, (tuple, list)) and len(value) == len(kind):
        return tuple(map(as_input, value, kind))
    if kind is None or not isinstance(value, (bool, int, float)):
        return value
    return torch.tensor(kind(value), dtype=torch.float64 if kind is float else None)


def _check_plain(name: str, tensor: torch.Tensor) -> None:
    """Refuse tensors that are not dense: ONNX has none."""
    kind = (
        "a nested tensor" if tensor.is_nested
        else f"of layout {tensor.layout}" if tensor.layout is not torch.strided
        else "on the meta device, without content" if tensor.is_meta
        else "quantized by channel" if tensor.is_quantized and tensor.qscheme() not in PER_TENSOR
        else "of half-precision complex numbers" if tensor.dtype == torch.complex32
        else None
    )  # fmt: skip
    if kind is not None:
        raise CaptureError(f"args: the tensor {name!r} is {kind}; inputs must be dense tensors with content")


def split_keywords(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``args`` as a tuple, and the keyword arguments: a dict of parameter names as last element, as torch allows.

    A dict with keys that are not parameter names is an argument like any other.
    """
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise OptionTypeError(f"kwargs must be a dict of parameter names, not {kwargs!r}")
    positional = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if kwargs is not None or not positional or type(positional[-1]) is not dict:
        return positional, dict(kwargs or {})
    last = positional[-1]
    try:
        inspect.signature(function).bind(*positional[:-1], **last)
    except (TypeError, ValueError):
        return positional, {}
    return positional[:-1], dict(last)


def signature_of(model: object) -> Callable[..., Any]:
    """The function with the model's signature: a module's forward, or the function itself."""
    if compat.scripts.is_scripted(model):
        if not compat.scripts.has_forward(model):
            raise CaptureError("the scripted module has no forward; export a module that calls one of its methods")
        return compat.scripts.scripted_signature(model)
    function: Any = model.forward if isinstance(model, nn.Module) else model
    return function  # type: ignore[no-any-return]


def numbers_of(model: object) -> Mapping[str, Any]:
    """The parameters of a scripted model that are declared as numbers: they are inputs."""
    return compat.scripts.scripted_numbers(model) if compat.scripts.is_scripted(model) else {}


def _in_order(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments in the order of the function's parameters; those in ``**kwargs`` come last."""
    try:
        order = {name: index for index, name in enumerate(inspect.signature(function).parameters)}
    except ValueError:
        return dict(kwargs)
    return dict(sorted(kwargs.items(), key=lambda item: order.get(item[0], len(order))))


def _bind(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Each argument with the name of its parameter, positional ones first."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:
        names = [f"input.{index}" for index in range(len(args))]
        return [*zip(names, args, strict=True), *kwargs.items()]
    except TypeError as error:
        raise CaptureError(f"args do not fit the model: {error}; it takes {inspect.signature(function)}") from None
    names = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}.{index}" for index in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
    return [*zip(names[: len(args)], args, strict=True), *kwargs.items()]
