"""What is in the file: functions of modules, initializers, and what the options about them change."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport
from tests.classic.running import exported, graph_of, operators, run, same

X = torch.randn(2, 4)


class Block(nn.Module):
    def __init__(self, width: int, rate: float, mode: str, parts: tuple[int, ...] = (1,)) -> None:
        super().__init__()
        self.width, self.rate, self.mode, self.parts = width, rate, mode, parts
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.rate if self.mode == "times" else self.fc(x) + self.rate


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Block(3, 0.5, "times")
        self.b = Block(3, 0.25, "plus")
        self.c = Block(4, 0.5, "times")
        self.d = Block(4, 0.75, "plus")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.d(self.c(self.b(self.a(x))))


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.mark.parametrize("opset", [15, 20])
def test_what_a_module_is_made_with_is_on_the_calls_of_its_function(opset: int) -> None:
    model = Blocks().eval()
    file = exported(model, X, export_modules_as_functions={Block}, opset_version=opset)
    nodes = graph_of(file).node
    assert [node.op_type for node in nodes] == ["Block", "Block.1", "Block", "Block.2"]
    assert attributes(nodes[1]) == {"width": 3, "rate": 0.25, "mode": b"plus"}
    assert [attributes(node)["width"] for node in nodes] == [3, 3, 4, 4]
    for function in onnx.load_from_string(file).functions:
        assert list(function.attribute) == ["width", "rate", "mode"]
    x = torch.randn(2, 4)
    same(model(x).detach(), run(file, x))


# Initializers


class Equal(nn.Module):
    """Two layers whose weights are equal, and not the same."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))
        self.second = nn.Linear(4, 4)
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.first.load_state_dict(self.second.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.norm(torch.sin(self.first(x)) * self.table)))


def names(file: bytes) -> list[str]:
    return [entry.name for entry in graph_of(file).initializer]


def test_equal_initializers_are_stored_once() -> None:
    file = exported(Equal().eval(), X)
    assert [name for name in names(file) if name.startswith(("first", "second"))] == ["second.weight", "second.bias"]


def test_other_weights_part_them_again() -> None:
    model = Equal().eval()
    program = onnxport.export(model, X)
    other = Equal().eval()
    nn.init.normal_(other.first.weight)
    nn.init.normal_(other.second.bias)
    with torch.no_grad():
        other.norm.load_state_dict(model.norm.state_dict())
    program.apply_weights({k: v for k, v in other.state_dict().items() if k.startswith(("first", "second"))})
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), other(x).detach())


def test_a_model_that_is_trained_on_keeps_them_apart() -> None:
    found = names(exported(Equal(), X, training=onnxport.TrainingMode.TRAINING))
    assert {"first.weight", "second.weight", "first.bias", "second.bias"} <= set(found)


def test_initializers_are_in_the_order_of_the_state_dict() -> None:
    model = Equal().train()
    found = names(exported(model, X, training=onnxport.TrainingMode.TRAINING))
    expected = [name for name in model.state_dict() if name in found]
    assert [name for name in found if name in expected] == expected and len(expected) > 6


# Options


def test_initializers_as_inputs() -> None:
    file = exported(Equal().eval(), X, keep_initializers_as_inputs=True)
    graph = graph_of(file)
    inputs = [entry.name for entry in graph.input]
    assert inputs[0] == "x" and {entry.name for entry in graph.initializer} == set(inputs[1:])
    assert {"first.weight", "second.weight"} <= set(inputs), "each can be given another content"
    without = graph_of(exported(Equal().eval(), X))
    assert [entry.name for entry in without.input] == ["x"]


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight.exp() + 1)


def test_constants_are_folded_unless_told_otherwise() -> None:
    model = Folded()
    assert operators(exported(model, X)) == ["MatMul"]
    plain = exported(model, X, do_constant_folding=False)
    assert operators(plain) == ["Exp", "Add", "MatMul"] and "weight" in names(plain)
    same(model(X).detach(), run(plain, X))


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept, self.passed = nn.Dropout(0.5), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.passed(self.kept(x) + 1)


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (onnxport.TrainingMode.EVAL, ["Add"]),
        (onnxport.TrainingMode.PRESERVE, ["Dropout", "Add"]),
        (onnxport.TrainingMode.TRAINING, ["Dropout", "Add", "Dropout"]),
    ],
)
def test_each_submodule_in_its_mode(training: onnxport.TrainingMode, expected: list[str]) -> None:
    model = Parts().train()
    model.passed.eval()
    assert operators(exported(model, X, training=training)) == expected
    assert model.training and model.kept.training and not model.passed.training


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Branch(nn.Module):
    """Calls one of its modules twice, the second time in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        return self.inner(x) * 2 if bool(x.sum() > 1) else x


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.script, self.last = torch.jit.script(nn.Sequential(Branch(), nn.ReLU())), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.script(self.last(x)))


def functions_of(file: bytes) -> dict[str, list[str]]:
    model = onnx.load_from_string(file)
    return {f"{made.domain}::{made.name}": [node.op_type for node in made.node] for made in model.functions}


@pytest.mark.parametrize("script", [False, True])
def test_modules_with_branches_and_those_of_a_script_are_functions(script: bool) -> None:
    model = nn.Sequential(Branch(), nn.ReLU())
    file = exported(torch.jit.script(model) if script else model, X, export_modules_as_functions=True)
    assert [name.rpartition("::")[2] for name in operators(file)] == ["Branch", "ReLU"]
    found = functions_of(file)
    assert found["torch.nn.modules.linear::Linear"] == ["Gemm"]
    assert found[f"{__name__}::Layers"] == ["Linear", "Relu"]
    assert "Layers" in found[f"{__name__}::Branch"] and found[f"{__name__}::Branch"][-1] == "If"
    for x in (X, 5 * X.abs(), torch.zeros(2, 4)):
        same(model(x), run(file, x))


def test_a_script_is_in_the_function_of_the_module_that_calls_it() -> None:
    model = nn.Sequential(Around(), Around()).eval()
    file = exported(model, X, export_modules_as_functions={Around})
    assert [name.rpartition("::")[2] for name in operators(file)] == ["Around", "Around"]
    (body,) = functions_of(file).values()
    assert body.count("Gemm") == 3 and body.count("If") == 1
    same(model(X), run(file, X))
