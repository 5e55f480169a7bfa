"""Whole modules as one operator of a custom domain, and as ONNX functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxport


class Fused(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("shift", torch.randn(width))

    def forward(self, x: torch.Tensor, mask: Any = None, scale: float = 1.0, *, mode: str = "near") -> Any:
        y = self.linear(x) * scale + self.shift
        return y if mask is None else (y.masked_fill(mask, 0.0), x.argmax(-1))


class FusedChild(Fused):
    pass


class UsesFused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Fused(4)
        self.second = FusedChild(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, index = self.first(x, x > 0, scale=0.5, mode="far")
        return self.second(y.relu()) + index[:, None]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def run(model: onnx.ModelProto, *inputs: torch.Tensor) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), inputs, strict=True)}
    return list(session.run(None, feeds))


def same(model: nn.Module, proto: onnx.ModelProto, *inputs: torch.Tensor) -> None:
    expected = torch.utils._pytree.tree_leaves(model(*inputs))
    for one, actual in zip(expected, run(proto, *inputs), strict=True):
        assert torch.from_numpy(actual).dtype == one.dtype and actual.shape == tuple(one.shape)
        np.testing.assert_allclose(actual, one.detach().numpy(), rtol=1e-4, atol=1e-6)


# Modules as one operator


def test_a_module_becomes_one_operator_of_its_arguments_and_parameters() -> None:
    program = onnxport.export(
        UsesFused().eval(),
        torch.randn(3, 4),
        modules_as_ops={Fused: "my.domain::Fused"},
        custom_opsets={"my.domain": 3},
        input_names=["x"],
        dynamic_axes={"x": {0: "n"}},
    )
    proto = program.model_proto
    assert {entry.domain: entry.version for entry in proto.opset_import} == {"": 20, "my.domain": 3}
    first, second = [node for node in proto.graph.node if node.domain == "my.domain"]
    assert [node.op_type for node in (first, second)] == ["Fused", "Fused"]
    mask = next(node for node in proto.graph.node if node.op_type == "Greater")
    assert list(first.input) == ["x", mask.output[0], "first.shift", "first.linear.weight", "first.linear.bias"]
    assert attributes(first) == {"scale": 0.5, "mode": b"far"} and attributes(second) == {}
    types = {value.name: value.type.tensor_type for value in proto.graph.value_info}
    assert [types[name].elem_type for name in first.output] == [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64]
    assert [dim.dim_param or dim.dim_value for dim in types[first.output[0]].shape.dim] == ["n", 4]
    assert not any(node.op_type in ("MatMul", "Gemm", "ArgMax") for node in proto.graph.node)
    assert "my.domain::Fused" in str(program.verification.skipped)


def test_the_nearest_class_counts() -> None:
    operators = {Fused: "my.domain::Fused", FusedChild: "other::Child"}
    proto = onnxport.export(UsesFused().eval(), torch.randn(3, 4), modules_as_ops=operators).model_proto
    assert [(n.domain, n.op_type) for n in proto.graph.node if n.domain] == [("my.domain", "Fused"), ("other", "Child")]


def test_parameters_are_given_in_the_order_of_the_state_dict() -> None:
    model = UsesFused().eval()
    proto = onnxport.export(model, torch.randn(3, 4), modules_as_ops={Fused: "d::F"}).model_proto
    node = next(node for node in proto.graph.node if node.domain == "d")
    assert list(node.input[2:]) == [f"first.{name}" for name in model.first.state_dict()]


def test_a_module_that_gives_back_its_input_is_an_operator_too() -> None:
    model = nn.Sequential(nn.Dropout(), nn.ReLU())
    proto = onnxport.export(model.eval(), torch.randn(3), modules_as_ops={nn.Dropout: "d::Marker"}).model_proto
    assert [(n.domain, n.op_type) for n in proto.graph.node] == [("d", "Marker"), ("", "Relu")]


def test_an_operator_for_a_module_can_be_checked_through_a_runner() -> None:
    """The check replaces the operator by what the module computes; a wrong one does not pass."""
    model = UsesFused().eval()

    def runner(path: Any, inputs: Any) -> Any:
        (x,) = inputs.values()
        return [model(torch.as_tensor(x)).detach().numpy()]

    program = onnxport.export(model, torch.randn(3, 4), modules_as_ops={Fused: "d::F"}, verify=runner)
    assert program.verification.passed


@pytest.mark.parametrize("given", [{"Fused": "d::F"}, {Fused: "F"}, {Fused: "d::"}, [Fused], {nn.Conv2d: "d::F"}])
def test_wrong_classes_and_operators_are_refused(given: Any) -> None:
    with pytest.raises(onnxport.OptionError, match="modules_as_ops"):
        onnxport.export(UsesFused().eval(), torch.randn(3, 4), modules_as_ops=given)


def test_an_argument_that_no_attribute_can_hold_is_refused() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Fused(4)

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x, mode=torch.float32)

    with pytest.raises(onnxport.CaptureError, match="'inner'"):
        onnxport.export(M(), torch.randn(3, 4), modules_as_ops={Fused: "d::F"})


# Modules as functions


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, n = x.shape
        q = self.query(x).view(b, t, 2, n // 2).transpose(1, 2)
        a = torch.softmax(q @ q.transpose(-1, -2), -1) @ q
        return x + self.out(a.transpose(1, 2).reshape(b, t, n)).relu()


class Layers(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 8, 8)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(width) for width in widths)
        self.head = nn.Linear(widths[-1], 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).mean(1)


DYNAMIC: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "b", 1: "t"}}}


def test_equal_modules_share_one_function_with_parameters_as_inputs() -> None:
    model = Layers().eval()
    program = onnxport.export(model, torch.randn(2, 5, 8), export_modules_as_functions={Attention}, **DYNAMIC)
    assert program.verification.passed and len(program.verification.cases) > 1
    proto = program.model_proto
    (function,) = proto.functions
    assert (function.domain, function.name) == (Attention.__module__, "Attention")
    assert list(function.input) == ["x", "query.weight", "query.bias", "out.weight", "out.bias"]
    calls = [node for node in proto.graph.node if node.domain == function.domain]
    assert [node.op_type for node in calls] == ["Attention"] * 3
    assert list(calls[1].input[1:3]) == ["layers.1.query.weight", "layers.1.query.bias"]
    same(model, proto, torch.randn(3, 7, 8))


def test_every_module_as_a_function_with_functions_inside() -> None:
    model = Layers().eval()
    program = onnxport.export(model, torch.randn(2, 5, 8), export_modules_as_functions=True, **DYNAMIC)
    assert program.verification.passed
    functions = {function.name: function for function in program.model_proto.functions}
    assert set(functions) == {"Attention", "Linear"}
    assert [n.op_type for n in functions["Attention"].node].count("Linear") == 2
    same(model, program.model_proto, torch.randn(4, 3, 8))


def test_modules_of_one_class_with_another_structure_have_functions_of_their_own() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Softmax(dim) for dim in (1, 1, 0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(x * 2)
            return x

    program = onnxport.export(M(), torch.randn(3, 4), export_modules_as_functions={nn.Softmax})
    assert sorted(function.name for function in program.model_proto.functions) == ["Softmax", "Softmax.1"]
    assert [n.op_type for n in program.model_proto.graph.node if n.domain] == ["Softmax", "Softmax", "Softmax.1"]
    same(M(), program.model_proto, torch.randn(3, 4))


class Twice(nn.Module):
    """Calls one module twice in a row, uses a size and a second result of it, and writes to what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.block = TwoResults()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, count = self.block(x, x.shape[0])
        z, other = self.block(y, count)
        z.add_(1)
        return z * other + y.sum() + count


class TwoResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("table", torch.randn(4, 600))

    def forward(self, x: torch.Tensor, n: Any) -> Any:
        kept = x[x[:, 0] > -9]
        return self.act(kept * n + self.table[:, 0]), kept.shape[0] * 2


def test_calls_in_a_row_sizes_and_writes() -> None:
    model = Twice().eval()
    program = onnxport.export(model, torch.randn(3, 4), export_modules_as_functions={TwoResults}, **DYNAMIC_ROWS)
    assert program.verification.passed
    calls = [n.op_type for n in program.model_proto.graph.node if n.domain]
    assert len(calls) == 2 and all(name.startswith("TwoResults") for name in calls)
    same(model, program.model_proto, torch.randn(6, 4))


DYNAMIC_ROWS: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}


def test_the_layers_of_an_encoder_share_their_functions_though_all_read_the_same_mask() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[0, 3:] = True
    axes = {0: "b", 1: "t"}
    program = onnxport.export(
        model,
        (torch.randn(2, 5, 8),),
        kwargs={"src_key_padding_mask": mask},
        export_modules_as_functions={nn.TransformerEncoderLayer, nn.MultiheadAttention},
        input_names=["src", "mask"],
        dynamic_axes={"src": axes, "mask": axes},
    )
    assert program.verification.passed
    names = [function.name for function in program.model_proto.functions]
    assert names == ["MultiheadAttention", "TransformerEncoderLayer"]


def test_functions_run_in_the_backend_and_beside_operators_of_torch() -> None:
    model = Layers().eval()
    x = torch.randn(2, 5, 8)
    program = onnxport.export(
        model,
        x,
        export_modules_as_functions={Attention},
        operator_export_type=onnxport.OperatorExportTypes.ONNX_ATEN,
    )
    assert program.verification.passed
    assert all(
        n.domain == "org.pytorch.aten" for f in program.model_proto.functions for n in f.node if n.op_type != "Constant"
    )
    (out,) = onnxport.backend.run_model(program.model_proto, x.numpy())
    np.testing.assert_allclose(out, model(x).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_parameters_as_inputs_of_the_graph_reach_the_functions() -> None:
    model = Layers().eval()
    program = onnxport.export(model, torch.randn(2, 5, 8), export_modules_as_functions=True, export_params=False)
    assert program.verification.passed
    assert not any(t.name.endswith("weight") for t in program.model_proto.graph.initializer)


@pytest.mark.parametrize("given", ["Attention", [3], 5, {nn.Conv2d}])
def test_wrong_classes_of_functions_are_refused(given: Any) -> None:
    with pytest.raises(onnxport.OptionError, match="export_modules_as_functions"):
        onnxport.export(Layers(), torch.randn(2, 5, 8), export_modules_as_functions=given)


def test_functions_need_an_opset_that_has_them() -> None:
    with pytest.raises(onnxport.OptionError, match="opset_version=15"):
        onnxport.export(Layers(), torch.randn(2, 5, 8), export_modules_as_functions=True, opset_version=14)


def test_the_model_is_given_back_without_hooks() -> None:
    model = UsesFused().eval()
    onnxport.export(model, torch.randn(3, 4), modules_as_ops={Fused: "d::F"})
    onnxport.export(model, torch.randn(3, 4), export_modules_as_functions=True)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
