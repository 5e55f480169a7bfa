"""What a recorded run leaves behind: plain numbers, wherever the model keeps them."""

from __future__ import annotations

import functools
import pathlib
import threading
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.capture.record.numbers import leftovers
from tests.capture.record.at_sizes import Function, check

CACHE: dict[Any, Any] = {}
SEEN: list[Any] = []
KEPT: list[Any] = []


@functools.lru_cache(maxsize=256)
def recipe(rows: int, columns: int) -> tuple[int, int]:
    return rows * columns + 1, rows


class Keeping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last, self.rows, self.known = x.shape, x.shape[0], {"rows": (x.shape[0], 1)}
        return x.view(self.rows, -1)


def test_attributes(tmp_path: pathlib.Path) -> None:
    model = Keeping()
    check(model, tmp_path)
    assert type(model.rows) is int and type(model.last[0]) is int and type(model.known["rows"][0]) is int


def keep_outside(x: torch.Tensor) -> torch.Tensor:
    CACHE[x.shape[0], "rows"] = x.shape[0] * 2
    SEEN.append((x.shape,))
    return x * 2


def test_globals(tmp_path: pathlib.Path) -> None:
    check(keep_outside, tmp_path)
    assert all(type(number) is int for number in [*(key[0] for key in CACHE), *CACHE.values()])
    assert all(type(size) is int for (shape,) in SEEN for size in shape)


def refuse_one_row(x: torch.Tensor) -> torch.Tensor:
    sizes = tuple(x.shape)

    def check() -> None:
        if sizes[0] < 2:
            raise ValueError(f"{sizes[0]} row")

    check()
    return x * 2


def test_runs_that_the_model_refuses(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the frames of the error hold is not searched for."""
    monkeypatch.setattr(leftovers.gc, "get_referrers", lambda *numbers: pytest.fail("searched"))
    check(refuse_one_row, tmp_path)


def keep_and_refuse_one_row(x: torch.Tensor) -> torch.Tensor:
    sizes = tuple(x.shape)
    KEPT.append(lambda: sizes)
    return refuse_one_row(x)


def test_what_a_refused_run_kept(tmp_path: pathlib.Path) -> None:
    check(keep_and_refuse_one_row, tmp_path)
    assert 1 in [kept()[0] for kept in KEPT]
    assert all(type(size) is int for kept in KEPT for size in kept())


def follow_recipe(x: torch.Tensor) -> torch.Tensor:
    tall, wide = recipe(x.shape[0], x.shape[1]), recipe(x.shape[1], x.shape[0])
    return x.reshape(wide[1] * tall[1]).view(tall[1], wide[1]) * tall[0]


def test_caches_keyed_by_sizes(tmp_path: pathlib.Path) -> None:
    assert recipe(4, 4) == (17, 4)
    check(follow_recipe, tmp_path, example=(4, 4), others=[(5, 7), (7, 5)])
    assert type(recipe(4, 4)[0]) is int
    assert torch.zeros(recipe(4, 4)[1]).shape == (4,)


def test_an_export_inside_of_an_exported_model(tmp_path: pathlib.Path) -> None:
    def export_another(x: torch.Tensor) -> torch.Tensor:
        inner = Function(lambda y: y.view(y.shape[0] * 2, -1))
        dynamic = {"x": {0: "rows"}}
        onnxport.export(inner, (torch.ones(2, 4),), tmp_path / "inner", input_names=["x"], dynamic_axes=dynamic)
        return x.view(x.shape[0] * 2, -1) * 3

    check(export_another, tmp_path)


def test_two_threads(tmp_path: pathlib.Path) -> None:
    found: list[str] = []

    def export(name: str) -> None:
        (tmp_path / name).mkdir()
        check(nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)]), tmp_path / name)
        found.append(name)

    threads = [threading.Thread(target=export, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["one", "other"]


class Tabled(nn.Module):
    """Keeps tables by whole shapes in a cache of limited size, in which equal shapes of several runs are one key."""

    @functools.lru_cache(maxsize=2)  # noqa: B019
    def table(self, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(shape[1:], dtype=dtype).cumsum(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table(x.shape, x.dtype)


def test_a_cache_with_shapes_for_keys(tmp_path: pathlib.Path) -> None:
    model = Tabled()
    for _ in range(2):
        check(model, tmp_path)
    model.table.cache_clear()
    for rows in (3, 4, 5, 3):
        assert model(torch.zeros(rows, 6)).shape == (rows, 6)
