from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxport

AXES = {"x": {0: "batch", 1: "length"}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.layer(x))
        return torch.softmax(y.transpose(1, 2) @ y, -1) + y.sum()


class Looped(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        y = x.sin()
        while y.sum() < n:
            y = (y.exp() * x).cos().abs() + 1
        return y


def exported(**options: Any) -> Any:
    return onnxport.export(Model().eval(), (torch.randn(2, 5, 6),), input_names=["x"], **options)


def dims(value: onnx.ValueInfoProto) -> list[str | int | None]:
    shape = value.type.tensor_type.shape.dim
    return [d.dim_param if d.HasField("dim_param") else d.dim_value if d.HasField("dim_value") else None for d in shape]


def shapes(graph: onnx.GraphProto) -> dict[str, list[str | int | None]]:
    return {value.name.rpartition("/")[2]: dims(value) for value in graph.value_info}


def test_the_first_named_size_is_open() -> None:
    program = exported(dynamic_axes=AXES)
    graph = program.model_proto.graph
    found = shapes(graph)
    assert found["Relu"] == [None, "length", 8] and found["Softmax"] == [None, 8, 8]
    assert dims(graph.input[0]) == ["batch", "length", 6] and dims(graph.output[0]) == ["batch", 8, 8]


def test_the_program_knows_the_names() -> None:
    program = exported(dynamic_axes=AXES)
    (value,) = [node.outputs[0] for node in program.model.graph if node.op_type == "Softmax"]
    assert [str(dim) for dim in value.shape] == ["batch", "8", "8"]


@pytest.mark.parametrize("options", [{"skip_passes": ["LeaveSizesOpen"]}, {"optimize": False}])
def test_the_names_can_be_kept(options: dict[str, Any]) -> None:
    assert shapes(exported(dynamic_axes=AXES, **options).model_proto.graph)["Softmax"] == ["batch", 8, 8]


def test_known_sizes_stay() -> None:
    assert shapes(exported().model_proto.graph)["Softmax"] == [2, 8, 8]


def test_those_of_subgraphs_are_open_too() -> None:
    x, n = torch.randn(3, 4), torch.tensor(9.0)
    program = onnxport.export(
        torch.jit.script(Looped()), (x, n), input_names=["x", "n"], dynamic_axes={"x": {0: "rows"}}
    )
    (loop,) = [node for node in program.model_proto.graph.node if node.op_type == "Loop"]
    (body,) = [attribute.g for attribute in loop.attribute if attribute.name == "body"]
    assert body.value_info and not any(dim == "rows" for shape in shapes(body).values() for dim in shape)
    given = torch.randn(5, 4)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (result,) = session.run(None, {"x": given.numpy(), "n": n.numpy()})
    np.testing.assert_allclose(result, Looped()(given, n).numpy(), rtol=1e-5)
