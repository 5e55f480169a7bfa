"""The model comes back exactly as it was, also after an error."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import onnxport
from onnxport.capture.model.state import ModelState, WriteGuard


class Restless(nn.Module):
    """Changes everything a forward pass can change."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(()))
        self.cache: Any = None
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, fail: bool = False) -> torch.Tensor:
        self.calls += 1
        self.cache = x * 2
        self.seen.append(1)
        self.extra = torch.ones(2)
        self.fc.weight.data.mul_(1.5)
        y = self.norm(self.fc(x)) + torch.rand(3)
        if fail:
            raise RuntimeError("as asked")
        return y


def snapshot(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("training", [onnxport.TrainingMode.EVAL, onnxport.TrainingMode.TRAINING])
@pytest.mark.parametrize("fail", [False, True])
def test_nothing_of_the_model_changes(training: onnxport.TrainingMode, fail: bool) -> None:
    model = Restless()
    model.norm.eval()
    hook_ran = []
    handle = model.fc.register_forward_hook(lambda *_: hook_ran.append(1))
    before, modes = snapshot(model), [module.training for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    if fail:
        with pytest.raises(RuntimeError, match="as asked"):
            onnxport.export(model, (torch.randn(4, 3), True), training=training)
    else:
        axes = {"x": {0: "n"}}
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes=axes, training=training)
    # torch.randn above drew from the generator; the export itself must not have.
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert [module.training for module in model.modules()] == modes
    assert model.cache is None and model.seen == [] and not hasattr(model, "extra")
    assert random.getstate() == states[1] and np.random.get_state()[1].tolist() == states[2]  # type: ignore[index, union-attr]
    assert hook_ran, "the user's hooks run"
    handle.remove()
    assert not model.fc._forward_hooks


def test_random_state_is_given_back() -> None:
    x = torch.randn(4, 3)
    before = torch.get_rng_state()
    onnxport.export(Restless(), x, training=True)
    model = Restless()
    before = torch.get_rng_state()
    onnxport.export(model, x)
    assert torch.equal(torch.get_rng_state(), before)


def test_inputs_that_the_model_writes_to_are_not_changed() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 1
            x += 1
            return x + y

    x = torch.zeros(3)
    program = onnxport.export(Writes(), x)
    assert torch.equal(x, torch.zeros(3))
    assert torch.equal(program(torch.ones(3)), torch.full((3,), 3.0))


def test_no_grad_is_not_needed_and_gradients_still_flow_afterwards() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    onnxport.export(model, x)
    model(x).sum().backward()
    assert x.grad is not None and model.weight.grad is not None


class Counts(nn.Module):
    """Keeps tensors that are neither parameters nor buffers, and writes to them."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(2)
        self.by_name = {"calls": torch.zeros(2)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += 1
        self.by_name["calls"].add_(2)
        return x + self.total + self.by_name["calls"]


def test_tensors_among_the_attributes_come_back_and_the_file_starts_from_them() -> None:
    model = Counts()
    program = onnxport.export(model, torch.zeros(3, 2), dynamic_axes={"x": {0: "n"}})
    assert model.total.tolist() == [0, 0] and model.by_name["calls"].tolist() == [0, 0]
    assert program(torch.zeros(1, 2)).tolist() == model(torch.zeros(1, 2)).tolist() == [[3, 3]]
    assert program.verification.max_abs_error == 0


def test_a_lazy_parameter_is_named() -> None:
    with pytest.raises(onnxport.CaptureError, match="'weight' is not initialized"):
        onnxport.export(nn.LazyLinear(2), torch.ones(1, 2))


class InVmap(nn.Module):
    """Writes in place inside vmap, once to a tensor of its own and once to what a buffer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def row(y: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
            count.add_(1)
            return (y * 2).add_(1) + count

        return torch.vmap(row)(x, self.counts)


def test_writes_inside_vmap() -> None:
    model = InVmap()
    x = torch.randn(4, 3)
    program = onnxport.export(model, x)
    assert model.counts.tolist() == [0.0] * 4
    torch.testing.assert_close(program(x), model(x))


def test_to_look_at_a_weight_copies_nothing() -> None:
    """A model of several gigabytes must not need twice its memory because somebody asks for a shape."""
    layer = nn.Linear(3, 3)
    state = ModelState([layer])
    with torch.no_grad(), WriteGuard(state):
        assert layer.weight.shape == (3, 3)
        _ = layer.weight + layer.weight[0], layer.weight == 0, layer.weight.data
        assert not state._tensors
        layer.weight[0] = 1
        layer.bias += 1
    assert len(state._tensors) == 2


class SparseBuffer(nn.Module):
    """As Whisper's, which lists the heads that align words with sound."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("heads", torch.eye(3, dtype=torch.bool).to_sparse(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


def test_a_sparse_buffer() -> None:
    model = SparseBuffer()
    program = onnxport.export(model, (torch.randn(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    x = torch.randn(5, 3)
    torch.testing.assert_close(program(x), model(x))
    assert torch.equal(model.heads.to_dense(), torch.eye(3, dtype=torch.bool))
