"""What the processes of `run.py` have in common, imported once: each of them is a fork."""

from __future__ import annotations

import torch

from tests.models.packages import missing, package

torch.set_num_threads(1)

for name in ("torchvision", "timm", "transformers", "diffusers"):
    if not missing((name,)):
        package(name)
