"""Tensors that are made without an operator, or written to by other names, in a recorded model."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.capture.record.at_sizes import Function, check


class Marked(torch.Tensor):
    """A subclass of tensors."""


class Following(torch.Tensor):
    """A subclass with a function of its own for what is called on it."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


class Weighted(nn.Module):
    def __init__(self, kind: type[torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4).as_subclass(kind))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight) * x.shape[0]


class Compiled(nn.Module):
    """Calls what torch.compile made."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.compile(nn.Linear(4, 4), backend="eager")

    def forward(self, x: torch.Tensor) -> Any:
        return torch.compile(lambda y: y.sin() * y.shape[0], backend="eager")(self.layer(x))


def new_data(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.data = x * 3
    return y + 0


def write_data(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.data.mul_(2)
    y.data[0] = 7
    return y + 0


def write_detached(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.detach().zero_()
    return y + 1


def out(x: torch.Tensor) -> torch.Tensor:
    result = torch.empty(0)
    torch.add(x, 1, out=result)
    return result


def set_memory(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(0)
    y.set_(x.clone())
    return y.add_(1)


def foreach(x: torch.Tensor) -> torch.Tensor:
    parts = [x.clone(), x + 1]
    torch._foreach_add_(parts, 1)
    return parts[1]


def strided(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.as_strided((2,), (5,)).fill_(9)
    return y


def shown(x: torch.Tensor) -> torch.Tensor:
    assert str(x) and f"{x.sum():.1f}" and repr(x * 2)
    with torch.profiler.record_function("shown"):
        return x * 2


CASES: dict[str, Callable[..., Any]] = {
    "parameter": lambda x: nn.Parameter(x) * 2,
    "buffer": lambda x: nn.Buffer(x) * 2,
    "layer made in forward": lambda x: nn.Linear(4, 4).requires_grad_(False)(x) * 0 + x,
    "subclass made in forward": lambda x: x.as_subclass(Marked) * 2,
    "subclass with its own ways": lambda x: (x.as_subclass(Following) * x.shape[0]).sum(0),
    "parameter of a subclass": Weighted(Marked),
    "parameter of a subclass with its own ways": Weighted(Following),
    "compiled": Compiled(),
    "data parallel": Function(nn.DataParallel(nn.Linear(4, 4))),
    "new data": new_data,
    "write to data": write_data,
    "write to what is detached": write_detached,
    "out": out,
    "set": set_memory,
    "foreach": foreach,
    "as_strided": strided,
    "deepcopy": lambda x: copy.deepcopy(x + 1) * 2,
    "numpy and back": lambda x: torch.from_numpy(x.numpy()) * 2,
    "array and back": lambda x: torch.as_tensor(np.asarray(x)) * 2,
    "dlpack": lambda x: torch.from_dlpack(x) * 2,
    "a tensor as a size": lambda x: x.view(torch.tensor(x.shape[0]) * 2, -1),
    "rows": lambda x: torch.stack([row * 2 for row in x.T]),
    "text": shown,
}


@pytest.mark.filterwarnings("ignore::onnxport.TraceWarning")
@pytest.mark.parametrize("case", CASES)
def test_values_are_followed(case: str, tmp_path: pathlib.Path) -> None:
    check(CASES[case], tmp_path)
