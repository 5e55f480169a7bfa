"""What symbolic functions do with ``g`` and with values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import onnxport
from tests.symbolic.harness import check, export, ops

X = torch.randn(3, 4)


def through(symbolic: Callable[..., Any], forward: Callable[..., Any] = lambda x: x * 2) -> Any:
    """A model of one Function."""
    members = {"forward": staticmethod(lambda ctx, *args: forward(*args)), "symbolic": staticmethod(symbolic)}
    own = type("Own", (torch.autograd.Function,), members)
    return lambda *args: own.apply(*args)  # type: ignore[attr-defined]  # noqa: PLW0108


def exported(symbolic: Callable[..., Any], *args: Any, **options: Any) -> onnx.ModelProto:
    return onnxport.export(through(symbolic), args or (X,), verify=False, **options).model_proto


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def test_attributes_of_every_type() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        return g.op(
            "own::All", x, a_f=1, b_i=True, c_s="text", d_t=torch.arange(3), e_t=np.array([1.5], dtype=np.float64),
            f_f=[1, 2.5], g_i=(1, False), h_s=["a", "b"], i_i=np.int64(3), j_f=torch.tensor(0.5),
            k_i=torch.tensor([1, 2]), l_f=(), m_s=b"bytes", n_i=torch.float16, o=0.25, p=[1, 2], q="plain",
            r_t=[torch.zeros(2), torch.ones(1)], s=None, t_is=[4], u_t=2.0,
        )  # fmt: skip

    (node,) = exported(symbolic).graph.node
    found = attributes_of(node)
    tensors = {name: onnx.numpy_helper.to_array(found.pop(name)) for name in ("d", "e", "u")}
    listed = [onnx.numpy_helper.to_array(tensor).tolist() for tensor in found.pop("r")]
    assert found == {
        "a": 1.0, "b": 1, "c": b"text", "f": [1.0, 2.5], "g": [1, 0], "h": [b"a", b"b"], "i": 3, "j": 0.5, "k": [1, 2],
        "l": [], "m": b"bytes", "n": 10, "o": 0.25, "p": [1, 2], "q": b"plain", "t": [4],
    }  # fmt: skip
    assert (tensors["d"].tolist(), tensors["e"].dtype, float(tensors["u"])) == ([0, 1, 2], np.float64, 2.0)
    assert listed == [[0.0, 0.0], [1.0]]
    kinds = {a.name: a.type for a in node.attribute}
    assert kinds["l"] == onnx.AttributeProto.FLOATS and kinds["a"] == onnx.AttributeProto.FLOAT


def test_domains_outputs_and_names() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        first, second, third = g.op("a.b.c::Three", x, outputs=3)
        assert first.node().kind() == "a.b.c::Three" and first.node().outputsSize() == 3
        assert first.debugName() != second.debugName()
        return g.op("onnx::Add", third, g.op("d::One", first, second))

    proto = exported(symbolic, custom_opsets={"d": 4})
    assert [(n.domain, n.op_type, len(n.output)) for n in proto.graph.node] == [
        ("a.b.c", "Three", 3), ("d", "One", 1), ("", "Add", 1),
    ]  # fmt: skip
    assert {o.domain: o.version for o in proto.opset_import} == {"": 20, "a.b.c": 1, "d": 4}


def test_numbers_lists_and_tensors_as_inputs() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        wide = g.op("Gather", x, [0, 1, 1], axis_i=1)
        y = g.op("Add", g.op("Mul", wide, 2), torch.ones(3))
        return g.op("Where", True, g.op("Reshape", y, (1, -1)), np.float32(0.0))

    def forward(x: torch.Tensor) -> torch.Tensor:
        return (x[:, [0, 1, 1]] * 2 + 1).reshape(1, -1)

    for dtype in (torch.float32, torch.float64, torch.float16):
        model = through(symbolic, forward)
        check(export(model, X.to(dtype)), model, torch.randn(3, 4).to(dtype))


def test_tensors_of_mixed_types_are_computed_as_torch_would() -> None:
    def symbolic(g: Any, x: Any, n: Any) -> Any:
        return g.op("Mul", g.op("Add", x, n), g.op("Constant", value_t=torch.tensor(2.0)))

    model = through(symbolic, lambda x, n: (x + n) * 2.0)
    for kinds in ((torch.float16, torch.int64), (torch.int32, torch.float32), (torch.float64, torch.float32)):
        args = [torch.randint(0, 5, (3, 4)).to(kind) for kind in kinds]
        check(export(model, *args), model, *args)


@pytest.mark.parametrize("opset", [9, 12, 13, 18, 20])
def test_attributes_that_became_inputs_are_given_as_such(opset: int) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        y = g.op("Unsqueeze", x, axes_i=[0])
        y = g.op("ReduceSum", y, axes_i=[2], keepdims_i=0)
        y = g.op("Clip", g.op("Squeeze", y, axes_i=[0]), min_f=-1.0, max_f=1.0)
        y = g.op("Pad", y, mode_s="constant", pads_i=[1, 1], value_f=7.0)
        return g.op("Slice", y, axes_i=[0], starts_i=[0], ends_i=[4]) if opset < 10 else y

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pad(x.sum(1).clamp(-1, 1), (1, 1), value=7.0)
        return y[:4] if opset < 10 else y

    model = through(symbolic, forward)
    if opset in (9, 12):
        model = through(lambda g, x: g.op("Squeeze", g.op("Unsqueeze", x, axes_i=[0]), axes_i=[0]), lambda x: x * 1)
    check(export(model, X, opset_version=opset), model, torch.randn(3, 4))


def test_types_of_results_are_known_at_once() -> None:
    seen: dict[str, Any] = {}

    def symbolic(g: Any, x: Any) -> Any:
        values, places = g.op("TopK", x, [2], axis_i=-1, outputs=2)
        seen["values"], seen["places"] = values.type(), places.type()
        shape = g.op("Shape", x)
        seen["shape"] = shape.type()
        seen["conv"] = g.op("Conv", g.op("Unsqueeze", x, [0]), torch.ones(5, 3, 2)).type()
        seen["quantized"] = g.op(
            "QuantizeLinear", x, 0.5, g.op("Constant", value_t=torch.tensor(0, dtype=torch.int8))
        ).type()
        return g.op("Add", values, g.op("Cast", places, to_i=1))

    model = through(symbolic, lambda x: x.topk(2)[0] + x.topk(2)[1].float())
    check(export(model, X), model, torch.randn(3, 4))
    described = {name: (kind.scalarType(), kind.sizes()) for name, kind in seen.items()}
    assert described == {
        "values": ("Float", [3, 2]), "places": ("Long", [3, 2]), "shape": ("Long", [2]), "conv": ("Float", [1, 5, 3]),
        "quantized": ("Char", [3, 4]),
    }  # fmt: skip


def test_types_with_dynamic_sizes() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        y = g.op("Transpose", x, perm_i=[1, 0])
        assert (x.type().varyingSizes(), y.type().varyingSizes()) == ([None, 4], [4, None])
        assert y.type().sizes() is None and y.type().dim() == 2 and not y.isCompleteTensor()
        assert onnxport.symbolic_helper._get_tensor_dim_size(y, 0) == 4
        assert onnxport.symbolic_helper._get_tensor_dim_size(y, 1) is None
        return g.op("Transpose", g.op("Mul", y, 2.0), perm_i=[1, 0])

    model = through(symbolic)

    def named(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(x)
        return result

    check(export(named, X, dynamic_axes={"x": [0]}), named, torch.randn(8, 4))


def test_values_and_types_answer_as_they_did() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        kind = x.type()
        assert (kind.kind(), kind.scalarType(), kind.dtype(), kind.sizes()) == (
            "TensorType",
            "Float",
            torch.float32,
            [3, 4],
        )
        assert (kind.dim(), kind.strides(), str(kind)) == (2, [4, 1], "Float(3, 4)")
        assert kind.with_sizes([6, None]).varyingSizes() == [6, None]
        assert kind.with_dtype(torch.int64).scalarType() == "Long" and kind.scalarType() == "Float"
        assert x.isCompleteTensor() and not x.requiresGrad()
        assert kind.isSubtypeOf(torch._C.TensorType.get())
        y = g.op("Neg", x).setType(kind.with_sizes([3, 4]))
        assert y.type().sizes() == [3, 4] and y.node().kind() == "onnx::Neg"
        assert [v.debugName() for v in y.node().inputs()] == [x.debugName()] and y.node().output() is y
        constant = g.op("Constant", value_t=torch.tensor([1.0, 2.0]))
        assert constant.node().kind() == "onnx::Constant" and constant.node().t("value").tolist() == [1.0, 2.0]
        assert constant.node().kindOf("value") == "t" and constant.node()["value"].tolist() == [1.0, 2.0]
        scaled = g.op("Elu", y, alpha_f=0.5)
        assert scaled.node().f("alpha") == 0.5 and scaled.node().hasAttribute("alpha")
        scaled.node().f_("alpha", 0.25)
        assert (g.opset, g.original_node.kind(), g.original_node.scopeName()) == (17, "prim::PythonOp", "<lambda>")
        assert "test_graph_object.py" in g.original_node.sourceRange()
        return scaled

    model = through(symbolic, lambda x: torch.nn.functional.elu(-x, 0.25))
    check(export(model, X, opset_version=17), model, torch.randn(3, 4))


def test_aten_nodes() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        return g.at("mul", x, g.op("Constant", value_t=torch.tensor(2.0)), overload_name="Tensor", note_i=3)

    (node,) = exported(symbolic).graph.node
    assert (node.domain, node.op_type) == ("org.pytorch.aten", "ATen")
    assert attributes_of(node) == {"operator": b"mul", "overload_name": b"Tensor", "note": 3}


def test_lists_and_none() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        packed = g.op("prim::ListConstruct", x, x)
        assert onnxport.symbolic_helper._is_packed_list(packed)
        first, second = g.op("prim::ListUnpack", packed, outputs=2)
        low = g.op("prim::Constant")
        assert low.node().mustBeNone() and onnxport.symbolic_helper._is_none(low)
        return g.op("Clip", g.op("Concat", first, second, axis_i=0), low, 1.0)

    model = through(symbolic, lambda x: torch.cat([x, x]).clamp(max=1.0))
    check(export(model, X), model, torch.randn(3, 4))


@pytest.mark.parametrize("wrong", ["text", {"a": 1}, object(), [object()], torch.float32])
def test_what_is_no_value_is_refused_as_an_input(wrong: Any) -> None:
    with pytest.raises(onnxport.CustomOperatorError, match=r"test_graph_object.py:\d+, in \S+: Add has .* as an input"):
        exported(lambda g, x: g.op("Add", x, wrong))


@pytest.mark.parametrize(
    ("symbolic", "reason"),
    [
        (lambda g, x: g.op("own::A", x, a_f="text"), "attribute a_f cannot be 'text'"),
        (lambda g, x: g.op("own::A", x, a_s=1), "attribute a_s cannot be 1"),
        (lambda g, x: g.op("own::A", x, a_i=1.5), "attribute a_i cannot be 1.5"),
        (lambda g, x: g.op("own::A", x, a_i=g.op("Neg", x)), "only known at run time"),
        (lambda g, x: g.op("Relu", x, alpha_f=1.0), "Relu has no attribute 'alpha' at opset 20"),
        (lambda g, x: g.op("Relu", x, x), "Relu has 1 inputs at opset 20, and the symbolic function passes 2"),
        (lambda g, x: g.op("prim::Uninitialized"), "not an operator that can be exported"),
        (lambda g, x: g.op("Constant"), "needs its content"),
        (lambda g, x: None, "returns None for result 0"),
    ],
)
def test_mistakes_are_named(symbolic: Callable[..., Any], reason: str) -> None:
    with pytest.raises(onnxport.CustomOperatorError, match=reason):
        exported(symbolic)


def test_an_operator_of_a_newer_opset_is_named_with_it() -> None:
    with pytest.raises(onnxport.UnsupportedOpsetError, match="LayerNormalization needs opset_version=17"):
        exported(lambda g, x: g.op("LayerNormalization", x, torch.ones(4)), opset_version=13)


def test_an_operator_without_a_domain_that_onnx_lacks() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("BatchedNMS_TRT", x, shareLocation_i=1)

    for checked in (True, False):
        with pytest.warns(onnxport.VerificationWarning, match="BatchedNMS_TRT.*registered"):
            program = onnxport.export(through(symbolic), X, enable_onnx_checker=checked)
        assert ops(program) == ["BatchedNMS_TRT"] and not program.verification.passed
