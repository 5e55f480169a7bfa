"""The parts of floating-point numbers."""

from __future__ import annotations

import math

import torch

from tests.ops.harness import ALL, FLOATS, Case, F, X, table

LOW = (*FLOATS, torch.bfloat16)


def edges(shape: tuple[int, ...]) -> torch.Tensor:
    """Powers of two and their neighbours, zeros, infinities, nan, and numbers of all sizes."""
    chosen = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, -2.0, 8.0, 1.5, 0.99993896484375, 65504.0]
    return torch.tensor((chosen * math.prod(shape))[: math.prod(shape)]).reshape(shape)


def extremes(shape: tuple[int, ...]) -> torch.Tensor:
    """The smallest and the largest numbers of single precision."""
    ends = torch.tensor([1e-45, -1e-45, 1.1754944e-38, -1.1754942e-38, 3.4028235e38, -3.4028235e38, 1e-40])
    return ends.repeat(math.prod(shape) // 7 + 1)[: math.prod(shape)].reshape(shape)


def against(shape: tuple[int, ...]) -> torch.Tensor:
    """Each of the edges with another at its side."""
    return edges((math.prod(shape) + 1,))[1:].reshape(shape)


EDGES = [X("n", 14, make=edges)]
CASES = [
    Case("frexp", torch.frexp, [F("n", 5, low=-99, high=99)], since=9, dtypes=LOW),
    Case("frexp_edges", torch.frexp, EDGES, since=9, dtypes=LOW),
    Case("frexp_extremes", torch.frexp, [X(7, make=extremes)], since=9, dtypes=()),
    Case("nextafter", torch.nextafter, [F("n", 5), F(5)], since=9, dtypes=LOW),
    Case("nextafter_edges", torch.nextafter, [*EDGES, X("n", 14, make=against)], since=9, dtypes=LOW, tolerance=0),
    Case("nextafter_up", lambda x: x.nextafter(torch.full_like(x, math.inf)), EDGES, since=9, dtypes=LOW, tolerance=0),
    Case("nextafter_extremes", lambda x: x.nextafter(-x), [X(7, make=extremes)], since=9, dtypes=(), tolerance=0),
    Case("hash", torch.hash_tensor, [F(3, 5)], since=18, dtypes=(*ALL, torch.bfloat16)),
    Case("hash_dim", lambda x: torch.hash_tensor(x, 1, keepdim=True), [F("n", 5)], since=18, dtypes=ALL),
    Case("hash_rows", lambda x: torch.hash_tensor(x, [0, 2]), [F(4, "n", 3)], since=18, dtypes=ALL),
    Case("hash_edges", lambda x: torch.hash_tensor(x, 0), [X(1, 4, make=edges)], since=18, dtypes=LOW),
    Case("hash_number", torch.hash_tensor, [F()], since=18),
]

test_floats = table(CASES)
