"""Convolutions."""

from __future__ import annotations

import torch
from torch.nn import functional as nnf

from tests.ops.harness import Case, F, table

# ONNX Runtime has no Conv and ConvTranspose for float64.
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
HALF = (torch.float32, torch.float16)
# torch convolves integers; ONNX does so in float32, which is exact up to 2**24.
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def module(layer: type[torch.nn.Module], *arguments: object, **keywords: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return layer(*arguments, **keywords)


class Restored(torch.nn.Module):
    """Down, and up again to the size that it was."""

    def __init__(self, kernel: int, **settings: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down = torch.nn.Conv2d(3, 4, kernel, **settings)
        self.up = torch.nn.ConvTranspose2d(4, 3, kernel, **settings)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x), output_size=x.shape[-2:])


CASES = [
    Case("conv1d", nnf.conv1d, [F("n", 3, "t"), F(4, 3, 3), F(4)], dtypes=FLOATS, graph=["Conv"]),
    Case("conv2d", nnf.conv2d, [F("n", 3, "h", "w"), F(4, 3, 3, 2), F(4)], dtypes=(*FLOATS, *INTEGERS)),
    Case("conv3d", nnf.conv3d, [F("n", 3, "d", "h", "w"), F(4, 3, 2, 3, 2), F(4)], dtypes=HALF),
    Case("no_bias", nnf.conv2d, [F("n", 3, "h", "w"), F(4, 3, 3, 3)], dtypes=HALF, graph=["Conv"]),
    Case(
        "module",
        module(torch.nn.Conv2d, 3, 4, 3, stride=2, padding=1),
        [F("n", 3, "h", "w")],
        dtypes=HALF,
        graph=["Conv"],
    ),
    Case(
        "options",
        lambda x, w: nnf.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2),
        [F("n", 4, "h", "w"), F(6, 2, 3, 2)],
        dtypes=HALF,
    ),
    Case("depthwise", lambda x, w: nnf.conv1d(x, w, groups=4), [F("n", 4, "t"), F(8, 1, 3)], dtypes=HALF),
    Case(
        "same",
        lambda x, w: nnf.conv2d(x, w, padding="same"),
        [F("n", 3, "h", "w"), F(4, 3, 4, 3)],
        dtypes=HALF,
        graph=["Conv"],
    ),
    Case(
        "same1d_dilated",
        lambda x, w, b: nnf.conv1d(x, w, b, padding="same", dilation=3),
        [F("n", 2, "t"), F(4, 2, 2), F(4)],
        dtypes=HALF,
    ),
    Case(
        "same3d", lambda x, w: nnf.conv3d(x, w, padding="same"), [F("n", 2, "d", 4, 5), F(2, 2, 3, 2, 1)], dtypes=HALF
    ),
    Case(
        "valid",
        lambda x, w: nnf.conv2d(x, w, stride=2, padding="valid"),
        [F("n", 3, "h", "w"), F(4, 3, 4, 3)],
        dtypes=HALF,
    ),
    Case("unbatched1d", nnf.conv1d, [F(3, "t"), F(4, 3, 3), F(4)], dtypes=HALF, graph=["Unsqueeze", "Conv", "Squeeze"]),
    Case("unbatched2d", lambda x, w: nnf.conv2d(x, w, padding=1), [F(3, "h", "w"), F(4, 3, 3, 3)], dtypes=HALF),
    Case(
        "unbatched_same",
        lambda x, w: nnf.conv3d(x, w, padding="same"),
        [F(2, "d", 4, 5), F(2, 2, 3, 2, 1)],
        dtypes=HALF,
    ),
    Case("module1d_no_bias", module(torch.nn.Conv1d, 2, 3, 3, padding=2, bias=False), [F("n", 2, "t")], dtypes=HALF),
    Case(
        "functional_names",
        lambda x, w, b: torch.convolution(x, w, b, [2], [1], [1], False, [0], 1),
        [F("n", 3, "t"), F(4, 3, 3), F(4)],
        dtypes=HALF,
    ),
    Case("weight_channels_dynamic", nnf.conv2d, [F("n", "c", "h", "w"), F(4, "c", 3, 3)], dtypes=HALF),
    Case("weight_kernel_dynamic", nnf.conv1d, [F("n", 3, "s"), F(4, 3, "d")], dtypes=HALF),
    Case(
        "transposed1d", nnf.conv_transpose1d, [F("n", 3, "t"), F(3, 4, 3), F(4)], dtypes=FLOATS, graph=["ConvTranspose"]
    ),
    Case(
        "transposed2d", nnf.conv_transpose2d, [F("n", 3, "h", "w"), F(3, 4, 3, 2), F(4)], dtypes=(*FLOATS, torch.int64)
    ),
    Case(
        "transposed3d",
        lambda x, w: nnf.conv_transpose3d(x, w, stride=2, output_padding=1, padding=1),
        [F("n", 3, "d", 4, 5), F(3, 2, 3, 2, 3)],
        dtypes=HALF,
    ),
    Case(
        "transposed_far",
        lambda x, w, b: nnf.conv_transpose2d(x, w, b, stride=2, padding=(1, 3), output_padding=(3, 2), dilation=4),
        [F("n", 3, "h", "w"), F(3, 4, 3, 2), F(4)],
        dtypes=(torch.float16,),
    ),
    Case(
        "transposed_options",
        lambda x, w, b: nnf.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
        [F("n", 4, "h", "w"), F(4, 3, 3, 2), F(6)],
        dtypes=HALF,
    ),
    Case(
        "transposed_unbatched",
        lambda x, w: nnf.conv_transpose2d(x, w, stride=2),
        [F(3, "h", "w"), F(3, 4, 3, 3)],
        dtypes=HALF,
    ),
    Case(
        "transposed_to_size",
        Restored(3, stride=2, padding=1),
        [F("n", 3, "h", "w")],
        dynamic_since=10,
        dtypes=HALF,
    ),
    Case(
        "transposed_to_size_far",
        Restored(2, stride=3, dilation=4),
        [F(3, "h", "w")],
        dynamic_since=10,
        dtypes=HALF,
    ),
    Case("conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), [F("t", "n", 3), F(3, 3, 4), F(4)], dtypes=HALF),
]

test_convolution = table(CASES)
