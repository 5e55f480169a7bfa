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


@pytest.mark.parametrize("axes", [{"patches": {0: "patches"}}, {"patches": {0: "patches"}, "grid": {0: "images"}}])
def test_images_in_blocks(axes: dict[str, dict[int, str]]) -> None:
    model = PackedPositions()
    grid = torch.tensor([[1, 4, 6], [2, 2, 4]])
    example = torch.randn(40, 8), grid
    program = onnxport.export(model, example, input_names=["patches", "grid"], dynamic_axes=axes)
    for sizes in ([[1, 2, 4], [1, 6, 2]], [[3, 8, 2], [1, 4, 4]]):
        grid = torch.tensor(sizes)
        patches = torch.randn(int(grid.prod(1).sum()), 8)
        torch.testing.assert_close(program(patches, grid), model(patches, grid), rtol=1e-5, atol=1e-5)
