"""Pools with windows of a given size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as nnf

import onnxport
from tests.ops.harness import Case, F, I, Variant, table

# ONNX Runtime has MaxPool for float64 but no AveragePool.
MAX = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
HALF = (torch.float32, torch.float16)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
WHOLE = [I("n", 3, "h", "w", low=-90, high=90)]


def unpooled2d(x: torch.Tensor) -> torch.Tensor:
    return torch._C._nn.max_unpool2d(*nnf.max_pool2d(x, 2, return_indices=True), list(x.shape[-2:]))


class Unpooled(nn.Module):
    """A pool undone by its module, to the size that it works out itself or to the one that was there before."""

    def __init__(self, dims: int, *, sized: bool, **windows: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(return_indices=True, **windows)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(**windows)
        self.sized = sized

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled, indices = self.pool(x)
        result: torch.Tensor = self.unpool(pooled, indices, x.shape if self.sized else None)
        return result


def unpooled3d(x: torch.Tensor) -> torch.Tensor:
    pooled, indices = nnf.max_pool3d(x, 2, return_indices=True)
    return torch._C._nn.max_unpool3d(pooled, indices, list(x.shape[2:]), [2, 2, 2], [0, 0, 0])


def pooled_backward(x: torch.Tensor) -> torch.Tensor:
    values, indices = nnf.max_pool2d(x, 3, 2, 1, return_indices=True)
    gradient = torch.ops.aten.max_pool2d_with_indices_backward
    return gradient(values, x, [3, 3], [2, 2], [1, 1], [1, 1], False, indices)


CASES = [
    Case("average_whole", lambda x: nnf.avg_pool2d(x, 3, 2, 1), WHOLE, dtypes=()),
    Case("average_whole_divisor", lambda x: nnf.avg_pool2d(x, 3, 2, 1, divisor_override=7), WHOLE, dtypes=()),
    Case("average_whole_ceil", lambda x: nnf.avg_pool2d(x, 2, 3, 1, True, False, divisor_override=3), WHOLE, dtypes=()),
    Case("max1d", lambda x: nnf.max_pool1d(x, 3), [F("n", 3, "t")], dtypes=(*FLOATS, torch.float64), graph=["MaxPool"]),
    Case("max2d", lambda x: nnf.max_pool2d(x, 2), [F("n", 3, "h", "w")], dtypes=MAX, graph=["MaxPool"]),
    Case("max3d", lambda x: nnf.max_pool3d(x, 2), [F("n", 3, "d", "h", "w")], dtypes=MAX),
    Case("max2d_options", lambda x: nnf.max_pool2d(x, (3, 2), (2, 1), (1, 0)), [F("n", 3, "h", "w")], dtypes=HALF),
    Case("max2d_dilated", lambda x: nnf.max_pool2d(x, 3, 1, 1, (2, 1)), [F("n", 3, "h", "w")], dtypes=HALF),
    Case(
        "max2d_ceil",
        lambda x: nnf.max_pool2d(x, 3, 2, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["MaxPool"],
    ),
    Case(
        "max2d_ceil_last_dropped",
        lambda x: nnf.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
    ),
    Case("max2d_backward", pooled_backward, [F("n", 3, "h", "w")], since=9, dtypes=HALF),
    # ONNX Runtime's optimiser takes zeros before a pool for the pool's own padding.
    Case(
        "max2d_of_zeros_around_negative_numbers",
        lambda x: nnf.max_pool2d(nnf.pad(-x.exp(), (1, 1, 0, 2)), 3, 2),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
    ),
    Case(
        "max2d_padded_beyond_zeros",
        lambda x: nnf.max_pool2d(nnf.pad(-x.exp(), (1, 1, 1, 1)), 3, 2, 1, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
    ),
    Case("max1d_unbatched", lambda x: nnf.max_pool1d(x, 3, 2), [F(3, "t")], dtypes=HALF),
    Case("max2d_unbatched", lambda x: nnf.max_pool2d(x, 2), [F(3, "h", "w")], dtypes=HALF),
    Case(
        "max1d_indices",
        lambda x: nnf.max_pool1d(x, 3, 2, 1, return_indices=True),
        [F("n", 3, "t")],
        since=8,
        dtypes=MAX,
    ),
    Case(
        "max2d_indices",
        lambda x: nnf.max_pool2d(x, 3, 2, 1, return_indices=True),
        [F("n", 3, "h", "w")],
        since=8,
        dtypes=MAX,
        graph=["MaxPool", "Mod"],
    ),
    Case(
        "max3d_indices",
        lambda x: nnf.max_pool3d(x, 3, 2, 1, return_indices=True),
        [F("n", 3, "d", "h", "w")],
        since=8,
        dtypes=HALF,
    ),
    Case(
        "max2d_indices_ceil_dilated",
        lambda x: nnf.max_pool2d(x, 2, 3, 1, 2, True, True),
        [F("n", 3, "h", "w")],
        checked=False,
        since=10,
        dtypes=HALF,
    ),
    Case(
        "max2d_indices_unbatched",
        lambda x: nnf.max_pool2d(x, 2, return_indices=True),
        [F(3, "h", 5)],
        since=8,
        dtypes=HALF,
    ),
    Case(
        "max2d_indices_unused",
        lambda x: nnf.max_pool2d(x, 2, return_indices=True)[0],
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["MaxPool"],
    ),
    Case(
        "max2d_indices_alone",
        lambda x: nnf.max_pool2d(x, 2, return_indices=True)[1],
        [F("n", 3, "h", "w")],
        since=8,
        dtypes=HALF,
    ),
    Case("avg1d", lambda x: nnf.avg_pool1d(x, 3, 2, 1), [F("n", 3, "t")], dtypes=FLOATS, graph=["AveragePool"]),
    Case(
        "avg2d",
        lambda x: nnf.avg_pool2d(x, 2),
        [F("n", 3, "h", "w", low=-20, high=20)],
        dtypes=(*FLOATS, torch.int64),
        graph=["AveragePool"],
    ),
    Case("avg3d", lambda x: nnf.avg_pool3d(x, 2, 1, 1), [F("n", 3, "d", "h", "w")], dtypes=(torch.float32,)),
    Case(
        "avg2d_pad_not_counted",
        lambda x: nnf.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["AveragePool"],
    ),
    Case(
        "avg2d_ceil",
        lambda x: nnf.avg_pool2d(x, 3, 2, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["AveragePool"],
    ),
    Case(
        "avg2d_ceil_pad",
        lambda x: nnf.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["Pad", "AveragePool"],
    ),
    Case(
        "avg2d_ceil_last_dropped",
        lambda x: nnf.avg_pool2d(x, 3, 4, 1, ceil_mode=True),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
    ),
    Case(
        "avg2d_ceil_pad_not_counted",
        lambda x: nnf.avg_pool2d(x, 3, 2, 1, True, False),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["AveragePool"],
    ),
    Case(
        "avg2d_divisor",
        lambda x: nnf.avg_pool2d(x, 3, 2, 1, divisor_override=2),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["AveragePool", "Mul"],
    ),
    Case(
        "avg2d_divisor_ceil", lambda x: nnf.avg_pool2d(x, 3, 2, 1, True, False, 5), [F("n", 3, "h", "w")], dtypes=HALF
    ),
    Case("avg3d_unbatched", lambda x: nnf.avg_pool3d(x, 2, ceil_mode=True), [F(3, "d", 5, 7)], dtypes=(torch.float32,)),
    Case("avg2d_whole", lambda x: nnf.avg_pool2d(x, x.shape[2:]), [F("n", 3, "h", "w")], dtypes=HALF),
    Case("max2d_whole", lambda x: nnf.max_pool2d(x, x.shape[2:]), [F("n", 3, "h", "w")], dtypes=HALF),
    Case(
        "max2d_whole_indices",
        lambda x: nnf.max_pool2d(x, x.shape[2:], return_indices=True),
        [F("n", 3, "h", "w")],
        since=8,
        dynamic_since=7,
        dtypes=HALF,
    ),
    Case("max2d_whole_axis", lambda x: nnf.max_pool2d(x, (1, x.shape[3])), [F("n", 3, "h", "w")], dtypes=HALF),
    Case("max2d_whole_axis_and_more", lambda x: nnf.max_pool2d(x, (2, x.shape[3])), [F("n", 3, "h", "w")], dtypes=HALF),
    Case("avg2d_whole_axis", lambda x: nnf.avg_pool2d(x, (x.shape[2], 3), 1), [F("n", 3, "h", "w")], dtypes=HALF),
    Case("max2d_one", lambda x: nnf.max_pool2d(x, 1, 2), [F("n", 3, "h", "w")], dtypes=HALF, graph=["MaxPool"]),
    Case("unpool1d_module", Unpooled(1, sized=True, kernel_size=2), [F("n", 3, "h")], since=9, dtypes=()),
    Case("unpool2d_module", Unpooled(2, sized=True, kernel_size=2), [F("n", 3, "h", "w")], since=9, dtypes=()),
    Case("unpool2d_own_size", Unpooled(2, sized=False, kernel_size=3, stride=2), [F("n", 2, 9, 7)], since=9, dtypes=()),
    Case("unpool3d_module", Unpooled(3, sized=True, kernel_size=2), [F("n", 2, 4, "h", 5)], since=9, dtypes=()),
    Case("unpool2d", unpooled2d, [F("n", 3, "h", "w")], since=9, dtypes=FLOATS),
    Case("unpool3d", unpooled3d, [F("n", 2, 4, "h", 6)], since=9, dtypes=HALF),
    Case("unpool2d_unbatched", unpooled2d, [F(3, "h", 6)], since=9, dtypes=HALF),
]

test_pooling = table(CASES)

CEIL = [
    (size, kernel, stride, pad, dilation)
    for size, kernel, stride, pad, dilation in itertools.product((5, 6, 7, 8), (1, 2, 3), (1, 2, 3, 4), (0, 1), (1, 2))
    if pad <= kernel // 2
]


@pytest.mark.parametrize("opset", [10, 20, 22])
@pytest.mark.parametrize("kind", ["max", "avg", "avg_not_counted", "divisor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_ceil_mode(kind: str, opset: int, dynamic: bool) -> None:
    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for x, (_, kernel, stride, pad, dilation) in zip(tensors, settings, strict=True):
            if kind == "max":
                results += nnf.max_pool1d(x, kernel, stride, pad, dilation, True, return_indices=True)
            elif kind == "divisor":
                results.append(nnf.avg_pool2d(x, (kernel, 1), (stride, 1), (pad, 0), True, divisor_override=3))
            else:
                results.append(nnf.avg_pool1d(x, kernel, stride, pad, True, kind == "avg"))
        return results

    settings = [s for s in CEIL if kind == "max" or s[-1] == 1]
    last = (1,) if kind == "divisor" else ()
    if dynamic:
        settings = [s for s in settings if s[0] == 5]
        case = Case("ceil", call, [F(1, 2, "s", *last) for _ in settings])
    else:
        case = Case("ceil", call, [F(1, 2, s[0], *last) for s in settings])
    Variant(case, opset, dynamic, torch.float32).run()


def pyramid_level(x: torch.Tensor) -> torch.Tensor:
    """A level of spatial pyramid pooling: two by two windows, whatever the size."""
    height, width = (math.ceil(size / 2) for size in x.shape[2:])
    pads = (height * 2 - x.shape[2] + 1) // 2, (width * 2 - x.shape[3] + 1) // 2
    return nnf.max_pool2d(x, (height, width), (height, width), pads)


RUN_TIME: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pyramid": pyramid_level,
    "max by padding": lambda x: nnf.max_pool2d(x, 3, stride=1, padding=min(x.shape[2] // 4, 1)),
    "max by padding of one axis": lambda x: nnf.max_pool2d(x, 3, padding=(min(x.shape[2] // 9, 1), 1)),
    "max by stride": lambda x: nnf.max_pool2d(x, 2, stride=max(x.shape[3] // 4, 1), ceil_mode=True),
    "average by width": lambda x: nnf.avg_pool2d(x, max(x.shape[2] // 3, 1)),
    "average by width of one axis": lambda x: nnf.avg_pool2d(x, (max(x.shape[2] // 3, 1), 2), stride=(1, 1)),
    "average by padding": lambda x: nnf.avg_pool2d(x, 3, stride=1, padding=min(x.shape[2] // 4, 1)),
    "average without the padding": lambda x: nnf.avg_pool2d(x, 3, 2, min(x.shape[2] // 4, 1), True, False),
    "average by stride": lambda x: nnf.avg_pool2d(x, 2, max(x.shape[3] // 4, 1), ceil_mode=True),
    "convolution by padding": lambda x: nnf.conv2d(x, torch.ones(2, 2, 3, 3), None, 1, min(x.shape[2] // 4, 1)),
}


@pytest.mark.parametrize("opset", [11, 20])
@pytest.mark.parametrize("name", RUN_TIME)
def test_windows_that_follow_a_size(name: str, opset: int) -> None:
    model = RUN_TIME[name]
    axes = {"x": {2: "h", 3: "w"}}
    program = onnxport.export(model, torch.randn(1, 2, 6, 5), input_names=["x"], dynamic_axes=axes, opset_version=opset)
    for height, width in ((6, 5), (3, 3), (9, 16), (17, 12), (4, 7)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(program(x), model(x))


def test_an_average_of_integers_over_such_windows_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return nnf.avg_pool2d(x, max(x.shape[2] // 3, 1))

    x = torch.ones(1, 2, 6, 6, dtype=torch.int64)
    with pytest.raises(onnxport.UnsupportedOperatorError, match="average of integers over windows"):
        onnxport.export(model, x, input_names=["x"], dynamic_axes={"x": {2: "h"}})
