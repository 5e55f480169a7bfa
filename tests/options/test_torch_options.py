"""What a call written for torch's own exporter may ask for: it is delivered, or an error says what to do."""

from __future__ import annotations

import copy
import io
import pathlib
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import OptionError


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))


X = torch.randn(2, 5, 40)


def test_a_call_with_the_arguments_of_torch_runs(tmp_path: pathlib.Path) -> None:
    program = onnxport.export(
        model(), (X,), tmp_path / "m.onnx", dynamo=True, external_data=False, report=False, optimize=True, verify=True,
        profile=False, dump_exported_program=False, artifacts_dir=tmp_path, fallback=False, autograd_inlining=True,
        custom_translation_table=None, export_modules_as_functions=False, custom_opsets=None,
    )  # fmt: skip
    assert program.verification.passed
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


INSTEAD: dict[str, tuple[Any, str]] = {
    "profile": (True, "report.phases"),
    "dump_exported_program": (True, "verbose=True"),
    "fallback": (True, "ONNX_ATEN_FALLBACK"),
    "custom_translation_table": ({torch.ops.aten.relu.default: abs}, "register_custom_op_symbolic"),
    "autograd_inlining": (False, "ONNX_FALLTHROUGH"),
}


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_not_delivered_is_an_error_that_says_what_to_do(name: str, tmp_path: pathlib.Path) -> None:
    value, words = INSTEAD[name]
    keywords: dict[str, Any] = {name: value}
    with pytest.raises(OptionError, match=f"{name}.*{words}"):
        onnxport.export(model(), (X,), tmp_path / "m.onnx", **keywords)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["dynamo", "report", "optimize", "external_data", "fallback", "artifacts_dir"])
def test_a_wrong_type_is_told(name: str) -> None:
    keywords: dict[str, Any] = {name: 3}
    with pytest.raises(TypeError, match=name):
        onnxport.export(model(), (X,), **keywords)


def test_external_data(tmp_path: pathlib.Path) -> None:
    onnxport.export(model(), (X,), tmp_path / "m.onnx", external_data=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    with pytest.raises(OptionError, match="external_data"):
        onnxport.export(model(), (X,), external_data=False, use_external_data_format=True)
    with pytest.raises(onnxport.ExportError, match="external data"):
        onnxport.export(model(), (X,), io.BytesIO(), external_data=True)


def test_external_data_of_a_program_that_is_saved_later(tmp_path: pathlib.Path) -> None:
    program = onnxport.export(model(), (X,), external_data=True)
    program.save(tmp_path / "two.onnx")
    program.save(tmp_path / "one.onnx", external_data=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.onnx", "two.onnx", "two.onnx.data"]


def test_without_optimisation_the_graph_is_what_was_translated() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(x)).transpose(1, 2).transpose(1, 2)

    net, x = Net(), torch.randn(2, 3, 8, 8)
    plain = onnxport.export(net, x, optimize=False, dynamic_axes={"x": [0]})
    small = onnxport.export(net, x, dynamic_axes={"x": [0]})
    kinds = [[node.op_type for node in program.model_proto.graph.node] for program in (plain, small)]
    assert "BatchNormalization" in kinds[0] and kinds[0].count("Transpose") == 2 and kinds[1] == ["Conv"]
    other = torch.randn(5, 3, 8, 8)
    assert plain.verification.passed
    torch.testing.assert_close(plain(other), net.eval()(other))


def axes_of(program: onnxport.Program) -> list[list[str | int]]:
    proto = program.model_proto.graph
    return [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*proto.input, *proto.output)
    ]


class Joined(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).reshape(-1, 4)


def test_axes_are_renamed_in_expressions_too(tmp_path: pathlib.Path) -> None:
    axes = {"x": {0: "batch", 1: "sequence"}}
    program = onnxport.export(Joined(), torch.randn(2, 3, 4), dynamic_axes=axes)
    program.rename_axes({"batch": "N", "sequence": "batch"})
    assert axes_of(program) == [["N", "batch", 4], ["N*batch", 4]]
    program.save(tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    x = torch.randn(5, 2, 4)
    torch.testing.assert_close(program(x), Joined()(x))


@pytest.mark.parametrize(
    ("names", "words"),
    [({"nope": "N"}, "nope"), ({"batch": "sequence"}, "two axes"), ({"batch": ""}, "''"), ({"batch": 3}, "3")],
)
def test_names_that_cannot_be(names: dict[str, Any], words: str) -> None:
    axes = {"x": {0: "batch", 1: "sequence"}}
    program = onnxport.export(Joined(), torch.randn(2, 3, 4), dynamic_axes=axes)
    with pytest.raises(OptionError, match=words):
        program.rename_axes(names)
    assert axes_of(program) == [["batch", "sequence", 4], ["batch*sequence", 4]]


@pytest.mark.parametrize("x", [torch.randn(2, 40), X], ids=["matrix", "transposed weights"])
def test_other_weights(x: torch.Tensor, tmp_path: pathlib.Path) -> None:
    program = onnxport.export(model(), (x,))
    other = nn.Sequential(nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))
    before = program(x)
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(x), other(x).detach())
    assert not torch.equal(program(x), before) and not program.verification.passed
    assert "apply_weights" in str(program.verification)
    assert onnxport.verify(program, other, (x,)).passed
    program.apply_weights(model().state_dict())
    torch.testing.assert_close(program(x), before)
    program.save(tmp_path / "m.onnx")
    assert onnxport.verify(tmp_path / "m.onnx", model(), (x,)).passed


def test_a_mask_that_was_computed_from_a_weight_does_not_follow_it() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(40))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * self.w, x.masked_fill(self.w.gt(0), 1.0)

    program = onnxport.export(Masked(), (X,))
    with pytest.raises(OptionError, match="computed at export"):
        program.apply_weights({"w": torch.randn(40)})


def test_weights_of_the_training_go_into_the_program_again() -> None:
    net = model()
    program = onnxport.export(net, (X,))
    with torch.no_grad():
        net[0].weight.mul_(2.0)  # type: ignore[union-attr, operator]
    with pytest.raises(onnxport.ExportError, match="changed since"):
        program.apply_weights({"0.bias": torch.zeros(40)})


def test_a_tied_weight_has_two_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(40, 40, bias=False), nn.Linear(40, 40, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    program, other = onnxport.export(Tied(), X), Tied()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(X), other(X).detach())


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.scale = nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.Parameter(torch.rand(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) + torch.exp(self.scale) * self.scale


@pytest.mark.parametrize("name", ["conv.weight", "norm.weight", "scale"])
def test_weights_that_were_computed_with_are_an_error(name: str) -> None:
    net, x = Normed(), torch.randn(2, 4, 6)
    program = onnxport.export(net, x)
    before = program(x)
    other = {name: torch.rand_like(net.state_dict()[name])}
    with pytest.raises(OptionError, match=r"apply_weights.*optimize=False"):
        program.apply_weights(other)
    torch.testing.assert_close(program(x), before)
    plain = onnxport.export(net, x, optimize=False)
    plain.apply_weights(other)
    changed = copy.deepcopy(net).eval()
    changed.load_state_dict({**net.state_dict(), **other})
    torch.testing.assert_close(plain(x), changed(x).detach())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"nope": torch.zeros(3)}, "no weight 'nope'"),
        ({"0.bias": torch.zeros(3)}, r"0\.bias.*\[3\].*\[40\]"),
        ({"0.bias": torch.zeros(40, dtype=torch.float64)}, "float64"),
        ({"0.bias": 3.0}, r"0\.bias.*float"),
    ],
)
def test_weights_that_do_not_fit(state: dict[str, Any], words: str) -> None:
    program = onnxport.export(model(), (X,))
    with pytest.raises(OptionError, match=words):
        program.apply_weights(state)
    assert program.verification.passed


def test_weights_that_are_inputs() -> None:
    with pytest.raises(OptionError, match="export_params=False"):
        onnxport.export(model(), (X,), export_params=False).apply_weights({})
