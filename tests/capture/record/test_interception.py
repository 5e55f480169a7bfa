"""Both ways to see the calls of a model give the same file."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import onnxport
from onnxport.compat import dispatch
from onnxport.compat.interception import FallbackKey, PreDispatch, available
from onnxport.save import serialize
from tests.capture.record.at_sizes import Function, check


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.size(0)):
        x = x + 1
    return x


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:, 0] = 3
    y.mul_(2).view(-1)[0] = 1
    return y


def under_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return functional.linear(x, torch.ones(5, 4)).softmax(-1)


def of_its_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        given = x.detach().requires_grad_()
        return torch.autograd.grad((given**3).sum(), given)[0]


def of_made_tensors(x: torch.Tensor) -> torch.Tensor:
    made = torch.tensor([x.shape[0], 2]) + torch.arange(2) + torch.full((2,), x.shape[0])
    return x.new_zeros(x.shape[0]) + made.sum() + nn.Parameter(x)[:, 0]


def read(x: torch.Tensor) -> torch.Tensor:
    return x[: (x > -9).sum().item() // 4] if bool(x.shape[0] > 1) else x


def with_an_export_inside(x: torch.Tensor) -> torch.Tensor:
    onnxport.export(nn.Linear(4, 2), torch.ones(3, 4))
    return x * 3


def as_batch(layer: nn.Module, *shape: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: layer(x.reshape(x.shape[0], *shape))


LINEAR = nn.Linear(4, 4)
MODELS: dict[str, Callable[..., Any]] = {
    "linear": LINEAR,
    "convolution": as_batch(nn.Sequential(nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), nn.MaxPool2d(2)), 1, 2, 2),
    "layer norm": nn.Sequential(nn.LayerNorm(4), nn.GELU()),
    "attention": lambda x: functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True),
    "encoder layer": as_batch(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, 4),
    "lstm": as_batch(nn.LSTM(4, 3, batch_first=True), 1, 4),
    "embedding": lambda x: functional.embedding(x.long().abs() % 4, LINEAR.weight),
    "writes": written,
    "views": lambda x: x.t().unfold(0, 2, 1).transpose(0, 1).reshape(x.shape[0], -1)[:, ::2],
    "sizes": lambda x: x.reshape(x.shape[0] // 3 * 3, -1).repeat(1, len(x)) + x.size(0) ** 0.5,
    "made tensors": of_made_tensors,
    "splits": lambda x: torch.cat([part.flip(0) for part in x.chunk(2, dim=1)], 1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "masks": lambda x: x[x > 0],
    "content": read,
    "autocast": under_autocast,
    "script": lambda x: scripted(x) * 2,
    "autograd function": lambda x: Doubled.apply(x) + 1,
    "cond": lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,)),
    "vmap": torch.vmap(lambda row: functional.softmax(row, 0) * row.sum()),
    "jacobian": torch.func.vmap(torch.func.grad(lambda row: (row**2).sum())),
    "gradient": of_its_gradient,
    "checkpoint": lambda x: checkpoint(LINEAR, x, use_reentrant=False),
    "functional call": lambda x: torch.func.functional_call(LINEAR, {"weight": torch.eye(4)}, (x,)),
    "random numbers": lambda x: functional.dropout(x, 0.5, training=True),
    "fourier": lambda x: torch.fft.rfft(x, dim=1).abs(),
    "an export inside": with_an_export_inside,
}


def exported(model: Callable[..., Any]) -> bytes:
    torch.manual_seed(0)
    module = model if isinstance(model, nn.Module) else Function(model)
    x = torch.randn(3, 4)
    program = onnxport.export(module, x, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert program.verification.passed
    return serialize(program.model)


@pytest.mark.parametrize("name", MODELS)
def test_both_ways_give_the_same_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, kernel = [], PreDispatch._kernel

    def counted(self: PreDispatch, op: Any, key: Any) -> Any:
        asked.append(op)
        return kernel(self, op, key)

    monkeypatch.setattr(PreDispatch, "_kernel", counted)
    expected = exported(MODELS[name])
    assert not asked
    with dispatch.through_pre_dispatch():
        assert exported(MODELS[name]) == expected
    assert asked


def test_two_threads_in_the_second_way(tmp_path: pathlib.Path) -> None:
    def export(name: str) -> None:
        (tmp_path / name).mkdir()
        for _ in range(3):
            check(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), tmp_path / name)

    with dispatch.through_pre_dispatch(), ThreadPoolExecutor() as pool:
        list(pool.map(export, ("one", "other")))


def test_another_way_where_the_key_is_taken_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(available(lambda op, *args, **kwargs: op(*args, **kwargs)), PreDispatch)
    monkeypatch.setattr(FallbackKey, "NAME", "NoSuchKey")
    assert isinstance(available(lambda op, *args, **kwargs: op(*args, **kwargs)), PreDispatch)


TAKEN = """
import torch
from torch import nn

library = torch.library.Library("_", "IMPL")
library.fallback(lambda op, *args, **kwargs: op(*args, **kwargs), "TESTING_ONLY_GenericMode")

import onnxport

program = onnxport.export(nn.Linear(4, 2), torch.ones(3, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
assert program.verification.passed and len(program.report.axes[0].verified) > 1
print([node.op_type for node in program.model.graph])
"""


def test_a_process_in_which_somebody_else_has_the_key() -> None:
    result = subprocess.run([sys.executable, "-c", TAKEN], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['Gemm']"
