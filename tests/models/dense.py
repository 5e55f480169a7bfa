"""Models whose result is as large as their input: segmentation, optical flow, video, restoration, style transfer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.model import Axes, Call, Model, enliven
from tests.models.packages import package
from tests.models.vision import BATCH, IMAGE, image

CLIP: Axes = {"x": {0: "batch", 2: "frames", 3: "height", 4: "width"}}
PAIR: Axes = {name: {0: "batch", 2: "height", 3: "width"} for name in ("image1", "image2")}


def segmentation(kind: str) -> Callable[[], Call]:
    """A model of torchvision, which returns a dict of maps."""

    def build() -> Call:
        made = getattr(package("torchvision.models.segmentation"), kind)
        model = made(weights=None, weights_backbone=None, num_classes=5)
        return Call(enliven(model), (image(64, 96),), axes=IMAGE, input_names=["x"])

    return build


def flow(kind: str, side: int) -> Callable[[], Call]:
    def build() -> Call:
        model = getattr(package("torchvision.models.optical_flow"), kind)(weights=None)
        model = enliven(model)

        def last(image1: Tensor, image2: Tensor) -> Tensor:
            return model(image1, image2, num_flow_updates=3)[-1]  # type: ignore[no-any-return]

        return Call(last, (torch.rand(1, 3, side, side), torch.rand(1, 3, side, side)), axes=PAIR)

    return build


def video(kind: str, size: tuple[int, ...], axes: Axes, **config: Any) -> Callable[[], Call]:
    def build() -> Call:
        made = getattr(package("torchvision.models.video"), kind)(weights=None, num_classes=10, **config)
        return Call(enliven(made), (torch.randn(2, 3, *size),), axes=axes, input_names=["x"])

    return build


def small_mvit() -> Call:
    """torchvision's multiscale video transformer with two stages."""
    module: Any = package("torchvision.models.video.mvit")
    shape = {"num_heads": 2, "kernel_kv": [3, 3, 3]}
    blocks = [
        module.MSBlockConfig(
            input_channels=16, output_channels=32, kernel_q=[], stride_q=[], stride_kv=[1, 2, 2], **shape
        ),
        module.MSBlockConfig(
            input_channels=32, output_channels=32, kernel_q=[3, 3, 3], stride_q=[1, 2, 2], stride_kv=[1, 1, 1], **shape
        ),
    ]  # fmt: skip
    model = module.MViT((32, 32), 8, blocks, True, True, True, True, num_classes=10)
    return Call(enliven(model), (torch.randn(2, 3, 8, 32, 32),), axes=BATCH, input_names=["x"])


class UNet(nn.Module):
    """With transposed convolutions, and with padding where an odd size was halved."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        self.down = nn.ModuleList(self.double(a, b) for a, b in zip((3, *widths[:-1]), widths, strict=True))
        self.bottom = self.double(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths))
        self.join = nn.ModuleList(self.double(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def double(a: int, b: int) -> nn.Sequential:
        layers = [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers, nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Any:
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept), strict=True):
            x = up(x)
            high, wide = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = nn.functional.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = join(torch.cat([skip, x], dim=1))
        return self.head(x)


class SubPixel(nn.Module):
    """Super-resolution by rearranged channels."""

    def __init__(self, factor: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh(),
            nn.Conv2d(8, 3 * factor**2, 3, padding=1), nn.PixelShuffle(factor),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).clamp(0.0, 1.0)  # type: ignore[no-any-return]


class Generator(nn.Module):
    """Super-resolution in the adversarial manner: residual blocks with PReLU and pixel shuffling."""

    def __init__(self, width: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, width, 9, padding=4), nn.PReLU())
        self.blocks = nn.ModuleList(self.residual(width) for _ in range(blocks))
        self.up = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(width))
        self.last = nn.Conv2d(width, 3, 9, padding=4)

    @staticmethod
    def residual(width: int) -> nn.Sequential:
        one, two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        return nn.Sequential(one, nn.BatchNorm2d(width), nn.PReLU(), two, nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Any:
        first = x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return (torch.tanh(self.last(self.up(x + first))) + 1) / 2


class Stylist(nn.Module):
    """Fast style transfer: reflection padding, instance normalisation, upsampling by repetition."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *self.block(3, 8, 9, 1), *self.block(8, 16, 3, 2), *self.block(16, 16, 3, 1),
            nn.Upsample(scale_factor=2, mode="nearest"), *self.block(16, 8, 3, 1),
            nn.ReflectionPad2d(4), nn.Conv2d(8, 3, 9),
        )  # fmt: skip

    @staticmethod
    def block(a: int, b: int, kernel: int, stride: int) -> list[nn.Module]:
        padding, convolution = nn.ReflectionPad2d(kernel // 2), nn.Conv2d(a, b, kernel, stride)
        return [padding, convolution, nn.InstanceNorm2d(b, affine=True), nn.ReLU()]

    def forward(self, x: Tensor) -> Any:
        return self.layers(x)


class AdaptiveStyle(nn.Module):
    """Gives the features of one image the statistics of another."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU())
        self.decoder = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, content: Tensor, style: Tensor) -> Any:
        a, b = self.encoder(content), self.encoder(style)
        size = a.size()
        mean, spread = (getattr(b, name)(dim=(2, 3), keepdim=True) for name in ("mean", "std"))
        flat = a.view(*size[:2], -1)
        own = flat.mean(2).view(*size[:2], 1, 1), (flat.var(2) + 1e-5).sqrt().view(*size[:2], 1, 1)
        changed = (a - own[0].expand(size)) / own[1].expand(size) * spread + mean
        return nn.functional.interpolate(self.decoder(changed), scale_factor=2.0, mode="bilinear", align_corners=False)


def whole(model: Callable[[], nn.Module], high: int = 24, wide: int = 32) -> Callable[[], Call]:
    return lambda: Call(enliven(model()), (torch.rand(2, 3, high, wide),), axes=IMAGE, input_names=["x"])


def adaptive_style() -> Call:
    axes = {"content": {0: "batch", 2: "h", 3: "w"}, "style": {0: "batch", 2: "other_h", 3: "other_w"}}
    return Call(enliven(AdaptiveStyle()), (torch.rand(2, 3, 24, 32), torch.rand(2, 3, 20, 28)), axes=axes)


TORCHVISION: dict[str, tuple[str, Callable[[], Call]]] = {
    "deeplab-v3": ("segmentation", segmentation("deeplabv3_mobilenet_v3_large")),
    "fcn": ("segmentation", segmentation("fcn_resnet50")),
    "lraspp": ("segmentation", segmentation("lraspp_mobilenet_v3_large")),
    "raft": ("optical flow", flow("raft_small", 128)),
    "raft-large": ("optical flow", flow("raft_large", 128)),
    "r3d": ("video", video("r3d_18", (4, 32, 32), CLIP)),
    "r2plus1d": ("video", video("r2plus1d_18", (4, 32, 32), CLIP)),
    "s3d": ("video", video("s3d", (16, 224, 224), BATCH)),
    "mvit": ("video", small_mvit),
    "swin3d": ("video", video("swin3d_t", (4, 64, 64), BATCH)),
}

OWN: dict[str, tuple[str, Callable[[], Call]]] = {
    "unet": ("segmentation", whole(UNet)),
    "espcn": ("restoration", whole(SubPixel)),
    "srgan": ("restoration", whole(Generator)),
    "style-transfer": ("style transfer", whole(Stylist)),
    "adaptive-style": ("style transfer", adaptive_style),
}

FAST = {"unet", "espcn", "style-transfer", "adaptive-style", "mvit"}

MODELS = [
    *(Model(n, family, build, ("torchvision",), n in FAST) for n, (family, build) in TORCHVISION.items()),
    *(Model(n, family, build, (), n in FAST) for n, (family, build) in OWN.items()),
]
