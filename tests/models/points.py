"""Point clouds and graphs: neighbours, scatters and what depends on how many points there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.model import Axes, Call, Model, enliven

CLOUD: Axes = {"points": {0: "batch", 2: "points"}}
GRAPH: Axes = {"x": {0: "nodes"}, "edges": {1: "edges"}}


def stack(*widths: int, dims: int = 1) -> nn.Sequential:
    """Pointwise convolutions with normalisation."""
    convolution, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d))[dims - 1]
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(nn.Sequential(convolution(a, b, 1), norm(b), nn.ReLU()) for a, b in pairs))


class Alignment(nn.Module):
    """A matrix for each cloud, added to the identity."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.layers, self.last = size, stack(size, 16, 32), nn.Linear(32, size * size)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.max(self.layers(x), 2, keepdim=True)[0].view(-1, 32)
        identity = torch.eye(self.size).flatten().view(1, -1).repeat(x.size(0), 1)
        return (self.last(y) + identity).view(-1, self.size, self.size)  # type: ignore[no-any-return]


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.align, self.first = Alignment(3), stack(3, 16)
        self.align_features, self.second = Alignment(16), stack(16, 32, 64)
        self.head = nn.Sequential(stack(80, 32), nn.Conv1d(32, 5, 1))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        count = points.size(2)
        moved = torch.bmm(points.transpose(2, 1), self.align(points)).transpose(2, 1)
        features = self.first(moved)
        matrix = self.align_features(features)
        features = torch.bmm(features.transpose(2, 1), matrix).transpose(2, 1)
        overall = torch.max(self.second(features), 2, keepdim=True)[0]
        joined = torch.cat([overall.view(-1, 64, 1).repeat(1, 1, count), features], 1)
        return torch.log_softmax(self.head(joined).transpose(2, 1), dim=-1), matrix


def neighbours(x: Tensor, k: int) -> Tensor:
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    squares = torch.sum(x**2, dim=1, keepdim=True)
    return (-squares - inner - squares.transpose(2, 1)).topk(k=k, dim=-1)[1]


def edge_features(x: Tensor, k: int = 4) -> Tensor:
    """Each point with the differences to its nearest neighbours."""
    batch, channels, count = x.shape
    first = torch.arange(0, batch).view(-1, 1, 1) * count
    index = (neighbours(x, k) + first).view(-1)
    rows = x.transpose(2, 1).contiguous()
    near = rows.view(batch * count, -1)[index, :].view(batch, count, k, channels)
    rows = rows.view(batch, count, 1, channels).repeat(1, 1, k, 1)
    return torch.cat((near - rows, rows), dim=3).permute(0, 3, 1, 2).contiguous()


class EdgeConvolutions(nn.Module):
    """A graph of neighbours that is made anew in each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = stack(6, 16, dims=2), stack(32, 16, dims=2)
        self.last = nn.Linear(64, 5)

    def forward(self, points: Tensor) -> Any:
        one = self.first(edge_features(points)).max(dim=-1)[0]
        two = self.second(edge_features(one)).max(dim=-1)[0]
        x = torch.cat((one, two), dim=1)
        pooled = (nn.functional.adaptive_max_pool1d(x, 1), nn.functional.adaptive_avg_pool1d(x, 1))
        return self.last(torch.cat([y.view(points.size(0), -1) for y in pooled], 1))


class Sampled(nn.Module):
    """Farthest points as centres, and for each the points in a ball around it."""

    def __init__(self, centres: int = 4, near: int = 5) -> None:
        super().__init__()
        self.centres, self.near, self.layers = centres, near, stack(3, 16, 16, dims=2)

    def farthest(self, rows: Tensor) -> Tensor:
        batch, count, _ = rows.shape
        chosen = torch.zeros(batch, self.centres, dtype=torch.long)
        distance = torch.ones(batch, count) * 1e10
        last = torch.zeros(batch, dtype=torch.long)
        each = torch.arange(batch)
        for i in range(self.centres):
            chosen[:, i] = last
            centre = rows[each, last, :].view(batch, 1, 3)
            distance = torch.minimum(distance, torch.sum((rows - centre) ** 2, -1))
            last = torch.max(distance, -1)[1]
        return chosen

    def forward(self, points: Tensor) -> Tensor:
        rows = points.permute(0, 2, 1)
        batch, count, _ = rows.shape
        centres = torch.gather(rows, 1, self.farthest(rows).unsqueeze(-1).expand(-1, -1, 3))
        distances = torch.cdist(centres, rows) ** 2
        index = torch.arange(count).view(1, 1, count).repeat(batch, self.centres, 1)
        index[distances > 1.5**2] = count
        index = index.sort(dim=-1)[0][:, :, : self.near]
        first = index[:, :, 0].view(batch, self.centres, 1).repeat(1, 1, self.near)
        missing = index == count
        index[missing] = first[missing]
        groups = rows[torch.arange(batch).view(batch, 1, 1), index] - centres.view(batch, self.centres, 1, 3)
        return self.layers(groups.permute(0, 3, 2, 1)).max(2)[0]  # type: ignore[no-any-return]


class GraphConvolutions(nn.Module):
    """Messages along edges, summed at their targets and scaled by degrees."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 16, bias=False), nn.Linear(16, 4, bias=False)
        self.bias = nn.Parameter(torch.rand(16))

    @staticmethod
    def spread(x: Tensor, edges: Tensor) -> Tensor:
        count = x.size(0)
        loops = torch.arange(count).unsqueeze(0).repeat(2, 1)
        source, target = torch.cat([edges, loops], dim=1)
        degree = torch.zeros(count).scatter_add_(0, target, torch.ones(target.size(0)))
        scale = degree.pow(-0.5)
        scale[scale == float("inf")] = 0
        weight = scale[source] * scale[target]
        return torch.zeros_like(x).index_add_(0, target, x[source] * weight.unsqueeze(-1))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = torch.relu(self.spread(self.first(x), edges) + self.bias)
        return torch.log_softmax(self.spread(self.second(x), edges), dim=1)


class GraphAttention(nn.Module):
    """Attention over the edges that end at a node: a softmax over groups of unknown size."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.layer = heads, nn.Linear(width, heads * 4, bias=False)
        self.source, self.target = nn.Parameter(torch.rand(1, heads, 4)), nn.Parameter(torch.rand(1, heads, 4))

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        count, (source, target) = x.size(0), edges
        y = self.layer(x).view(-1, self.heads, 4)
        score = (y * self.source).sum(-1)[source] + (y * self.target).sum(-1)[target]
        score = nn.functional.leaky_relu(score, 0.2)
        index = target.unsqueeze(-1).expand_as(score)
        peak = torch.full((count, self.heads), -1e9).scatter_reduce(0, index, score, "amax", include_self=True)
        score = (score - peak[target]).exp()
        total = torch.zeros(count, self.heads).scatter_add(0, index, score)
        score = score / (total[target] + 1e-16)
        return torch.zeros_like(y).index_add_(0, target, y[source] * score.unsqueeze(-1)).flatten(1)


def cloud(model: type[nn.Module]) -> Callable[[], Call]:
    return lambda: Call(enliven(model()), (torch.randn(2, 3, 20),), axes=CLOUD)


def graph(model: type[nn.Module]) -> Callable[[], Call]:
    return lambda: Call(enliven(model()), (torch.randn(9, 8), torch.randint(0, 9, (2, 24))), axes=GRAPH)


MODELS = [
    Model("pointnet", "point cloud", cloud(PointNet), fast=True),
    Model("dgcnn", "point cloud", cloud(EdgeConvolutions), fast=True),
    Model("pointnet-2", "point cloud", cloud(Sampled), fast=True),
    Model("gcn", "graph", graph(GraphConvolutions), fast=True),
    Model("gat", "graph", graph(GraphAttention), fast=True),
]
