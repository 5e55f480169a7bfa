"""Image networks, from the layer tables of their papers."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AlexNet(nn.Module):
    """Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014): the one-column form."""

    # inputs, outputs, kernel, stride, padding, whether a pool follows
    convolutions = (
        (3, 64, 11, 4, 2, True),
        (64, 192, 5, 1, 2, True),
        (192, 384, 3, 1, 1, False),
        (384, 256, 3, 1, 1, False),
        (256, 256, 3, 1, 1, True),
    )

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()

        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride, padding, pooled in self.convolutions:
            layers += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU()]
            if pooled:
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, classes),
        )

    def forward(self, image: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.pool(self.features(image)).flatten(1))
        return logits


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up by four, around a shortcut; the stride is on the 3x3 convolution."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.reduce = nn.Conv2d(inputs, width, 1, bias=False)
        self.reduce_norm = nn.BatchNorm2d(width)
        self.spatial = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.spatial_norm = nn.BatchNorm2d(width)
        self.expand = nn.Conv2d(width, outputs, 1, bias=False)
        self.expand_norm = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.reduce_norm(self.reduce(x)))
        y = F.relu(self.spatial_norm(self.spatial(y)))
        y = self.expand_norm(self.expand(y))
        return F.relu(y + self.shortcut(x))


class ResNet50(nn.Module):
    """He et al., "Deep residual learning for image recognition" (2015), table 1, 50 layers."""

    stages = ((64, 3), (128, 4), (256, 6), (512, 3))

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        channels, layers = 64, []
        for index, (width, depth) in enumerate(self.stages):
            blocks = []
            for position in range(depth):
                blocks.append(Bottleneck(channels, width, stride=2 if index > 0 and position == 0 else 1))
                channels = width * Bottleneck.expansion
            layers.append(nn.Sequential(*blocks))
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.pool(self.layers(self.stem(image))).flatten(1))
        return logits


class DenseLayer(nn.Module):
    """Norm, ReLU, 1x1 to four times the growth; norm, ReLU, 3x3 to the growth."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        width = 4 * growth
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, growth, 3, padding=1, bias=False),
        )

    def forward(self, features: list[Tensor]) -> Tensor:
        grown: Tensor = self.body(torch.cat(features, dim=1))
        return grown


class DenseBlock(nn.Module):
    """Every layer reads what all layers before it gave."""

    def __init__(self, inputs: int, growth: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(inputs + index * growth, growth) for index in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, dim=1)


class DenseNet121(nn.Module):
    """Huang et al., "Densely connected convolutional networks" (2016), table 1, 121 layers."""

    depths = (6, 12, 24, 16)

    def __init__(self, growth: int = 32, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            convolution=nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            norm=nn.BatchNorm2d(channels),
            relu=nn.ReLU(),
            pool=nn.MaxPool2d(3, stride=2, padding=1),
        )
        for index, depth in enumerate(self.depths, start=1):
            parts[f"block{index}"] = DenseBlock(channels, growth, depth)
            channels += depth * growth
            if index < len(self.depths):
                parts[f"transition{index}"] = self._transition(channels)
                channels //= 2
        parts["final_norm"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, classes)

    @staticmethod
    def _transition(channels: int) -> nn.Module:
        """Half the channels, half the size."""
        return nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels // 2, 1, bias=False),
            nn.AvgPool2d(2),
        )

    def forward(self, image: Tensor) -> Tensor:
        features = F.relu(self.features(image))
        logits: Tensor = self.classifier(F.adaptive_avg_pool2d(features, 1).flatten(1))
        return logits


class DCGANGenerator(nn.Module):
    """Radford et al., "Unsupervised representation learning with deep convolutional GANs" (2015): noise to 64x64."""

    def __init__(self, noise: int = 100, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.ConvTranspose2d(noise, 8 * width, 4, bias=False),
            nn.BatchNorm2d(8 * width),
            nn.ReLU(),
        ]
        for factor in (4, 2, 1):
            layers += [
                nn.ConvTranspose2d(2 * factor * width, factor * width, 4, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(factor * width),
                nn.ReLU(),
            ]
        layers += [nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1, bias=False), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, noise: Tensor) -> Tensor:
        image: Tensor = self.layers(noise)
        return image


class SuperResolution(nn.Module):
    """Shi et al., "Real-time single image and video super-resolution" (2016): sub-pixel convolution of luminance."""

    def __init__(self, factor: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.ReLU(),
        )
        self.upscale = nn.Sequential(nn.Conv2d(32, factor**2, 3, padding=1), nn.PixelShuffle(factor))

    def forward(self, luminance: Tensor) -> Tensor:
        larger: Tensor = self.upscale(self.features(luminance))
        return larger
