"""Expressions of the numbers that a scripted program computes from sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.capture.sizes.guesses import Guesses
from onnxport.graph.ir import Node, Value
from onnxport.graph.sizes import Operand, SizeExpr, exact, leaves_of, product

COMPARISONS = {f"aten::{name}": name for name in ("eq", "ne", "lt", "le", "gt", "ge")}
OPERATORS = {
    **COMPARISONS,
    "aten::add": "add",
    "aten::sub": "sub",
    "aten::mul": "mul",
    "aten::floordiv": "floordiv",
    "aten::remainder": "mod",
    "aten::div": "truediv",
    "aten::neg": "neg",
    "aten::pow": "pow",
    "aten::sqrt": "sqrt",
    "aten::floor": "floor",
    "aten::ceil": "ceil",
    "aten::round": "round",
    "aten::Int": "trunc",
    "aten::Float": "float",
    "prim::abs": "abs",
    "prim::min": "min",
    "prim::max": "max",
}
ROUNDING = frozenset({"floor", "ceil", "round", "trunc"})


def expression_of(node: Node, kind: type, points: Guesses) -> Operand | None:
    """The expression of a node's result; None if it does not follow from sizes, or its operator is not known here."""
    if node.op == "aten::numel":
        return product(node.inputs["self"].shape)
    operands = [points.expression(argument) for argument in node.inputs.values()]
    known = [operand for operand in operands if operand is not None and not is_read_at_run_time(operand)]
    if len(known) != len(operands):
        return None
    if node.op == "aten::__range_length":
        return _range_length(*known)
    if node.op == "aten::__derive_index":
        index, start, step = known
        return exact("add", start, exact("mul", index, step))
    op = OPERATORS.get(node.op)
    if op is None:
        return None
    whole = op in ROUNDING and _kind(known[0]) is int
    found = known[0] if whole else exact(op, *known)
    return exact("float", found) if kind is float and _kind(found) is int else found


def is_read_at_run_time(expression: Operand) -> bool:
    """Whether an expression has a number read from a tensor. Such a number may be negative; guesses never are."""
    return isinstance(expression, SizeExpr) and any(leaf.op == "number_of" for leaf in leaves_of(expression))


def _range_length(low: Operand, high: Operand, step: Operand) -> Operand | None:
    if type(step) is not int or step < 1:
        return None
    return exact("max", exact("floordiv", exact("add", exact("sub", high, low), step - 1), step), 0)


def _kind(operand: Operand) -> type:
    return operand.kind if isinstance(operand, SizeExpr) else type(operand)


def decided(op: str, arguments: Sequence[Any], points: Guesses) -> bool | None:
    """The outcome of a comparison of two sizes if it is the same for all sizes, else None."""
    if op not in COMPARISONS or not all(isinstance(argument, (Value, int)) for argument in arguments):
        return None
    left, right = (points.expression(argument) for argument in arguments)
    if left is None or right is None or any(map(is_read_at_run_time, (left, right))):
        return None
    found = exact(COMPARISONS[op], left, right)
    return found if isinstance(found, bool) else None
