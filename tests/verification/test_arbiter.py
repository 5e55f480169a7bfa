"""Where the file and torch in single precision differ, the model in double precision decides."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.capture.model.runner import ModelRunner
from tests.symbolic.harness import operators, registered
from tests.verification.faults import put_in


def sum_in_order(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row, rounded after each element: no kernel of any machine is asked for its order."""
    total = torch.zeros_like(x[..., 0])
    for column in x.unbind(-1):
        total = total + column
    return total


def sum_in_double(g: Any, x: Any) -> Any:
    """The same sum as the file has it, rounded once at the end."""
    wide = g.op("Cast", x, to_i=11)
    total = g.op("ReduceSum", wide, g.op("Constant", value_t=torch.tensor([-1])), keepdims_i=0)
    return g.op("Cast", total, to_i=1)


@pytest.fixture(autouse=True)
def two_sums() -> Iterator[None]:
    """An operator that torch computes with one order of rounding and the file with another."""
    schema = "sum_in_order(Tensor x) -> Tensor"
    with operators((schema, sum_in_order), namespace="arbiter"), registered("arbiter::sum_in_order", sum_in_double):
        yield


class Sums(nn.Module):
    """Sums of numbers near to ``offset``, less what they are without their small parts, of which little is left."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.ones(8, 512))

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = torch.ops.arbiter.sum_in_order(x.unsqueeze(1) * self.weight)
        return total

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.sums(x + self.offset) - self.offset * 512)


class SumsWithCasts(Sums):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        offsets = torch.full((512,), self.offset, dtype=torch.float32)
        return torch.relu(self.sums(x.float() + offsets).float() - (offsets * 512)[:8].to(torch.float32))


class CountedSums(Sums):
    """Writes into a buffer, which the arbiter leaves alone."""

    calls: torch.Tensor

    def __init__(self, offset: float) -> None:
        super().__init__(offset)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1.0)
        return super().forward(x)


class TwoResults(Sums):
    def forward(self, x: torch.Tensor) -> Any:
        sums = super().forward(x)
        return sums, sums.round().long()


def data() -> torch.Tensor:
    return torch.rand(50, 512, generator=torch.Generator().manual_seed(0))


def test_the_file_is_right_where_torch_is_further_from_the_model_in_double_precision() -> None:
    program = onnxport.export(Sums(1000.0), data())
    assert program.verification.passed and program.verification.max_abs_error > 0.1
    for found in program.verification.arbitrated:
        assert found.output == "output" and found.file_error <= 4 * found.own_error
    assert "right by the model in double precision" in str(program.verification)
    assert any("double precision" in note for note in program.report.notes)
    assert "double precision" in str(program.report)


def test_casts_to_single_precision_are_no_obstacle() -> None:
    assert onnxport.export(SumsWithCasts(1000.0), data()).verification.arbitrated


def test_the_model_comes_back_as_it_was() -> None:
    model = Sums(1000.0).train()
    weight, content = model.weight, copy.deepcopy(model.state_dict())
    onnxport.export(model, data())
    assert model.weight is weight and model.training and torch.get_default_dtype() is torch.float32
    assert all(torch.equal(tensor, content[name]) for name, tensor in model.state_dict().items())
    assert weight.dtype is torch.float32


def test_a_file_made_earlier_is_judged_in_the_same_way() -> None:
    model = Sums(1000.0)
    program = onnxport.export(model, data(), verify=False)
    found = onnxport.verify(program, model, data())
    assert found.passed and found.arbitrated


def test_a_tame_model_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    monkeypatch.setattr(ModelRunner, "execute_in_double", lambda *given: called.append(given))
    assert not onnxport.export(Sums(1.0), data()).verification.arbitrated
    assert not called


@pytest.mark.parametrize("offset", [1.0, 1000.0])
@pytest.mark.parametrize("operator", ["aten::mul", "aten::relu"])
def test_an_operator_that_is_wrong_by_one_part_in_a_hundred_is_found(
    monkeypatch: pytest.MonkeyPatch, operator: str, offset: float
) -> None:
    put_in(monkeypatch, operator, lambda g, result: g.op("Mul", result, 1.01))
    with pytest.raises(onnxport.VerificationError):
        onnxport.export(Sums(offset), data())


def test_an_operator_whose_error_is_as_large_as_torchs_rounding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::relu", lambda g, result: g.op("Mul", result, 1.0005))
    with pytest.raises(onnxport.VerificationError) as caught:
        onnxport.export(Sums(1000.0), data())
    assert caught.value.mismatch is not None and caught.value.mismatch.operator == "aten::relu"


def test_integers_that_rounding_changes_are_not_a_matter_of_rounding() -> None:
    with pytest.raises(onnxport.VerificationError, match="elements differ"):
        onnxport.export(TwoResults(1000.0), data())


def test_a_model_that_does_not_run_in_double_precision_has_no_arbiter() -> None:
    model = CountedSums(1000.0)
    with pytest.raises(onnxport.VerificationError):
        onnxport.export(model, data())
    assert model.calls.item() == 0.0


def test_where_torch_itself_knows_next_to_nothing_there_is_no_allowance() -> None:
    with pytest.raises(onnxport.VerificationError):
        onnxport.export(Sums(100_000.0), data())


def is_whole(x: torch.Tensor) -> torch.Tensor:
    """The parts of a row add up to 1, or to the number below or above."""
    parts = x / torch.ops.arbiter.sum_in_order(x).unsqueeze(-1)
    return torch.ops.arbiter.sum_in_order(parts) >= 1


def above(x: torch.Tensor) -> torch.Tensor:
    return torch.bucketize(x.sum(-1), torch.tensor([100.0, 250.0, 255.0, 260.0]))


def test_comparisons_that_rounding_decides_may_fall_otherwise() -> None:
    x = data()[:, :8]
    program = onnxport.export(is_whole, x, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert not torch.equal(program(x), is_whole(x))
    assert program.verification.passed and "rounding decides" in str(program.verification)


def test_integers_that_are_near_no_boundary_are_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::sum", lambda g, result: g.op("Mul", result, 1.001))
    with pytest.raises(onnxport.VerificationError, match="elements differ"):
        onnxport.export(above, data())
