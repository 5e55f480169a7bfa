"""What an export returns, and what the file looks like."""

from __future__ import annotations

import io
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.head(self.body(x).mean((2, 3)))}


X = torch.randn(2, 3, 6, 6)


def test_a_program_runs_saves_reports_and_shows_itself(tmp_path: pathlib.Path) -> None:
    model = Net().eval()
    program = onnxport.export(model, X, tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    for x in (X, torch.randn(5, 3, 6, 6)):
        torch.testing.assert_close(program(x)["logits"], model(x)["logits"])
    report = program.report
    assert set(report.phases) == {"capture", "normalise", "lower", "optimise", "save", "verify"}
    assert report.nodes == 4 and report.opset == 20 and report.seconds > 0
    assert report.file_bytes == (tmp_path / "m.onnx").stat().st_size
    assert report.sizes_traced == [{"batch": 2}]
    assert len({case.sizes["batch"] for case in program.verification.cases}) >= 3
    assert "batch" in repr(program) and "verified" in repr(program) and len(repr(program)) < 200
    program.save(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()


def test_the_same_model_gives_the_same_bytes() -> None:
    files = [io.BytesIO(), io.BytesIO()]
    model = Net()
    for file in files:
        onnxport.export(model, X, file)
    assert files[0].getvalue() == files[1].getvalue()


def test_weights_that_changed_since_are_noticed() -> None:
    model = Net()
    program = onnxport.export(model, X)
    with torch.no_grad():
        model.head.weight.add_(1)
    with pytest.raises(onnxport.ExportError, match="changed"):
        _ = program.model_proto


def test_a_wrong_number_of_inputs_is_told() -> None:
    with pytest.raises(onnxport.ExportError, match="'x'"):
        onnxport.export(Net(), X)(X, X)


def test_names_come_from_modules_and_parameters() -> None:
    graph = onnxport.export(Net(), X).model_proto.graph
    assert [node.name for node in graph.node] == ["body.0/Conv", "body.2/Relu", "ReduceMean", "head/Gemm"]
    assert {"body.0.weight", "head.weight", "head.bias"} <= {i.name for i in graph.initializer}
    assert [value.name for value in graph.output] == ["logits"]


def test_verbose_prints_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    onnxport.export(Net(), X, verbose=True, input_names=["x"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "graph(%x : Float(2, 3, 6, 6),"
    (conv,) = [line for line in lines if "onnx::Conv[" in line]
    attributes = "dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[0, 0, 0, 0], strides=[1, 1]"
    assert f"= onnx::Conv[{attributes}](%x, %body.0.weight, %" in conv
    assert "scope: Net/Sequential[body]/Conv2d[0] # " in conv and "test_program.py:" in conv
    assert lines[-1] == "  return (%logits)"


@pytest.mark.parametrize("opset", range(7, 27))
def test_the_opset_asked_for_is_the_opset_written(opset: int) -> None:
    proto = onnxport.export(Net(), X, opset_version=opset).model_proto
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", opset)]
    assert proto.ir_version <= 13
    onnx.checker.check_model(proto)


@pytest.mark.parametrize("keep", [False, True])
def test_parameters_as_inputs(keep: bool) -> None:
    model = Net().eval()
    program = onnxport.export(model, X, export_params=False, input_names=["x"], keep_initializers_as_inputs=keep)
    graph = program.model_proto.graph
    assert [value.name for value in graph.input][:3] == ["x", "body.0.weight", "body.0.bias"]
    assert not {"body.0.weight", "head.weight"} & {i.name for i in graph.initializer}
    torch.testing.assert_close(program(X)["logits"], model(X)["logits"])


@pytest.mark.parametrize("before", [False, True])
def test_training_is_exported_and_not_verified(before: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Dropout(0.5)).train(before)
    program = onnxport.export(model, torch.randn(4, 3), training=onnxport.TrainingMode.TRAINING)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Gemm", "BatchNormalization", "Dropout"]
    assert program.verification.skipped is not None and not program.verification.passed
    assert any("training" in note for note in program.report.notes)


def test_an_unknown_operator_is_told_with_its_place() -> None:
    library = torch.library.Library("onnxport_tests", "FRAGMENT")
    library.define("unknown(Tensor a) -> Tensor")
    library.impl("unknown", lambda a: a + 1, "CompositeExplicitAutograd")

    class Uses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.onnxport_tests.unknown(torch.ops.onnxport_tests.unknown(x)) * 2  # type: ignore[no-any-return]

    with pytest.raises(
        onnxport.UnsupportedOperatorError, match=r"onnxport_tests::unknown \(2 x\).*Uses.*test_program.py:"
    ):
        onnxport.export(nn.Sequential(Uses()), torch.ones(2))
    library._destroy()


def test_torch_says_that_an_export_is_in_progress() -> None:
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append((onnxport.is_in_onnx_export(), torch.onnx.is_in_onnx_export()))
        return x + 1

    onnxport.export(model, torch.ones(2), verify=False)
    assert seen == [(True, True)]
    assert not onnxport.is_in_onnx_export() and not torch.onnx.is_in_onnx_export()


def test_two_exports_in_two_threads() -> None:
    with ThreadPoolExecutor(2) as pool:
        programs = list(pool.map(lambda seed: onnxport.export(Net(), X), range(4)))
    assert all(program.verification.passed for program in programs)


def test_what_the_runtime_has_no_kernel_for_is_exported_and_told() -> None:
    with pytest.warns(onnxport.VerificationWarning, match="not verified.*Conv"):
        program = onnxport.export(nn.Conv2d(3, 4, 3).double(), X.double())
    assert program.verification.skipped is not None
    assert any("kernel" in note for note in program.report.notes)


def test_arguments_by_name_may_be_in_any_order() -> None:
    def model(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x * scale + shift

    given = {"shift": torch.randn(3), "x": torch.randn(3), "scale": torch.randn(3)}
    program = onnxport.export(model, (), kwargs=given)
    assert [value.name for value in program.model_proto.graph.input] == ["x", "scale", "shift"]
    for names in (("x", "scale", "shift"), ("shift", "scale", "x"), ("scale", "x", "shift")):
        torch.testing.assert_close(program(**{name: given[name] for name in names}), model(**given))
    torch.testing.assert_close(program(given["x"], shift=given["shift"], scale=given["scale"]), model(**given))


def test_an_argument_by_a_name_that_the_model_lacks_is_an_error() -> None:
    program = onnxport.export(torch.nn.Linear(3, 2), torch.randn(1, 3))
    with pytest.raises(onnxport.OptionError, match=r"with the arguments \['input'\], not with 'inptu'"):
        program(inptu=torch.randn(1, 3))


@pytest.mark.parametrize("verify", [True, False])
def test_numbers_that_a_model_returns_come_back_as_numbers(verify: bool) -> None:
    def model(x: torch.Tensor) -> Any:
        sizes = {"rows": x.shape[0], "twice": 2 * x.shape[1], "length": len(x), "rank": x.dim()}
        return x + 1, sizes, 2.5, None, "text", torch.tensor(x.shape[0])

    axes = {"x": {0: "n", 1: "m"}}
    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes=axes, verify=verify)
    for shape in ((4, 3), (7, 5), (2, 9)):
        x = torch.randn(shape)
        sum_, sizes, *rest = program(x)
        torch.testing.assert_close(sum_, x + 1)
        assert sizes == {"rows": shape[0], "twice": 2 * shape[1], "length": shape[0], "rank": 2}
        assert {type(number) for number in sizes.values()} == {int}
        assert rest[:3] == [2.5, None, "text"]
        torch.testing.assert_close(rest[3], torch.tensor(shape[0]))


def test_a_number_that_a_scripted_model_returns_comes_back_as_a_number() -> None:
    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x * 2, x.size(0) + 1

    scripted = torch.jit.script(Counting())
    program = onnxport.export(scripted, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    doubled, count = program(torch.ones(6, 3))
    torch.testing.assert_close(doubled, torch.full((6, 3), 2.0))
    assert type(count) is int and count == 7


def test_a_number_that_a_scripted_model_takes_is_given_as_a_number() -> None:
    def scaled(x: torch.Tensor, factor: float, shift: int) -> torch.Tensor:
        return x * factor + shift

    program = onnxport.export(torch.jit.script(scaled), (torch.ones(2), 2.5, 1))
    torch.testing.assert_close(program(torch.ones(2), 0.5, 7), torch.full((2,), 7.5))
    torch.testing.assert_close(program(torch.ones(2), shift=3, factor=4.0), torch.full((2,), 7.0))
