"""``dynamic_shapes``: every form of torch.export, ranges respected, wrong forms named."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from torch.export import Dim

import onnxport


def dims(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def shapes(program: onnxport.Program) -> list[list[str | int]]:
    graph = program.model_proto.graph
    return [dims(value) for value in (*graph.input, *graph.output)]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], 1)


ROWS = Dim("n", min=2, max=64)

FORMS: dict[str, tuple[Any, list[str | int]]] = {
    "by name": ({"x": {0: ROWS}}, ["n", 6]),
    "by place": (({0: ROWS},), ["n", 6]),
    "list": ([{0: ROWS}], ["n", 6]),
    "negative": ({"x": {-1: "m"}}, [4, "m"]),
    "each dimension": ({"x": (ROWS, None)}, ["n", 6]),
    "strings": ({"x": ["rows", "columns"]}, ["rows", "columns"]),
    "number": ({"x": (ROWS, 6)}, ["n", 6]),
    "static": ({"x": (ROWS, Dim.STATIC)}, ["n", 6]),
    "dynamic": ({"x": {1: Dim.DYNAMIC}}, [4, "x_dim_1"]),
    "automatic": ({"x": (Dim.AUTO, Dim.AUTO)}, ["x_dim_0", "x_dim_1"]),
    "none": ({"x": None}, [4, 6]),
    "derived": ({"x": {0: 2 * Dim("half")}}, ["2*half", 6]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    given, expected = FORMS[form]
    program = onnxport.export(double, torch.randn(4, 6), dynamic_shapes=given)
    assert shapes(program) == [expected, expected]
    x = torch.randn([8 if isinstance(size, str) else size for size in expected])
    torch.testing.assert_close(program(x), double(x))


@pytest.mark.parametrize(
    ("low", "high", "example"), [(2, 64, 4), (4, 6, 5), (3, 4, 4), (1, 2, 1), (30, 40, 32), (100, 200, 128)]
)
def test_ranges_are_respected(low: int, high: int, example: int) -> None:
    seen: set[int] = set()

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.add(int(x.shape[0]))
        return x * 2

    rows = Dim("n", min=low, max=high)
    program = onnxport.export(model, torch.randn(example, 3), dynamic_shapes={"x": {0: rows}})
    assert len(seen) > 1
    assert all(low <= size <= high for size in seen)
    assert all(low <= case.sizes["n"] <= high for case in program.verification.cases)


def test_a_range_spares_the_path_beyond_it() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 30 else x - 1

    for rows, branches in (("n", 1), (Dim("n", max=30), 0)):
        program = onnxport.export(model, torch.randn(4, 3), dynamic_shapes={"x": {0: rows}})
        assert [node.op_type for node in program.model_proto.graph.node].count("If") == branches


@pytest.mark.parametrize(
    ("form", "length", "name"), [(2 * ROWS, 12, "2*n"), (ROWS + 1, 7, "n + 1"), (ROWS - 1, 5, "n - 1")]
)
def test_derived_dimensions_follow_their_root(form: Any, length: int, name: str) -> None:
    program = onnxport.export(
        joined, (torch.randn(4, 6), torch.randn(4, length)), dynamic_shapes={"x": {1: ROWS}, "y": {1: form}}
    )
    assert shapes(program)[:2] == [[4, "n"], [4, name]]
    x, y = torch.randn(4, 9), torch.randn(4, form.fn(9))
    torch.testing.assert_close(program(x, y), joined(x, y))


def test_equal_names_are_equal_sizes() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    program = onnxport.export(model, (torch.randn(4, 6), torch.randn(6, 3)), dynamic_shapes=({1: "k"}, {0: "k"}))
    assert shapes(program) == [[4, "k"], ["k", 3], [4, 3]]


def test_nested_arguments_and_keywords() -> None:
    def model(x: torch.Tensor, more: dict[str, list[torch.Tensor]], *, scale: torch.Tensor) -> torch.Tensor:
        return x * more["a"][0] + scale

    tensors = {"a": [torch.randn(4, 6)], "b": [torch.randn(2)]}
    program = onnxport.export(
        model,
        (torch.randn(4, 6), tensors),
        kwargs={"scale": torch.randn(4, 1)},
        dynamic_shapes={"x": {0: "b"}, "more": {"a": [{0: "b"}]}, "scale": {0: "b"}},
    )
    assert shapes(program) == [["b", 6], ["b", 6], [2], ["b", 1], ["b", 6]]


def test_several_arguments_under_one_name() -> None:
    def model(*xs: torch.Tensor) -> torch.Tensor:
        return xs[0] + xs[1]

    program = onnxport.export(
        model, (torch.randn(4, 6), torch.randn(4, 6)), dynamic_shapes={"xs": ({0: "b"}, {0: "b"})}
    )
    assert shapes(program) == [["b", 6]] * 3


def test_an_automatic_axis_that_cannot_vary_is_static() -> None:
    layer = torch.nn.Linear(6, 3)
    program = onnxport.export(layer, torch.randn(4, 6), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert shapes(program) == [["input_dim_0", 6], ["input_dim_0", 3]]
    assert any("input_dim_1 is static" in note for note in program.report.notes)


def test_a_dynamic_axis_that_cannot_vary_is_an_error() -> None:
    with pytest.raises(onnxport.DynamicAxisError, match="does not accept another size of 'input_dim_1'"):
        onnxport.export(torch.nn.Linear(6, 3), torch.randn(4, 6), dynamic_shapes=({1: Dim.DYNAMIC},))


WRONG: dict[str, tuple[Any, str]] = {
    "unknown argument": ({"z": {0: ROWS}}, r"no argument 'z'; it has \['x'\]"),
    "out of range": ({"x": {5: ROWS}}, r"\['x'\]: dimension 5 is out of range"),
    "no dimension": ({"x": {"a": ROWS}}, r"\['x'\]: a dimension must be an int, not 'a'"),
    "no entry": ({"x": {0: 3.5}}, r"\['x'\]\[0\] must be a torch.export.Dim"),
    "empty name": ({"x": {0: ""}}, r"\['x'\]\[0\] must be a torch.export.Dim"),
    "too few": ({"x": (ROWS,)}, r"\['x'\] has 1 entries, 'x' has 2 dimensions"),
    "too many arguments": (({0: ROWS}, {0: ROWS}), "has 2 entries, the call has 1"),
    "another size": ({"x": {0: 5}}, r"\['x'\]\[0\] is 5, the example has 4"),
    "outside the range": ({"x": {0: Dim("k", min=7)}}, "'k' is 4 in the example, outside its range"),
    "not nested": ({"x": 7}, r"\['x'\] must be a dict"),
    "no form at all": (7, "must be a dict by argument name"),
    "unequal": ({"x": {0: "j", 1: "j"}}, r"'j' would be \[4, 6\] in the example"),
    "no whole root": ({"x": {0: 3 * Dim("j")}}, "no size of 'j' gives the example's 4"),
    "two ranges": ({"x": {0: Dim("j", max=9), 1: Dim("j", max=8)}}, "give 'j' different ranges"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_forms_name_the_argument(case: str) -> None:
    given, words = WRONG[case]
    with pytest.raises(onnxport.OptionError, match=f"dynamic_shapes.*{words}|{words}"):
        onnxport.export(double, torch.randn(4, 6), dynamic_shapes=given)


def test_a_number_has_no_dimensions() -> None:
    with pytest.raises(onnxport.OptionError, match=r"dynamic_shapes\['k'\]: a int has no dimensions"):
        onnxport.export(lambda x, k: x * k, (torch.randn(4), 3), dynamic_shapes={"k": {0: "n"}})


def test_both_ways_at_once_are_an_error() -> None:
    with pytest.raises(onnxport.OptionError, match="dynamic_axes and dynamic_shapes"):
        onnxport.export(double, torch.randn(4, 6), dynamic_axes={"x": [0]}, dynamic_shapes={"x": {0: "n"}})


@pytest.mark.parametrize("hint", [Dim.STATIC, Dim.AUTO])
def test_a_number_may_be_declared_static(hint: Any) -> None:
    program = onnxport.export(lambda x, k: x * k, (torch.randn(4), 3), dynamic_shapes={"x": {0: "n"}, "k": hint})
    torch.testing.assert_close(program(torch.ones(7)), torch.full((7,), 3.0))


def test_keyword_arguments_are_declared_in_the_order_of_the_parameters() -> None:
    def model(a: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return a + first.sum() + second.sum()

    kwargs = {"second": torch.randn(5), "first": torch.randn(4)}
    program = onnxport.export(model, torch.randn(2), kwargs=kwargs, dynamic_shapes=(None, {0: ROWS}, None))
    assert [value.name for value in program.model_proto.graph.input] == ["a", "first", "second"]
    shapes = [value.type.tensor_type.shape.dim[0] for value in program.model_proto.graph.input]
    assert [dim.dim_param or dim.dim_value for dim in shapes] == [2, ROWS.__name__, 5]


EQUAL: dict[str, tuple[Any, Any, list[list[str | int]]]] = {
    "product": (
        lambda x, y: x @ y,
        (Dim.DYNAMIC, Dim.DYNAMIC),
        [["x_dim_0", "x_dim_1"], ["x_dim_1", "y_dim_1"]],
    ),
    "sum with the transposed": (
        lambda x, y: x + y.t(),
        (Dim.AUTO, Dim.AUTO),
        [["x_dim_0", "x_dim_1"], ["x_dim_1", "x_dim_0"]],
    ),
    "sum with a named one": (lambda x, y: x + y, (Dim("a", min=2), Dim.AUTO), [["a", "x_dim_1"], ["a", "x_dim_1"]]),
}


@pytest.mark.parametrize("case", EQUAL)
def test_axes_without_a_name_are_equal_where_the_model_needs_it_and_nowhere_else(case: str) -> None:
    function, (one, other), expected = EQUAL[case]
    example = torch.randn(3, 3), torch.randn(3, 3)  # all sizes are the same, and not all have to be
    program = onnxport.export(
        function, example, input_names=["x", "y"], dynamic_shapes=({0: one, 1: other}, {0: other, 1: other})
    )
    found = [[d.dim_param for d in value.type.tensor_type.shape.dim] for value in program.model_proto.graph.input]
    assert found == expected


def test_the_axis_that_cannot_vary_is_named() -> None:
    with pytest.warns(onnxport.DynamicAxisWarning, match="'x_dim_2' is 6 in the file"):
        onnxport.export(torch.nn.Linear(6, 3), torch.randn(2, 5, 6), input_names=["x"], dynamic_axes={"x": [0, 1, 2]})


def test_arguments_may_be_declared_by_the_names_of_their_inputs() -> None:
    def model(a: torch.Tensor, b: torch.Tensor, c: list[torch.Tensor]) -> torch.Tensor:
        return a * 2 + b + c[0]

    size, x = torch.export.Dim("n"), torch.randn(3, 2)
    for shapes in (
        {"first": {0: size}, "second": {0: size}, "c": [{0: size}]},
        {"a": {0: size}, "second": {0: size}, "c": [{0: size}]},
    ):
        program = onnxport.export(model, (x, x, [x]), dynamic_shapes=shapes, input_names=["first", "second", "third"])
        assert program.model_proto.graph.input[0].name == "first"
        many = torch.randn(5, 2)
        torch.testing.assert_close(program(many, many, [many]), many * 4)
    with pytest.raises(onnxport.OptionError, match="no argument 'third'"):
        onnxport.export(
            model, (x, x, [x]), dynamic_shapes={"third": {0: size}}, input_names=["first", "second", "third"]
        )
