"""Candidate expressions for result sizes of operators without a shape function.

A candidate is used only if it agrees with the operator's meta kernel at every evaluation point. A size without an
expression is read at run time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from onnxport.graph.ir import Node, Value
from onnxport.graph.sizes import Size, product


def _number(argument: Any) -> Size | None:
    if isinstance(argument, Value):
        return argument.size
    return argument if type(argument) is int else None


def expressions(node: Node) -> Iterator[Any]:
    """Numbers among the arguments, products of neighbouring sizes, and quotients of the number of elements."""
    numbers = [n for argument in node.inputs.values() for n in _numbers_in(argument)]
    yield from numbers
    shapes = [value.shape for value in node.values() if value.is_tensor]
    for shape in shapes[:2]:
        for start, end in itertools.combinations(range(len(shape) + 1), 2):
            if end - start > 1:
                yield product(shape[start:end])
    if shapes:
        rest = product(n for n in numbers if not (type(n) is int and n < 0))
        yield product(shapes[0]) // rest if rest != 0 else 0
        for number, size in itertools.product([n for n in numbers if n != 0], shapes[0]):
            yield from (size * number, size // number, size + number, size - number)


def _numbers_in(argument: Any) -> Iterator[Size]:
    for element in argument if isinstance(argument, list) else [argument]:
        number = _number(element)
        if number is not None and type(number) is not bool:
            yield number
