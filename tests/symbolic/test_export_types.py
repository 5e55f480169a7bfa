"""What operators are written as: ONNX, operators of torch, or the captured graph; and that torch reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import onnxport
from onnxport import OperatorExportTypes

ATEN, FALLBACK = OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.ONNX_ATEN_FALLBACK
FALLTHROUGH, RAW = OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.RAW


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    """An operator that nobody can translate, with arguments of every kind."""
    lib = torch.library.Library("export_types", "FRAGMENT")
    lib.define(
        "mix(Tensor a, Tensor? b, Tensor[] rest, float scale, Scalar shift, int[] roll, bool flip, "
        "str mode, *, float[] weights, int? times=2, ScalarType? dtype=None) -> (Tensor, Tensor)"
    )

    def mix(
        a: torch.Tensor, b: Any, rest: Any, scale: float, shift: Any, roll: Any, flip: bool, mode: str, *,
        weights: Any, times: Any = 2, dtype: Any = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        result = a * scale + shift + len(rest) + 100 * (b is None)
        result = (
            (result.roll(roll) if roll else result) * (-1 if flip else 1)
            + (1000 if mode == "far" else 0)
            + sum(weights)
        )
        result = result + (7 if times is None else times)
        for element in (*rest, *([] if b is None else [b])):
            result = result + element.sum()
        return result.to(dtype or a.dtype), a - 1

    lib.impl("mix", mix, "CompositeExplicitAutograd")
    lib.define("twice(Tensor a) -> Tensor")
    lib.impl("twice", lambda a: a * 2, "CompositeExplicitAutograd")
    lib.define("count(Tensor a, int n, float f) -> Tensor")
    lib.impl("count", lambda a, n, f: a * n + f, "CompositeExplicitAutograd")
    yield
    lib._destroy()


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def torch_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain != ""]


def same(expected: torch.Tensor, actual: np.ndarray[Any, Any], rtol: float = 1e-5) -> None:
    assert torch.from_numpy(actual).dtype == expected.dtype
    assert actual.shape == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=rtol, atol=1e-6)


def exported(function: Any, args: Any, kind: OperatorExportTypes, **options: Any) -> onnxport.Program:
    module = function if isinstance(function, nn.Module) else Calls(function)
    return onnxport.export(module.eval(), args, operator_export_type=kind, **options)


MIXES: list[Callable[..., Any]] = [
    lambda a, b: torch.ops.export_types.mix(a, b, [a, b], 0.1, 2, [1], True, "far", weights=[0.1, 2.0]),
    lambda a, b: torch.ops.export_types.mix(a, None, [], 2.0, 0.3, [], False, "", weights=[]),
    lambda a, b: torch.ops.export_types.mix(a, b, [b], 1e-5, 0.1, [1], False, "near", weights=[1 / 3]),
    lambda a, b: torch.ops.export_types.mix(
        a, b, [], 1.0, 1, [2], False, "far", weights=[1.0], times=None, dtype=torch.float64
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind", [ATEN, FALLBACK, FALLTHROUGH], ids=lambda kind: kind.name)
@pytest.mark.parametrize("function", MIXES, ids=["full", "empty", "rounding", "named"])
def test_arguments_of_every_kind_survive(kind: OperatorExportTypes, function: Callable[..., Any]) -> None:
    args = torch.randn(5), torch.randn(5)
    program = exported(function, args, kind)
    assert program.verification.passed
    other = torch.randn(5), torch.randn(5)
    rep = onnxport.backend.prepare(program.model_proto)
    for expected, actual in zip(
        torch.utils._pytree.tree_leaves(function(*other)), rep.run([x.numpy() for x in other]), strict=True
    ):
        same(expected, actual)


def test_only_what_has_no_translation_falls_back_and_the_report_lists_it() -> None:
    class M(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            b = torch.ops.export_types.twice(torch.relu(a))
            return torch.ops.export_types.twice(b) + 1

    program = exported(M(), torch.randn(3), FALLBACK)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Relu", "ATen", "ATen", "Add"]
    (line,) = program.report.fallbacks
    assert line.startswith("export_types::twice (2 x), first in M at ") and "test_export_types.py:" in line
    assert line in str(program.report)
    assert program.verification.passed


def test_a_model_that_translates_whole_has_no_fallback() -> None:
    program = exported(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(2, 3), FALLBACK)
    assert program.report.fallbacks == [] and {n.domain for n in program.model_proto.graph.node} == {""}


def test_what_an_opset_cannot_say_falls_back() -> None:
    """aten::scatter_add needs opset 9."""
    args = torch.zeros(3), torch.tensor([0, 2, 0]), torch.randn(3)

    def added(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(0, index, source)

    with pytest.raises(onnxport.UnsupportedOpsetError):
        onnxport.export(Calls(added), args, opset_version=8)
    program = exported(added, args, FALLBACK, opset_version=8)
    assert program.verification.passed and len(program.report.fallbacks) == 1
    (node,) = torch_nodes(program.model_proto)
    assert node.domain == "org.pytorch.aten"
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert (attributes["operator"], attributes["overload_name"]) == (b"scatter_add", b"")


def test_parameters_are_inputs_of_the_nodes() -> None:
    model = nn.Linear(4, 8)
    proto = exported(model, torch.randn(2, 4), ATEN).model_proto
    (node,) = proto.graph.node
    assert list(node.input[1:]) == ["weight", "bias"] and {t.name for t in proto.graph.initializer} == {
        "weight",
        "bias",
    }


WHOLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "split": (lambda x: x.split([1, 2], dim=1)[1][:2] + x.chunk(2)[0][:, :2], (torch.randn(4, 3),)),
    "index": (lambda x, i: x[:, i].sum(0) + x[i.flip(0)][:, :2], (torch.randn(3, 3), torch.tensor([2, 0]))),
    "setting": (lambda x: x.clone().index_put_((torch.tensor([0]),), torch.ones(3)).add_(1), (torch.randn(3, 3),)),
    "cat": (lambda x: torch.cat([x, x * 2, torch.zeros(1, 3)]), (torch.randn(2, 3),)),
    "factory": (lambda x: x + torch.arange(3, dtype=torch.float64) + torch.full((3,), 1e-7), (torch.randn(2, 3),)),
    "casts": (lambda x: x.to(torch.float16).neg(), (torch.randn(2, 3),)),
    "layout": (lambda x: x.transpose(0, 1).reshape(-1).view(2, 6).contiguous(), (torch.randn(3, 4),)),
    "norm": (lambda x: torch.nn.functional.layer_norm(x, [6], eps=1e-5), (torch.randn(2, 6),)),
    "pool": (lambda x: torch.nn.functional.max_pool2d(x, 2, return_indices=True), (torch.randn(1, 2, 4, 4),)),
    "resize": (lambda x: torch.nn.functional.interpolate(x, scale_factor=1.7), (torch.randn(1, 2, 4, 4),)),
    "attention": (
        lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), (torch.randn(1, 2, 4, 8),)
    ),
    "bool scalar": (lambda x: (x > 0).masked_fill(x < 1, True), (torch.randn(3, 2),)),
    "bools": (lambda x: (x > 0) & torch.tensor([True, False]), (torch.randn(3, 2),)),
    "lstm": (nn.LSTM(3, 4), (torch.randn(5, 2, 3),)),
    "complex": (lambda x: torch.fft.rfft(x).abs(), (torch.randn(3, 8),)),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (torch.randn(2, 3, 4), torch.randn(2, 4, 5))),
}  # fmt: skip


@pytest.mark.parametrize("kind", [ATEN, FALLTHROUGH], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_models_as_operators_of_torch(name: str, kind: OperatorExportTypes) -> None:
    function, args = WHOLE[name]
    program = exported(function, args, kind)
    assert program.verification.passed, program.verification
    if kind is ATEN:
        assert {(n.domain, n.op_type) for n in program.model_proto.graph.node} == {("org.pytorch.aten", "ATen")}
    expected = torch.utils._pytree.tree_leaves(function(*args))
    for one, actual in zip(expected, torch.utils._pytree.tree_leaves(program(*args)), strict=True):
        torch.testing.assert_close(actual, one.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", [ATEN, FALLBACK, FALLTHROUGH], ids=lambda kind: kind.name)
def test_sizes_of_dynamic_axes_reach_the_operators(kind: OperatorExportTypes) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return torch.ops.export_types.count(x.reshape(n * 2, -1), n, 0.5).view(2, n, -1)

    program = exported(function, torch.randn(3, 4), kind, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert program.verification.passed and len(program.verification.cases) > 1
    x = torch.randn(5, 4)
    (actual,) = onnxport.backend.prepare(program.model_proto).run([x.numpy()])
    same(function(x), actual)


def test_sizes_are_computed_as_the_model_computes_them() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.reshape(x.shape[0] * 2, -1) * x.shape[0]).view(2, x.shape[0], -1)

    program = exported(function, torch.randn(3, 4), ATEN, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    nodes = program.model_proto.graph.node
    assert [n.op_type for n in nodes if n.domain == "org.pytorch.aten"].count("ATen") == 3
    assert {n.op_type for n in nodes if not n.domain} <= {"Shape", "Gather", "Slice", "Squeeze", "Mul", "Constant"}
    x = torch.randn(7, 4)
    (actual,) = onnxport.backend.run_model(program.model_proto, x.numpy())
    same(function(x), actual)


def test_a_number_that_python_computed_from_a_size_reaches_the_operators() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.export_types.count(x, int(x.shape[0]) * 2, 0.25)

    program = exported(function, torch.randn(3, 4), ATEN, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    x = torch.randn(6, 4)
    (actual,) = onnxport.backend.prepare(program.model_proto).run([x.numpy()])
    same(function(x), actual)


def test_fallthrough_keeps_the_operators_own_domain() -> None:
    program = exported(lambda x: torch.ops.export_types.twice(torch.relu(x)), torch.randn(3), FALLTHROUGH)
    assert [(n.domain, n.op_type) for n in program.model_proto.graph.node] == [("", "Relu"), ("export_types", "twice")]
    assert {entry.domain for entry in program.model_proto.opset_import} == {"", "export_types"}


def test_the_raw_graph_is_what_was_captured(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].add_(1)
        return y.t().contiguous()

    program = exported(function, torch.randn(3, 4), RAW, verbose=True)
    kinds = [f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node]
    assert kinds == ["aten::clone", "aten::select", "aten::add_", "aten::t", "aten::contiguous"]
    printed = capsys.readouterr().out
    assert all(kind in printed for kind in kinds)
    assert not program.verification.passed and "captured" in str(program.verification.skipped)
    with pytest.raises(onnxport.BackendError, match=r"aten::add_.*writes"):
        onnxport.backend.prepare(program.model_proto)


def test_a_kept_operator_that_computes_something_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is run and compared: nothing is taken on trust."""
    monkeypatch.setattr("onnxport.backend.torch_nodes.operator", lambda op, overload: lambda a: a * 2 + 1)
    model = Calls(torch.ops.export_types.twice)
    with pytest.raises(onnxport.VerificationError, match="largest error 1"):
        onnxport.export(model, torch.ones(3), tmp_path / "m.onnx", operator_export_type=FALLBACK)
    assert not (tmp_path / "m.onnx").exists()


def test_old_names_of_the_types() -> None:
    with pytest.warns(DeprecationWarning, match="aten"):
        program = onnxport.export(nn.ReLU(), torch.randn(2), aten=True)
    assert [node.op_type for node in program.model_proto.graph.node] == ["ATen"]


class Branches(nn.Module):
    """A branch and a loop that depend on data, with an operator inside that nobody can translate."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return branches(x) * 2


@torch.jit.script
def branches(x):  # type: ignore[no-untyped-def]
    if bool(x.sum() > 0):
        y = torch.relu(x - 1)
    else:
        y = x + 1
    n = int(x.abs().max().item()) + 1
    for i in range(n):
        y = y * 2 + i
    return y


@pytest.mark.parametrize("kind", [ATEN, FALLTHROUGH], ids=lambda kind: kind.name)
def test_control_flow_with_operators_of_torch_inside(kind: OperatorExportTypes) -> None:
    program = exported(Branches(), torch.rand(3, 4), kind)
    assert program.verification.passed
    rep = onnxport.backend.prepare(program.model_proto)
    for x in (torch.rand(3, 4) * 5, -torch.rand(3, 4) * 3, torch.zeros(3, 4)):
        (actual,) = rep.run([x.numpy()])
        same(Branches()(x), actual)


def test_blocks_are_part_of_the_raw_graph() -> None:
    proto = exported(Branches(), torch.rand(3, 4), RAW).model_proto
    kinds = [f"{node.domain}::{node.op_type}" for node in proto.graph.node]
    assert "prim::If" in kinds and "prim::Loop" in kinds and "::If" not in kinds
    branch = next(node for node in proto.graph.node if node.op_type == "If")
    inside = [[f"{node.domain}::{node.op_type}" for node in attribute.g.node] for attribute in branch.attribute]
    assert ["aten::sub", "aten::relu"] in inside


class Erf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.special.erf(x)


@pytest.mark.parametrize("kind", [FALLTHROUGH, RAW], ids=lambda kind: kind.name)
def test_a_function_that_stays_python_is_written_and_not_run(kind: OperatorExportTypes) -> None:
    program = exported(Erf.apply, torch.ones(2, 3), kind)
    assert [f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node] == ["prim::PythonOp"]
    assert program.verification.skipped
