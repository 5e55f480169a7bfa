from __future__ import annotations

import pytest
import torch

import onnxport
from onnxport.graph.interpret import evaluate, run
from onnxport.graph.ir import Block, Graph, Node, ScalarType, TensorType, Value
from tests.graph.captured import captured, check

FLOAT = TensorType(torch.float32, (2, 3))
INTEGER = ScalarType(int)


def test_lists_and_tuples_are_flat() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    split = Node("aten::split", {"self": x, "split_size": 2, "dim": 1}, (), overload="Tensor", returns_list=True)
    top = Node("aten::max", {"self": x, "dim": 1, "keepdim": False}, (), overload="dim")
    assert [part.shape for part in evaluate(split, split.inputs)] == [(2, 2), (2, 1)]
    assert [result.tolist() for result in evaluate(top, top.inputs)] == [[2.0, 5.0], [2, 2]]


def test_numbers_of_a_trace() -> None:
    x, size, tensor, number = Value(FLOAT), Value(INTEGER), Value(TensorType(torch.int64, ())), Value(INTEGER)
    result = Value(TensorType(torch.float32, (3, 2)))
    nodes = [
        Node("aten::size", {"self": x, "dim": 1}, [size], overload="int"),
        Node("prim::NumToTensor", {"a": size}, [tensor]),
        Node("aten::Int", {"a": tensor}, [number], overload="Tensor"),
        Node("aten::reshape", {"self": x, "shape": [number, -1]}, [result]),
    ]
    seen = []
    outputs = run(
        Graph(Block([x], nodes, [result, tensor, number]), []),
        [torch.zeros(2, 3)],
        on_node=lambda node, results: seen.append((node.op, results[0])),
    )
    assert outputs[0].shape == (3, 2)
    assert outputs[1].dtype == torch.int64
    assert outputs[2] == 3
    assert [op for op, _ in seen] == [node.op for node in nodes]


def test_every_conversion_to_a_number() -> None:
    conversions = {"Int": "Tensor", "Float": "Tensor", "Bool": "Tensor", "ScalarImplicit": "", "IntImplicit": ""}
    for name, overload in conversions.items():
        node = Node(f"aten::{name}", {"a": torch.tensor(1)}, (), overload=overload)
        assert evaluate(node, node.inputs) == [1]
    node = Node("aten::FloatImplicit", {"a": torch.tensor(0.5)}, ())
    assert evaluate(node, node.inputs) == [0.5]


def test_neither_inputs_nor_parameters_change() -> None:
    weight = torch.ones(3)

    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.zeros(2, 3)
    check(captured(function, x), function, x)
    assert not x.any()

    def writes_parameter(x: torch.Tensor) -> torch.Tensor:
        return weight.detach().add_(x).clone()

    graph = captured(writes_parameter, x[0])
    before = [value.data.clone() for node in graph.block.nodes for value in node.values() if value.data is not None]
    run(graph, [x[0]])
    after = [value.data for node in graph.block.nodes for value in node.values() if value.data is not None]
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_states_of_another_batch_size_are_an_error(kind: str) -> None:
    """torch's kernels do not look, and write beyond the memory of the states."""
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(kind, torch.nn.RNN)(3, 4, batch_first=True)
    state = torch.zeros(1, 2, 4)
    arguments = {
        "input": torch.rand(6, 5, 3), "hx": [state, state] if kind == "lstm" else state,
        "params": list(module.parameters()), "has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False,
        "bidirectional": False, "batch_first": True,
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="batch size"):
        evaluate(Node(f"aten::{kind}", {}, (), overload="input"), arguments)


def test_a_batch_that_is_taken_apart_behind_recurrent_layers_is_refused() -> None:
    class Rows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.LSTM(3, 4, batch_first=True)
            self.second = torch.nn.LSTM(4, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(self.second(self.first(x)[0])[0])

    with pytest.raises(onnxport.DynamicAxisError):
        onnxport.export(Rows(), (torch.rand(2, 3, 3),), input_names=["x"], dynamic_axes={"x": {0: "b", 1: "t"}})
