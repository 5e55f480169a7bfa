"""Transforms of torch.func and gradients inside of a recorded model, at other sizes than the example's."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.torch_version import TorchVersion

import onnxport
from tests.capture.record.at_sizes import check

WEIGHT = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def squared_sines(v: torch.Tensor) -> torch.Tensor:
    return (v.sin() ** 2).sum()


def normed(v: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.linear(v, WEIGHT), (4,)).pow(2).sum()


def gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (found,) = torch.autograd.grad((F.layer_norm(F.linear(x, WEIGHT), (4,)).exp() * torch.arange(4)).sum(), x)
    return found


def second_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.clone()
        x.requires_grad_(True)
        (first,) = torch.autograd.grad((x.sin() ** 3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    return second + x.shape[0]


def backward(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (x.softmax(-1).reshape(-1) * x.mean()).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return x.grad * 2


def per_sample(x: torch.Tensor) -> torch.Tensor:
    loss = lambda p, v: (v @ p).softmax(-1).pow(2).sum()  # noqa: E731
    found: torch.Tensor = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(WEIGHT, x)
    return found


CASES: dict[str, Callable[..., torch.Tensor]] = {
    "vmap": torch.vmap(lambda v: F.linear(v, WEIGHT).softmax(-1)),
    "vmap in vmap": lambda x: torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(x))(x),
    "views in vmap": lambda x: torch.vmap(lambda v: (v @ v.t()).reshape(v.size(0) * v.size(0)))(x.unsqueeze(2)),
    "other axes": torch.vmap(lambda v: v.sum() * torch.ones(v.shape), in_dims=1, out_dims=1),
    "grad": torch.func.grad(squared_sines),
    "grad with numbers": torch.func.grad(lambda v: (v.sin() * 3 * v.shape[0]).sum()),
    "grad of layers": torch.func.grad(normed),
    "vmap of grad": torch.vmap(torch.func.grad(squared_sines)),
    "jacrev": torch.func.jacrev(lambda v: v.sin().sum(0)),
    "jacfwd": torch.func.jacfwd(lambda v: v.sin().sum(0)),
    "hessian": lambda x: torch.func.hessian(lambda v: (v**3).sum())(x.sum(0)),
    "vjp": lambda x: torch.func.vjp(lambda v: v.sin() * v.shape[0], x)[1](torch.ones_like(x))[0],
    "jvp": lambda x: torch.func.jvp(lambda v: v.sin(), (x,), (torch.ones_like(x),))[1],
    "gradients of each sample": per_sample,
    "autograd.grad": gradient,
    "autograd.grad twice": second_gradient,
    "backward": backward,
    "what follows": lambda x: F.linear(torch.vmap(lambda v: v * 2)(x), WEIGHT).view(x.shape[0] * 2, 2),
}


# Before torch 2.13, C++ computes products of matrices inside of torch.vmap from sizes without expressions.
PRODUCTS = {"vmap", "views in vmap", "gradients of each sample"}
REFUSED = PRODUCTS if torch.__version__ < TorchVersion("2.13") else set()


@pytest.mark.parametrize("case", CASES)
def test_transforms_follow_the_sizes(case: str, tmp_path: pathlib.Path) -> None:
    if case in REFUSED:
        with pytest.raises(onnxport.DynamicAxisError):
            check(CASES[case], tmp_path, tolerance=1e-4)
        return
    check(CASES[case], tmp_path, tolerance=1e-4)
