"""An expression over arrays of sizes comes to what it comes to at each of them."""

from __future__ import annotations

import math
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxport.graph.sizes import SizeExpr, axis, evaluate, leaves_of
from onnxport.graph.sizes.arrays import values_over
from tests.graph.sizes.trees import expression, random_tree

LEAVES = {name: axis(name, [place + 2, 7 * place + 3, 40]) for place, name in enumerate("nmk")}
SIZES = [0, 1, 2, 3, 5, 8, 17, 63, 64, 300, 4096, 131071]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_arrays_are_python(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        expr = expression(random_tree(draw, draw.choice(["int", "float", "bool"]), 5), LEAVES)
        if not isinstance(expr, SizeExpr):
            continue
        columns = {"n": SIZES, "m": draw.sample(SIZES, 3), "k": [-draw.randrange(99), draw.randrange(99)]}
        found = values_over(expr, dict(zip(columns, np.ix_(*columns.values()), strict=True)))
        found = np.broadcast_to(found, [len(column) for column in columns.values()])
        for place in np.ndindex(found.shape):
            sizes = {name: column[at] for (name, column), at in zip(columns.items(), place, strict=True)}
            wanted = evaluate(expr, {leaf: sizes[leaf.operands[0]] for leaf in leaves_of(expr)})
            number = found[place]
            assert wanted is not None
            assert number == wanted or (math.isnan(number) and math.isnan(wanted)), (expr.op, sizes)
