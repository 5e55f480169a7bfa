"""The report's table of sizes, and what a program says of inputs that it does not take."""

from __future__ import annotations

import json
import math
import pathlib
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import onnxport


class Computes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        half = x[: int(x.shape[0]) // 2]
        scaled = half * (1.0 / math.sqrt(int(x.shape[1])))
        return scaled, torch.zeros(2 * int(x.shape[0]) + 1, 3) + 1, y.sum()


def test_the_table_of_sizes() -> None:
    axes = {"x": {0: "batch", 1: "length"}, "y": {0: "batch"}}
    program = onnxport.export(Computes(), (torch.randn(6, 8), torch.randn(6)), dynamic_axes=axes)
    report = program.report
    batch, length = report.axes
    assert (batch.name, batch.of, length.name, length.of) == ("batch", ("x[0]", "y[0]"), "length", ("x[1]",))
    assert batch.traced == (6,) and batch.verified[0] == 6 and len(batch.verified) >= 3
    assert [dict(case.sizes) for case in program.verification.cases] == report.sizes_verified
    by_expression = {number.expression: number for number in report.repaired}
    assert by_expression.keys() == {"batch//2", "1.0/sqrt(length)", "2*batch + 1"}
    half = by_expression["batch//2"]
    assert half.values == (3,) and half.module == "Computes"
    assert half.location is not None and "test_report.py:" in half.location
    lines = str(report).splitlines()
    (header,) = [line for line in lines if "traced at" in line and "verified at" in line]
    row = lines[lines.index(header) + 1]
    assert row.split()[:3] == ["batch", "x[0],", "y[0]"] and row.index("6") == header.index("traced at")
    assert sum("test_report.py:" in line and "=" in line for line in lines) == 3


def test_a_static_model_has_no_table() -> None:
    report = onnxport.export(nn.Linear(3, 2), torch.randn(4, 3)).report
    assert report.axes == [] and report.repaired == [] and "traced at" not in str(report)


def test_what_was_not_verified_is_not_listed() -> None:
    report = onnxport.export(nn.Linear(3, 2), torch.randn(4, 3), dynamic_axes={"input": {0: "n"}}, verify=False).report
    assert report.axes[0].verified == () and "-" in str(report)


def test_inputs_that_do_not_fit_are_told() -> None:
    program = onnxport.export(nn.Linear(3, 2), torch.randn(4, 3), dynamic_axes={"input": {0: "n"}})
    for wrong in (torch.randn(4, 5), torch.randn(3), torch.randn(4, 3).double()):
        with pytest.raises(onnxport.OptionError, match=r"'input' is torch\.float.*\[n, 3\]"):
            program(wrong)
    assert program(torch.randn(9, 3)).shape == (9, 2)


def test_where_the_runtime_stops_is_an_error_of_ours() -> None:
    program = onnxport.export(
        lambda x, y: x + y, (torch.randn(4), torch.randn(4)), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}
    )
    with pytest.raises(onnxport.ExportError, match=r"x: \[4\], y: \[3\]"):
        program(torch.randn(4), torch.randn(3))


def test_a_number_that_is_returned_follows_the_size() -> None:
    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, object]:
            return {"y": x * 2, "count": int(x.shape[0]) * 3, "name": "doubled", "odd": int(x.shape[0]) ** 3 % 11}

    program = onnxport.export(Counts(), torch.randn(4, 3), dynamic_axes={"x": {0: "n"}})
    assert [value.name for value in program.model_proto.graph.output] == ["y", "count", "odd"]
    for length in (4, 1, 7, 23):
        found = program(torch.randn(length, 3))
        assert (found["count"], found["name"], found["odd"]) == (3 * length, "doubled", length**3 % 11)


def test_a_number_that_is_returned_is_computed_at_other_sizes() -> None:
    program = onnxport.export(lambda x: (x * 2, int(x.shape[0]) // 2), torch.randn(4, 3), dynamic_axes={"x": {0: "n"}})
    assert [program(torch.randn(length, 3))[1] for length in (4, 7, 23)] == [2, 3, 11]


def test_a_path_with_a_nul_character_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(onnxport.SaveError, match="NUL"):
        onnxport.export(nn.Linear(3, 2), torch.randn(4, 3), f"{tmp_path}/a\0b.onnx")


def test_warnings_name_the_line_that_asked_for_the_export() -> None:
    def squeezes(x: torch.Tensor) -> torch.Tensor:
        return x.squeeze()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        axes = {"x": {0: "n"}}
        onnxport.export(squeezes, torch.randn(3, 4), input_names=["x"], dynamic_axes=axes, opset_version=10)
    (warning,) = told
    assert warning.category is onnxport.TraceWarning and "squeeze" in str(warning.message)
    assert warning.filename == __file__
    assert warning.lineno == squeezes.__code__.co_firstlineno + 6


def test_a_report_as_json(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 2))
    axes = {"input": {0: "n"}}
    report = onnxport.export(model, torch.randn(5, 3), tmp_path / "m.onnx", dynamic_axes=axes, opset_version=16).report
    said = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (said["schema"], said["verdict"], said["opset"], said["nodes"]) == (1, "passed", 16, 3)
    assert said["operators"] == {"Elu": 1, "Gemm": 2} == report.operators
    assert said["file_bytes"] == (tmp_path / "m.onnx").stat().st_size and said["weight_bytes"] == 4 * (12 + 4 + 8 + 2)
    (axis,) = said["axes"]
    assert (axis["name"], axis["of"], axis["traced"]) == ("n", ["input[0]"], [5]) and len(axis["verified"]) > 1
    assert [case["sizes"]["n"] for case in said["cases"]] == axis["verified"]
    assert said["error"] is None and said["mismatch"] is None and not any(case["problems"] for case in said["cases"])


def test_counts_have_the_nodes_of_branches_and_functions() -> None:
    class Block(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + 1

    functions = nn.Sequential(Block(), nn.Tanh(), Block())
    report = onnxport.export(functions, torch.randn(3), export_modules_as_functions={Block}).report
    (calls,) = [count for name, count in report.operators.items() if name.endswith("::Block")]
    assert calls == 2 and {"Tanh": 1, "Sin": 1, "Add": 1}.items() <= report.operators.items()
    assert report.nodes == sum(report.operators.values())

    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    report = onnxport.export(branches, torch.randn(3)).report
    assert {"If": 1, "Sin": 1, "Cos": 1}.items() <= report.operators.items()
    assert report.nodes == sum(report.operators.values())


def wrong_elu(g: Any, self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    return g.op("Elu", self, alpha=1.5)


def test_an_unchecked_and_a_warned_export_say_so() -> None:
    assert onnxport.export(nn.ELU(), torch.randn(4, 3), verify=False).report.verdict == "unchecked"
    wrong = onnxport.converter("aten::elu")(wrong_elu)
    try:
        with pytest.warns(onnxport.VerificationWarning):
            report = onnxport.export(nn.ELU(), torch.randn(4, 3), verify="warn").report
    finally:
        wrong.unregister()
    assert report.verdict == "failed" and report.error is None
    assert report.mismatch is not None and report.mismatch.operator == "aten::elu"


def test_an_error_has_the_report_until_then() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 4 else (x * 2).long()

    with pytest.raises(onnxport.DynamicAxisError) as caught:
        onnxport.export(picky, torch.randn(3, 3), dynamic_axes={"x": {0: "n"}})
    said = caught.value.report.to_json()
    assert said["verdict"] == "refused" and said["error"]["type"] == "DynamicAxisError"
    assert said["error"]["message"] == str(caught.value) and set(said["phases"]) == {"capture"}


def test_a_failed_check_is_reported_with_its_place() -> None:
    wrong = onnxport.converter("aten::elu")(wrong_elu)
    try:
        with pytest.raises(onnxport.VerificationError) as caught:
            onnxport.export(lambda x: nn.functional.elu(x).sum(0), torch.randn(4, 3))
    finally:
        wrong.unregister()
    said = json.loads(json.dumps(caught.value.report.to_json(), allow_nan=False))
    assert said["verdict"] == "failed" and said["mismatch"]["operator"] == "aten::elu"
    assert "test_report.py:" in said["mismatch"]["location"] and said["cases"][0]["problems"]
