"""Operators of other domains: their versions, their types, and who runs them when the file is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxport
from tests.symbolic.harness import kernel, ops, registered, runner

X = torch.randn(3, 4)


def own(g: Any, x: Any) -> Any:
    return g.op("own::Tanh", x)


def test_versions_and_types_are_written(tmp_path: Path) -> None:
    with registered("aten::tanh", own):
        onnxport.export(
            nn.Sequential(nn.Tanh(), nn.Linear(4, 2)).eval(),
            X.double().float(),
            tmp_path / "m.onnx",
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
            custom_opsets={"own": 3, "unused": 2},
        )
    proto = onnx.load(tmp_path / "m.onnx")
    assert {o.domain: o.version for o in proto.opset_import} == {"": 20, "own": 3, "unused": 2}
    onnx.checker.check_model(proto)
    made = next(node.output[0] for node in proto.graph.node if node.domain == "own")
    (info,) = [info for info in proto.graph.value_info if info.name == made]
    assert info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] == ["n", 4]


def test_what_is_not_run_says_so() -> None:
    with registered("aten::tanh", own):
        program = onnxport.export(nn.Tanh(), X)
    assert not program.verification.passed
    assert program.verification.skipped is not None and "own::Tanh" in program.verification.skipped
    assert program.verification.skipped in program.report.notes[0]


def test_versions_of_domains_do_not_keep_a_model_from_being_checked() -> None:
    assert onnxport.export(nn.Tanh(), X, custom_opsets={"own": 1}).verification.passed


def test_a_runner_may_return_names_or_one_array() -> None:
    right = kernel("own", "Tanh", np.tanh)
    seen: list[list[str]] = []

    def named(model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
        seen.append(list(inputs))
        return {"output": runner(right)(model, inputs)[0]}

    with registered("aten::tanh", own):
        assert onnxport.export(nn.Tanh(), X, verify=named).verification.passed
        assert onnxport.export(nn.Tanh(), X, verify=lambda m, i: runner(right)(m, i)[0]).verification.passed
        with pytest.raises(onnxport.VerificationError, match="returned 2 outputs"):
            onnxport.export(nn.Tanh(), X, verify=lambda m, i: [0, 0])
    assert seen[0] == ["input"]


def test_a_runner_that_disagrees_stops_the_export(tmp_path: Path) -> None:
    with registered("aten::tanh", own), pytest.raises(onnxport.VerificationError, match="largest error"):
        onnxport.export(nn.Tanh(), X, tmp_path / "m.onnx", verify=runner(kernel("own", "Tanh", np.sin)))
    assert not (tmp_path / "m.onnx").exists()


def test_session_options_are_used() -> None:
    """With a library registered on them they run other domains; here it is their thread count that shows."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    assert onnxport.export(nn.Tanh(), X, verify=options).verification.passed
    with registered("aten::tanh", own), pytest.raises(onnxport.VerificationError, match="own"):
        onnxport.export(nn.Tanh(), X, verify=options)


@pytest.mark.parametrize("wrong", ["yes", 2, None, ["warn"]])
def test_what_verify_may_be(wrong: Any) -> None:
    with pytest.raises(onnxport.OptionError, match="verify must be"):
        onnxport.export(nn.Tanh(), X, verify=wrong)


def test_operators_of_the_runtime_are_checked_in_it() -> None:
    with registered("aten::gelu", lambda g, x, approximate: g.op("com.microsoft::Gelu", x)):
        program = onnxport.export(nn.GELU(), X)
    assert program.verification.passed and ops(program) == ["com.microsoft::Gelu"]
    wrong = registered("aten::gelu", lambda g, x, approximate: g.op("com.microsoft::QuickGelu", x))
    with wrong, pytest.raises(onnxport.VerificationError):
        onnxport.export(nn.GELU(), X)


def test_two_calls_of_an_unknown_operator_are_not_merged() -> None:
    """It may be random."""
    with registered("aten::tanh", own):
        program = onnxport.export(lambda x: x.tanh() + x.tanh(), X)
    assert ops(program).count("own::Tanh") == 2


@pytest.mark.filterwarnings("ignore::onnxport.VerificationWarning")
def test_an_operator_that_the_runtime_lacks_in_its_own_domain_is_written_and_not_run() -> None:
    """Builds of ONNX Runtime have operators of this domain that others lack."""
    with registered("aten::tanh", lambda g, x: g.op("com.microsoft::PythonOp", x).setType(x.type())):
        program = onnxport.export(nn.Tanh(), X)
    assert ops(program) == ["com.microsoft::PythonOp"]
    assert "does not have com.microsoft::PythonOp" in str(program.verification.skipped)
