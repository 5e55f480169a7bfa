"""Loops over the places where something holds: the file has a round for every place, if that changes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport

EXPERTS = 6


def rows_of_tensor(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return [row[0] for row in hit.nonzero()]


def flat_tensor(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return hit.nonzero().flatten()


def flat_list(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return torch.nonzero(hit).squeeze(-1).tolist()


def by_axis(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return hit.nonzero(as_tuple=True)[0]


def by_condition(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return torch.where(hit)[0].unbind()


def array(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return torch.argwhere(hit)[:, 0].numpy()


def unique_values(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return chosen.unique()


def unique_list(chosen: Tensor, hit: Tensor) -> Iterable[Any]:
    return torch.unique(chosen.clone().view(-1, 1)).tolist()


PLACES = [rows_of_tensor, flat_tensor, flat_list, by_axis, by_condition, array, unique_values, unique_list]


class Mixture(nn.Module):
    """Each row goes through the layer that a router chooses; a few rows do not reach all of the layers."""

    def __init__(self, places: Callable[[Tensor, Tensor], Iterable[Any]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(4, EXPERTS)
        self.layers = nn.ModuleDict({f"layer_{place}": nn.Linear(4, 4) for place in range(EXPERTS)})
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).argmax(-1)
        mask = nn.functional.one_hot(chosen, EXPERTS).t()
        out = torch.zeros_like(x)
        for place in self.places(chosen, mask.sum(-1) > 0):
            (rows,) = torch.where(mask[place])
            out.index_add_(0, rows, self.layers[f"layer_{place}"](x[rows]))
        return out


@pytest.mark.parametrize("axes", [{"x": {0: "n"}}, {}], ids=["dynamic", "static"])
@pytest.mark.parametrize("places", PLACES)
def test_layers_that_the_example_does_not_reach_are_in_the_file(
    places: Callable[[Tensor, Tensor], Iterable[Any]], axes: dict[str, dict[int, str]]
) -> None:
    model = Mixture(places)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, torch.randn(2, 4), input_names=["x"], dynamic_axes=axes)
    for count in (1, 3, 40) if axes else (2, 2, 2, 2):
        x = torch.randn(count, 4)
        torch.testing.assert_close(program(x), model(x).detach(), rtol=1e-5, atol=1e-5)


def test_experts_beyond_the_last_are_skipped_as_in_a_plain_run() -> None:
    """Mixtures in transformers give padding an index of its own, and end the round for it."""

    def function(x: Tensor, weights: Tensor) -> Tensor:
        mask = nn.functional.one_hot(x.argmax(-1), 5).permute(1, 0)
        out = torch.zeros_like(x)
        for hit in (mask.sum(-1) > 0).nonzero():
            place = hit[0]
            if place == 4:
                continue
            (rows,) = torch.where(mask[place])
            out.index_add_(0, rows, x[rows] @ weights[place])
        return out

    weights = torch.randn(4, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(function, (torch.eye(4)[[1, 1, 2]], weights))
    for rows in ([0, 3, 0], [2, 2, 2], [3, 1, 0]):
        x = torch.eye(4)[rows]
        torch.testing.assert_close(program(x, weights), function(x, weights))


def sums(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for place in (x > 0).nonzero().flatten():
        out = out + x[place] * 2
    return out


def writes(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for place in (x > 0).nonzero().flatten():
        out[place] = x[place].clamp(min=0) * 2
    return out


@pytest.mark.filterwarnings("ignore::onnxport.TraceWarning")
def test_a_loop_over_the_places_of_a_dynamic_axis_is_an_error() -> None:
    line = sums.__code__.co_firstlineno + 2
    with pytest.raises(onnxport.ExportError, match=rf"test_loops_over_indices\.py:{line}"):
        onnxport.export(sums, torch.tensor([1.0, -1.0, 2.0, 0.5]), dynamic_axes={"x": {0: "n"}})


@pytest.mark.filterwarnings("ignore::onnxport.TraceWarning")
def test_a_loop_over_the_places_of_a_dynamic_axis_that_writes_is_a_loop() -> None:
    program = onnxport.export(writes, torch.tensor([1.0, -1.0, 2.0, 0.5]), dynamic_axes={"x": {0: "n"}})
    for x in (torch.tensor([-1.0]), torch.tensor([2.0]), torch.randn(9), torch.rand(40), -torch.rand(5)):
        torch.testing.assert_close(program(x), writes(x))


def test_sizes_that_where_counts_follow_the_data() -> None:
    def function(x: Tensor) -> Tensor:
        (rows,) = torch.where(x > 0)
        return x[rows] * rows.shape[0]

    program = onnxport.export(function, torch.tensor([1.0, -1.0, 2.0, 0.5]))
    for given in ([1.0, -1.0, -2.0, 0.5], [-1.0, -1.0, -1.0, -1.0], [1.0, 2.0, 3.0, 4.0]):
        torch.testing.assert_close(program(torch.tensor(given)), function(torch.tensor(given)))


def test_a_loop_that_counts_its_rounds_stays_as_the_example_has_it() -> None:
    def counts(x: Tensor) -> Tensor:
        for _ in (x > 0).nonzero():
            x = x + 1
        return x

    example = torch.tensor([1.0, -1.0, 2.0])
    with pytest.warns(
        onnxport.TraceWarning, match=r"used as the number of iterations of a loop; its value 2 is frozen"
    ):
        program = onnxport.export(counts, example)
    torch.testing.assert_close(program(example), counts(example))


def test_a_loop_whose_rounds_are_numbered_is_told_of() -> None:
    def numbered(x: Tensor) -> Tensor:
        counts = torch.bincount(x.argmax(-1), minlength=4)
        total = counts.sum() * 0
        for number, place in enumerate((counts > 0).nonzero().flatten()):
            total = total + counts[place] * (number + 1)
        return total

    example = torch.eye(4)[[0, 1, 1, 0, 2]]  # the places in front: the others add nothing
    with pytest.warns(
        onnxport.TraceWarning, match=r"used as the number of iterations of a loop; its value 3 is frozen"
    ):
        program = onnxport.export(numbered, example)
    torch.testing.assert_close(program(example), numbered(example))


def test_a_mask_that_holds_everywhere_in_the_example() -> None:
    """What is counted has a size of its own, not that of the axis."""

    def function(x: Tensor) -> Tensor:
        rows = torch.where(x[:, 0] > -1.5)[0]
        return torch.zeros_like(x).index_add(0, rows, x[rows] * 2)

    example = torch.randn(6, 8).clamp(-1.4, 9)
    program = onnxport.export(function, example, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for rows in (13, 4):
        x = torch.randn(rows, 8)
        x[:3, 0] = -3
        torch.testing.assert_close(program(x), function(x))


class WithNone(Mixture):
    """There is a place more than layers, for rows that go to none of them; no row does."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = self.router(x).argmax(-1)
        mask = nn.functional.one_hot(chosen, EXPERTS + 1).t()
        weights = torch.stack([layer.weight for layer in self.layers.values()])
        out = torch.zeros_like(x)
        for place in mask.sum(-1).nonzero():
            (rows,) = torch.where(mask[place[0]])
            out.index_add_(0, rows, x[rows] @ weights[place[0]])
        return out


@pytest.mark.parametrize("axes", [{"x": {0: "n"}}, {}], ids=["dynamic", "static"])
def test_a_place_for_none_is_left_out(axes: dict[str, dict[int, str]]) -> None:
    model = WithNone(flat_tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, (torch.randn(3, 4),), input_names=["x"], dynamic_axes=axes)
    for rows in (3, 1, 50) if axes else (3, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


class Best(Mixture):
    """Each row goes through its best two layers, by a mask of which torch lays out the axes in another order."""

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(-1).topk(2, -1)
        mask = nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for place in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            which, rows = torch.where(mask[place[0]])
            layer = self.layers[f"layer_{int(place.item())}"]
            out.index_add_(0, rows, layer(x[rows]) * weight[rows, which, None])
        return out


def test_the_best_two_layers_of_each_row() -> None:
    model = Best(flat_tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(model, (torch.randn(3, 4),), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for rows in (3, 1, 50):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
