"""Models and checks that the tests of saving share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch
from onnx_ir.tensor_adapters import TorchTensor


def initializer(name: str, tensor: ir.TensorProtocol | torch.Tensor | np.ndarray) -> ir.Value:
    if isinstance(tensor, torch.Tensor):
        tensor = TorchTensor(tensor)
    elif isinstance(tensor, np.ndarray):
        tensor = ir.Tensor(tensor)
    return ir.Value(
        name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
    )


def linear_model(weight: torch.Tensor, bias: torch.Tensor) -> ir.Model:
    """y = x @ weight + bias"""
    rows, columns = weight.shape
    x = ir.Value(name="x", shape=ir.Shape(["batch", rows]), type=ir.TensorType(ir.DataType.FLOAT))
    weights = [initializer("layer.weight", weight), initializer("layer.bias", bias)]
    product = ir.node("MatMul", [x, weights[0]])
    total = ir.node("Add", [product.outputs[0], weights[1]])
    y = total.outputs[0]
    product.outputs[0].name, y.name = "product", "y"
    y.type, y.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["batch", columns])
    return wrap([x], [y], [product, total], weights)


def identity_model(tensors: Mapping[str, ir.TensorProtocol | torch.Tensor | np.ndarray]) -> ir.Model:
    """Every tensor goes through Identity to an output of the same name with `_out`."""
    weights = [initializer(name, tensor) for name, tensor in tensors.items()]
    nodes = [ir.node("Identity", [weight]) for weight in weights]
    for weight, node in zip(weights, nodes, strict=True):
        output = node.outputs[0]
        output.name, output.type, output.shape = f"{weight.name}_out", weight.type, weight.shape
    return wrap([], [node.outputs[0] for node in nodes], nodes, weights)


def wrap(inputs: list[ir.Value], outputs: list[ir.Value], nodes: list[ir.Node], weights: list[ir.Value]) -> ir.Model:
    graph = ir.Graph(inputs, outputs, nodes=nodes, initializers=weights, opset_imports={"": 21}, name="main_graph")
    return ir.Model(graph, ir_version=10, producer_name="onnxport")


def run(source: str | bytes, x: np.ndarray) -> np.ndarray:
    (y,) = ort.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return np.asarray(y)


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a Python process that finds what this one finds."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
