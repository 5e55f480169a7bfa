"""Operators of the user's own, as the documentation of torch.onnx has them written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import pytest
import torch
from onnxport.symbolic_helper import parse_args
from torch import nn

import onnxport
from onnxport import symbolic_opset9, symbolic_opset11, symbolic_opset13
from tests.classic.running import exported, graph_of, operators, run, same

X = torch.randn(2, 3)


# An operator without a domain


class Bar(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Bar", x, kind_s="soft", factor_f=0.5)


def test_an_operator_without_a_domain_is_written_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="no operator Bar.*registered"):
        file = exported(lambda x: Bar.apply(x).relu(), X)
    bar, relu = graph_of(file).node
    assert (bar.op_type, bar.domain, relu.op_type) == ("Bar", "", "Relu")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in bar.attribute} == {"kind": b"soft", "factor": 0.5}


def test_inside_of_a_branch_too() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, Bar.apply, lambda x: x - 1, (x,))

    with pytest.warns(UserWarning, match="Bar"):
        program = onnxport.export(model, X)
    assert program.verification.skipped and "Bar" in str(program.verification)
    assert any("Bar" in warning for warning in program.report.warnings)


def test_the_rest_of_the_graph_is_checked_still() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("Bar", g.op("Conv", x))

    with pytest.raises(onnxport.CheckerError, match="Conv"):
        exported(Broken.apply, X)


# Functions put into the modules of opsets


@contextmanager
def put(module: Any, name: str, function: Any) -> Iterator[None]:
    setattr(module, name, function)
    try:
        yield
    finally:
        delattr(module, name)


def by_domain(domain: str) -> Any:
    return lambda g, x, *rest: g.op(f"{domain}::Elu", x)


def domains(opset: int) -> list[str]:
    file = exported(nn.ELU(), X, opset_version=opset)
    return [node.domain for node in graph_of(file).node]


def test_a_function_counts_from_its_opset_on() -> None:
    with put(symbolic_opset11, "elu", by_domain("mine")):
        assert domains(9) == [""] and domains(11) == ["mine"] and domains(17) == ["mine"]
    assert domains(11) == [""]


def test_the_newest_module_counts() -> None:
    with put(symbolic_opset9, "elu", by_domain("nine")), put(symbolic_opset13, "elu", by_domain("thirteen")):
        assert domains(9) == domains(12) == ["nine"] and domains(13) == ["thirteen"]


def test_what_is_registered_goes_before_it() -> None:
    onnxport.register_custom_op_symbolic("aten::elu", by_domain("registered"), 9)
    try:
        with put(symbolic_opset13, "elu", by_domain("thirteen")):
            assert domains(13) == ["registered"]
    finally:
        onnxport.unregister_custom_op_symbolic("aten::elu", 9)


def test_a_name_that_is_no_operator_does_nothing() -> None:
    with put(symbolic_opset9, "helper_of_mine", lambda *given: pytest.fail("called")):
        same(nn.functional.elu(X), run(exported(nn.ELU(), X), X))


# Arguments


@contextmanager
def registered(name: str, function: Any) -> Iterator[None]:
    onnxport.register_custom_op_symbolic(name, function, 9)
    try:
        yield
    finally:
        onnxport.unregister_custom_op_symbolic(name, 9)


def gelu(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.gelu(x, approximate="tanh")


def test_keyword_only_arguments_come_by_name() -> None:
    heard: dict[str, Any] = {}

    def strict(g: Any, self: Any, *, approximate: Any) -> Any:
        heard["strict"] = approximate.toIValue()
        return g.op("my::Gelu", self)

    @parse_args("v", "s")
    def parsed(g: Any, self: Any, approximate: str = "none") -> Any:
        heard["parsed"] = approximate
        return g.op("my::Gelu", self)

    def placed(g: Any, self: Any, how: Any) -> Any:
        heard["placed"] = how.toIValue()
        return g.op("my::Gelu", self)

    for function in (strict, parsed, placed):
        with registered("aten::gelu", function):
            assert operators(exported(gelu, X)) == ["my::Gelu"]
    assert heard == {"strict": "tanh", "parsed": "tanh", "placed": "tanh"}


def test_a_function_that_has_some_of_them() -> None:
    heard = []

    def symbolic(g: Any, size: Any, fill_value: Any, device: Any = None, dtype: Any = None) -> Any:
        heard.append(dtype.toIValue())
        return g.op("my::Full", fill_value_f=fill_value.toIValue())

    with registered("aten::full", symbolic):
        exported(lambda x: x + torch.full((3,), 2.0, dtype=torch.float64), X)
    assert heard == [7]


def test_a_wrong_number_of_arguments_names_function_and_operator() -> None:
    def too_few(g: Any, x: Any) -> Any:
        return g.op("Relu", x)

    expected = r"too_few.*3 arguments.*\(occurred when translating aten::addcmul in .*test_custom_operators.py:\d+"
    with registered("aten::addcmul", too_few), pytest.raises(TypeError, match=expected):
        exported(lambda x: torch.addcmul(x, x, x), X)

    class TooMany(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @staticmethod
        def symbolic(g: Any, x: Any, y: Any) -> Any:
            return g.op("Relu", x)

    with pytest.raises(onnxport.CustomOperatorError, match=r"symbolic.*'y'.*occurred when translating TooMany"):
        exported(TooMany.apply, X)


# parse_args of torch itself


def scaled(reader: Any) -> Any:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, power: int, mode: str) -> torch.Tensor:
            return x * scale**power

        @staticmethod
        @reader("v", "t", "i", "s")
        def symbolic(g: Any, x: Any, scale: torch.Tensor, power: int, mode: str) -> Any:
            assert isinstance(scale, torch.Tensor) and type(power) is int and type(mode) is str
            return g.op("Mul", x, g.op("Constant", value_t=scale**power))

    return Scaled


def theirs(*descriptors: str) -> Any:
    from torch.onnx.symbolic_helper import parse_args as reader  # noqa: PLC0415

    return reader(*descriptors)


class Scaling(nn.Module):
    def __init__(self, function: Any, kind: str) -> None:
        super().__init__()
        self.function = function
        self.kept = torch.tensor([1.0, 2.0, 3.0])
        self.weight = nn.Parameter(torch.tensor([2.0, -1.0, 0.5]))
        self.register_buffer("buffer", torch.tensor([0.25, 4.0, 1.0]))
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x, getattr(self, self.kind), 2, "fast")


@pytest.mark.parametrize("reader", [parse_args, theirs])
@pytest.mark.parametrize("kind", ["kept", "weight", "buffer"])
def test_parse_args_gives_python_values_and_tensors(reader: Any, kind: str) -> None:
    model = Scaling(scaled(reader), kind)
    file = exported(model, X)
    x = torch.randn(2, 3)
    same(model(x).detach(), run(file, x))


def test_a_tensor_that_is_computed_has_no_content() -> None:
    function = scaled(parse_args)
    with pytest.raises(onnxport.UnsupportedOperatorError, match=re.escape("a tensor that is constant")):
        exported(lambda x: function.apply(x, x.sum(0), 2, "fast"), X)
    with pytest.raises(onnxport.UnsupportedOperatorError, match=re.escape("a tensor that is constant")):
        exported(Scaling(function, "weight"), X, export_params=False)


@pytest.mark.parametrize("reader", [parse_args, theirs])
def test_parse_args_for_too_few_arguments_is_named(reader: Any) -> None:
    @reader("v")
    def cat(g: Any, tensors: Any, dim: int) -> Any:
        return g.op("Concat", *tensors, axis_i=dim)

    message = "cat has parse_args for 1 arguments and is given 2"
    with registered("aten::cat", cat), pytest.raises(onnxport.CustomOperatorError, match=message):
        exported(lambda x: torch.cat((x, x), 0), X)


# Other names of an operator


def test_a_registration_serves_the_other_names_of_the_operator() -> None:
    def inverse(g: Any, x: Any) -> Any:
        return g.op("com.microsoft::Inverse", x).setType(x.type())

    with registered("aten::linalg_inv", inverse):
        for name in (torch.inverse, torch.linalg.inv):
            example, opsets = X[:, :2] + torch.eye(2), {"com.microsoft": 1}
            file = exported(lambda x, name=name: name(x) + x, example, custom_opsets=opsets)
            assert operators(file) == ["com.microsoft::Inverse", "Add"]
            square = torch.tensor([[2.0, 1.0], [0.5, 3.0]])
            same(square.inverse() + square, run(file, square))


# Functions of ONNX


class Scripted:
    """A function as onnxscript makes them."""

    class Opset:
        version = 3

    opset = Opset()

    def __init__(self, text: str) -> None:
        self._proto = onnx.parser.parse_function(text)
        self.name = self._proto.name

    def to_function_proto(self) -> onnx.FunctionProto:
        return self._proto


LEAKY = Scripted("""<domain: "own.functions", opset_import: ["" : 15]> Leaky <slope> (x) => (y) {
    factor = Constant<value_float: float = @slope>()
    wide = CastLike(factor, x)
    low = Mul(x, wide)
    y = Max(x, low)
}""")


def test_a_function_of_onnx_translates_an_operator() -> None:
    def leaky(g: Any, x: Any, slope: Any) -> Any:
        return g.onnxscript_op(LEAKY, x, slope_f=onnxport.symbolic_helper._scalar(slope)).setType(x.type())

    with registered("aten::leaky_relu", leaky):
        functional = nn.functional.leaky_relu
        axes = {"x": [0]}
        file = exported(lambda x: functional(functional(x - 1, 0.25), 0.5), X, input_names=["x"], dynamic_axes=axes)
    assert operators(file) == ["Sub", "own.functions::Leaky", "own.functions::Leaky"]
    model = onnx.load_from_string(file)
    assert [function.name for function in model.functions] == ["Leaky"]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 20, "own.functions": 3}
    x = torch.randn(5, 3) * 4
    same(functional(functional(x - 1, 0.25), 0.5), run(file, x))


def test_what_is_no_function_of_onnx_is_told() -> None:
    with (
        registered("aten::relu", lambda g, x: g.onnxscript_op(torch.relu, x)),
        pytest.raises(onnxport.OptionError, match="to_function_proto"),
    ):
        exported(torch.relu, X)
    with (
        registered("aten::relu", lambda g, x: g.onnxscript_op(LEAKY, x)),
        pytest.raises(onnxport.UnsupportedOpsetError, match="function Leaky needs opset_version=15"),
    ):
        exported(torch.relu, X, opset_version=14)


def test_a_function_of_another_opset_is_told_where_an_operator_changed() -> None:
    total = Scripted("""<domain: "own.functions", opset_import: ["" : 15]> Total (x) => (y) {
        y = ReduceMean<axes: ints = [0]>(x)
    }""")
    message = "Total is written for opset 15, and ReduceMean has"
    with (
        registered("aten::relu", lambda g, x: g.onnxscript_op(total, x).setType(x.type())),
        pytest.raises(onnxport.UnsupportedOpsetError, match=message),
    ):
        exported(torch.relu, X)
