"""Runs one operator on meta tensors."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch

from onnxport.graph.interpret import operator
from onnxport.graph.ir import QUANTIZED, Node, schema_of
from onnxport.graph.shapes.convolution import upsample
from onnxport.graph.shapes.requirements import NotKnown, Requirements
from onnxport.graph.shapes.result_shapes import function_of


def run_shortened(node: Node, arguments: dict[str, Any], long: int) -> list[Any]:
    """Run a recurrent layer with short sequences in place of ``long`` ones, which it would compute step by step."""
    tensors = [tensor for argument in arguments.values() for tensor in _tensors(argument)]
    lengths = {length for tensor in tensors for length in tensor.shape}
    short = iter(length for length in itertools.count(2) if length not in lengths)
    stand_ins = {length: next(short) for length in sorted(lengths) if length >= long}
    back = {stand_in: length for length, stand_in in stand_ins.items()}
    shortened = {name: _resized(argument, stand_ins) for name, argument in arguments.items()}
    return [_resized(result, back) for result in run(node, shortened)]


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for element in argument:
            yield from _tensors(element)


def _resized(argument: Any, lengths: dict[int, int]) -> Any:
    if isinstance(argument, torch.Tensor):
        return reshaped(argument, [lengths.get(length, length) for length in argument.shape])
    return [_resized(element, lengths) for element in argument] if isinstance(argument, (list, tuple)) else argument


def reshaped(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A meta tensor with the dtype of another tensor."""
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def of_dtype(content: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The content in a dtype; a quantized one with any scale, which decides no size."""
    if dtype in QUANTIZED:
        return torch.quantize_per_tensor(content.float(), 1.0, 0, dtype)
    return content.to(dtype)


def run(node: Node, arguments: dict[str, Any], *, device: str = "meta") -> list[Any]:
    """The results of the operator on these arguments. Factory functions make their tensors on ``device``."""
    if function_of(node.op, node.overload) is upsample and device == "meta":
        with contextlib.suppress(NotKnown):
            return [_upsampled(arguments)]
    function: Callable[..., Any] = operator(node.op, node.overload)
    schema = schema_of(node.op, node.overload)
    has_device = schema is not None and any(p.name == "device" for p in schema.parameters)
    if has_device and not any(value.is_tensor for value in node.values()):
        arguments = {**arguments, "device": torch.device(device)}
    result = function(**arguments)
    is_float = isinstance(result, torch.Tensor) and not result.is_quantized
    if is_float and arguments.get("dtype") in QUANTIZED:  # kernels for meta tensors give floats
        result = torch.empty(result.shape, dtype=arguments["dtype"], device="meta")
    if schema is not None and len(schema.returns) == 1:
        return [result]
    return list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]


def _upsampled(arguments: dict[str, Any]) -> torch.Tensor:
    """A resized image: torch runs the decomposition of its operator on meta tensors, which takes 0.2 s."""

    def refuse(point: int, reason: str) -> None:
        raise RuntimeError(reason)

    source = arguments["input"] if "input" in arguments else arguments["self"]
    shapes = {name: tuple(a.shape) if isinstance(a, torch.Tensor) else a for name, a in arguments.items()}
    return reshaped(source, cast("list[int]", list(upsample(Requirements(1, refuse), **shapes))))
