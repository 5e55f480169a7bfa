"""Random pyramids of convolutions, pools, pads and reshapes: a file is right at every size that the model takes.

PYRAMIDS=100 python -m pytest tests/capture/paths/test_random_pyramids.py

tries as many pyramids instead of the few that CI does. One that fails is shown with its levels.
"""

from __future__ import annotations

import os
import random
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxport

CHANNELS = 4
SIZES = [(1, 64, 64), (2, 33, 49), (3, 47, 30), (1, 128, 96), (2, 31, 31), (5, 50, 21), (1, 100, 37), (2, 24, 72)]
NOT_TAKEN = "the model takes none of the examples"
EXAMPLES = [(2, 32, 48), (2, 40, 33), (3, 64, 56), (1, 35, 44)]


class Pyramid(nn.Module):
    """``steps`` are names of methods with their settings, in turn; a layer ("down") begins a level."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.steps: list[tuple[str, dict[str, Any]]] = []
        self.layers = nn.ModuleList()
        for _ in range(rng.randrange(2, 5)):
            for _ in range(rng.randrange(2)):
                self.steps.append(self.between(rng))
            self.steps.append(self.down(rng))
        for _ in range(rng.randrange(1, 4)):
            self.steps.append(self.after(rng))
        self.end = rng.choice(("levels", "flat", "pooled", "map"))

    def __repr__(self) -> str:
        steps = [
            f"{self.layers[given['layer']]}" if "layer" in given else f"{name}{given}" for name, given in self.steps
        ]
        return " -> ".join([*steps, self.end])

    def layer(self, layer: nn.Module) -> dict[str, Any]:
        self.layers.append(layer)
        return {"layer": len(self.layers) - 1}

    def down(self, rng: random.Random) -> tuple[str, dict[str, Any]]:
        kernel = rng.choice((2, 3, 3, 5))
        kind = rng.choice(("conv", "conv", "max", "avg"))
        stride = rng.choice((1, 2, 2, 3)) if kind != "conv" else rng.choice((2, 2, 3, (2, 1)))
        if kind == "conv":
            padding, dilation = rng.choice((0, 1, 2, (1, 0))), rng.choice((1, 1, 2))
            return "down", self.layer(nn.Conv2d(CHANNELS, CHANNELS, kernel, stride, padding, dilation))
        padding = rng.randrange(kernel // 2 + 1)
        ceil = rng.random() < 0.5
        if kind == "max":
            return "down", self.layer(nn.MaxPool2d(kernel, stride, padding, rng.choice((1, 1, 2)), ceil_mode=ceil))
        return "down", self.layer(nn.AvgPool2d(kernel, stride, padding, ceil, count_include_pad=rng.random() < 0.5))

    def between(self, rng: random.Random) -> tuple[str, dict[str, Any]]:
        step = rng.choice(("pad_to", "pad_minus", "pad_even", "windows", "shuffle", "halve"))
        mode = rng.choice(("constant", "replicate"))
        return step, {"by": rng.choice((2, 3, 4, 7, 8)), **({"mode": mode} if step.startswith("pad") else {})}

    def after(self, rng: random.Random) -> tuple[str, dict[str, Any]]:
        step = rng.choice(("add_up", "add_up", "cat_up", "cat_sizes", "tokens", "rows", "scaled", "grid", "cut"))
        mode = rng.choice(("nearest", "bilinear"))
        return step, {"to": rng.randrange(9), **({"mode": mode} if step.endswith("up") or step == "scaled" else {})}

    # Steps on the way down

    def pad_to(self, x: Tensor, by: int, mode: str) -> Tensor:
        height, width = x.shape[-2:]
        return F.pad(x, (0, (by - width % by) % by, 0, (by - height % by) % by), mode=mode)

    def pad_minus(self, x: Tensor, by: int, mode: str) -> Tensor:
        return F.pad(x, (0, -x.shape[-1] % by, 0, -x.shape[-2] % by), mode=mode)

    def pad_even(self, x: Tensor, by: int, mode: str) -> Tensor:
        extra_h, extra_w = -x.size(2) % by, -x.size(3) % by
        if extra_h or extra_w:
            x = F.pad(x, (extra_w // 2, extra_w - extra_w // 2, extra_h // 2, extra_h - extra_h // 2), mode=mode)
        return x

    def windows(self, x: Tensor, by: int) -> Tensor:
        batch, channels, height, width = x.shape
        x = F.pad(x, (0, -width % by, 0, -height % by))
        rows, columns = x.shape[2] // by, x.shape[3] // by
        parts = x.view(batch, channels, rows, by, columns, by).permute(0, 2, 4, 3, 5, 1).reshape(-1, by * by, channels)
        parts = parts + parts.mean(1, keepdim=True)
        parts = parts.view(batch, rows, columns, by, by, channels).permute(0, 5, 1, 3, 2, 4)
        return parts.reshape(batch, channels, rows * by, columns * by)[:, :, :height, :width]

    def shuffle(self, x: Tensor, by: int) -> Tensor:
        return x.view(x.size(0), 2, CHANNELS // 2, x.size(2), x.size(3)).transpose(1, 2).reshape(x.shape)

    def halve(self, x: Tensor, by: int) -> Tensor:
        return x[:, :, x.shape[2] // 2 // by :, : max(x.shape[3] - x.shape[3] // by, 1)]

    # Steps between levels

    def add_up(self, x: Tensor, level: Tensor, mode: str) -> Tensor:
        return level + F.interpolate(x, size=level.shape[-2:], mode=mode)

    def cat_up(self, x: Tensor, level: Tensor, mode: str) -> Tensor:
        size = (int(level.shape[2]), int(level.shape[3]))
        both = torch.cat([level, F.interpolate(x, size=size, mode=mode)], dim=1)
        return both.view(both.shape[0], 2, CHANNELS, *both.shape[2:]).sum(1)

    def cat_sizes(self, x: Tensor, level: Tensor) -> Tensor:
        tokens = torch.cat([x.flatten(2), level.flatten(2)], dim=2)
        first, second = tokens.softmax(2).split([x.shape[2] * x.shape[3], level.shape[2] * level.shape[3]], dim=2)
        return first.reshape(x.shape) + second.mean(2)[..., None, None]

    def tokens(self, x: Tensor, level: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + torch.arange(height * width)[None, :, None] / (height * width)
        return tokens.transpose(1, 2).view(batch, channels, height, width)

    def rows(self, x: Tensor, level: Tensor) -> Tensor:
        rows = x.permute(0, 2, 3, 1).reshape(x.size(0) * x.size(2), x.size(3), -1)
        rows = rows - rows.amax(1, keepdim=True)
        return rows.view(x.size(0), x.size(2), x.size(3), -1).permute(0, 3, 1, 2)

    def scaled(self, x: Tensor, level: Tensor, mode: str) -> Tensor:
        return F.interpolate(x, size=(x.shape[2] * 2 - 1, ceil_div(x.shape[3], 2)), mode=mode)

    def grid(self, x: Tensor, level: Tensor) -> Tensor:
        height, width = x.shape[2:]
        y, z = torch.meshgrid(torch.linspace(0, 1, height), torch.arange(width) / width, indexing="ij")
        return x + y * z * (level.shape[2] // height)

    def cut(self, x: Tensor, level: Tensor) -> Tensor:
        height, width = min(x.shape[2], level.shape[2]), min(x.shape[3], level.shape[3])
        return x[:, :, :height, :width] + level[:, :, :height, :width]

    def forward(self, x: Tensor) -> Any:
        levels = [x]
        for name, given in self.steps:
            if name == "down":
                x = torch.tanh(self.layers[given["layer"]](x)) if given["layer"] % 2 else self.layers[given["layer"]](x)
                levels.append(x)
            elif "to" in given:
                rest = {key: value for key, value in given.items() if key != "to"}
                x = getattr(self, name)(x, levels[given["to"] % len(levels)], **rest)
            else:
                x = getattr(self, name)(x, **given)
        if self.end == "levels":
            return torch.cat([level.flatten(2) for level in levels] + [x.flatten(2)], dim=2)
        if self.end == "flat":
            return x.reshape(x.shape[0], -1)
        if self.end == "pooled":
            return F.adaptive_avg_pool2d(x, 1).flatten(1), tuple(level.mean((2, 3)) for level in levels)
        return x


def ceil_div(number: int, by: int) -> int:
    return -(-number // by)


@torch.no_grad()
def check(seed: int) -> str:
    """What came of a pyramid, if nothing is wrong."""
    torch.manual_seed(seed)
    model = Pyramid(seed).eval()
    example = next((sizes for sizes in rotated(EXAMPLES, seed) if takes(model, sizes)), None)
    if example is None:
        return NOT_TAKEN
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = onnxport.export(model, inputs(example), input_names=["x"], dynamic_axes=axes)
    except onnxport.ExportError as error:
        return f"refused: {error}"
    taken = [sizes for sizes in SIZES if takes(model, sizes)]
    for sizes in taken:
        x = inputs(sizes)
        told = f"seed {seed}, exported at {example}, wrong at {sizes}: {model!r}"
        expected, found = leaves(model(x)), leaves(exported(x))
        assert [tuple(leaf.shape) for leaf in found] == [tuple(leaf.shape) for leaf in expected], told
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-3, atol=1e-4, msg=told)
    return f"right at {len(taken)} sizes"


def rotated(examples: list[tuple[int, int, int]], by: int) -> list[tuple[int, int, int]]:
    return examples[by % len(examples) :] + examples[: by % len(examples)]


def inputs(sizes: tuple[int, int, int]) -> Tensor:
    batch, height, width = sizes
    return torch.randn(batch, CHANNELS, height, width)


def takes(model: Any, sizes: tuple[int, int, int]) -> bool:
    try:
        model(inputs(sizes))
    except RuntimeError:
        return False
    return True


def leaves(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, tuple | list) else [result]


def ratio(x: Tensor) -> Tensor:
    y = F.max_pool2d(x, 5, 2)
    return y * (x.shape[3] // y.shape[3])


def windows_ratio(x: Tensor) -> Tensor:
    y = x.unfold(3, 5, 2)
    return y * (x.shape[3] // y.shape[3])


def odd(x: Tensor) -> Tensor:
    y = F.max_pool2d(F.max_pool2d(x, 2), 3, 2)
    return F.pad(y, (0, y.shape[3] % 2))


# The smallest forms of pyramids that were wrong, with the width of the example.
CASES = [(ratio, 48), (windows_ratio, 48), (odd, 48), (odd, 24)]


@pytest.mark.parametrize("seed", range(int(os.environ.get("PYRAMIDS", "15"))))
def test_a_random_pyramid_is_right_or_refused(seed: int) -> None:
    outcome = check(seed)
    if outcome == NOT_TAKEN:
        pytest.skip(outcome)


@pytest.mark.parametrize(("model", "width"), CASES)
def test_a_pyramid_that_was_wrong_is_right_or_refused(model: Any, width: int) -> None:
    axes = {"x": {3: "width"}}
    try:
        exported = onnxport.export(model, inputs((2, 16, width)), input_names=["x"], dynamic_axes=axes)
    except onnxport.ExportError:
        return
    for other in range(9, 60):
        x = inputs((2, 16, other))
        if takes(model, (2, 16, other)):
            torch.testing.assert_close(torch.as_tensor(exported(x)), model(x), msg=f"wrong at {other}")
