"""Models of every kind that people have: precisions, weights that are tied, hooked, wrapped, computed or absent."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import onnxport
from onnxport.verification.runtime import Session
from tests.recording import is_recorded

BATCH = {"input": {0: "n"}}


def network() -> nn.Sequential:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    return nn.Sequential(*layers, nn.LayerNorm(4), nn.GELU(), nn.Softmax(-1)).eval()


def names(program: onnxport.Program) -> set[str]:
    return {initializer.name for initializer in program.model_proto.graph.initializer}


def operators(program: onnxport.Program) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


class Autocast(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.network, self.dtype = network(), dtype

    def forward(self, input: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=self.dtype):
            return self.network(input)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision(dtype: torch.dtype, autocast: bool) -> None:
    model: nn.Module = Autocast(dtype) if autocast else network().to(dtype)
    kind = torch.float32 if autocast else dtype
    program = onnxport.export(model, torch.randn(2, 3, 8, 8, dtype=kind), dynamic_axes=BATCH)
    x = torch.randn(5, 3, 8, 8, dtype=kind)
    expected = model(x)
    torch.testing.assert_close(program(x), expected, atol=8 * torch.finfo(dtype).eps, rtol=0)
    assert expected.dtype == dtype


def test_autocast_around_the_export() -> None:
    """torch keeps the weights that it cast from one call to the next; a trace must not take them for constants."""
    model, x = network(), torch.randn(5, 3, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
        program = onnxport.export(model, torch.randn(2, 3, 8, 8), dynamic_axes=BATCH)
        expected = model(x)
    torch.testing.assert_close(program(x), expected, atol=0.05, rtol=0)
    assert {"0.weight", "5.weight"} <= names(program)


def hollow(kind: str) -> nn.Module:
    if kind == "fake":
        with FakeTensorMode():
            return network()
    with torch.device("meta"):
        return network()


@pytest.mark.parametrize("kind", ["meta", "fake"])
@pytest.mark.parametrize("hollow_input", [False, True])
def test_a_model_without_weights_is_exported_for_weights_that_come_as_inputs(kind: str, hollow_input: bool) -> None:
    model = hollow(kind)
    example = torch.randn(2, 3, 8, 8)
    program = onnxport.export(
        model, example.to("meta") if hollow_input else example, dynamic_axes=BATCH, export_params=False
    )
    assert program.verification.passed
    assert all(parameter.is_meta or kind == "fake" for parameter in model.parameters())
    real, x = network(), torch.randn(5, 3, 8, 8)
    given = {"input": x, **real.state_dict()}
    session = Session(program.model_proto.SerializeToString())
    wanted = {value.name: given[value.name] for value in program.model_proto.graph.input}
    torch.testing.assert_close(session.run(wanted)[0], real(x))
    with pytest.raises(onnxport.ExportError, match="exported without weights"):
        program(x)


def test_a_fake_mode_that_is_on_does_not_reach_the_export() -> None:
    with FakeTensorMode():
        model, x = network(), torch.randn(2, 3, 8, 8)
        assert onnxport.export(model, x, dynamic_axes=BATCH, export_params=False).verification.passed


def test_weights_without_content_cannot_go_into_a_file() -> None:
    with pytest.raises(onnxport.CaptureError, match=r"'0\.weight' is on the meta device .*export_params=False"):
        onnxport.export(hollow("meta"), torch.randn(2, 3, 8, 8))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 64)
        self.layer = nn.Linear(64, 64)
        self.head = nn.Linear(64, 500)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> Any:
        return self.head(self.layer(self.embed(ids)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_file_is_as_large_as_the_checkpoint(dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    model = Tied().to(dtype)
    torch.save(model.state_dict(), tmp_path / "checkpoint")
    axes = {"ids": {0: "n", 1: "t"}}
    onnxport.export(model, torch.ones(2, 3, dtype=torch.int64), tmp_path / "model.onnx", dynamic_axes=axes)
    assert (tmp_path / "model.onnx").stat().st_size <= 1.02 * (tmp_path / "checkpoint").stat().st_size


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


def parametrized() -> nn.Module:
    layer = nn.Linear(24, 24)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


COMPUTED: dict[str, Callable[[], nn.Module]] = {
    "weight-norm-old": lambda: weight_norm(nn.Linear(24, 24)),
    "weight-norm-of-all": lambda: weight_norm(nn.Linear(24, 24), dim=None),
    "weight-norm": lambda: parametrizations.weight_norm(nn.Linear(24, 24)),
    "spectral-norm-old": lambda: spectral_norm(nn.Linear(24, 24)),
    "spectral-norm": lambda: parametrizations.spectral_norm(nn.Linear(24, 24)),
    "own": parametrized,
    "pruned": lambda: prune.l1_unstructured(nn.Linear(24, 24), "weight", 0.5),
}


@pytest.mark.parametrize("kind", COMPUTED)
def test_a_computed_weight_is_stored_as_it_comes_out(kind: str) -> None:
    layer = COMPUTED[kind]()
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    program = onnxport.export(layer, torch.randn(2, 24), dynamic_axes=BATCH)
    assert operators(program) == ["Gemm"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in layer.state_dict().items())
    x = torch.randn(5, 24)
    torch.testing.assert_close(program(x), layer.eval()(x), atol=1e-5, rtol=1e-5)


def test_a_computed_weight_that_two_layers_use_is_stored_once() -> None:
    layer = parametrized()
    program = onnxport.export(nn.Sequential(layer, nn.ReLU(), layer), torch.randn(2, 24), dynamic_axes=BATCH)
    assert [len(i.dims) for i in program.model_proto.graph.initializer].count(2) == 1


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, input: torch.Tensor) -> Any:
        return self.base(input) + self.up(self.down(self.dropout(input))) * 2


class Merged(LowRank):
    def forward(self, input: torch.Tensor) -> Any:
        return nn.functional.linear(input, self.base.weight + self.up.weight @ self.down.weight * 2, self.base.bias)


def test_a_weight_with_its_update_of_low_rank_is_stored_as_one() -> None:
    model = Merged(nn.Linear(40, 30))
    program = onnxport.export(model, torch.randn(2, 40), dynamic_axes=BATCH)
    assert operators(program) == ["Gemm"]
    x = torch.randn(5, 40)
    torch.testing.assert_close(program(x), model.eval()(x), atol=1e-5, rtol=1e-5)


def hooked() -> nn.Module:
    layer = nn.Linear(4, 4)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.register_forward_hook(lambda module, args, output: output * 2)
    layer.register_forward_hook(lambda module, args, kwargs, output: output - 1, with_kwargs=True)
    return layer


def replaced() -> nn.Module:
    layer = nn.Linear(4, 4)
    forward = layer.forward
    layer.forward = lambda input: forward(input) * 3  # type: ignore[method-assign]
    return layer


@pytest.mark.parametrize(
    "make",
    [lambda: LowRank(nn.Linear(4, 3)), hooked, replaced, lambda: nn.DataParallel(LowRank(nn.Linear(4, 3)))],
    ids=["low-rank", "hooks", "forward-replaced", "data-parallel"],
)
def test_wrapped_and_hooked_modules(make: Callable[[], nn.Module]) -> None:
    model = make()
    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes=BATCH)
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model.eval()(x))


class Positions(nn.Module):
    """Makes its table on the first call, and again for a longer sequence."""

    def __init__(self, registered: bool) -> None:
        super().__init__()
        self.registered = registered
        self.length = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            table = torch.cos(torch.arange(self.length))
            if self.registered:
                self.register_buffer("table", table, persistent=False)
            else:
                self.table = table
        return x * self.table[: x.shape[1]]


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("called", [False, True])
def test_a_table_of_positions_fits_every_length(registered: bool, called: bool) -> None:
    model = Positions(registered)
    if called:
        model(torch.randn(2, 4))
    length = model.length
    program = onnxport.export(model, torch.randn(2, 7), dynamic_axes={"x": {0: "n", 1: "t"}})
    assert model.length == length and hasattr(model, "table") == called
    x = torch.randn(3, 19)
    torch.testing.assert_close(program(x), model(x))


class Rescaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.done = nn.Linear(4, 4), False

    def forward(self, x: torch.Tensor) -> Any:
        if not self.done:
            self.layer.weight.data.div_(2)
            self.done = True
        return self.layer(x)


def test_a_layer_that_rescales_itself_is_given_back_unscaled() -> None:
    model = Rescaled()
    before = model.layer.weight.clone()
    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes={"x": {0: "n"}})
    assert not model.done and torch.equal(model.layer.weight, before)
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))
    torch.testing.assert_close(program(x), model(x), msg="the second call does not scale again")


def test_a_cache_outside_of_the_model() -> None:
    """Its first call takes another path than all later ones; traced once more, they agree."""
    cache: dict[str, torch.Tensor] = {}

    def model(x: torch.Tensor) -> torch.Tensor:
        if "scale" not in cache:
            cache["scale"] = torch.ones(4) * 2
        return x * cache["scale"]

    program = onnxport.export(model, torch.randn(2, 4), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), model(x))


def test_outputs_that_are_parameters_or_inputs_and_inputs_that_are_not_used() -> None:
    class Passing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor, unused: torch.Tensor) -> Any:
            y = x * self.weight
            return self.weight, x, {"same": y, "again": y}, torch.ones(2)

    model = Passing()
    example = torch.randn(2, 3), torch.randn(4)
    program = onnxport.export(model, example, dynamic_axes={"x": {0: "n"}, "unused": {0: "m"}})
    assert [value.name for value in program.model_proto.graph.input] == ["x", "unused"]
    assert "weight" in names(program)
    given = torch.randn(5, 3), torch.randn(7)
    torch.testing.assert_close(program(*given), model(*given))


def test_a_model_that_returns_something_else_while_it_is_recorded_is_an_error() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.sin() if is_recorded() else (x.sin(), x.sum())

    with pytest.raises(onnxport.VerificationError, match="1 outputs instead of the 2"):
        onnxport.export(Model(), torch.randn(3))


def test_the_module_of_an_exported_program() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(), nn.ReLU()).eval()
    x = torch.randn(4, 2)
    module = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(onnxport.export(module, x)(x), model(x).detach())


class Generated(nn.Module):
    """A layer whose weights another one computes from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Linear(4, 15)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        made = self.weights(x.mean(0))
        given = {"weight": made[:12].view(3, 4), "bias": made[12:]}
        return torch.func.functional_call(self.layer, given, (x,)) + self.layer(x)


def test_a_layer_that_is_called_with_other_weights() -> None:
    model = Generated()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    program = onnxport.export(model, torch.randn(6, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    for n in (1, 5, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), model(x))


class Forked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])

    def forward(self, x: torch.Tensor) -> Any:
        started = [torch.jit.fork(branch, x) for branch in self.branches]
        scale = torch.jit.wait(torch.jit.fork(lambda y: y.mean() * y.shape[0], x))
        return torch.jit.wait(started[0]) + started[1].wait() * scale


def test_branches_that_are_forked() -> None:
    model = Forked()
    plain = torch.jit.fork
    program = onnxport.export(model, torch.randn(6, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert torch.jit.fork is plain
    for n in (1, 5, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
