"""The integers of a quantized ONNX file, as they are when it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from onnxport.report.tracebacks import public

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor in integers, which stands for ``(integers - zero_point) * scale``, along its axis if it has one."""

    integers: Array
    scale: Array
    zero_point: Array
    axis: int | None


@public
def tensors(file: str | bytes | os.PathLike[str], inputs: Any) -> dict[str, QuantizedTensor]:
    """The integers that DequantizeLinear reads, by the names that they have in the file, weights among them.

    ``inputs`` are those of the file: a mapping by name, or in order, a tuple or a single one.
    """
    model = onnx.load_from_string(file) if isinstance(file, bytes) else onnx.load(os.fspath(file))
    nodes = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    feeds = _feeds(model, inputs)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    wanted = dict.fromkeys(name for node in nodes for name in node.input if name and name not in stored)
    computed = _computed(model, [name for name in wanted if name not in feeds], feeds)
    known = {**stored, **feeds, **computed}
    return {node.input[0]: _tensor(node, known) for node in nodes}


def _computed(model: onnx.ModelProto, names: list[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    if not names:
        return {}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _feeds(model: onnx.ModelProto, inputs: Any) -> dict[str, Array]:
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    given = inputs if isinstance(inputs, Mapping) else None
    if given is None:
        listed = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
        if len(listed) != len(names):
            raise ValueError(f"inputs: the file takes {', '.join(names)}; {len(listed)} were given")
        given = dict(zip(names, listed, strict=True))
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"inputs: {missing[0]!r} is missing; the file takes {', '.join(names)}")
    return {name: np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for name, x in given.items()}


def _tensor(node: onnx.NodeProto, known: Mapping[str, Array]) -> QuantizedTensor:
    integers, scale = known[node.input[0]], known[node.input[1]]
    zero = known[node.input[2]] if len(node.input) > 2 and node.input[2] else np.zeros_like(scale, integers.dtype)
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    return QuantizedTensor(integers, scale, zero, None if scale.ndim == 0 else axis)
