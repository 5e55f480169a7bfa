"""What the interpreter computes beside torch's operators."""

from __future__ import annotations

import torch

from onnxport.graph.interpret import run
from onnxport.graph.ir import NUMBER, Block, Graph, Node, PythonCall, ScalarType, SequenceType, TensorType, Value
from onnxport.graph.sizes import axis

FLOAT = TensorType(torch.float32, (3,))
LIST = SequenceType(FLOAT)
INT, BOOL = ScalarType(int), ScalarType(bool)


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor, factor: float, y: torch.Tensor) -> tuple[torch.Tensor, float]:
        return x * factor + y, factor


def outputs_of(inputs: list[Value], nodes: list[Node], results: list[Value], *given: object) -> list[object]:
    return run(Graph(Block(inputs, nodes, results), []), given)  # type: ignore[arg-type]


def test_a_branch() -> None:
    x, condition, left, right, result = Value(FLOAT), Value(BOOL), Value(FLOAT), Value(FLOAT), Value(FLOAT)
    sides = [
        Block([], [Node("aten::neg", {"self": x}, [left])], [left]),
        Block([], [Node("aten::exp", {"self": x}, [right])], [right]),
    ]
    node = Node("prim::If", {"condition": condition}, [result], blocks=sides)
    ones = torch.ones(3)
    assert torch.equal(outputs_of([x, condition], [node], [result], ones, True)[0], -ones)  # type: ignore[arg-type]
    assert torch.equal(outputs_of([x, condition], [node], [result], ones, False)[0], ones.exp())  # type: ignore[arg-type]


def test_a_loop_that_fills_a_list() -> None:
    x, limit, empty, filled, length = Value(FLOAT), Value(INT), Value(LIST), Value(LIST), Value(INT)
    turn, before, row, after, on = Value(INT), Value(LIST), Value(FLOAT), Value(LIST), Value(BOOL)
    body = [
        Node("aten::mul", {"self": x, "other": turn}, [row], overload="Scalar"),
        Node("onnxport::sequence_insert", {"sequence": before, "tensor": row, "index": None}, [after]),
        Node("aten::lt", {"a": turn, "b": 2}, [on], overload="int"),
    ]
    nodes = [
        Node("onnxport::sequence", {"tensors": []}, [empty]),
        Node(
            "prim::Loop",
            {"limit": limit, "condition": True, "carried": [empty]},
            [filled],
            blocks=[Block([turn, before], body, [on, after])],
        ),
        Node("onnxport::sequence_length", {"sequence": filled}, [length]),
    ]
    for most, expected in ((2, 2), (9, 3)):
        rows, count = outputs_of([x, limit], nodes, [filled, length], torch.ones(3), most)
        assert count == expected and [float(row[0]) for row in rows] == [0.0, 1.0, 2.0][:expected]  # type: ignore[attr-defined]


def test_lists() -> None:
    a, b, c = (torch.full((2,), float(number)) for number in range(3))
    made = Value(LIST)

    def compute(op: str, **arguments: object) -> object:
        return outputs_of([], [Node(f"onnxport::{op}", arguments, [made])], [made])[0]

    def numbers(found: object) -> list[float]:
        return [float(tensor[0]) for tensor in found]  # type: ignore[attr-defined]

    given = [a, b, c]
    assert numbers(compute("sequence_erase", sequence=given, index=-1)) == [0, 1]
    assert numbers(compute("sequence_replace", sequence=given, index=-2, tensor=c)) == [0, 2, 2]
    assert numbers(compute("sequence_insert", sequence=given, tensor=a, index=1)) == [0, 0, 1, 2]
    assert numbers(compute("sequence_join", left=given, right=[a])) == [0, 1, 2, 0]
    assert numbers(compute("sequence_slice", sequence=given, start=None, end=None, step=2)) == [0, 2]
    assert numbers(compute("split_sequence", self=torch.arange(4.0), split_size=2, dim=0)) == [0, 2]
    assert numbers(compute("split_with_sizes_sequence", self=torch.arange(4.0), split_sizes=[1, 3], dim=0)) == [0, 1]
    assert numbers(compute("chunk_sequence", self=torch.arange(4.0), chunks=2, dim=0)) == [0, 2]
    assert compute("cat_sequence", tensors=given, dim=0).shape == (6,)  # type: ignore[attr-defined]
    assert compute("stack_sequence", tensors=given, dim=1).shape == (2, 3)  # type: ignore[attr-defined]


def test_an_autograd_function_is_called_again() -> None:
    x, y, result = Value(FLOAT), Value(FLOAT), Value(FLOAT)
    call = PythonCall(Both, (None, 3.0, None), "dcd", (True, False))
    node = Node("prim::PythonOp", {"call": call, "0": x, "2": y}, [result], overload="Both")
    (found,) = outputs_of([x, y], [node], [result], torch.ones(3), torch.ones(3))
    assert found.tolist() == [4.0, 4.0, 4.0]  # type: ignore[attr-defined]


def test_a_number_that_python_computed() -> None:
    n = axis("n", (3, 5))
    x, number = Value(TensorType(torch.float32, (2, n))), Value(INT)
    inputs = {"expression": n * 2 + 1, "leaves": ((n, 1),), "of": [x]}
    assert outputs_of([x], [Node(NUMBER, inputs, [number])], [number], torch.ones(2, 4)) == [9]
