"""Objects that hold tensors, as arguments and results: caches by what they have, not by their class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxport


class Layer:
    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.cumulative_length = 0
        self._window = torch.tensor(4)

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.cumulative_length += keys.shape[-2]
        first = self.keys is None or self.values is None
        self.keys = keys if first else torch.cat([self.keys, keys], -2)
        self.values = values if first else torch.cat([self.values, values], -2)
        return self.keys, self.values


class Cache:
    def __init__(self, count: int) -> None:
        self.layers = [Layer() for _ in range(count)]
        self.seen: dict[int, bool] = {}

    def update(self, keys: Tensor, values: Tensor, place: int) -> tuple[Tensor, Tensor]:
        self.seen[place] = True
        return self.layers[place].update(keys, values)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 24) for _ in range(2)])

    def forward(self, x: Tensor, past_key_values: Cache, attention_mask: Tensor | None = None) -> dict[str, Any]:
        start = past_key_values.layers[0].cumulative_length
        x = x + torch.arange(start, start + x.shape[1])[:, None]
        for place, layer in enumerate(self.layers):
            q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in layer(x).chunk(3, -1))
            k, v = past_key_values.update(k, v, place)
            mask = None if attention_mask is None else attention_mask[:, None, None, :].bool()
            x = nn.functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        return {"logits": x, "past_key_values": past_key_values}


def filled(batch: int, past: int) -> Cache:
    cache = Cache(2)
    for place in range(2):
        cache.update(torch.randn(batch, 2, past, 4), torch.randn(batch, 2, past, 4), place)
    return cache


def names(values: Any) -> list[str]:
    return [value.name for value in values]


PARTS = ["0.key", "0.value", "1.key", "1.value"]
AXES: dict[str, dict[int, str]] = {
    "x": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "past + sequence"},
    **{f"past_key_values.{part}": {0: "batch", 2: "past"} for part in PARTS},
}


def test_a_cache_is_inputs_and_outputs() -> None:
    model = Decoder().eval()
    arguments = (torch.randn(2, 3, 8), filled(2, 5), torch.ones(2, 8, dtype=torch.int64))
    program = onnxport.export(model, arguments, dynamic_axes=AXES)
    graph = program.model_proto.graph
    assert names(graph.input) == ["x", *(f"past_key_values.{part}" for part in PARTS), "attention_mask"]
    assert names(graph.output) == ["logits", *(f"present.{part}" for part in PARTS)]
    assert [d.dim_param or d.dim_value for d in graph.input[-1].type.tensor_type.shape.dim] == [
        "batch",
        "past + sequence",
    ]
    assert arguments[1].layers[0].cumulative_length == 5, "the example's cache is as it was"
    for batch, past, length in ((1, 2, 1), (3, 9, 4)):
        x, mask = torch.randn(batch, length, 8), torch.randint(0, 2, (batch, past + length))
        mask[:, 0] = 1
        cache = filled(batch, past)
        result = program(x, cache, mask)
        assert cache.layers[0].cumulative_length == past
        expected = model(x, cache, mask)
        torch.testing.assert_close(result["logits"], expected["logits"])
        for got, wanted in zip(result["past_key_values"].layers, expected["past_key_values"].layers, strict=True):
            torch.testing.assert_close((got.keys, got.values), (wanted.keys, wanted.values))


def test_an_empty_cache_is_filled() -> None:
    cache = Cache(2)
    program = onnxport.export(Decoder().eval(), (torch.randn(2, 3, 8), cache), dynamic_axes={"x": AXES["x"]})
    graph = program.model_proto.graph
    assert names(graph.input) == ["x"]
    assert names(graph.output) == ["logits", *(f"present.{part}" for part in PARTS)]
    assert cache.layers[0].keys is None and cache.seen == {}


def test_any_object_with_tensors() -> None:
    def model(data: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(sum=data.x + data.edges["w"], kind=data.kind)

    data = SimpleNamespace(x=torch.randn(3), edges={"w": torch.randn(3)}, kind="graph")
    program = onnxport.export(model, (data,), dynamic_axes={"data.x": {0: "n"}, "data.edges.w": {0: "n"}})
    assert names(program.model_proto.graph.input) == ["data.x", "data.edges.w"]
    other = SimpleNamespace(x=torch.randn(5), edges={"w": torch.randn(5)}, kind="graph")
    result = program(other)
    assert result.kind == "graph"
    torch.testing.assert_close(result.sum, model(other).sum)


def sized(mask: Tensor, past: Tensor, x: Tensor) -> Tensor:
    return torch.cat([past, x], 0) * mask


@pytest.mark.parametrize("label", ["past + new", "new+past"])
def test_an_axis_is_the_sum_of_others(label: str) -> None:
    example = (torch.randn(7), torch.randn(4), torch.randn(3))
    program = onnxport.export(sized, example, dynamic_axes={"mask": {0: label}, "past": {0: "past"}, "x": {0: "new"}})
    others = (torch.randn(7), torch.randn(2), torch.randn(5))
    torch.testing.assert_close(program(*others), sized(*others))
    assert {tuple(case.sizes) for case in program.verification.cases} == {("past", "new")}


def test_an_axis_is_another_and_a_number() -> None:
    axes = {"mask": {0: "past + 1"}, "past": {0: "past"}}
    program = onnxport.export(sized, (torch.randn(5), torch.randn(4), torch.randn(1)), dynamic_axes=axes)
    (mask, *_) = program.model_proto.graph.input
    assert onnx.helper.printable_value_info(mask).count("past + 1") == 1
    others = (torch.randn(9), torch.randn(8), torch.randn(1))
    torch.testing.assert_close(program(*others), sized(*others))


def test_a_sum_that_the_example_contradicts() -> None:
    axes = {"mask": {0: "past + new"}, "past": {0: "past"}, "x": {0: "new"}}
    with pytest.raises(onnxport.OptionError, match="'past \\+ new' names an axis of size 8"):
        onnxport.export(sized, (torch.randn(8), torch.randn(4), torch.randn(3)), dynamic_axes=axes)
