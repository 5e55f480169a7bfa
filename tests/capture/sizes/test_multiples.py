"""Numbers that data tell, of which a model takes multiples only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onnxport


class PackedPositions(nn.Module):
    """Positions of the patches of several images, which data tell the sizes of, in blocks of 2 x 2."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, patches: Tensor, grid: Tensor) -> Tensor:
        parts = []
        for frames, height, width in grid.tolist():
            size = (height, width)
            image = nn.functional.interpolate(self.positions, size=size, mode="bilinear", align_corners=False)
            blocks = image.squeeze(0).permute(1, 2, 0).reshape(height // 2, 2, width // 2, 2, -1)
            parts.append(blocks.transpose(1, 2).reshape(height * width, -1).repeat(frames, 1))
        return patches + torch.cat(parts)


NAMES = ["patches", "grid"]


def example() -> tuple[Tensor, Tensor]:
    return torch.randn(40, 8), torch.tensor([[1, 4, 6], [2, 2, 4]])


def test_images_in_blocks() -> None:
    model = PackedPositions()
    program = onnxport.export(model, example(), input_names=NAMES, dynamic_axes={"patches": {0: "patches"}})
    for sizes in ([[1, 2, 4], [1, 6, 2]], [[3, 8, 2], [1, 4, 4]]):
        grid = torch.tensor(sizes)
        patches = torch.randn(int(grid.prod(1).sum()), 8)
        torch.testing.assert_close(program(patches, grid), model(patches, grid), rtol=1e-5, atol=1e-5)


def test_a_loop_over_images_is_not_right_for_more_of_them() -> None:
    """The loop over ``tolist()`` is unrolled: the check finds that more images need more of it."""
    axes = {"patches": {0: "patches"}, "grid": {0: "images"}}
    with pytest.raises(onnxport.VerificationError, match=r"images=4"):
        onnxport.export(PackedPositions(), example(), input_names=NAMES, dynamic_axes=axes)
