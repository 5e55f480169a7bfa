"""The feature extractor of a point-pillar detector: lidar points, gathered in vertical pillars, to one vector each."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PillarFeatures(nn.Module):
    """Lang et al., "PointPillars" (2018), section 2.1, with the car settings of its section 3."""

    pillar_size = (0.16, 0.16)
    origin = (0.0, -39.68)

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.linear = nn.Linear(9, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, points: Tensor, counts: Tensor, cells: Tensor) -> Tensor:
        """One vector for each pillar.

        Points are (pillars, points, 4) with x, y, z and reflectance; the counts say how many of a pillar's points are
        filled; a cell is the pillar's place in the grid, as batch, z, y and x.
        """
        filled = (torch.arange(points.shape[1], device=points.device) < counts.unsqueeze(1)).unsqueeze(2)
        position = points[..., :3]
        mean = (position * filled).sum(dim=1, keepdim=True) / counts.view(-1, 1, 1)
        cell = cells[:, 2:].flip(1).to(points.dtype)
        center = (cell + 0.5) * cell.new_tensor(self.pillar_size) + cell.new_tensor(self.origin)
        decorated = torch.cat([points, position - mean, position[..., :2] - center.unsqueeze(1)], dim=2)
        features = self.linear(decorated.masked_fill(~filled, 0.0))
        features = F.relu(self.norm(features.transpose(1, 2)))
        return features.amax(dim=2)
