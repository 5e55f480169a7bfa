"""Image classifiers: convolutional, transformer and hybrid backbones of torchvision and timm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.models.model import Axes, Call, Model, enliven
from tests.models.packages import package

BATCH: Axes = {"x": {0: "batch"}}
IMAGE: Axes = {"x": {0: "batch", 2: "height", 3: "width"}}


def image(*size: int) -> torch.Tensor:
    return torch.randn(2, 3, *size)


@torch.no_grad()
def settle(model: nn.Module, *inputs: Any) -> nn.Module:
    """Lively weights, and batch norms with the statistics of the example, so that a signal reaches the end."""
    enliven(model)
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    if norms:
        model(*inputs)
    return model.eval()


def torchvision(kind: str, size: int = 64, axes: Axes = IMAGE, **config: Any) -> Callable[[], Call]:
    """A classifier of torchvision by the name of its factory."""

    def build() -> Call:
        made = getattr(package("torchvision.models"), kind)(weights=None, num_classes=10, **config)
        x = image(size, size)
        return Call(settle(made, x), (x,), axes=axes, input_names=["x"])

    return build


def timm(kind: str, axes: Axes = BATCH, size: int | None = None, **config: Any) -> Callable[[], Call]:
    """A classifier of timm by its name; without a size, at the size that it is meant for."""

    def build() -> Call:
        made = package("timm").create_model(kind, pretrained=False, num_classes=10, **config)
        side = size or made.default_cfg["input_size"][-1]
        x = image(side, side)
        return Call(settle(made, x), (x,), axes=axes, input_names=["x"])

    return build


def small_transformer() -> Call:
    """torchvision's vision transformer with its class token and learned positions, made small."""
    made = package("torchvision.models").VisionTransformer(64, 16, 2, 4, 32, 64, num_classes=10)
    return Call(enliven(made), (image(64, 64),), axes=BATCH, input_names=["x"])


def mobilevit() -> Call:
    """Takes whole patches at its deepest level without resizing: multiples of 64."""
    made, x = package("timm").create_model("mobilevit_xxs", num_classes=10), image(128, 192)
    high, wide = torch.export.Dim("high", min=1), torch.export.Dim("wide", min=1)
    return Call(settle(made, x), (x,), shapes={"x": {0: torch.export.Dim("batch"), 2: 64 * high, 3: 64 * wide}})


TORCHVISION = {
    "tv-resnet18": torchvision("resnet18"),
    "tv-resnext50": torchvision("resnext50_32x4d"),
    "tv-mobilenet-v2": torchvision("mobilenet_v2"),
    "tv-mobilenet-v3": torchvision("mobilenet_v3_small"),
    "tv-shufflenet-v2": torchvision("shufflenet_v2_x0_5"),
    "tv-squeezenet": torchvision("squeezenet1_1"),
    "tv-efficientnet-b0": torchvision("efficientnet_b0"),
    "tv-googlenet": torchvision("googlenet", 96, init_weights=False, aux_logits=False),
    "tv-inception-v3": torchvision("inception_v3", 96, init_weights=False, aux_logits=False),
    "tv-mnasnet": torchvision("mnasnet0_5"),
    "tv-regnet-y": torchvision("regnet_y_400mf"),
    "tv-convnext": torchvision("convnext_tiny"),
    "tv-densenet121": torchvision("densenet121"),
    "tv-alexnet": torchvision("alexnet", 96),
    "tv-vgg11-bn": torchvision("vgg11_bn", axes=BATCH),
    "tv-vit": small_transformer,
    "tv-swin": torchvision("swin_t", 64, BATCH),
    "tv-swin-v2": torchvision("swin_v2_t", 64, BATCH),
    "tv-maxvit": torchvision("maxvit_t", 224, BATCH),
}

TIMM = {
    "timm-resnet10t": timm("resnet10t", IMAGE, 64),
    "timm-efficientformer": timm("efficientformer_l1"),
    "timm-levit": timm("levit_128s"),
    "timm-mobilevit": mobilevit,
    "timm-mobilenet-v4": timm("mobilenetv4_hybrid_medium", IMAGE, 64),
    "timm-mixer": timm("mixer_s32_224"),
    "timm-poolformer": timm("poolformer_s12", IMAGE, 64),
    "timm-xcit": timm("xcit_nano_12_p16_224", IMAGE, 64),
    "timm-cait": timm("cait_xxs24_224", img_size=64, size=64),
    "timm-edgenext": timm("edgenext_xx_small", IMAGE, 64),
    "timm-ghostnet": timm("ghostnet_050", IMAGE, 64),
    "timm-hrnet": timm("hrnet_w18_small", IMAGE, 64),
    "timm-nfnet": timm("nfnet_l0", IMAGE, 64),
    "timm-pit": timm("pit_ti_224"),
    "timm-pvt-v2": timm("pvt_v2_b0", IMAGE, 64),
    "timm-twins": timm("twins_svt_small", img_size=64, size=64),
    "timm-coat": timm("coat_tiny", img_size=64, size=64),
    "timm-crossvit": timm("crossvit_tiny_240"),
    "timm-beit": timm("beit_base_patch16_224", img_size=64, size=64, depth=2, embed_dim=48, num_heads=4),
    "timm-deit": timm("deit_tiny_distilled_patch16_224", img_size=64, size=64, depth=3),
    "timm-eva02": timm("eva02_tiny_patch14_224", img_size=56, size=56, depth=3),
    "timm-vit-any-size": timm("vit_tiny_patch16_224", IMAGE, 64, img_size=64, depth=3, dynamic_img_size=True),
    "timm-fastvit": timm("fastvit_t8", IMAGE, 64),
    "timm-repvgg": timm("repvgg_a0", IMAGE, 64),
    "timm-skresnet": timm("skresnet18", IMAGE, 64),
    "timm-volo": timm("volo_d1_224", img_size=64, size=64),
    "timm-mambaout": timm("mambaout_femto", IMAGE, 64),
    "timm-hiera": timm("hiera_tiny_224", img_size=64, size=64),
    "timm-davit": timm("davit_tiny", IMAGE, 64),
    "timm-focalnet": timm("focalnet_tiny_srf", IMAGE, 64),
    "timm-gcvit": timm("gcvit_xxtiny"),
    "timm-swin-s3": timm("swin_s3_tiny_224"),
    "timm-maxxvit": timm("maxvit_rmlp_pico_rw_256"),
    "timm-mvit-v2": timm("mvitv2_tiny", img_size=64, size=64),
    "timm-nextvit": timm("nextvit_small", IMAGE, 64),
    "timm-tiny-vit": timm("tiny_vit_5m_224"),
    "timm-dla": timm("dla34", IMAGE, 64),
    "timm-dpn": timm("dpn48b", IMAGE, 64),
    "timm-sequencer": timm("sequencer2d_s", IMAGE, 64),
    "timm-gmlp": timm("gmlp_s16_224"),
    "timm-convit": timm("convit_tiny", img_size=64, size=64),
    "timm-botnet": timm("botnet26t_256"),
    "timm-halonet": timm("halonet26t"),
    "timm-lambdanet": timm("lambda_resnet26t"),
    "timm-convmixer": timm("convmixer_768_32", IMAGE, 35),
    "timm-res2net": timm("res2net50_26w_4s", IMAGE, 64),
}

FAST = {"tv-squeezenet", "tv-mobilenet-v3", "tv-vit", "timm-deit"}

MODELS = [
    *(Model(name, "image classifier", build, ("torchvision",), name in FAST) for name, build in TORCHVISION.items()),
    *(Model(name, "image classifier", build, ("torchvision", "timm"), name in FAST) for name, build in TIMM.items()),
]
