"""Resizing of images."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nnf

import onnxport
from tests.ops.harness import FLOATS, Case, F, X, table

Call = Callable[..., torch.Tensor]
MORE = (*FLOATS, torch.bfloat16)
# torch has no antialiasing in float16 and bfloat16.
WIDE = (torch.float32, torch.float64)


def to(size: object, mode: str, **options: object) -> Call:
    return lambda x: nnf.interpolate(x, size=size, mode=mode, **options)


def by(factor: object, mode: str, **options: object) -> Call:
    return lambda x: nnf.interpolate(x, scale_factor=factor, mode=mode, **options)


def like(mode: str, **options: object) -> Call:
    return lambda x, y: nnf.interpolate(x, size=y.shape[2:], mode=mode, **options)


def channels_last(resize: Call) -> Call:
    """Of images whose channels come last: ONNX Runtime moves the Transposes through Resize."""
    return lambda x: resize(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


LINE, IMAGE, VOLUME = F("n", 2, "w"), F("n", 2, "h", "w"), F("n", 2, "d", "h", "w")
FIXED = F("n", 2, 5, 7)
PAIR = [F("n", 2, "d", "t"), F(1, 1, "h", "w")]

# Steep enough that rounding along one axis first, as torch may do, comes to the same.
BYTES = X(1, 2, 4, 4, make=lambda s: torch.arange(4).mul(40).expand(s).to(torch.uint8), dtype=torch.uint8)


def aligned_smooth(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._upsample_bilinear2d_aa(x, [3, 6], True)


CASES = [
    Case("nearest1", by(2, "nearest"), [LINE], dtypes=MORE, graph=["Resize"]),
    Case("nearest2", by(2, "nearest"), [IMAGE], dtypes=(*MORE, torch.uint8), graph=["Resize"]),
    Case("nearest3", by((1, 2, 3), "nearest"), [VOLUME], graph=["Resize"]),
    Case("nearest_fraction", by(1.5, "nearest"), [IMAGE], graph=["Resize"]),
    Case("nearest_down", by(0.5, "nearest"), [IMAGE], dynamic_since=9),
    Case("nearest_size", to((8, 9), "nearest"), [FIXED], dtypes=MORE, graph=["Resize"]),
    Case("nearest_size_rounded", to(82, "nearest"), [F("n", 2, 4)], graph=["Gather"]),
    Case("nearest_size_down", to((2, 5), "nearest"), [FIXED]),
    Case("nearest_like", like("nearest"), PAIR, dynamic_since=9),
    Case("nearest_recomputed", by(1.5, "nearest", recompute_scale_factor=True), [FIXED]),
    Case("nearest_same", to((5, 7), "nearest"), [FIXED]),
    Case("nearest_odd_factor", by((2.3, 0.3), "nearest"), [IMAGE], dynamic_since=9),
    Case("nearest_like_even", like("nearest"), [F("n", 2, 14), F(1, 1, "h")], dynamic_since=9),
    Case("exact_like", like("nearest-exact"), PAIR, dynamic_since=9),
    Case("nearest_doubled", lambda x: nnf.interpolate(x, (x.size(2) * 2, x.size(3) * 2)), [IMAGE], dynamic_since=9),
    Case("exact1", by(3, "nearest-exact"), [LINE], graph=["Resize"]),
    Case("exact2", by((2, 1.5), "nearest-exact"), [IMAGE], dynamic_since=9, dtypes=MORE),
    Case("exact3", by(0.6, "nearest-exact"), [VOLUME], dynamic_since=9),
    Case("exact_size", to((8, 3), "nearest-exact"), [FIXED], graph=["Resize"]),
    Case("linear", by(2, "linear"), [LINE], dynamic_since=11, dtypes=MORE, graph=["Resize"]),
    Case("linear_size", to(4, "linear"), [F("n", 2, 7)], graph=["Resize"]),
    Case("linear_aligned", to(11, "linear", align_corners=True), [F("n", 2, 7)]),
    Case("bilinear", by(2, "bilinear"), [IMAGE], dynamic_since=11, dtypes=MORE, graph=["Resize"]),
    Case("bilinear_fraction", by((2.3, 0.7), "bilinear"), [IMAGE], dynamic_since=11),
    Case("bilinear_rounded_up", by(0.9, "bilinear", antialias=True), [F("n", 2, 20, 10)], dtypes=(), graph=["Resize"]),
    Case("bilinear_bytes", by(2, "bilinear"), [BYTES], dtypes=()),
    Case("bicubic_bytes", by(2, "bicubic"), [BYTES], dtypes=()),
    Case("aligned_bytes", aligned_smooth, [BYTES], dtypes=()),
    Case("bilinear_size", to((8, 5), "bilinear"), [FIXED], dtypes=MORE, graph=["Resize"]),
    Case("bilinear_size_last", channels_last(to((3, 5), "bilinear")), [F("n", 6, 8, 3)]),
    Case("bilinear_last", channels_last(by(2, "bilinear")), [F("n", 6, 8, 3)]),
    Case("bilinear_free_last", channels_last(by(2, "bilinear")), [F("n", "h", "w", 3)], dynamic_since=11),
    Case("bilinear_one", to((1, 1), "bilinear"), [FIXED]),
    Case("bilinear_aligned", by(2.5, "bilinear", align_corners=True), [IMAGE], dynamic_since=11, graph=["Resize"]),
    Case("bilinear_aligned_one", to((1, 1), "bilinear", align_corners=True), [FIXED]),
    Case("bilinear_like", like("bilinear"), PAIR, dynamic_since=11),
    Case("bilinear_aligned_like", like("bilinear", align_corners=True), PAIR, dynamic_since=11),
    Case("bilinear_recomputed", by(1.3, "bilinear", recompute_scale_factor=True), [FIXED]),
    Case("bicubic", by(2, "bicubic"), [IMAGE], dynamic_since=11, dtypes=MORE, graph=["Resize"]),
    Case("bicubic_size", to((8, 5), "bicubic"), [FIXED], graph=["Resize"]),
    Case("bicubic_aligned", to((8, 5), "bicubic", align_corners=True), [FIXED]),
    Case("bicubic_like", like("bicubic"), PAIR, dynamic_since=11),
    Case("trilinear", by(2, "trilinear"), [VOLUME], dynamic_since=11, dtypes=MORE, graph=["Resize"]),
    Case("trilinear_aligned", to((3, 4, 9), "trilinear", align_corners=True), [F("n", 2, 4, 5, 6)]),
    Case("smooth_bilinear", to((3, 4), "bilinear", antialias=True), [FIXED], dtypes=WIDE, graph=["Resize"]),
    Case("smooth_bilinear_up", to((8, 9), "bilinear", antialias=True), [FIXED], dtypes=WIDE),
    Case("smooth_bilinear_free", by(0.5, "bilinear", antialias=True), [IMAGE], dynamic_since=18, dtypes=WIDE),
    Case("smooth_bicubic", to((3, 4), "bicubic", antialias=True), [FIXED], dtypes=WIDE),
    Case("smooth_aligned", to((3, 9), "bilinear", antialias=True, align_corners=True), [FIXED], dtypes=WIDE),
    Case("smooth_bicubic_free", by(0.5, "bicubic", antialias=True), [IMAGE], dynamic_since=18, dtypes=WIDE),
    Case(
        "nearest2_direct", lambda x: torch.ops.aten.upsample_nearest2d(x, [10, 14], 2.0, 2.0), [FIXED], graph=["Resize"]
    ),
    Case("bilinear2_direct", lambda x: torch.ops.aten.upsample_bilinear2d(x, [8, 9], True), [FIXED]),
]  # fmt: skip

test_resizing = table(CASES)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("nearest", {}), ("nearest-exact", {}), ("bilinear", {}), ("bicubic", {}), ("bilinear", {"antialias": True}),
        ("bicubic", {"antialias": True}), ("bilinear", {"align_corners": True}),
    ],
)  # fmt: skip
def test_factors_that_follow_from_sizes(mode: str, options: dict[str, bool]) -> None:
    """Where an axis keeps its size, ONNX Runtime copies it whatever the factor."""

    def resize(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        factors = tuple((size + 0.1) / before for size, before in zip(like.shape, x.shape[2:], strict=True))
        return nnf.interpolate(x, scale_factor=factors, mode=mode, **options)

    axes = {"x": {2: "h", 3: "w"}, "like": {0: "a", 1: "b"}}
    example = torch.randn(1, 2, 5, 7), torch.zeros(6, 9)
    program = onnxport.export(resize, example, input_names=["x", "like"], dynamic_axes=axes)
    for before, after in (((5, 7), (6, 9)), ((4, 4), (4, 4)), ((4, 6), (9, 6)), ((9, 8), (3, 17)), ((3, 12), (3, 5))):
        x, like = torch.randn(1, 2, *before), torch.zeros(after)
        torch.testing.assert_close(program(x, like), resize(x, like), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("factors", [(1.1, 1.05), (1.2, 2.0)])
def test_factors_with_which_a_small_image_keeps_its_size(mode: str, factors: tuple[float, float]) -> None:
    resize = by(factors, mode)
    program = onnxport.export(
        resize, torch.randn(1, 2, 16, 17), input_names=["x"], dynamic_axes={"x": {2: "h", 3: "w"}}
    )
    for size in ((3, 3), (4, 30), (30, 4), (16, 9)):
        x = torch.randn(1, 2, *size)
        torch.testing.assert_close(program(x), resize(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("factor", [1.1, 1.01, 2.1, 2.05])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nearest_pixels_where_an_axis_keeps_its_size_or_doubles_it(
    rank: int, factor: float, mode: str, dynamic: bool
) -> None:
    """torch's kernel for two axes copies or doubles such an axis, those for one and three go by the factor. ONNX
    Runtime copies an image that keeps its size."""
    resize = by(factor, mode)
    example = torch.randn(1, 2, *(6, 5, 4)[:rank])
    axes = {"x": {axis: f"s{axis}" for axis in range(2, rank + 2)}} if dynamic else None
    program = onnxport.export(resize, example, input_names=["x"], dynamic_axes=axes)
    for sizes in ((6, 5, 4), (9, 7, 3), (12, 5, 20), (40, 10, 11)) if dynamic else ((6, 5, 4),):
        x = torch.randn(1, 2, *sizes[:rank])
        torch.testing.assert_close(program(x), resize(x), rtol=0, atol=0)
