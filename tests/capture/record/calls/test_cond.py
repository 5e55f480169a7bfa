"""torch.cond in traced models: both branches are in the file, as the blocks of an If."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import onnxport

GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(4, 6, generator=GENERATOR)
# The sum of the first is above zero, that of the second below.
SIGNS = (1, -1)


def positive(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=GENERATOR) + 0.1


def exported(model: Any, x: Any = X, **options: Any) -> onnxport.Program:
    return onnxport.export(model, x, input_names=["x"], **options)


def agrees(program: onnxport.Program, expected: Callable[..., Any], *given: Tensor) -> None:
    """The file gives what plain Python gives, in type, shape and content."""
    wanted = pytree.tree_leaves(expected(*(tensor.clone() for tensor in given)))
    got = pytree.tree_leaves(program(*given))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-4, atol=1e-5)


def operators(program: onnxport.Program) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def plain(pred: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Any = ()) -> Any:
    return true(*operands) if bool(pred) else false(*operands)


class Model(nn.Module):
    """A function of ``cond`` and its inputs as a module: torch.cond when it is exported, Python's if beside that."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Tensor) -> Any:
        return self.function(torch.cond, *given)


def both_ways(function: Callable[..., Any], *shape: int, example: Tensor = X, **options: Any) -> onnxport.Program:
    """Export at the example, and compare on data of this shape that takes one branch and the other."""
    program = exported(Model(function), example, **options)
    for sign in SIGNS:
        agrees(program, lambda *given: function(plain, *given), sign * positive(*(shape or example.shape)))
    return program


DYNAMIC: dict[str, Any] = {"dynamic_axes": {"x": {0: "n"}}}


def simple(cond: Any, x: Tensor) -> Tensor:
    return cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def test_both_branches_are_in_the_file() -> None:
    program = both_ways(simple)
    assert operators(program) == ["ReduceSum", "Greater", "If"]


def test_branches_at_other_sizes() -> None:
    program = both_ways(simple, 9, 6, **DYNAMIC)
    assert onnx.helper.printable_value_info(program.model_proto.graph.output[0]).endswith(" nx6]")


@pytest.mark.parametrize("opset", [11, 12, 13, 16, 20, 23])
def test_opsets(opset: int) -> None:
    both_ways(simple, 9, 6, opset_version=opset, **DYNAMIC)


def test_results_of_any_structure() -> None:
    def function(cond: Any, x: Tensor) -> Any:
        def true(parts: dict[str, Tensor]) -> Any:
            return {"a": parts["x"] + 1, "b": (parts["y"], [parts["x"] * parts["y"]])}

        def false(parts: dict[str, Tensor]) -> Any:
            return {"a": parts["x"] - 1, "b": (parts["y"] * 2, [parts["x"] / parts["y"]])}

        return cond(x.sum() > 0, true, false, ({"x": x, "y": x.mean(1, keepdim=True)},))

    both_ways(function, 7, 6, **DYNAMIC)


def test_nested() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        def outer(x: Tensor) -> Tensor:
            doubled = x * 2
            return cond(x[0, 0] > 0.5, doubled.sin, lambda: doubled.cos() + x) + 1

        return cond(x.sum() > 0, outer, lambda x: cond(x[0, 0] < -0.5, torch.exp, torch.neg, (x,)), (x,))

    program = exported(Model(function), **DYNAMIC)
    for first in (0.2, 0.9, -0.2, -0.9):
        z = positive(5, 6) * (1 if first > 0 else -1)
        z[0, 0] = first
        agrees(program, lambda x: function(plain, x), z)


def test_several_in_a_row() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        for bound in (0.0, 1.0, 2.0):
            x = cond(x.mean() > bound, lambda x: x * 1.5, lambda x: x - 0.5, (x,))
        return x

    program = both_ways(function, 3, 6, **DYNAMIC)
    assert operators(program).count("If") == 3


class Layers(nn.Module):
    def __init__(self, cond: Any) -> None:
        super().__init__()
        self.cond = cond
        self.left = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True))
        self.right = nn.Linear(6, 5)
        self.register_buffer("shift", torch.arange(5.0))

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.tanh()
        result: Tensor = self.cond(
            x.sum() > 0, lambda x: self.left(x) + self.shift, lambda x: self.right(x + hidden) - self.shift, (x,)
        )
        return result


def test_modules_parameters_and_closures() -> None:
    torch.manual_seed(0)
    model = Layers(torch.cond)
    reference = Layers(plain)
    reference.load_state_dict(model.state_dict())
    program = exported(model, **DYNAMIC)
    for sign in SIGNS:
        agrees(program, reference, sign * positive(8, 6))
    names = {tensor.name for tensor in program.model_proto.graph.initializer}
    assert {"left.0.bias", "right.bias"} <= names


def test_sizes_inside_branches() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        def true(x: Tensor) -> Tensor:
            return torch.arange(x.shape[0] * 2).reshape(-1, 2) + x[:, :2].flip(0)

        return cond(x.sum() > 0, true, lambda x: x.reshape(-1)[: x.shape[0] * 2].reshape(x.shape[0], 2), (x,))

    both_ways(function, 11, 6, **DYNAMIC)


def test_numbers_that_python_computes_are_known_after_the_branch() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        count = int(x.shape[0]) + 1
        y = cond(x.sum() > 0, lambda x: x / count, lambda x: x * count, (x,))
        return y + count

    both_ways(function, 9, 6, **DYNAMIC)


def test_constants_of_a_branch_are_used_after_it() -> None:
    table = torch.arange(6.0)

    def function(cond: Any, x: Tensor) -> Tensor:
        return cond(x.sum() > 0, lambda x: x + table, lambda x: x * table.softmax(0), (x,)) * table.softmax(0) + table

    both_ways(function, 9, 6, **DYNAMIC)


def test_a_branch_may_write_to_its_own_tensors() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        def true(x: Tensor) -> Tensor:
            y = x.clone()
            y[:, 0] = 5.0
            y[1:].mul_(2)
            return y.relu_()

        y = cond(x.sum() > 0, true, lambda x: (x * 2).add_(1), (x,))
        y[:, 1] = -3.0
        return y + x

    both_ways(function, 5, 6, **DYNAMIC)


def test_a_branch_may_write_to_what_it_is_given() -> None:
    def function(cond: Any, x: Tensor) -> Any:
        kept = x * 1
        rows = kept[1:]

        def true(kept: Tensor) -> Tensor:
            kept[:, 0] = 7.0
            kept.add_(1)
            return kept.sum(1)

        return cond(x.sum() > 0, true, lambda kept: kept.mul_(3).mean(1), (kept,)), kept * 2, rows

    for sign in SIGNS:
        program = exported(Model(function), sign * positive(4, 6), **DYNAMIC)
        for other in SIGNS:
            agrees(program, lambda x: function(plain, x), other * positive(7, 6))


def test_the_result_is_a_tensor_of_its_own() -> None:
    """As torch has it for conditions that it compiles: writing to the result leaves the operand as it was."""

    def function(cond: Any, x: Tensor) -> Any:
        y = cond(x.sum() > 0, lambda x: x, lambda x: x * 2, (x,))
        if cond is plain:
            y = y.clone()
        y.add_(10)
        return y, x * 1

    both_ways(function, 5, 6, **DYNAMIC)


def test_a_size_is_compared_at_run_time() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        return cond(x.shape[0] > 6, lambda x: x - 1, lambda x: x * 3, (x,))

    program = exported(Model(function), **DYNAMIC)
    for rows in (2, 5, 6, 7, 12):
        agrees(program, lambda x: function(plain, x), positive(rows, 6))


def test_a_size_that_is_fixed_decides_while_exporting() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        # The other branch cannot even run at this size.
        return cond(x.shape[0] > 6, lambda x: x[6] + x, lambda x: x * 3, (x,))

    program = exported(Model(function))
    assert operators(program) == ["Mul"]
    agrees(program, lambda x: function(plain, x), positive(4, 6))


def test_a_python_condition_decides_while_exporting() -> None:
    program = exported(Model(lambda cond, x: cond(x.dim() == 2, lambda x: x - 1, lambda x: x[7], (x,))))
    assert operators(program) == ["Sub"]


def test_conditions_that_are_inputs() -> None:
    class Switched(nn.Module):
        def forward(self, flag: Tensor, x: Tensor) -> Tensor:
            return torch.cond(flag, lambda x: x + 1, lambda x: x * 2, (x,))  # type: ignore[no-any-return]

    for flag in (torch.tensor(True), torch.tensor([False])):
        program = onnxport.export(Switched(), (flag, X), input_names=["flag", "x"])
        for given in (True, False):
            agrees(program, lambda f, x: x + 1 if f else x * 2, torch.full_like(flag, given), X)


def test_branches_may_give_other_sizes() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        def other(x: Tensor) -> Tensor:
            return torch.cat([x, x]) if cond is plain else cond(x.max() < -9, lambda: x[:2], lambda: torch.cat([x, x]))

        return cond(x.sum() > 0, lambda x: x[1:], other, (x,)) * 2

    program = both_ways(function, 9, 6, **DYNAMIC)
    assert not program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].HasField("dim_value")
    both_ways(function)


def test_numbers_as_results() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        y, n = cond(x.sum() > 0, lambda x: (x, 3), lambda x: (-x, 5), (x,))
        return y * n

    both_ways(function)


def test_random_numbers_in_the_other_branch_change_nothing() -> None:
    def function(cond: Any, x: Tensor) -> Tensor:
        return cond(x.sum() > 0, lambda x: x + 1, lambda x: x * torch.rand_like(x), (x,))

    program = exported(Model(function), positive(4, 6))
    agrees(program, lambda x: x + 1, positive(4, 6))


def test_places_of_nodes_in_branches() -> None:
    program = exported(Layers(torch.cond))
    branch = next(node for node in program.model_proto.graph.node if node.op_type == "If")
    inner = [node for attribute in branch.attribute for node in attribute.g.node]
    assert any("left.0" in node.name or "left/0" in node.name for node in inner), [node.name for node in inner]


@pytest.mark.parametrize(
    ("false", "said"),
    [
        (lambda x: x.double(), "float64"),
        (lambda x: x[0], r"\[6\]"),
        (lambda x: (x, x), "structure"),
        (lambda x: x @ x, "mat1 and mat2"),
    ],
    ids=["dtype", "shape", "structure", "raises"],
)
def test_branches_that_do_not_fit_are_an_error_with_the_line(false: Any, said: str) -> None:
    with pytest.raises(onnxport.CaptureError, match=said) as caught:
        exported(Model(lambda cond, x: cond(x.sum() > 0, lambda x: x + 1, false, (x,))), positive(4, 6))
    assert "test_cond.py:" in str(caught.value)


@pytest.mark.parametrize("returned", [False, True])
def test_a_tensor_that_leaves_a_branch_by_the_way_is_an_error(*, returned: bool) -> None:
    def function(cond: Any, x: Tensor) -> Any:
        kept = []

        def true(x: Tensor) -> Tensor:
            kept.append(x * 3)
            return x + 1

        y = cond(x.sum() > 0, true, lambda x: x * 2, (x,))
        return (y, kept[0]) if returned else y + kept[0]

    with pytest.raises(onnxport.CaptureError, match=r"test_cond\.py:\d+.*torch\.cond"):
        exported(Model(function), positive(4, 6))


def test_the_file_is_the_same_whichever_branch_the_example_takes(tmp_path: Path) -> None:
    for sign in SIGNS:
        onnxport.export(Model(simple), sign * positive(4, 6), tmp_path / f"{sign}.onnx")
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "-1.onnx").read_bytes()


def test_modules_in_branches_as_functions_and_operators() -> None:
    torch.manual_seed(0)
    model, reference = Layers(torch.cond), Layers(plain)
    reference.load_state_dict(model.state_dict())
    program = exported(model, export_modules_as_functions={nn.Linear}, **DYNAMIC)
    for sign in SIGNS:
        agrees(program, reference, sign * positive(8, 6))
    assert [function.name for function in program.model_proto.functions]


def test_torch_cond_outside_of_exports_is_as_it_was() -> None:
    exported(Model(simple))
    compiled = torch.cond(X.sum() > 100, lambda x: x + 1, lambda x: x * 2, (X,))
    torch.testing.assert_close(compiled, X * 2)


def test_what_a_branch_alone_counts_follows_the_data() -> None:
    def mean_of_positive(cond: Any, x: Tensor) -> Tensor:
        def mean(x: Tensor) -> Tensor:
            kept = x[x > 0]
            return kept.sum() / kept.shape[0]

        result: Tensor = cond(x.sum() > 0, mean, lambda x: x.sum(), (x,))
        return result

    program = exported(Model(mean_of_positive), torch.tensor([1.0, -2, 3, -4, 5, 6]))
    for values in ([1.0, 2, 3, -4, 5, 6], [1.0, 1, 1, 1, 1, 1], [-1.0, 2, -3, -4, 5, -6]):
        agrees(program, lambda x: mean_of_positive(plain, x), torch.tensor(values))


@pytest.mark.parametrize("size", [1, 5, 777])
def test_a_condition_on_sizes_that_none_of_those_traced_meets(size: int) -> None:
    def at_multiples(cond: Any, x: Tensor) -> Tensor:
        result: Tensor = cond(torch.as_tensor(x.shape[0]) % 777 == 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return result

    program = exported(Model(at_multiples), **DYNAMIC)
    agrees(program, lambda x: at_multiples(plain, x), positive(size, 6))


def test_a_condition_on_how_much_a_mask_leaves() -> None:
    def mean_or_zero(cond: Any, x: Tensor) -> Tensor:
        kept = x[x > 0]
        result: Tensor = cond(kept.shape[0] == 0, lambda x: x.new_zeros(()), lambda x: x.mean(), (kept,))
        return result

    program = exported(Model(mean_or_zero), **DYNAMIC)
    for x in (X, positive(3, 6), -positive(3, 6)):
        agrees(program, lambda x: mean_or_zero(plain, x), x)
