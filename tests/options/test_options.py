"""Bad input gets a clear error that names the argument, before any work, and nothing is lost."""

from __future__ import annotations

import io
import os
import pathlib
import subprocess
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from tests.recording import is_recorded


class Two(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + 1, b * 2


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "input_names as a string": ({"input_names": "a"}, "input_names"),
    "input_names with a number": ({"input_names": [1]}, "input_names"),
    "an empty name": ({"output_names": [""]}, "output_names"),
    "a name twice": ({"output_names": ["y", "y"]}, "output_names.*'y'"),
    "too many inputs": ({"input_names": ["a", "b", "c"]}, "input_names has 3"),
    "too many outputs": ({"output_names": ["1", "2", "3"]}, "output_names has 3"),
    "opset too old": ({"opset_version": 6}, "opset_version=6.*7 to 26"),
    "opset too new": ({"opset_version": 27}, "opset_version=27.*7 to 26"),
    "opset as text": ({"opset_version": "17"}, "opset_version"),
    "opset as a bool": ({"opset_version": True}, "opset_version"),
    "axes as a list": ({"dynamic_axes": ["a"]}, "dynamic_axes"),
    "axes of nothing": ({"dynamic_axes": {"nope": [0]}}, "nope"),
    "an axis too far": ({"dynamic_axes": {"a": [2]}}, "'a'.*axis 2"),
    "an axis as text": ({"dynamic_axes": {"a": {"0": "n"}}}, "'a'.*'0'"),
    "a label as a number": ({"dynamic_axes": {"a": {0: 1}}}, "'a'.*1"),
    "axes as a number": ({"dynamic_axes": {"a": 0}}, "'a'"),
    "an output axis too far": ({"output_names": ["y", "z"], "dynamic_axes": {"a": [0], "y": [5]}}, "'y'.*axis 5"),
    "training as text": ({"training": "eval"}, "training"),
    "verify as text": ({"verify": "no"}, "verify"),
    "export_params as a number": ({"export_params": 1}, "export_params"),
    "custom_opsets as a list": ({"custom_opsets": ["x"]}, "custom_opsets"),
    "no such module": ({"intermediate_outputs": ["nope"]}, "intermediate_outputs.*'nope'"),
    "export type as text": ({"operator_export_type": "ONNX"}, "operator_export_type"),
    "an axis twice": ({"dynamic_axes": {"a": {0: "n", -2: "m"}}}, "'a'.*same axis twice"),
    "one name for unequal axes": ({"dynamic_axes": {"a": {0: "n", 1: "n"}}}, r"'n'.*\[2, 3\]"),
    "an output named like an input": ({"output_names": ["a", "z"]}, "output_names: 'a' is the name of an input"),
    "external data as text": ({"use_external_data_format": "yes"}, "use_external_data_format"),
    "initializers as text": ({"keep_initializers_as_inputs": "yes"}, "keep_initializers_as_inputs"),
    "kwargs as a number": ({"kwargs": 3}, "kwargs"),
    "a typo": ({"opset": 13}, "opset"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_argument_names_itself_and_the_old_file_stays(case: str, tmp_path: pathlib.Path) -> None:
    keywords, words = BAD[case]
    path = tmp_path / "m.onnx"
    path.write_bytes(b"from before")
    keywords = {"input_names": ["a", "b"], **keywords}
    with pytest.raises((onnxport.ExportError, TypeError), match=words):
        onnxport.export(Two(), (torch.ones(2, 3), torch.ones(2, 3)), path, **keywords)
    assert path.read_bytes() == b"from before"
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize(("name", "value"), [("aten", False), ("export_raw_ir", False), ("_retain_param_name", True)])
def test_arguments_of_long_ago_warn_and_mean_what_they_meant(name: str, value: bool) -> None:
    with pytest.warns(DeprecationWarning, match=name):
        onnxport.export(Two(), (torch.ones(2), torch.ones(2)), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "domain"), [("aten", "org.pytorch.aten"), ("export_raw_ir", "aten")])
def test_arguments_of_long_ago_that_ask_for_more(name: str, domain: str) -> None:
    with pytest.warns(DeprecationWarning, match=name):
        program = onnxport.export(Two(), (torch.ones(2), torch.ones(2)), **{name: True})  # type: ignore[arg-type]
    assert {node.domain for node in program.model_proto.graph.node} == {domain}
    with pytest.warns(DeprecationWarning, match=name), pytest.raises(onnxport.OptionError, match=name):
        kind = onnxport.OperatorExportTypes.ONNX
        onnxport.export(Two(), (torch.ones(2), torch.ones(2)), **{name: True, "operator_export_type": kind})  # type: ignore[arg-type]


def test_a_model_that_is_none() -> None:
    with pytest.raises(TypeError, match="model"):
        onnxport.export(None, torch.ones(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["missing/m.onnx", "."])
def test_a_target_that_cannot_be_written_is_refused_first(target: str, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("the model must not be run")

    with pytest.raises(onnxport.SaveError):
        onnxport.export(model, torch.ones(1), tmp_path / target)


def test_external_data_needs_a_path() -> None:
    with pytest.raises(onnxport.SaveError, match="path"):
        onnxport.export(Two(), (torch.ones(2), torch.ones(2)), io.BytesIO(), use_external_data_format=True)


def test_a_full_disk_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        path = mount / "m.onnx"
        path.write_bytes(b"from before")
        with pytest.raises(onnxport.SaveError, match=r"m\.onnx"):
            onnxport.export(nn.Linear(400, 400), torch.ones(1, 400), path)
        assert path.read_bytes() == b"from before"
        assert os.listdir(mount) == ["m.onnx"]
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_wrong_result_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    class Fickle(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if is_recorded() else x * 3

    path = tmp_path / "m.onnx"
    path.write_bytes(b"from before")
    with pytest.raises(onnxport.VerificationError, match="largest error"):
        onnxport.export(Fickle(), torch.ones(3), path)
    assert path.read_bytes() == b"from before"
    with pytest.warns(onnxport.VerificationWarning):
        program = onnxport.export(Fickle(), torch.ones(3), path, verify="warn")
    assert not program.verification.passed and path.stat().st_size > 20


def test_the_enumerations_of_torch_s_exporter_are_taken() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    kinds = torch.onnx.TrainingMode.TRAINING, torch.onnx.OperatorExportTypes.ONNX
    program = onnxport.export(model, torch.randn(1, 2), training=kinds[0], operator_export_type=kinds[1])
    assert [node.op_type for node in program.model_proto.graph.node] == ["Gemm", "Dropout"]


def test_a_dtype_that_cannot_be_written_is_named() -> None:
    with pytest.raises(onnxport.ExportError, match="float8_e8m0fnu"):
        onnxport.export(lambda x: x.to(torch.float8_e8m0fnu).to(torch.float32), torch.rand(4))
