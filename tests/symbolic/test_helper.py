"""symbolic_helper and the symbolic_opset modules, as public symbolic functions use them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from onnxport import symbolic_helper as helper
from onnxport import symbolic_opset9 as opset9
from onnxport import symbolic_opset11 as opset11
from tests.symbolic.harness import check, export, operators, ops, registered

SCHEMA = "all(Tensor x, Tensor[] xs, int i, float f, bool b, str s, int[] ints, float[] floats, Tensor? none, ScalarType? dtype=None) -> Tensor"  # noqa: E501


def everything(x: torch.Tensor, xs: Any, i: Any, f: Any, b: Any, s: Any, *rest: Any, **more: Any) -> torch.Tensor:
    return x + xs[0] * i


def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.lab.all(x, [y, x], 3, 0.5, True, "mode", [1, 2], [0.5], None, torch.int64)
    return result


def run(symbolic: Callable[..., Any], **options: Any) -> onnxport.Program:
    with operators((SCHEMA, everything)), registered("lab::all", symbolic):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        program = export(call, x, y, **options)
        check(program, call, torch.randn(3, 4), torch.randn(3, 4))
        return program


def test_parse_args() -> None:
    @helper.parse_args("v", "v", "i", "f", "b", "s", "is", "fs", "none", "i")
    def symbolic(g: Any, x: Any, xs: Any, *rest: Any) -> Any:
        assert rest[:-2] == (3, 0.5, True, "mode", [1, 2], [0.5]) and helper._is_none(rest[-2]) and rest[-1] == 4
        return g.op("Add", x, g.op("Mul", helper._unpack_list(xs)[0], rest[0]))

    assert ops(run(symbolic)) == ["Mul", "Add"]


def test_arguments_are_values_of_the_kinds_that_they_were() -> None:
    def symbolic(
        g: Any, x: Any, xs: Any, i: Any, f: Any, b: Any, s: Any, ints: Any, floats: Any, none: Any, dtype: Any
    ) -> Any:
        assert [v.node().kind() for v in (x, xs, i, f, b, s, ints, none)] == [
            "prim::Param", "prim::ListConstruct", "onnx::Constant", "onnx::Constant", "onnx::Constant",
            "prim::Constant", "prim::ListConstruct", "prim::Constant",
        ]  # fmt: skip
        assert helper._is_value(i) and helper._is_constant(i) and not helper._is_constant(x) and helper._is_none(none)
        assert helper._is_packed_list(xs) and len(list(xs.node().inputs())) == 2 and not helper._is_packed_list(x)
        assert (helper._scalar(i), helper._scalar(f), helper._scalar(b), helper._scalar(torch.tensor(2))) == (
            3,
            0.5,
            True,
            2,
        )
        assert helper._maybe_get_const(ints, "is") == [1, 2] and helper._maybe_get_const(x, "i") is x
        assert helper._maybe_get_const(none, "i") is None and helper._maybe_get_const(5, "i") == 5
        assert helper._maybe_get_scalar(f).item() == 0.5 and helper._maybe_get_scalar(x) is x
        assert helper._get_const(floats, "fs", "floats") == [0.5] and helper._get_const(s, "s", "s") == "mode"
        assert helper.scalar_type_to_pytorch_type[helper._get_const(dtype, "i", "dtype")] == torch.int64
        assert helper._get_tensor_rank(x) == 2 and helper._get_tensor_sizes(x) == [3, 4]
        assert helper._try_get_scalar_type(i, x) == "Long" and helper._is_fp(x) and not helper._is_bool(x)
        assert helper._if_scalar_type_as(torch.tensor(1), x).dtype == torch.float32
        assert helper._if_scalar_type_as(g, torch.tensor(1), x).dtype == torch.float32
        assert helper._type_promote_from_values(x, x) == helper.JitScalarType.FLOAT
        assert helper._export_onnx_opset_version == g.opset == 15
        return g.op("Add", x, g.op("Mul", xs.elements[0], i))

    run(symbolic, opset_version=15)
    assert helper._export_onnx_opset_version is None


def test_what_is_not_constant_is_refused_with_its_name() -> None:
    symbolic = helper.parse_args("i")(lambda g, x: x)
    too_many = pytest.raises(onnxport.CustomOperatorError, match=r"10 arguments.*occurred when translating lab::all")
    with operators((SCHEMA, everything)), registered("lab::all", symbolic), too_many:
        onnxport.export(call, (torch.randn(2), torch.randn(2)))
    not_constant = pytest.raises(onnxport.UnsupportedOperatorError, match="needs an integer that is constant")
    with registered("aten::neg", symbolic), not_constant:
        onnxport.export(lambda x: -x, torch.randn(2))
    with pytest.raises(onnxport.CustomOperatorError, match="'q' is none of"):
        helper.parse_args("q")


def test_refusals_of_symbolic_functions() -> None:
    cases: list[tuple[Callable[..., Any], str, type[Exception]]] = [
        (
            lambda g, x: helper._unimplemented("neg", "why", x),
            "neg has no translation: why",
            onnxport.UnsupportedOperatorError,
        ),
        (lambda g, x: helper._onnx_unsupported("neg", x), "neg cannot be expressed", onnxport.UnsupportedOperatorError),
        (
            lambda g, x: helper._onnx_opset_unsupported("neg", 9, 11, x),
            "neg needs opset_version=11",
            onnxport.UnsupportedOpsetError,
        ),
    ]
    for symbolic, reason, kind in cases:
        with registered("aten::neg", symbolic), pytest.raises(kind, match=rf"test_helper.py:\d+, in \S+: {reason}"):
            onnxport.export(lambda x: -x, torch.randn(2))


@pytest.mark.parametrize("opset", [9, 11, 13, 20])
def test_forms_of_every_opset(opset: int) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        y = helper._unsqueeze_helper(g, x, [0])
        y = helper._slice_helper(g, y, axes=[2], starts=[1], ends=[4])
        y = helper._reducesum_helper(g, y, axes_i=[2], keepdims_i=1)
        y = helper._squeeze_helper(g, y, [0])
        return helper._reshape_helper(g, y, [1, -1])

    def cut(x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:4].sum(1).reshape(1, -1)

    with operators(("cut(Tensor x) -> Tensor", cut)), registered("lab::cut", symbolic):
        program = export(lambda x: torch.ops.lab.cut(x) * 1, torch.randn(3, 5), opset_version=opset)
        check(program, cut, torch.randn(3, 5))


def test_tables_of_types() -> None:
    assert helper.cast_pytorch_to_onnx["Long"] == 7 and helper.cast_pytorch_to_onnx["Half"] == 10
    assert helper.scalar_type_to_onnx.index(helper.cast_pytorch_to_onnx["Bool"]) == 11
    assert (
        helper.scalar_type_to_pytorch_type[6] == torch.float32
        and helper.pytorch_name_to_type["Double"] == torch.float64
    )
    assert helper.JitScalarType.from_name("Long").onnx_type() == 7
    assert helper.JitScalarType.from_dtype(torch.float16).scalar_name() == "Half"
    assert helper._type_utils.JitScalarType.BOOL.dtype() == torch.bool


@pytest.mark.parametrize("number", range(9, 21))
def test_every_module_of_built_in_translations(number: int) -> None:
    module = importlib.import_module(f"onnxport.symbolic_opset{number}")
    assert callable(module.relu) and module is getattr(onnxport, f"symbolic_opset{number}")
    with pytest.raises(AttributeError, match="no operator aten::no_such_thing"):
        module.no_such_thing  # noqa: B018


BUILT_IN: dict[str, tuple[Callable[..., Any], Callable[..., torch.Tensor]]] = {
    "unsqueeze": (lambda g, x: opset9.unsqueeze(g, x, 1), lambda x: x.unsqueeze(1)),
    "by value": (
        lambda g, x: opset9.unsqueeze(g, x, g.op("Constant", value_t=torch.tensor(1))),
        lambda x: x.unsqueeze(1),
    ),
    "add number": (lambda g, x: opset9.add(g, x, 2.0), lambda x: x + 2.0),
    "mul tensors": (lambda g, x: opset9.mul(g, opset9.sub(g, x, x), x), lambda x: (x - x) * x),
    "softmax": (lambda g, x: opset9.softmax(g, x, 0), lambda x: x.softmax(0)),
    "mean of axes": (lambda g, x: opset9.mean(g, x, [1], True), lambda x: x.mean([1], True)),
    "sum": (lambda g, x: opset9.sum(g, x), lambda x: x.sum()),  # noqa: PLW0108
    "cat": (lambda g, x: opset9.cat(g, [x, x], 0), lambda x: torch.cat([x, x], 0)),
    "clamp": (lambda g, x: opset11.clamp(g, x, -0.5, None), lambda x: x.clamp(-0.5)),
    "permute": (lambda g, x: opset9.permute(g, x, [1, 0]), lambda x: x.permute(1, 0)),
    "select": (lambda g, x: opset9.select(g, x, 0, 1), lambda x: x[1]),
    "slice": (lambda g, x: opset9.slice(g, x, 1, 1, 3, 1), lambda x: x[:, 1:3]),
    "expand": (
        lambda g, x: opset9.expand(g, opset9.unsqueeze(g, x, 0), [2, -1, -1], False),
        lambda x: x.expand(2, -1, -1),
    ),
    "max": (lambda g, x: opset9.max(g, x, 1, False)[0], lambda x: x.max(1).values),
    "topk": (lambda g, x: opset9.topk(g, x, 2, 1, True, True)[0], lambda x: x.topk(2, 1).values),
    "cast": (lambda g, x: opset9._cast_Long(g, x, False), lambda x: x.long()),
    "linear": (lambda g, x: opset9.linear(g, x, torch.ones(2, 4), opset9.unused(g)), lambda x: x @ torch.ones(4, 2)),
    "split": (lambda g, x: opset9.split(g, x, 2, 1)[1], lambda x: x.split(2, 1)[1]),
    "keyword": (lambda g, x: opset9.flatten(g, x, start_dim=0), lambda x: x.flatten()),
    "named": (lambda g, x: g.op("aten::tanh", x), lambda x: x.tanh()),
    "masked_fill": (
        lambda g, x: opset9.masked_fill(g, x, opset9.gt(g, x, 0.0), -1.0),
        lambda x: x.masked_fill(x > 0, -1.0),
    ),
}


@pytest.mark.parametrize("case", BUILT_IN)
@pytest.mark.parametrize("dynamic", [False, True])
def test_built_in_translations(case: str, dynamic: bool) -> None:
    symbolic, forward = BUILT_IN[case]
    members = {"forward": staticmethod(lambda ctx, x: forward(x).clone()), "symbolic": staticmethod(symbolic)}
    own: Any = type("Own", (torch.autograd.Function,), members)

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x)
        return result

    program = export(model, torch.randn(3, 4), dynamic_axes={"x": {0: "n"}} if dynamic else None)
    check(program, model, torch.randn(8 if dynamic else 3, 4))


def test_an_override_may_call_what_it_overrides() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        return opset9.neg(g, opset9.relu(g, x))

    with registered("aten::relu", symbolic):
        program = onnxport.export(lambda x: x.relu(), torch.randn(3), verify=False)
    assert ops(program) == ["Relu", "Neg"]


WHOLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "select": (lambda g, x: helper._select_helper(g, x, 1, 2), lambda x: x.select(1, 2)),
    "index_select": (
        lambda g, x: helper._select_helper(g, x, 1, g.op("Constant", value_t=torch.tensor([2, 0]))),
        lambda x: x[:, [2, 0]],
    ),
    "flatten": (lambda g, x: helper._flatten_helper(g, x, 1, -1, 3), lambda x: x.flatten(1)),
    "lt": (lambda g, x: helper._lt_helper(g, x, x), lambda x: x < x),
    "argmax": (lambda g, x: helper._argmin_argmax_helper(g, x, 1, True, "ArgMax"), lambda x: x.argmax(1, True)),
    "argmin": (lambda g, x: helper._argmin_argmax_helper(g, x, None, False, "ArgMin"), lambda x: x.argmin()),
    "unbind": (lambda g, x: helper._unbind_helper(g, x, 0)[1], lambda x: x.unbind(0)[1]),
    "scatter": (
        lambda g, x: helper._scatter_helper(g, x, 1, g.op("Constant", value_t=torch.zeros(2, 1, 2).long()), x),
        lambda x: x.scatter(1, torch.zeros(2, 1, 2).long(), x),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_operators(name: str) -> None:
    symbolic, expected = WHOLE[name]
    with operators(("whole(Tensor x) -> Tensor", expected)), registered("lab::whole", symbolic):
        x = torch.randn(2, 3, 2)
        program = export(torch.ops.lab.whole, x)
        check(program, expected, torch.randn(2, 3, 2))


def test_questions_about_values() -> None:
    answers: dict[str, bool] = {}

    def symbolic(g: Any, x: Any, xs: Any, *rest: Any) -> Any:
        answers["list"], answers["no list"] = helper._is_tensor_list(xs), helper._is_tensor_list(x)
        answers["tuple"], answers["complex"] = helper._is_tuple_construct(x), helper.is_complex_value(x)
        answers["same"] = helper.args_have_same_dtype(helper._unpack_list(xs))
        answers["other"] = helper.args_have_same_dtype([x, g.op("Shape", x)])
        helper.check_training_mode(0, "all")
        return g.op("Add", x, g.op("Mul", helper._unpack_list(xs)[0], g.op("Constant", value_t=torch.tensor(3.0))))

    run(symbolic)
    right = dict.fromkeys(("list", "same"), True) | dict.fromkeys(("no list", "tuple", "complex", "other"), False)
    assert answers == right
