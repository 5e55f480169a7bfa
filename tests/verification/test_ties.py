"""Equal elements, of which torch does not say which one comes first: a sample that turns on them says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from tests.verification.faults import put_in

Model = Callable[[torch.Tensor], Any]


def picks(x: torch.Tensor) -> torch.Tensor:
    """Rows of a table by the places of the largest elements, all of which are equal where n is 1."""
    scores = (x - x.mean(0)).flatten()
    table = torch.arange(scores.numel())
    return table[scores.topk(6).indices]


def sums_picks(x: torch.Tensor) -> torch.Tensor:
    return picks(x).float() * 2


@pytest.mark.parametrize("model", [picks, sums_picks])
def test_a_sample_that_turns_on_equal_elements_says_nothing(model: Model) -> None:
    x = torch.randn(4, 300, generator=torch.Generator().manual_seed(0))
    program = onnxport.export(model, x, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    undecided = [case for case in program.verification.cases if case.undecided]
    assert [case.sizes for case in undecided] == [{"n": 1}] and "aten::topk" in undecided[0].undecided
    assert program.verification.passed and any("equal elements" in note for note in program.report.notes)
    assert {"n": 1} not in program.report.sizes_verified
    other = torch.randn(7, 300)
    assert torch.equal(program(other), model(other))


def shows_only_at_ties(x: torch.Tensor) -> torch.Tensor:
    scores = (x - x.mean(0)).flatten()
    return picks(x).float() * (scores.amax() == 0)


def sorts(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)).flatten().argsort(descending=True)[:6]


@pytest.mark.parametrize(
    ("model", "operator", "change"),
    [
        (sums_picks, "aten::mul", lambda g, value: g.op("Add", value, 1.0)),
        (shows_only_at_ties, "aten::mul", lambda g, value: g.op("Mul", value, 2.0)),
        (sorts, "aten::argsort", lambda g, value: g.op("Mul", value, 0)),
        (sorts, "aten::argsort", lambda g, value: g.op("Sub", value, 1)),
    ],
    ids=["behind", "at ties only", "one element twice", "no element"],
)
def test_a_wrong_file_is_found(
    model: Model, operator: str, change: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(4, 300, generator=torch.Generator().manual_seed(0))
    put_in(monkeypatch, operator, change)
    with pytest.raises(onnxport.VerificationError, match=operator):
        onnxport.export(model, x, input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_some_sample_has_to_decide() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x * 0).topk(6).indices

    with pytest.raises(onnxport.VerificationError, match="says nothing of the file"):
        onnxport.export(model, torch.randn(300))


@pytest.mark.parametrize("call", [torch.topk, lambda x, k, **rest: x.topk(k, -1, False, False)])
def test_elements_in_any_order_are_in_the_file_in_theirs(call: Callable[..., Any]) -> None:
    """torch leaves the order open: the one that it documents for sorted results is as good."""
    program = onnxport.export(lambda x: call(x, 4, sorted=False), torch.randperm(30).reshape(3, 10).float())
    x = torch.randperm(30).reshape(3, 10).float()
    values, indices = program(x)
    expected = call(x, 4, sorted=False)[0]
    assert torch.equal(values, expected.sort(descending=call is torch.topk).values)
    assert torch.equal(x.gather(1, indices), values)
