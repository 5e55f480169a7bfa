"""What users see of errors: their own lines, and not the exporter's."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from onnxport.report.tracebacks import public

PACKAGE = Path(onnxport.__file__).parent


class Helper(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return x.view(7, -1)
        except RuntimeError as error:
            raise LookupError("no such view") from error


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.helper = Helper()

    def forward(self, x: torch.Tensor) -> Any:
        return self.helper(x)


def frames(error: BaseException | None) -> list[traceback.FrameSummary]:
    """The frames of an error and of all that it came from."""
    if error is None:
        return []
    return [*traceback.extract_tb(error.__traceback__), *frames(error.__cause__ or error.__context__)]


def own(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in frames(error) if PACKAGE in Path(frame.filename).parents]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONNXPORT_TRACEBACK", raising=False)


def failing_calls() -> list[tuple[Callable[[], object], type[Exception]]]:
    program = onnxport.export(nn.Linear(3, 2), torch.randn(4, 3))
    x = torch.randn(4, 3)
    return [
        (lambda: onnxport.export(Outer(), x), LookupError),
        (lambda: onnxport.export(nn.Linear(3, 2), x, opset_version=3), onnxport.OptionError),
        (lambda: onnxport.verify("nowhere.onnx", nn.Linear(3, 2), x), onnxport.OptionError),
        (lambda: program(torch.randn(4, 5)), onnxport.OptionError),
        (lambda: program.save("no/such/folder/m.onnx"), onnxport.SaveError),
        (lambda: program.rename_axes({"nothing": "batch"}), onnxport.OptionError),
        (lambda: program.apply_weights({"nothing": x}), onnxport.OptionError),
        (lambda: onnxport.backend.prepare("nowhere.onnx"), onnxport.BackendError),
    ]


@pytest.mark.parametrize("place", range(8))
def test_errors_of_public_calls_have_no_frames_of_the_package(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call, kind = failing_calls()[place]
    with pytest.raises(kind) as caught:
        call()
    assert not own(caught.value), "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("ONNXPORT_TRACEBACK", "full")
    with pytest.raises(kind) as caught:
        call()
    assert len(own(caught.value)) >= 2


def test_the_lines_of_a_model_stay_with_those_of_its_cause() -> None:
    with pytest.raises(LookupError) as caught:
        onnxport.export(Outer(), torch.randn(3, 3))
    lines = [frame.line for frame in frames(caught.value) if frame.filename == __file__]
    assert "return self.helper(x)" in lines and "return x.view(7, -1)" in lines
    assert 'raise LookupError("no such view") from error' in lines
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_of_a_defect_the_place_where_it_arose_stays() -> None:
    code = compile(
        "def broken():\n    return inner()\ndef inner():\n    assert False", str(PACKAGE / "made_up.py"), "exec"
    )
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(AssertionError) as caught:
        public(names["broken"])()
    assert [frame.name for frame in own(caught.value)] == ["inner"]


def test_public_calls_keep_their_signatures_and_texts() -> None:
    text = str(onnxport.export.__doc__)
    assert onnxport.export.__name__ == "export" and "ONNXPORT_TRACEBACK" in text
    assert not [name for name in inspect.signature(onnxport.export).parameters if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize(
    ("call", "wrong", "right"),
    [
        (onnxport.export, "dynamic_axis", "dynamic_axes"),
        (onnxport.export, "opset", "opset_version"),
        (onnxport.export, "colour", None),
        (onnxport.export, "input_name", "input_names"),
        (onnxport.verify, "size", "sizes"),
        (onnxport.utils.export_to_pretty_string, "opset_versoin", "opset_version"),
        (onnxport.quant.init, "weight_bit", "weight_bits"),
    ],
)
def test_a_misspelt_keyword_is_named_with_similar_ones(call: Callable[..., Any], wrong: str, right: str | None) -> None:
    with pytest.raises(TypeError) as caught:
        call(nn.Linear(3, 2), torch.randn(4, 3), **{wrong: 17})
    message = str(caught.value)
    assert message.startswith(f"{call.__name__}() got an unexpected keyword argument {wrong!r}")
    assert ("did you mean" in message) == (right is not None) and (right or "") in message
    assert len(own(caught.value)) <= 1


def test_messages_name_what_a_wheel_has() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert "docs/" not in file.read_text(encoding="utf-8"), file


def test_deprecated_arguments_warn_at_the_line_of_the_call() -> None:
    with pytest.warns(DeprecationWarning, match="_retain_param_name") as caught:
        onnxport.export(nn.Linear(3, 2), torch.randn(4, 3), _retain_param_name=True)
    assert caught[0].filename == __file__
