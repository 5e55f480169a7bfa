"""Models whose first call changes what later calls compute are exported as the later calls compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.verification import Verification

AXES = {"x": {0: "n"}}
WARMED = "its first call"


class Normalised(nn.Module):
    """Scale and bias come from the data of the first call."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.initialized = kind, False
        if kind == "parameter":
            self.scale, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
        elif kind in ("buffer", "flag"):
            self.register_buffer("scale", torch.ones(4))
            self.register_buffer("bias", torch.zeros(4))
            self.register_buffer("ready", torch.tensor(0))
        elif kind == "attribute":
            self.scale, self.bias = torch.ones(4), torch.zeros(4)  # type: ignore[assignment]
        self.last = nn.Linear(4, 3)

    def first(self, x: torch.Tensor) -> None:
        bias, scale = -x.mean(0), 1 / (x.std(0) + 1e-3)
        if self.kind == "replaced":
            self.scale, self.bias = nn.Parameter(scale), nn.Parameter(bias)
        elif self.kind == "dict":
            self.numbers = {"scale": scale, "bias": bias}
        else:
            self.scale.data.copy_(scale)
            self.bias.data.copy_(bias)
        if self.kind == "flag":
            self.ready.fill_(1)
        self.initialized = True

    def forward(self, x: torch.Tensor) -> Any:
        if not (bool(self.ready) if self.kind == "flag" else self.initialized):
            self.first(x)
        held = self.numbers if self.kind == "dict" else {"scale": self.scale, "bias": self.bias}
        return self.last((x + held["bias"]) * held["scale"])


class Counted(nn.Module):
    """A number of calls that decides, and that goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        return self.layer(x) * (100.0 if self.calls == 1 else 1.0)


class Lazy(nn.Module):
    """Makes its table on the first call, from the sizes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(4) * 0.5
        return x * self.table


def snapshot(model: nn.Module) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    plain = {name: value for name, value in vars(model).items() if not isinstance(value, (torch.Tensor, dict))}
    return plain, {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same_state(model: nn.Module, before: tuple[dict[str, Any], dict[str, torch.Tensor]]) -> None:
    plain, tensors = snapshot(model)
    assert plain == before[0]
    assert list(tensors) == list(before[1])
    assert all(torch.equal(tensor, before[1][name]) for name, tensor in tensors.items())


KINDS = ("parameter", "buffer", "flag", "attribute", "replaced", "dict")


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("make", [*(lambda k=k: Normalised(k) for k in KINDS), Counted], ids=[*KINDS, "counter"])
def test_the_file_is_what_the_second_call_computes(make: Callable[[], nn.Module], keep: bool) -> None:
    model = make()
    before, held = snapshot(model), dict(vars(model))
    example = torch.randn(6, 4) * 3 + 2
    program = onnxport.export(model, example, dynamic_axes=AXES, export_params=keep)
    assert_same_state(model, before)
    assert vars(model) == held or all(vars(model)[name] is value for name, value in held.items())
    assert program.verification.passed
    assert any(WARMED in note for note in program.report.notes)
    assert onnxport.verify(program, model, example).passed if keep else True
    model(example)
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))


def test_the_warm_weights_are_in_the_file_under_their_names() -> None:
    model = Normalised("parameter")
    example = torch.randn(6, 4) * 3 + 2
    program = onnxport.export(model, example, dynamic_axes=AXES, do_constant_folding=False)
    stored = {tensor.name for tensor in program.model_proto.graph.initializer}
    assert {"scale", "bias"} <= stored
    assert "ReduceMean" not in {node.op_type for node in program.model_proto.graph.node}


def test_a_model_inside_another_and_tied_weights() -> None:
    inner = Normalised("parameter")
    model = nn.Sequential(inner, nn.Linear(3, 4), inner)
    program = onnxport.export(model, (example := torch.randn(6, 4) * 3 + 2), dynamic_axes={"input": {0: "n"}})
    assert not inner.initialized and torch.equal(inner.scale, torch.ones(4))
    model(example)
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))


class Watched(nn.Module):
    """Counts its calls where no exporter restores them."""

    def __init__(self, model: nn.Module, calls: list[int]) -> None:
        super().__init__()
        self.model = model
        self.register_forward_hook(lambda *_: calls.append(1))

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x)


def calls_of(model: nn.Module, **options: Any) -> int:
    calls: list[int] = []
    onnxport.export(Watched(model, calls), torch.randn(6, 4), verify=False, **options)
    return len(calls)


def test_a_model_that_changes_nothing_is_called_once() -> None:
    assert calls_of(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))) == 1


def test_a_table_made_on_the_first_call_is_no_other_result() -> None:
    model = Lazy()
    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes=AXES)
    assert model.table is None and not any(WARMED in note for note in program.report.notes)
    assert not program.report.warnings


def test_batch_norm_in_training_mode_is_exported_as_it_is() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4))
    program = onnxport.export(model, torch.randn(6, 4), training=onnxport.TrainingMode.TRAINING)
    assert not program.report.warnings and not any(WARMED in note for note in program.report.notes)
    assert model[0].num_batches_tracked == 0


class Appending(nn.Module):
    """Keeps what it was given; each call returns more."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = x if self.cache is None else torch.cat([self.cache, x])
        return self.cache * 2


def test_a_model_of_which_each_call_goes_on_from_the_last_is_its_next_call_with_a_warning() -> None:
    model = Appending()
    with pytest.warns(onnxport.TraceWarning, match="each call .*changes the result of the next one"):
        program = onnxport.export(model, torch.randn(2, 4), dynamic_axes=AXES)
    assert model.cache is None
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))


def test_a_model_that_goes_on_from_the_data_of_the_last_call_is_its_next_call_with_a_warning() -> None:
    class Follows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.zeros(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before, self.last = self.last, x[-1]
            return x + before

    model = Follows()
    with pytest.warns(
        onnxport.TraceWarning, match=r"each call of the model changes the result of the next one.*Follows\.last"
    ):
        program = onnxport.export(model, torch.randn(5, 4), input_names=["x"], dynamic_axes=AXES)
    x = torch.randn(3, 4)
    torch.testing.assert_close(program(x), x)


def test_a_count_that_is_out_of_sight_is_no_rounding_error() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = {"calls": [0]}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept["calls"][0] += 1
            return x * self.kept["calls"][0]

    with pytest.raises(onnxport.VerificationError, match="gives other results than the torch model"):
        onnxport.export(Counts(), torch.randn(5, 4))


def test_a_layer_made_in_the_first_call_has_its_weights_in_the_file() -> None:
    class Grows(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            if not hasattr(self, "layer"):
                torch.manual_seed(3)
                self.layer = nn.Linear(4, 4)
            return self.layer(x)

    program = onnxport.export(Grows(), torch.randn(5, 4), input_names=["x"], dynamic_axes=AXES)
    x = torch.randn(3, 4)
    torch.testing.assert_close(program(x), Grows()(x).detach(), rtol=1e-5, atol=1e-5)


def test_a_result_that_is_kept_but_not_used_changes_nothing() -> None:
    class Keeping(nn.Module):
        kept: Any = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept = x.softmax(-1)
            return self.kept * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        program = onnxport.export(Keeping(), torch.randn(2, 4), dynamic_axes=AXES)
    assert not any(WARMED in note for note in program.report.notes)


class Merging(nn.Linear):
    """Adds its low-rank part to the weight when it is switched to evaluation."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.extra, self.merged = nn.Parameter(torch.randn(4, 4)), False

    def train(self, mode: bool = True) -> Any:
        if mode == self.merged:
            self.weight.data.add_(self.extra.data, alpha=-1 if mode else 1)
            self.merged = not mode
        return super().train(mode)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        y = super().forward(input)
        return y if self.merged else y + input @ self.extra.T


def test_weights_that_change_with_the_mode_come_back() -> None:
    model = Merging()
    weight = model.weight.clone()
    x = torch.randn(5, 4)
    expected = model(x)
    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes={"input": {0: "n"}})
    assert torch.equal(model.weight, weight) and not model.merged and model.training
    torch.testing.assert_close(program(x), expected)


class ScriptedNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.initialized = False
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.initialized:
            self.scale.copy_(1 / (x.std(0) + 1e-3))
            self.initialized = True
        return x * self.scale


def test_a_scripted_model_and_one_inside_a_traced_one() -> None:
    for inside in (False, True):
        script = torch.jit.script(ScriptedNorm())
        model = nn.Sequential(script) if inside else script
        example = torch.randn(6, 4) * 3 + 2
        name = "input" if inside else "x"
        program = onnxport.export(model, example, dynamic_axes={name: {0: "n"}})
        assert not script.initialized and torch.equal(script.scale, torch.ones(4))
        verified: Verification = onnxport.verify(program, model, example)
        assert verified.passed, verified
        model(example)
        x = torch.randn(5, 4)
        torch.testing.assert_close(program(x), model(x))


def test_a_scripted_part_is_exported_in_the_mode_that_is_asked_for() -> None:
    model = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Dropout(0.5))).train()
    program = onnxport.export(model, torch.randn(2, 4))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Gemm"]
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), model.eval()(x))
