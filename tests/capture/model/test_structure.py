"""Arguments and results of any nesting."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import onnxport


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: Any = None


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Nested(nn.Module):
    def forward(self, a: torch.Tensor, pair: Any, *rest: torch.Tensor, scale: float = 1.0, table: Any = None) -> Any:
        total = a + pair[0] * table["k"] * scale + sum(rest)
        return {
            "sum": total,
            "pair": Pair(total * 2, None),
            "point": Point(total, total + 1),
            "name": "x",
            "list": [total],
        }


def test_inputs_and_outputs_of_any_nesting() -> None:
    a, b, c, k = (torch.randn(2) for _ in range(4))
    args, kwargs = (a, (b, [c]), c, a), {"scale": 2.0, "table": {"k": k}}
    program = onnxport.export(Nested(), args, kwargs=kwargs)
    names = [value.name for value in program.model_proto.graph.input]
    assert names == ["a", "pair.0", "pair.1.0", "rest.0", "rest.1", "table.k"]
    result, expected = program(*args, **kwargs), Nested()(*args, **kwargs)
    assert list(result) == list(expected) and result["name"] == "x"
    assert isinstance(result["pair"], Pair) and result["pair"].second is None
    assert isinstance(result["point"], Point)
    torch.testing.assert_close(result["point"].y, expected["point"].y)
    torch.testing.assert_close(result["list"][0], expected["list"][0])


def test_the_last_dict_of_args_is_keyword_arguments_as_ever() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x if y is None else x - y

    x, y = torch.randn(3), torch.randn(3)
    program = onnxport.export(Model(), (x, {"y": y}))
    assert [value.name for value in program.model_proto.graph.input] == ["x", "y"]
    torch.testing.assert_close(program(x, y), x - y)


def test_a_dict_that_is_an_argument_stays_one() -> None:
    def model(x: torch.Tensor, table: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * table["k"]

    x, k = torch.randn(3), torch.randn(3)
    program = onnxport.export(model, (x, {"k": k}))
    assert [value.name for value in program.model_proto.graph.input] == ["x", "table.k"]


def test_containers_of_other_kinds() -> None:
    def model(x: Any) -> Any:
        return collections.OrderedDict(a=x.first + 1, b=x.second["z"])

    given = Pair(torch.ones(2), collections.OrderedDict(z=torch.zeros(2)))
    program = onnxport.export(model, (given,))
    result = program(given)
    assert type(result) is collections.OrderedDict
    assert result["a"].tolist() == [2.0, 2.0]


def test_outputs_that_are_inputs_constants_or_the_same_twice() -> None:
    constant = torch.arange(3.0)

    def model(x: torch.Tensor, unused: torch.Tensor) -> Any:
        y = x + 1
        return x, constant, y, y, x.detach()

    x = torch.randn(3)
    program = onnxport.export(model, (x, x))
    assert [value.name for value in program.model_proto.graph.input] == ["x", "unused"]
    assert len({value.name for value in program.model_proto.graph.output}) == 5
    for got, expected in zip(program(x, x), model(x, x), strict=True):
        torch.testing.assert_close(got, expected)


def test_identity_keeps_both_names() -> None:
    program = onnxport.export(nn.Identity(), torch.randn(2), input_names=["in"], output_names=["out"])
    (node,) = program.model_proto.graph.node
    assert (node.op_type, list(node.input), list(node.output)) == ("Identity", ["in"], ["out"])


def test_a_model_without_tensors_in_its_result_is_refused() -> None:
    with pytest.raises(onnxport.CaptureError, match="no tensor"):
        onnxport.export(lambda x: "text", torch.ones(1))


def test_a_call_that_gives_a_list_of_tensors() -> None:
    program = onnxport.export(lambda x: torch._foreach_add([x, x * 2], [1.0, 2.0]), torch.ones(2))
    assert [tensor.tolist() for tensor in program(torch.tensor([3.0, 4.0]))] == [[4.0, 5.0], [8.0, 10.0]]


def test_arguments_that_do_not_fit_are_named() -> None:
    with pytest.raises(onnxport.CaptureError, match="args do not fit"):
        onnxport.export(nn.Linear(2, 2), (torch.ones(2), torch.ones(2)))


def test_functions_partials_and_methods_are_models_too() -> None:
    layer, scale, x = nn.Linear(3, 3), torch.ones(3, requires_grad=True), torch.ones(2, 3)

    def uses(x: torch.Tensor) -> torch.Tensor:
        return layer(x) * scale

    partial = functools.partial(torch.nn.functional.linear, weight=layer.weight)
    for model, names in (
        (uses, {"layer.weight", "layer.bias", "scale"}),
        (layer.forward, {"weight", "bias"}),
        (partial, {"weight"}),
        (lambda x: -layer(x), {"layer.weight", "layer.bias"}),
    ):
        program = onnxport.export(model, x)  # type: ignore[arg-type]
        assert {i.name for i in program.model_proto.graph.initializer} == names
        torch.testing.assert_close(program(x), model(x))  # type: ignore[operator]


def test_a_tied_parameter_is_one_input_of_the_trace_and_stored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 40)
            self.head = nn.Linear(40, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    program = onnxport.export(Tied(), torch.tensor([[1, 2]]))
    large = [i for i in program.model_proto.graph.initializer if len(i.dims) == 2]
    assert [i.name for i in large] == ["embed.weight"]


def test_a_result_with_the_name_of_an_input_gets_another() -> None:
    def renewed(hidden: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"hidden": hidden + 1, "output": hidden}

    program = onnxport.export(renewed, torch.ones(2))
    assert [value.name for value in program.model_proto.graph.output] == ["hidden_1", "output"]
    assert set(program(torch.ones(2))) == {"hidden", "output"}


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (torch.empty(2, device="meta"), "meta"),
        (torch.ones(2, dtype=torch.complex32), "complex"),
    ],
    ids=["sparse", "meta", "complex"],
)
def test_a_tensor_that_onnx_does_not_have_is_named(tensor: torch.Tensor, kind: str) -> None:
    with pytest.raises(onnxport.CaptureError, match=f"'x.0' is .*{kind}"):
        onnxport.export(lambda x: x[0], ([tensor],))


def test_a_compiled_module_is_unwrapped() -> None:
    program = onnxport.export(torch.compile(nn.Linear(2, 2)), torch.ones(1, 2))
    assert {i.name for i in program.model_proto.graph.initializer} == {"weight", "bias"}
