"""Sampling of images at given places."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as nnf

from tests.ops.harness import Case, F, table

Call = Callable[..., torch.Tensor]


def sampled(mode: str, outside: str, corners: bool) -> Call:
    return lambda x, grid: nnf.grid_sample(x, grid, mode=mode, padding_mode=outside, align_corners=corners)


def placed(size: tuple[int, ...], corners: bool) -> Call:
    return lambda theta: nnf.affine_grid(theta, (theta.size(0), *size), align_corners=corners)


def placed_like(corners: bool) -> Call:
    return lambda theta, x: nnf.affine_grid(theta, x.shape, align_corners=corners)


ONE = ["GridSample"]
IMAGE, GRID = F("n", 2, "h", "w"), F("n", 3, "t", 2)
POINTS = [F("n", 2, "d", "h", "w"), F("n", 2, 3, 4, 3)]
# In float16 torch finds the places of grids in float16, to a pixel or two; ONNX Runtime finds them in float32.
WIDE = (torch.float32, torch.float64)

CASES = [
    *(
        Case(f"{mode}_{outside}_{corners}", sampled(mode, outside, corners), [IMAGE, GRID], 11, dtypes=WIDE, graph=ONE)
        for mode in ("bilinear", "nearest", "bicubic")
        for outside, corners in (("zeros", False), ("border", True), ("reflection", False), ("reflection", True))
    ),
    Case("volume", sampled("bilinear", "border", True), POINTS, since=11, dtypes=WIDE, graph=ONE),
    Case("volume_nearest", sampled("nearest", "zeros", False), POINTS, since=11, dtypes=WIDE),
    Case("volume_reflection", sampled("bilinear", "reflection", False), POINTS, since=11, dtypes=WIDE),
    Case("affine_grid", placed((1, 4, 5), False), [F("n", 2, 3)], dtypes=WIDE, graph=["AffineGrid"]),
    Case("affine_grid_aligned", placed((1, 4, 5), True), [F("n", 2, 3)], dtypes=WIDE, graph=["AffineGrid"]),
    Case("affine_grid_volume", placed((1, 3, 4, 5), False), [F("n", 3, 4)], dtypes=WIDE),
    Case("affine_grid_one", placed((1, 1, 5), True), [F("n", 2, 3)], dtypes=WIDE),
    Case("affine_grid_like", placed_like(False), [F("n", 2, 3), IMAGE], dynamic_since=9, dtypes=WIDE),
    Case("affine_grid_aligned_like", placed_like(True), [F("n", 2, 3), IMAGE], dynamic_since=9, dtypes=WIDE),
]  # fmt: skip

test_sampling = table(CASES)
