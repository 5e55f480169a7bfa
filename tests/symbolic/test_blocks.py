"""If and Loop that symbolic functions write by hand, in the ways that public ones have and in onnxport's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from onnxport import symbolic_helper
from onnxport.symbolic import jit_utils
from tests.symbolic.harness import check, export, operators, ops, registered


def choose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else y - 1


def own_way(g: Any, x: Any, y: Any) -> Any:
    positive = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0)
    return g.op(
        "If",
        positive,
        then_branch_g=g.subgraph(lambda b: b.op("Mul", x, 2.0)),
        else_branch_g=g.subgraph(lambda b: b.op("Sub", y, 1.0)),
    )


def blocks_of_a_node(g: Any, x: Any, y: Any) -> Any:
    positive = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0)
    result = g.op("If", positive)
    node = result.node()
    then = jit_utils._add_block(node)
    otherwise = jit_utils._add_block(node)
    jit_utils._add_output_to_block(then, then.op("Mul", x, 2.0))
    jit_utils._add_output_to_block(otherwise, otherwise.op("Sub", y, 1.0))
    return g.op("Identity", result)


def contexts_of_an_operator(g: Any, x: Any, y: Any) -> Any:
    positive = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0)
    result, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", positive, n_blocks=2)
    jit_utils._add_output_to_block(then.block, then.op("Mul", x, 2.0))
    jit_utils._add_output_to_block(otherwise.block, otherwise.op("Sub", y, 1.0))
    assert result.type().scalarType() == "Float"
    return result


@pytest.mark.parametrize("symbolic", [own_way, blocks_of_a_node, contexts_of_an_operator])
@pytest.mark.parametrize("opset", [11, 20])
def test_if(symbolic: Callable[..., Any], opset: int) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.lab.choose(x, y) + 1
        return result

    with operators(("choose(Tensor x, Tensor y) -> Tensor", choose)), registered("lab::choose", symbolic):
        args = torch.rand(3, 4), torch.rand(3, 4)
        program = export(model, *args, opset_version=opset, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
        assert "If" in ops(program)
        for sign in (1, -1):
            check(program, model, sign * torch.rand(5, 4), torch.rand(5, 4))


def test_a_branch_may_give_what_is_outside() -> None:
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        positive = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0)
        return g.op("If", positive, then_branch_g=g.subgraph(lambda b: x), else_branch_g=g.subgraph(lambda b: y))

    def pick(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.clone() if x.sum() > 0 else y.clone()

    with operators(("pick(Tensor x, Tensor y) -> Tensor", pick)), registered("lab::pick", symbolic):
        program = export(lambda x, y: torch.ops.lab.pick(x, y), torch.rand(3), torch.rand(3))  # noqa: PLW0108
        for sign in (1, -1):
            check(program, pick, sign * torch.rand(3), torch.rand(3))


def powers(x: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x multiplied by itself again and again, and each step."""
    steps = [x]
    for _ in range(count):
        steps.append(steps[-1] * x)
    return steps[-1].clone(), torch.stack(steps[1:])


def loop_own_way(g: Any, x: Any, count: Any) -> Any:
    def body(b: Any, iteration: Any, condition: Any, carried: Any) -> Any:
        assert carried.type().sizes() == x.type().sizes()
        made = b.op("Mul", carried, x)
        return b.op("Identity", condition), made, made

    integer = g.op("Constant", value_t=torch.tensor(0)).type()
    truth = g.op("Constant", value_t=torch.tensor(True)).type()
    return g.op("Loop", count, True, x, body_g=g.subgraph(body, integer, truth, x), outputs=2)


def loop_by_blocks(g: Any, x: Any, count: Any) -> Any:
    outputs, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", count, True, x, outputs=2, n_blocks=1)
    iteration = jit_utils._add_input_to_block(body.block)
    condition = jit_utils._add_input_to_block(body.block)
    carried = jit_utils._add_input_to_block(body.block)
    assert [v.type().scalarType() for v in (iteration, condition, carried)] == ["Long", "Bool", "Float"]
    made = body.op("Mul", carried, x)
    for result in (body.op("Identity", condition), made, body.op("Identity", made)):
        jit_utils._add_output_to_block(body.block, result)
    return outputs


@pytest.mark.parametrize("symbolic", [loop_own_way, loop_by_blocks])
def test_loop(symbolic: Callable[..., Any]) -> None:
    with operators(("powers(Tensor x, int count) -> (Tensor, Tensor)", powers)), registered("lab::powers", symbolic):
        model = lambda x: torch.ops.lab.powers(x, 3)  # noqa: E731
        program = export(model, torch.rand(2, 3))
        check(program, lambda x: powers(x, 3), torch.rand(2, 3))


def test_a_size_needed_inside_a_block_is_computed_before_the_node() -> None:
    """Where the node is there before its blocks are written."""

    def symbolic(g: Any, x: Any, n: Any) -> Any:
        result, (then, otherwise), _ = jit_utils.add_op_with_blocks(
            g, "If", g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0), n_blocks=2
        )
        jit_utils._add_output_to_block(then, then.op("Mul", x, then.op("Cast", n, to_i=1)))
        jit_utils._add_output_to_block(otherwise, otherwise.op("Neg", x))
        return result

    def times(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n if x.sum() > 0 else -x

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.lab.times(x, int(x.shape[0]) + 2)
        return result

    with operators(("times(Tensor x, int n) -> Tensor", times)), registered("lab::times", symbolic):
        program = export(model, torch.rand(3, 2), dynamic_axes={"x": {0: "n"}})
        for sign in (1, -1):
            check(program, model, sign * torch.rand(7, 2))


def test_blocks_of_an_operator_that_has_none() -> None:
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        made = g.op("Add", x, y)
        jit_utils._add_block(made.node())
        return made

    known = operators(("choose(Tensor x, Tensor y) -> Tensor", choose))
    refused = pytest.raises(onnxport.CustomOperatorError, match="Add has no blocks")
    with known, registered("lab::choose", symbolic), refused:
        onnxport.export(lambda x, y: torch.ops.lab.choose(x, y) + 1, (torch.rand(2), torch.rand(2)))


def test_blocks_inside_blocks() -> None:
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        total = g.op("ReduceSum", x, keepdims_i=0)

        def inner(b: Any) -> Any:
            large = b.op("Greater", total, 5.0)
            return b.op(
                "If",
                large,
                then_branch_g=b.subgraph(lambda c: symbolic_helper._squeeze_helper(c, c.op("Unsqueeze", x, [0]), [0])),
                else_branch_g=b.subgraph(lambda c: c.op("Mul", x, 2.0)),
            )

        positive = g.op("Greater", total, 0.0)
        return g.op("If", positive, then_branch_g=g.subgraph(inner), else_branch_g=g.subgraph(lambda b: y))

    def nested(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        return y.clone() if total <= 0 else x.clone() if total > 5 else x * 2

    with operators(("nested(Tensor x, Tensor y) -> Tensor", nested)), registered("lab::nested", symbolic):
        program = export(lambda x, y: torch.ops.lab.nested(x, y), torch.rand(3), torch.rand(3))  # noqa: PLW0108
        for factor in (1, 10, -1):
            check(program, nested, factor * (torch.rand(3) + 0.5), torch.rand(3))
