"""The names that scripts for torch.onnx import, and what they stand for."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport
from onnxport import symbolic_helper, utils
from onnxport.options.plain import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET
from tests.classic.running import exported, operators, run, same

X = torch.randn(2, 3)


def test_the_functions_of_utils() -> None:
    assert utils.export is onnxport.export
    assert utils.is_in_onnx_export() is False
    assert utils.register_custom_op_symbolic is onnxport.register_custom_op_symbolic
    assert utils.unregister_custom_op_symbolic is onnxport.unregister_custom_op_symbolic
    assert utils.select_model_mode_for_export is onnxport.select_model_mode_for_export
    assert utils.set_training is onnxport.set_training
    assert utils.export_to_pretty_string is onnxport.export_to_pretty_string


def test_the_graph_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(3, 5)
    text = onnxport.export_to_pretty_string(model, X, input_names=["rows"], output_names=["sums"], opset_version=13)
    assert text.startswith("graph(%rows : Float(2, 3)") and "onnx::Gemm" in text and "return (%sums)" in text
    assert not capsys.readouterr().out
    shown = onnxport.export_to_pretty_string(model, X, True, True)
    assert capsys.readouterr().out.strip() == shown
    message = onnxport.export_to_pretty_string(model, X, google_printer=True, opset_version=13)
    assert 'op_type: "Gemm"' in message and "version: 13" in message


def test_other_forms_of_files_are_refused() -> None:
    assert onnxport.export_to_pretty_string(nn.ReLU(), X, export_type=onnxport.ExportTypes.PROTOBUF_FILE)
    with pytest.raises(ValueError, match="ZipArchive"):
        onnxport.export_to_pretty_string(nn.ReLU(), X, export_type=onnxport.ExportTypes.ZIP_ARCHIVE)


def test_the_operators_that_cannot_be_written() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x).real + torch.linalg.eigvals(x + 1).imag + x.relu()

    graph, missing = utils.unconvertible_ops(model, torch.randn(3, 3))
    assert missing == ["aten::_linalg_eigvals"]
    assert any(node.op == "aten::relu" for node in graph.block.nodes)
    assert utils.unconvertible_ops(nn.ReLU(), X, opset_version=9)[1] == []


def test_what_an_opset_lacks_is_among_them() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16).float()

    assert utils.unconvertible_ops(model, X, opset_version=13)[1] == []
    assert utils.unconvertible_ops(model, X, opset_version=9)[1] == ["aten::to"]


def test_the_facts_about_opsets() -> None:
    stable = symbolic_helper._onnx_stable_opsets
    assert (stable[0], stable[-1]) == (OLDEST_OPSET, 25) and isinstance(stable, tuple)
    assert symbolic_helper._onnx_main_opset == symbolic_helper._onnx_master_opset == NEWEST_OPSET == 26
    assert symbolic_helper._default_onnx_opset_version == DEFAULT_OPSET == 20


def test_the_modules_of_each_opset() -> None:
    for name in ("symbolic_opset7", "symbolic_opset8", "symbolic_opset9", "symbolic_opset20"):
        module = getattr(onnxport, name)
        assert callable(module.relu)
        with pytest.raises(AttributeError, match="no_such_operator"):
            module.no_such_operator  # noqa: B018


def test_element_types() -> None:
    assert onnxport.JitScalarType.from_dtype(torch.float16).onnx_type() is onnxport.TensorProtoDataType.FLOAT16
    assert onnxport.TensorProtoDataType.INT64 == 7


class Reshaped(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        shape = onnxport.operators.shape_as_tensor(y)
        return onnxport.operators.reshape_from_tensor_shape(x, shape)


def test_a_shape_that_is_a_tensor() -> None:
    axes = {"x": {0: "n"}, "y": {0: "m", 1: "k"}}
    args = torch.randn(6), torch.randn(2, 3)
    file = exported(Reshaped(), args, input_names=["x", "y"], dynamic_axes=axes)
    assert operators(file)[-1] == "Reshape"
    other = torch.randn(20), torch.randn(4, 5)
    same(other[0].reshape(4, 5), run(file, *other))


def test_who_made_a_file() -> None:
    model = onnx.load_from_string(exported(nn.ReLU(), X))
    assert (model.producer_name, model.producer_version) == (onnxport.producer_name, onnxport.producer_version)
    assert (onnxport.producer_name, onnxport.producer_version) == ("onnxport", onnxport.__version__)


def test_the_names_of_newer_versions() -> None:
    program: onnxport.ONNXProgram = onnxport.export(nn.ReLU(), X)
    assert isinstance(program, onnxport.ONNXProgram) and onnxport.ONNXProgram is onnxport.Program
    assert onnxport.OnnxExporterError is onnxport.errors.OnnxExporterError is onnxport.ExportError
    kinds = onnxport.TraceWarning, onnxport.DynamicAxisWarning, onnxport.VerificationWarning
    assert all(issubclass(kind, onnxport.errors.OnnxExporterWarning) for kind in kinds)


def test_an_error_that_a_symbolic_function_raises_of_a_value() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        raise onnxport.errors.SymbolicValueError("no ONNX for this relu", x)

    onnxport.register_custom_op_symbolic("aten::relu", symbolic, 9)
    try:
        with pytest.raises(onnxport.OnnxExporterError, match="no ONNX for this relu"):
            onnxport.export(nn.ReLU(), X)
    finally:
        onnxport.unregister_custom_op_symbolic("aten::relu", 9)


def test_a_program_has_the_methods_of_newer_versions() -> None:
    program = onnxport.export(nn.Linear(3, 2), X)
    program.optimize()
    program.initialize_inference_session()
    expected = program(X)
    program.release()
    torch.testing.assert_close(program(X), expected)
