"""Results and arguments that are no plain tensors: numbers, lists, optionals, and numbers that are inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import onnxport
from tests.classic.running import exported, graph_of, operators, run, same

X = torch.randn(3, 2)
AXES = {"x": {0: "n"}}


# Numbers


def test_numbers_of_a_traced_model_are_outputs() -> None:
    file = exported(lambda x: (x.shape[0] * 2, x + 1, x.shape[0] / 4), X, input_names=["x"], dynamic_axes=AXES)
    double, _, quarter = run(file, torch.randn(7, 2))
    assert (double.item(), quarter.item()) == (14, 1.75)


@pytest.mark.parametrize("model", [lambda x: x.shape[0] * 2, lambda x: [x.shape[0] * 2]])
def test_a_number_alone_is_a_result(model: Any) -> None:
    (number,) = run(exported(model, X, input_names=["x"], dynamic_axes=AXES), torch.randn(9, 2))
    assert number.item() == 18


def test_a_number_alone_is_a_result_of_a_fixed_size_too() -> None:
    program = onnxport.export(lambda x: (x.shape[0] * 2, x.shape[0] / 2), X)
    assert program(torch.randn(3, 2)) == (6, 1.5)


def test_no_tensor_and_no_number_is_nothing_to_export() -> None:
    with pytest.raises(onnxport.CaptureError, match="no tensor"):
        exported(lambda x: (None, "text"), X)


@torch.jit.script
def judged(x: Tensor) -> tuple[bool, int, list[int]]:
    return x.size(0) > 3, x.size(0) * 2, [x.size(0), x.size(1) + x.size(0)]


def test_numbers_of_a_script_are_outputs() -> None:
    file = exported(judged, X, input_names=["x"], dynamic_axes=AXES)
    for rows in (2, 3, 4, 9):
        assert [result.item() for result in run(file, torch.randn(rows, 2))] == [rows > 3, rows * 2, rows, rows + 2]


@torch.jit.script
def sized(x: Tensor) -> tuple[Tensor, int, float, bool, list[int]]:
    return x.sin(), x.size(0) - 1, 2.5, x.dim() > 1, [x.size(1), 7]


@pytest.mark.parametrize("axes", [None, AXES])
def test_numbers_of_a_script_that_are_always_the_same_are_outputs(axes: Any) -> None:
    """A script says what it returns: the outputs do not depend on what is dynamic."""
    file = exported(sized, X, input_names=["x"], dynamic_axes=axes)
    x = torch.randn(3, 2)
    same([x.sin(), *map(torch.tensor, (2, 2.5, True, 2, 7))], run(file, x))


TRUTHS: dict[str, tuple[Callable[[Tensor], Any], list[str]]] = {
    "alone": (lambda x: x.shape[0] > 3, ["Shape", "Gather", "Greater"]),
    "beside a tensor": (lambda x: (x + 1, x.shape[0] > 3), ["Add", "Shape", "Gather", "Greater"]),
    "not": (lambda x: not (x.shape[0] > 3), ["Shape", "Gather", "Greater", "Not"]),
    "and": (lambda x: x.shape[0] > 3 and x.shape[1] == 2, ["Shape", "Gather", "Greater", "Gather", "Equal", "And"]),
    "in": (lambda x: x.shape[0] in (2, 5), ["Shape", "Gather", "Equal", "Equal", "Or"]),
    "of the path": (
        lambda x: (x * 2, True) if x.shape[0] > 3 else (x.sin(), False),
        ["Shape", "Gather", "Greater", "If"],
    ),
    "in a dict": (lambda x: {"y": x.sin(), "even": x.shape[0] % 2 == 0}, ["Sin", "Shape", "Gather", "Mod", "Equal"]),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_truth_values_of_a_traced_model_are_outputs(name: str) -> None:
    model, expected = TRUTHS[name]
    file = exported(model, X, input_names=["x"], dynamic_axes={"x": [0, 1]})
    assert operators(file) == expected
    for shape in ((3, 2), (4, 2), (5, 5), (2, 3), (9, 4)):
        x = torch.randn(shape)
        same([torch.as_tensor(leaf) for leaf in tree_leaves(model(x))], run(file, x))


def test_a_truth_value_comes_back_as_one() -> None:
    program = onnxport.export(lambda x: (x, x.shape[0] > 3), X, input_names=["x"], dynamic_axes=AXES)
    assert [program(torch.randn(rows, 2))[1] for rows in (3, 4)] == [False, True]


def test_a_truth_value_of_the_configuration_is_a_constant() -> None:
    file = exported(lambda x: (x * 2 if x.shape[0] > 3 else x.sin(), True), X, input_names=["x"], dynamic_axes=AXES)
    assert len(graph_of(file).output) == 1


def test_numbers_that_have_a_name_are_outputs_of_a_fixed_size_too() -> None:
    def model(x: Tensor) -> tuple[Any, ...]:
        return x + 1, x.shape[0], {"factor": 2.5, "on": True}

    names = ["y", "n", "factor", "on"]
    program = onnxport.export(model, X, input_names=["x"], output_names=names)
    assert [entry.name for entry in program.model_proto.graph.output] == names
    same([X + 1, *map(torch.tensor, (3, 2.5, True))], run(program.model_proto.SerializeToString(), X))
    assert program(X)[1:] == (3, {"factor": 2.5, "on": True})
    assert len(onnxport.export(model, X, output_names=["y"]).model_proto.graph.output) == 1


def test_another_python_value_that_sizes_decide_is_told() -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"^entry 0 of .* is a Python value \('few' on the example\)"):
        exported(lambda x: ("many" if x.shape[0] > 3 else "few", x + 1), X, input_names=["x"], dynamic_axes=AXES)


def test_the_sum_of_sizes_by_torch_is_an_output() -> None:
    file = exported(lambda x: torch.sym_sum(x.shape) * 2, X, input_names=["x"], dynamic_axes={"x": [0, 1]})
    for shape in ((3, 2), (7, 5)):
        assert [number.item() for number in run(file, torch.randn(shape))] == [2 * sum(shape)]


# Lists


@torch.jit.script
def of_ranks(x: Tensor) -> list[Tensor]:
    return [x, x.sum(), x.sum(0)]


def nested(x: Tensor) -> list[list[Tensor]]:
    return [[x, x + 1], [x * 2]]


def test_lists_of_other_ranks_and_of_lists() -> None:
    x = torch.randn(5, 2)
    same(of_ranks(x), run(exported(of_ranks, X, input_names=["x"], dynamic_axes=AXES), x))
    for model in (nested, torch.jit.script(nested)):
        same([x, x + 1, x * 2], run(exported(model, X, input_names=["x"], dynamic_axes=AXES), x))


# Optionals


@torch.jit.script
def maybe(x: Tensor) -> tuple[Tensor, Tensor | None]:
    y: Tensor | None = None
    if bool(x.sum() > 0):
        y = x * 2
    return x + 1, y


@torch.jit.script
def only_maybe(x: Tensor) -> Tensor | None:
    return x * 2 if bool(x.sum() > 0) else None


def test_a_result_that_is_none_on_the_example_is_an_optional() -> None:
    program = onnxport.export(only_maybe, -torch.ones(2, 3), input_names=["x"], dynamic_axes=AXES)
    assert program(-torch.ones(4, 3)) is None
    torch.testing.assert_close(program(torch.ones(4, 3)), torch.full((4, 3), 2.0))


def test_a_result_that_may_be_none_is_an_optional() -> None:
    ones = torch.ones(3, 2)
    for example in (ones, -ones):
        program = onnxport.export(maybe, example, opset_version=18)
        kind = program.model_proto.graph.output[1].type
        assert kind.optional_type.elem_type.tensor_type.elem_type == 1
        assert program.verification.passed
        first, second = program(ones * 3)
        assert torch.equal(first, ones * 4) and torch.equal(second, ones * 6)
        assert program(-ones)[1] is None


@torch.jit.script
def rows_if_several(x: Tensor) -> Tensor | None:
    y: Tensor | None = None
    if x.size(0) > 1:
        y = x
    return y


@torch.jit.script
def last_doubled(x: Tensor) -> Tensor | None:
    y: Tensor | None = None
    for i in range(x.size(0)):
        y = x[i] * 2
    return y


@pytest.mark.parametrize(("function", "sizes"), [(rows_if_several, ["n", "m"]), (last_doubled, [""])])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_an_optional_has_the_shape_of_its_tensor(function: Callable[..., Any], sizes: list[str], rows: int) -> None:
    axes = {"x": {0: "n", 1: "m"}}
    file = exported(function, torch.randn(rows, 2), input_names=["x"], dynamic_axes=axes)
    graph = graph_of(file)
    kind = graph.output[0].type.optional_type.elem_type.tensor_type
    assert [dim.dim_param for dim in kind.shape.dim] == sizes
    branches = [attribute.g for attribute in graph.node[-1].attribute]
    assert {b.output[0].type.SerializeToString() for b in branches} == {graph.output[0].type.SerializeToString()}
    onnx.checker.check_model(file, full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for shape in ((0, 2), (1, 4), (3, 2)):
        x = torch.randn(shape)
        expected, (found,) = function(x), session.run(None, {"x": x.numpy()})
        assert (found is None) if expected is None else torch.equal(torch.from_numpy(found), expected)


def test_before_opset_16_an_optional_is_an_error() -> None:
    with pytest.raises(onnxport.UnsupportedOpsetError, match="may be None needs opset_version=16"):
        exported(maybe, X, opset_version=15)


# Axes and widths of run time


@torch.jit.script
def widened(x: Tensor, dim: int, width: int) -> tuple[Tensor, Tensor]:
    return x.unsqueeze(dim), nn.functional.pad(x, [width, 1])


def test_axes_and_widths_that_are_known_at_run_time() -> None:
    file = exported(widened, (X, 1, 2))
    for dim, width in ((0, 0), (2, 5), (-1, 1), (-3, 3)):
        given = X, torch.tensor(dim), torch.tensor(width)
        same([X.unsqueeze(dim), nn.functional.pad(X, [width, 1])], run(file, *given))


def test_a_list_of_tensors_and_numbers_as_widths() -> None:
    def model(x: Tensor, width: Tensor) -> Tensor:
        return nn.functional.pad(x, [width, 1])  # type: ignore[list-item]

    file = exported(model, (X, torch.tensor(2)))
    same(nn.functional.pad(X, [4, 1]), run(file, X, torch.tensor(4)))


def test_arange_into_a_tensor() -> None:
    def model(x: Tensor) -> Tensor:
        places = torch.empty(0, dtype=torch.int64)
        torch.arange(1, x.shape[0] * 2, out=places)
        return places * 3

    file = exported(model, X, input_names=["x"], dynamic_axes=AXES)
    same(torch.arange(1, 10) * 3, run(file, torch.randn(5, 2)))


# Arguments


def test_tensors_as_keys_are_an_error_that_says_so() -> None:
    with pytest.raises(TypeError, match="tensors as keys"):
        exported(lambda x, table: x + 1, (X, {torch.tensor(1): X}))


@torch.jit.script
def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


def test_floats_that_a_script_takes_are_double() -> None:
    file = exported(scaled, (X, 0.5))
    assert graph_of(file).input[1].type.tensor_type.elem_type == 11
    same(X * 0.1, run(file, X, torch.tensor(0.1, dtype=torch.float64)))


def test_numbers_that_a_traced_model_takes_are_constants() -> None:
    def model(x: Tensor, count: int, factor: float, add: bool) -> Tensor:
        return x.repeat(count, 1) * factor + (1 if add else 0)

    file = exported(model, (X, 2, 0.5, True))
    assert [entry.name for entry in graph_of(file).input] == ["x"]
    same(X.repeat(2, 1) * 0.5 + 1, run(file, X))


def repeated(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return x.repeat(count, 1) + count, x[:count]


def test_an_int_that_is_declared_dynamic_is_an_input() -> None:
    dynamic = torch.export.Dim.DYNAMIC
    file = exported(repeated, (X, 2), dynamic_shapes={"x": {0: "n"}, "count": dynamic})
    assert [entry.name for entry in graph_of(file).input] == ["x", "count"]
    x = torch.randn(5, 2)
    for count in (1, 3, 5):
        same(repeated(x, count), run(file, x, torch.tensor(count)))
    by_place = exported(repeated, (X, 2), dynamic_shapes=(None, dynamic))
    same(repeated(X, 3), run(by_place, X, torch.tensor(3)))


def test_what_is_no_int_cannot_be_declared_dynamic() -> None:
    shapes = {"x": None, "count": torch.export.Dim.DYNAMIC}
    with pytest.raises(onnxport.OptionError, match="a float has no dimensions"):
        exported(lambda x, count: x * count, (X, 0.5), dynamic_shapes=shapes)


# Results with another number of dimensions


def summed_if_long(x: Tensor) -> Tensor:
    if x.shape[0] > 3:
        return x.sum(0)
    return x * 2


def summed_if_positive(x: Tensor) -> tuple[Tensor, Tensor]:
    if bool(x.sum() > 0):
        y = x.sum(0)
    else:
        y = x * 2
    return y + 1, x.sin()


def squeezed(x: Tensor) -> Tensor:
    return x.squeeze() * 2


OF_RANKS = {function.__name__: function for function in (summed_if_long, summed_if_positive, squeezed)}


@pytest.mark.filterwarnings("ignore:.*has one number of dimensions at some sizes:onnxport.DynamicAxisWarning")
@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("name", OF_RANKS)
@pytest.mark.parametrize("example", [(3, 2), (1, 2), (5, 1)])
@pytest.mark.parametrize("opset", [11, 15, 20])
def test_results_of_another_rank_in_each_branch(name: str, script: bool, example: tuple[int, ...], opset: int) -> None:
    model = torch.jit.script(OF_RANKS[name]) if script else OF_RANKS[name]
    axes = {"x": {0: "n", 1: "m"}, "y": {0: "n"}}
    file = exported(
        model, torch.randn(example), input_names=["x"], output_names=["y"], dynamic_axes=axes, opset_version=opset
    )
    assert len(graph_of(file).output[0].type.tensor_type.shape.dim) == 2
    onnx.checker.check_model(file, full_check=True)
    for shape in ((3, 2), (5, 2), (1, 2), (4, 1), (1, 1)):
        for x in (torch.rand(shape), -torch.rand(shape)):
            same(model(x), run(file, x))


def test_a_squeeze_of_an_axis_that_is_never_1_needs_no_branch() -> None:
    shapes = {"x": {0: torch.export.Dim("n", min=2)}}
    file = exported(lambda x: x.squeeze() * 2, torch.randn(3, 2, 1), dynamic_shapes=shapes)
    assert operators(file) == ["Squeeze", "Mul"]


def test_a_squeeze_of_a_dynamic_batch_is_one_node() -> None:
    layer = nn.Linear(3, 1)
    axes = {"x": {0: "n"}}
    for opset in (11, 13, 23):
        x = torch.randn(4, 3)
        file = exported(
            lambda x: layer(x).squeeze().sigmoid(), x, input_names=["x"], dynamic_axes=axes, opset_version=opset
        )
        assert operators(file) == ["Gemm", "Squeeze", "Sigmoid"]
        onnx.checker.check_model(file, full_check=True)
        for rows in (1, 2, 7):
            x = torch.randn(rows, 3)
            same(layer(x).squeeze().sigmoid(), run(file, x))


def test_a_squeeze_that_the_rest_makes_up_for_needs_no_branch() -> None:
    file = exported(lambda x: x.squeeze(0).reshape(-1, 2) + 1, X, input_names=["x"], dynamic_axes=AXES)
    assert operators(file) == ["Add"]
    for rows in (1, 4):
        x = torch.randn(rows, 2)
        same(x + 1, run(file, x))


def test_an_output_of_several_ranks_is_told() -> None:
    with pytest.warns(onnxport.DynamicAxisWarning, match="output 'output' has one number of dimensions at some sizes"):
        program = onnxport.export(squeezed, X, input_names=["x"], dynamic_axes=AXES)
    assert program(torch.ones(1, 2)).shape == (2,) and program(torch.ones(4, 2)).shape == (4, 2)


def test_before_opset_11_a_squeezed_axis_is_kept_and_told() -> None:
    with pytest.warns(onnxport.TraceWarning, match="n >= 2"):
        file = exported(squeezed, X, input_names=["x"], dynamic_axes=AXES, opset_version=10)
    x = torch.randn(4, 2)
    same(x * 2, run(file, x))


def test_a_tensor_of_several_ranks_in_a_loop_of_a_script_is_an_error() -> None:
    def model(x: Tensor) -> Tensor:
        for _ in range(x.size(0)):
            x = x.sum(0) if bool(x.sum() > 0) else x * 2
        return x

    with pytest.raises(onnxport.CaptureError, match="number of dimensions"):
        exported(torch.jit.script(model), X, input_names=["x"], dynamic_axes=AXES)
