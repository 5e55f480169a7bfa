"""The names of sizes that follow from axes, alone and in exported files."""

from __future__ import annotations

import onnx
import torch
from torch import nn

import onnxport
from onnxport.graph.dims import Dim, larger
from onnxport.graph.labels import Labels

H, W = Dim((8, 17)), Dim((10, 25))


def text(size: object) -> str | None:
    labels = Labels({H: "h", W: "w"})
    assert isinstance(size, Dim)
    return labels.text(size) if labels.learn(size, size) else None


def test_expressions() -> None:
    assert text(H * 2) == "2*h"
    assert text(H + 1) == "h + 1"
    assert text(H * W) == "h*w"
    assert text(H + W - 3) == "h + w - 3"
    assert text((H + 2 - 3) // 2 + 1) == "(h + 1)//2"
    assert text(((H + 1) // 2 + 1) // 2) == "(h + 3)//4"
    assert text(H // 2 * 2) == "2*(h//2)"
    assert text((H * W * 6) // (W * 3)) == "2*h"
    assert text(H % 4) == "h % 4"
    assert text(larger(H, W + 1)) == "max(h, w + 1)"
    assert text(Dim((3, 4))) is None


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_every_value_of_a_file_has_named_dimensions() -> None:
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.Flatten(2)]
    model = nn.Sequential(*layers).eval()
    program = onnxport.export(
        model, torch.randn(1, 3, 32, 48), input_names=["x"],
        dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}},
    )  # fmt: skip
    graph = program.model_proto.graph
    found = {value.name.rpartition("/")[2]: dims(value) for value in (*graph.value_info, *graph.output)}
    assert found["Conv"] == ["batch", 8, "(height + 1)//2", "(width + 1)//2"]
    assert found["MaxPool"] == ["batch", 8, "(height + 1)//4", "(width + 1)//4"]
    assert found["Resize"] == ["batch", 8, "2*((height + 1)//4)", "2*((width + 1)//4)"]
    assert found["output"] == ["batch", 8, "4*((height + 1)//4)*((width + 1)//4)"]


def test_the_names_are_true_at_other_sizes() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, t, c = x.shape
        padded = torch.cat([x.new_zeros(b, 1, c), x, x], 1)
        return x.reshape(b * t, c), padded, padded[:, 1:-1], x[:, ::3], x.mean(1).repeat(int(t), 1)

    program = onnxport.export(
        model, torch.randn(2, 6, 8), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "seq"}}
    )
    outputs = [dims(value) for value in program.model_proto.graph.output]
    assert outputs[0] == ["batch*seq", 8]
    assert outputs[1] == ["batch", "2*seq + 1", 8]
    for batch, seq in ((1, 1), (3, 10), (4, 5)):
        results = program(torch.randn(batch, seq, 8))
        for names, result in zip(outputs, results, strict=True):
            sizes = [eval(str(name), {"batch": batch, "seq": seq}) for name in names]
            assert sizes == list(result.shape)
