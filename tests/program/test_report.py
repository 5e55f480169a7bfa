"""The report's table of sizes, and what a program says of inputs that it does not take."""

from __future__ import annotations

import math
import pathlib
import warnings

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
    assert (batch.label, batch.places, length.label, length.places) == ("batch", ("x[0]", "y[0]"), "length", ("x[1]",))
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
        onnxport.export(squeezes, torch.randn(3, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    (warning,) = told
    assert warning.category is onnxport.TraceWarning and "squeeze" in str(warning.message)
    assert warning.filename == __file__
    assert warning.lineno == squeezes.__code__.co_firstlineno + 5
