"""Autograd Functions with a ``symbolic``: what it is called with, and what becomes of its results."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch

import onnxport
from tests.symbolic.harness import check, check_with, export, kernel, ops, registered, runner

Pair = namedtuple("Pair", ["low", "high"])
X = torch.randn(3, 4)


def function(forward: Callable[..., Any], symbolic: Callable[..., Any] | None = None) -> Any:
    members = {"forward": staticmethod(forward)} | ({"symbolic": staticmethod(symbolic)} if symbolic else {})
    return type("Own", (torch.autograd.Function,), members)


def test_arguments_arrive_in_their_places_as_they_were_given() -> None:
    seen: list[Any] = []
    config = {"bits": 8, "scales": [0.5, 1.0]}

    def forward(ctx: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return x * 2 + rest[5]

    def symbolic(g: Any, *args: Any) -> Any:
        seen.append(args)
        return g.op("Add", g.op("Mul", args[0], 2.0), args[6])

    own = function(forward, symbolic)

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x, config, None, Pair(1, 2.5), True, "mode", y, 7, 0.25, [1, "a"])
        return result

    program = export(model, X, torch.randn(3, 4), dynamic_axes={"x": [0], "y": [0]})
    check(program, model, torch.randn(5, 4), torch.randn(5, 4))
    assert len(seen) == 1, "called once, however often the model was traced"
    x, *rest = seen[0]
    y = rest.pop(5)
    assert rest == [config, None, Pair(1, 2.5), True, "mode", 7, 0.25, [1, "a"]] and rest[0] is config
    assert type(rest[2]) is Pair and rest[3] is True
    assert x.type().varyingSizes() == [None, 4] and x.type().sizes() is None and x.type().dim() == 2
    assert y.type().scalarType() == "Float" and y.node().kind() == "prim::Param"


def with_context() -> Any:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    own = function(forward, lambda g, x: g.op("Exp", g.op("Identity", x)))
    own.setup_context = staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(output))
    return own


def test_apply_that_was_taken_before_the_export_is_seen() -> None:
    """``swish = Swish.apply`` is how most code has it."""
    own = function(lambda ctx, x: x.exp(), lambda g, x: g.op("Exp", g.op("Identity", x)))
    around = function(lambda ctx, x: own.forward(ctx, x) + 1)
    linear = torch.nn.Linear(4, 4)
    for kind, expected in ((own, 1), (with_context(), 1), (around, 0)):
        apply = kind.apply

        def model(x: torch.Tensor, apply: Any = apply) -> torch.Tensor:
            result: torch.Tensor = apply(linear(x))
            return result * 2

        program = export(model, X, dynamic_axes={"x": [0]}, optimize=False)
        assert ops(program).count("Identity") == expected
        check(program, model, torch.randn(5, 4))


def test_several_results_of_several_types_and_one_that_is_no_tensor() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        return x.exp(), 3, x.argmax(1).int()

    own = function(forward, lambda g, x: (g.op("Exp", x), g.op("ArgMax", x, axis_i=1, keepdims_i=0)))
    both = function(forward, lambda g, x: (g.op("Exp", x), None, g.op("ArgMax", x, axis_i=1, keepdims_i=0)))
    for kind in (own, both):

        def model(x: torch.Tensor, kind: Any = kind) -> tuple[torch.Tensor, torch.Tensor]:
            values, number, places = kind.apply(x)
            return values * number, places

        check(export(model, X, dynamic_axes={"x": [0]}), model, torch.randn(6, 4))


def test_numbers_that_python_computed_from_sizes_follow_the_sizes() -> None:
    def forward(ctx: Any, x: torch.Tensor, count: int, window: tuple[int, int]) -> torch.Tensor:
        return x * count + window[1]

    def symbolic(g: Any, x: Any, count: Any, window: Any) -> Any:
        return g.op("Add", g.op("Mul", x, g.cast(count, torch.float32)), float(window[1]))

    own = function(forward, symbolic)

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x, int(x.shape[0]) * 2, (int(x.shape[0]), 4))
        return result

    check(export(model, X, dynamic_axes={"x": {0: "n"}}), model, torch.randn(8, 4))

    frozen = function(forward, lambda g, x, count, window: g.op("own::Count", x, count_i=count))
    with pytest.raises(onnxport.CustomOperatorError, match="count is a value that is only known at run time"):
        onnxport.export(lambda x: frozen.apply(x, len(x), (1, 2)), X, dynamic_axes={"x": {0: "n"}})


def test_an_argument_that_differs_at_every_size_is_an_error_with_the_line() -> None:
    own = function(lambda ctx, x, config: x * 2, lambda g, x, config: g.op("own::Op", x, n_i=config["n"]))

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x, {"n": int(x.shape[0])})
        return result

    with pytest.raises(onnxport.DynamicAxisError, match=r"test_functions\.py:\d+, in \S+: a dict in .* has a number"):
        onnxport.export(model, X, dynamic_axes={"x": [0]})


def test_objects_made_anew_in_every_call_are_the_same_if_they_hold_the_same() -> None:
    class Settings:
        def __init__(self) -> None:
            self.factor = 3.0

    own = function(lambda ctx, x, s: x * s.factor, lambda g, x, s: g.op("Mul", x, s.factor))

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x, Settings())
        return result

    check(export(model, X, dynamic_axes={"x": [0]}), model, torch.randn(6, 4))


def test_types_in_another_domain_come_from_the_forward() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.double().sum(1), (x > 0).sum(0)

    def symbolic(g: Any, x: Any) -> Any:
        first, second = g.op("own::Two", x, outputs=2)
        assert first.type().dtype() is None and first.type().sizes() is None and not first.isCompleteTensor()
        second.setType(x.type())  # as public ones do for the sake of the sizes
        return first, second

    own = function(forward, symbolic)
    program = onnxport.export(lambda x: own.apply(x), X, dynamic_axes={"x": {0: "n"}})  # noqa: PLW0108
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    kinds = [(out.type.tensor_type.elem_type, len(out.type.tensor_type.shape.dim)) for out in proto.graph.output]
    assert kinds == [(onnx.TensorProto.DOUBLE, 1), (onnx.TensorProto.INT64, 1)]
    assert proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert proto.graph.output[1].type.tensor_type.shape.dim[0].dim_value == 4
    assert {o.domain: o.version for o in proto.opset_import}["own"] == 1
    assert "own::Two" in str(program.verification) and any("own::Two" in note for note in program.report.notes)


def test_a_size_that_depends_on_data_is_free_in_another_domain() -> None:
    own = function(lambda ctx, x: x[x > 0], lambda g, x: g.op("own::Positive", x))
    program = onnxport.export(lambda x: own.apply(x) * 2, X)
    (out,) = program.model_proto.graph.output
    assert not out.type.tensor_type.shape.dim[0].HasField("dim_value")


def test_a_function_without_symbolic_inside_one_with_and_the_other_way_round() -> None:
    inner = function(lambda ctx, x: x.abs(), lambda g, x: g.op("Abs", x))
    plain = function(lambda ctx, x: inner.apply(x) + 1)
    outer = function(lambda ctx, x: plain.apply(x) * 2, lambda g, x: g.op("Mul", g.op("Add", g.op("Abs", x), 1.0), 2.0))

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = plain.apply(x) + outer.apply(x)
        return result

    check(export(model, X, dynamic_axes={"x": [0]}), model, torch.randn(6, 4))


def test_a_function_that_writes_to_its_argument() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    own = function(forward, lambda g, x: g.op("Mul", x, 2.0))

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = own.apply(y)
        return z + y

    check(export(model, X), model, torch.randn(3, 4))


def test_results_that_share_memory_with_arguments() -> None:
    own = function(lambda ctx, x: x.view(-1), lambda g, x: g.op("Reshape", x, [-1]))

    def written(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z: torch.Tensor = own.apply(y)
        return z.relu_() * 2

    check(export(written, X), written, torch.randn(3, 4))

    def read_after(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z: torch.Tensor = own.apply(y)
        z.relu_()
        return y * 2

    with pytest.raises(
        onnxport.ExportError, match=r"test_functions.py:\d+, in \S+: .* shares memory with .* Function Own"
    ):
        onnxport.export(read_after, X)


def test_a_tensor_hidden_in_a_tuple_is_an_error() -> None:
    own = function(lambda ctx, x, pair: x * 2, lambda g, x, pair: g.op("Mul", x, 2.0))
    with pytest.raises(onnxport.CaptureError, match="Own is given a tensor inside a tuple"):
        onnxport.export(lambda x, y: own.apply(x, (y + 1, 2)), (X, X))


def test_a_symbolic_that_returns_too_few_results_is_an_error() -> None:
    own = function(lambda ctx, x: (x + 1, x + 2), lambda g, x: g.op("Add", x, 1.0))
    with pytest.raises(onnxport.CustomOperatorError, match="returns 1 values, the operator has 2 results"):
        onnxport.export(lambda x: own.apply(x)[1], X)


def test_what_a_symbolic_raises_is_told_with_the_place_in_the_model() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        raise KeyError("lost")

    own = function(lambda ctx, x: x + 1, symbolic)
    with pytest.raises(KeyError, match="lost") as error:
        onnxport.export(lambda x: own.apply(x), X)  # noqa: PLW0108
    notes = getattr(error.value, "__notes__", ["the translation of Own (prim::PythonOp) test_functions.py:"])
    assert any(
        "the translation of " in note and "(prim::PythonOp)" in note and "test_functions.py:" in note for note in notes
    )


def test_one_symbolic_for_all_functions_without_their_own() -> None:
    clip = type("MyClip", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x, low: x.clamp(min=low))})
    relu = type("MyRelu", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x.clamp(min=0))})

    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        node = g.original_node
        assert node.kind() == "prim::PythonOp" and node.pyname() == kwargs["name"]
        if kwargs["name"] == "MyClip":
            assert (node.cconv(), node.scalar_args()) == ("dc", [0.5])
            made = g.op("Clip", args[0], args[1])
        else:
            made = g.op("Relu", args[0])
        made.setType(node.output().type())
        return made

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = relu.apply(clip.apply(x, 0.5) - 1)  # type: ignore[attr-defined]
        return result

    with registered("prim::PythonOp", symbolic, 1):
        program = export(model, X)
    assert {"Clip", "Relu"} <= set(ops(program))
    check(program, model, torch.randn(3, 4))


def test_a_symbolic_that_asks_for_its_context() -> None:
    def symbolic(ctx: Any, g: Any, x: Any) -> Any:
        assert ctx.cur_node.pyname() == "Own" and list(ctx.params_dict) == ["weight", "bias"]
        return g.op("Neg", x)

    own = function(lambda ctx, x: -x, symbolic)

    class Model(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = own.apply(super().forward(x))
            return result

    model = Model(4, 2).eval()
    check(export(model, X), model, torch.randn(3, 4))


def test_the_result_may_be_an_argument() -> None:
    own = function(lambda ctx, x: x.clone(), lambda g, x: x)
    program = export(lambda x: own.apply(x) + 1, X)
    assert ops(program) == ["Add"]
    whole = export(lambda x: own.apply(x), X)  # noqa: PLW0108
    check(whole, lambda x: own.apply(x), torch.randn(3, 4))  # noqa: PLW0108


def test_a_runner_checks_another_domain_at_other_sizes() -> None:
    own = function(lambda ctx, x, by: x * by, lambda g, x, by: g.op("own::Scale", x, by_f=by))

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own.apply(x, 1.5) + 1
        return result

    right = kernel("own", "Scale", lambda x, by: (x * by).astype(x.dtype))
    program = export(model, X, dynamic_axes={"x": {0: "n"}}, verify=runner(right))
    assert len({case.sizes["n"] for case in program.verification.cases}) > 1
    check_with(program, [right], model, torch.randn(9, 4))
    wrong = kernel("own", "Scale", lambda x, by: (x + by).astype(x.dtype))
    with pytest.raises(onnxport.VerificationError):
        export(model, X, verify=runner(wrong))


def test_what_the_forward_reads_is_not_frozen(recwarn: pytest.WarningsRecorder) -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2) if float(x.sum()) > 0 else torch.tensor(x.tolist()) * 2

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = function(forward, lambda g, x: g.op("Mul", x, 2.0)).apply(x)
        return result

    program = export(model, X)
    check(program, model, torch.randn(3, 4))
    assert not program.report.warnings and not [w for w in recwarn if w.category is onnxport.TraceWarning]


@pytest.mark.parametrize("kind", list(onnxport.OperatorExportTypes))
def test_what_each_export_type_makes_of_functions(kind: onnxport.OperatorExportTypes) -> None:
    types = onnxport.OperatorExportTypes
    said = function(lambda ctx, x, by: x * by, lambda g, x, by: g.op("own::Said", x, by_f=by))
    unsaid = function(lambda ctx, x, by: x - by)
    program = onnxport.export(lambda x: unsaid.apply(said.apply(x, 2.0), 3.0), X, operator_export_type=kind)
    expected = {
        types.ONNX: ["own::Said", "Sub"],
        types.ONNX_ATEN_FALLBACK: ["own::Said", "Sub"],
        types.ONNX_ATEN: ["org.pytorch.aten::ATen", "org.pytorch.aten::ATen"],
        types.ONNX_FALLTHROUGH: ["own::Said", "prim::PythonOp"],
        types.RAW: ["prim::PythonOp", "prim::PythonOp"],
    }
    assert ops(program) == expected[kind]
    if kind is types.ONNX_FALLTHROUGH:
        found = {a.name: onnx.helper.get_attribute_value(a) for a in program.model_proto.graph.node[1].attribute}
        assert (found["name"], found["cconv"], found["scalar_args"]) == (b"Own", b"dc", [b"3.0"])
        assert "prim::PythonOp" in program.report.fallbacks[0]


def test_a_wrong_symbolic_is_named() -> None:
    def doubled(g: Any, x: Any) -> Any:
        return g.op("Mul", x, 3.0)

    own = function(lambda ctx, x: x * 2, doubled)
    line = doubled.__code__.co_firstlineno
    with pytest.raises(onnxport.VerificationError, match=rf"doubled \(.*test_functions.py:{line}\)"):
        onnxport.export(lambda x: own.apply(x) + 1, X)
