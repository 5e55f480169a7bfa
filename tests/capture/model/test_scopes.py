"""Nodes carry the path of the module they were made in, and modules are called as they always are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import onnxport


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.blocks = nn.Sequential(Inner(), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.blocks(self.inner(x)))


def names(program: onnxport.Program) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in program.model_proto.graph.node:
        found.setdefault(node.op_type, []).append(node.name)
    return found


def check(model: nn.Module) -> None:
    program = onnxport.export(model, torch.randn(2, 4), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x).detach())


def test_nodes_are_named_after_the_module_that_made_them() -> None:
    found = names(onnxport.export(Outer(Inner()), torch.randn(2, 4)))
    assert found["Gemm"] == ["inner.linear/Gemm", "blocks.0.linear/Gemm", "blocks.1.linear/Gemm"]
    assert found["Tanh"] == ["inner/Tanh", "blocks.0/Tanh", "blocks.1/Tanh"]
    assert found["Exp"] == ["Exp"]


def test_names_beside_a_scripted_submodule() -> None:
    found = names(onnxport.export(Outer(torch.jit.script(Inner())), torch.randn(2, 4)))
    assert found["Tanh"] == ["inner/Tanh", "blocks.0/Tanh", "blocks.1/Tanh"]


def test_one_module_in_two_places_has_one_name() -> None:
    inner = Inner()
    model = nn.Sequential(inner, nn.ReLU(), inner)
    found = names(onnxport.export(model, torch.randn(2, 4)))
    assert [name.split("/")[0] for name in found["Tanh"]] == ["0", "0"]


def test_hooks_of_submodules_take_part() -> None:
    model = Outer(Inner())
    model.blocks[0].register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    model.inner.register_forward_hook(lambda module, args, output: output - 1)
    check(model)
    assert len(model.inner._forward_hooks) == 1


@pytest.fixture
def global_hook() -> Iterator[None]:
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
    yield
    handle.remove()


@pytest.mark.usefixtures("global_hook")
def test_hooks_on_all_modules_take_part() -> None:
    check(Outer(Inner()))


class Adds(Inner):
    """Registers a hook on a submodule while it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        handle = self.linear.register_forward_hook(lambda module, args, output: output * 2)
        try:
            return super().forward(x)
        finally:
            handle.remove()


def test_a_hook_that_is_registered_during_the_call() -> None:
    check(Outer(Adds()))


class Raises(Inner):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("nothing to see")


@pytest.mark.parametrize("kind", [Inner, Raises])
def test_modules_are_called_as_before_afterwards(kind: type[nn.Module]) -> None:
    model = Outer(Inner())
    model.blocks[1] = kind()
    called: list[Any] = []
    model.inner._compiled_call_impl = lambda x: called.append(x) or x  # as module.compile() leaves it
    before = [dict(vars(module)) for module in model.modules()]
    if kind is Raises:
        with pytest.raises(ValueError, match="nothing to see"):
            onnxport.export(model, torch.randn(2, 4))
    else:
        onnxport.export(model, torch.randn(2, 4), verify=False)
    assert [vars(module) for module in model.modules()] == before
    called.clear()
    model.inner(torch.randn(2, 4))
    assert len(called) == 1
