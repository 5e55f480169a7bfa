"""The call as scripts for torch.onnx write it: positions, targets, torch's enums, the errors that they catch."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport
from tests.classic.running import exported, graph_of, operators, run, same


class Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.fc(x)).relu()


X = torch.randn(4, 3)


def test_every_argument_by_position(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    onnxport.export(
        Scores(), X, path, True, False, onnxport.TrainingMode.EVAL, ["image"], ["scores"],
        onnxport.OperatorExportTypes.ONNX, 17, True, {"image": {0: "n"}}, True, {"extra": 2}, {nn.Linear},
    )  # fmt: skip
    model = onnx.load(path)
    assert {entry.domain: entry.version for entry in model.opset_import}.items() >= {("", 17), ("extra", 2)}
    assert [entry.name for entry in model.graph.input] == ["image", "fc.weight", "fc.bias"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert [function.name for function in model.functions] == ["Linear"]


def test_what_comes_after_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        onnxport.export(Scores(), X, None, True, False, None, None, None, None, 17, True, None, None, None, False, {})  # type: ignore[misc]


class Numbered:
    def __init__(self, file: Any) -> None:
        self.file = file

    def fileno(self) -> int:
        return int(self.file.fileno())


def test_a_target_with_nothing_but_a_file_number() -> None:
    model = Scores().eval()
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), b"before")
        onnxport.export(model, X, Numbered(file))
        assert not file.closed
        file.seek(len(b"before"))
        same(model(X), run(file.read(), X))


def test_a_file_number_that_is_closed_is_an_error_of_saving() -> None:
    with tempfile.TemporaryFile() as file:
        target = Numbered(file)
    with pytest.raises((onnxport.SaveError, ValueError)):
        onnxport.export(Scores(), X, target)


def test_the_enums_of_torch() -> None:
    theirs: Any = torch.onnx
    file = exported(Scores(), X, training=theirs.TrainingMode.TRAINING, verify=False)
    assert "Dropout" in operators(file)
    kind = theirs.OperatorExportTypes.ONNX_ATEN
    assert set(operators(exported(Scores(), X, operator_export_type=kind))) == {"org.pytorch.aten::ATen"}
    model = Scores().train()
    with onnxport.select_model_mode_for_export(model, theirs.TrainingMode.EVAL):
        assert not model.fc.training
    with onnxport.set_training(model.eval(), theirs.TrainingMode.TRAINING):
        assert model.drop.training
    assert not model.drop.training


def test_the_mode_of_each_submodule_comes_back() -> None:
    model = Scores().train()
    model.drop.eval()
    with onnxport.select_model_mode_for_export(model, onnxport.TrainingMode.EVAL):
        assert not model.fc.training
    assert model.fc.training and not model.drop.training
    with onnxport.select_model_mode_for_export(model, onnxport.TrainingMode.PRESERVE):
        assert model.fc.training and not model.drop.training
    with pytest.raises(TypeError), onnxport.select_model_mode_for_export(model, "eval"):  # type: ignore[arg-type]
        pass


def test_errors_are_of_the_kind_that_old_code_catches() -> None:
    with pytest.raises(RuntimeError) as unsupported:
        onnxport.export(torch.linalg.eigvals, torch.randn(3, 3))
    assert isinstance(unsupported.value, onnxport.UnsupportedOperatorError)
    with pytest.raises(ValueError, match="opset_version=99"):
        onnxport.export(Scores(), X, opset_version=99)
    with pytest.raises(TypeError, match="model"):
        onnxport.export(3, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="input_names"):
        onnxport.export(Scores(), X, input_names=3)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="does not exist"):
        onnxport.export(Scores(), X, "no such folder/m.onnx")
    assert issubclass(onnxport.CheckerError, onnxport.ExportError) and issubclass(onnxport.ExportError, RuntimeError)


# What is refused, and what is an error of the export


class Hook(nn.Module):
    """Its second layer gives two tensors; what it catches, it goes on from."""

    def __init__(self, caught: type[Exception], instead: type[Exception] | None = None) -> None:
        super().__init__()
        self.parts = Pair()
        self.caught = caught
        self.instead = instead

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.parts(x)[0]
        except self.caught as error:
            if self.instead is not None:
                raise self.instead("something else") from error
            return x


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x + 2


@pytest.mark.parametrize("caught", [RuntimeError, Exception])
@pytest.mark.parametrize("instead", [None, KeyError])
def test_an_export_error_that_the_model_catches_is_raised_after_the_call(
    caught: type[Exception], instead: type[Exception] | None
) -> None:
    with pytest.raises(onnxport.CaptureError, match="'parts' returns 2 tensors"):
        onnxport.export(Hook(caught, instead), X, intermediate_outputs=["parts"])


class Chooses(nn.Module):
    """Both branches of its torch.cond cannot be joined, which it takes for a reason to do something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x, (x,))
        except RuntimeError:
            return x * 2


def test_an_export_error_of_the_recorder_is_not_swallowed() -> None:
    with pytest.raises(onnxport.ExportError, match="branches"):
        onnxport.export(Chooses(), X)


class Picky(nn.Module):
    """Says no to other sizes in its own words, and, once it is run at one, with an error of an export."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise self.error("only four rows")
        return x * 2


def test_a_refusal_keeps_an_axis_static_and_an_export_error_passes() -> None:
    axes = {"x": {0: "n"}}
    with pytest.warns(onnxport.DynamicAxisWarning):
        file = exported(Picky(RuntimeError), X, input_names=["x"], dynamic_axes=axes)
    assert graph_of(file).input[0].type.tensor_type.shape.dim[0].dim_value == 4
    with pytest.raises(onnxport.UnsupportedOperatorError, match="only four rows"):
        exported(Picky(onnxport.UnsupportedOperatorError), X, input_names=["x"], dynamic_axes=axes)
    scripted = torch.jit.script(Add())
    same(X + 1, run(exported(scripted, X, input_names=["x"], dynamic_axes=axes), X))


class Add(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_an_export_inside_of_a_model_is_for_the_model_to_handle() -> None:
    class Nested(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                onnxport.export(torch.linalg.eigvals, torch.randn(3, 3), io.BytesIO())
            except RuntimeError:
                return x * 3
            return x

    same(X * 3, run(exported(Nested(), X), X))
