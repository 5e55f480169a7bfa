"""Models in onnx's text form, run in ONNX Runtime before and after a pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime

Array = npt.NDArray[Any]

_IR_VERSION = 10


def parse(text: str, *, opset: int = 20, weights: Mapping[str, Array] | None = None, infer: bool = True) -> ir.Model:
    """A model from onnx's text form, with shapes inferred and large initializers given as arrays."""
    header = f'<ir_version: {_IR_VERSION}, opset_import: ["" : {opset}, "custom" : 1]>'
    proto = onnx.parser.parse_model(f"{header} {text}")
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    if infer:
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    return ir.from_proto(proto)


def run(model: ir.Model, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs in ONNX Runtime, with its own optimisations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def random_inputs(model: ir.Model, seed: int = 0, *, free: int = 2) -> dict[str, Array]:
    """Random tensors for the inputs of a model; symbolic dimensions get the size `free`."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for value in model.graph.inputs:
        assert value.shape is not None and value.dtype is not None and value.name is not None
        shape = [dim if isinstance(dim, int) else free for dim in value.shape]
        inputs[value.name] = np.asarray(generator.standard_normal(shape) * 3).astype(value.dtype.numpy())
    return inputs


def ops(graph: ir.Graph | ir.Model) -> list[str]:
    """The operators of a graph in order."""
    return [node.op_type for node in (graph.graph if isinstance(graph, ir.Model) else graph)]


def signature(model: ir.Model) -> tuple[list[Any], list[Any]]:
    graph = model.graph
    return [(v.name, v.dtype, v.shape) for v in graph.inputs], [(v.name, v.dtype, v.shape) for v in graph.outputs]


def check(
    model: ir.Model,
    *passes: ir.passes.PassBase,
    exact: bool = True,
    inputs: Mapping[str, Array] | None = None,
) -> list[str]:
    """Runs passes on a model; asserts that results and signature stay, and returns the operators that are left."""
    inputs = random_inputs(model) if inputs is None else inputs
    before, declared = run(model, inputs), signature(model)
    originally = ops(model)
    modified = [pass_(model).modified for pass_ in passes]
    after = run(model, inputs)
    assert signature(model) == declared
    assert any(modified) or ops(model) == originally
    for left, right in zip(before, after, strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape
        if exact:
            assert left.tobytes() == right.tobytes()
        else:
            tolerance = 1e-2 if left.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
    return ops(model)
