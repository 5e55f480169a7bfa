"""Shape functions tell what torch itself gives, for sizes that are fixed and for sizes that vary."""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal import common_utils
from torch.utils._pytree import tree_map

from onnxport import compat
from onnxport.graph.data_sizes import size_depends_on_data
from onnxport.graph.ir import Node, schemas_of
from onnxport.graph.shapes.table import FUNCTIONS, OVERLOADS
from onnxport.graph.sizes import SizeExpr, apply, axis, evaluate
from tests.graph.shapes import table, table_of_layers
from tests.graph.shapes.calls import REFUSALS, call, flat, index, mistakes, recorded, shape_at, shapes_of, tensor, told
from tests.ops.opinfo.samples import OPERATORS, operators_with
from tests.ops.torchvision_operators import LIBRARY  # noqa: F401 - keeps the operators declared

pytestmark = pytest.mark.filterwarnings("ignore")

FAMILIES = (*table.FAMILIES, *table_of_layers.FAMILIES)
# Each size is 0, 1 and large somewhere, and the first point is one that every call of the table takes.
N = axis("n", (6, 1, 2, 3, 0, 5, 8, 17, 6, 6, 6, 12))
M = axis("m", (4, 1, 3, 3, 2, 9, 7, 16, 1, 4, 0, 4))
B = axis("b", (2, 1, 3, 2, 1, 2, 4, 5, 2, 0, 2, 1))
POINTS = len(N.at)
CALLS = [(family.__name__, node) for family in FAMILIES for node in family(N, M, B)]
NAMES = [f"{family}-{place}-{node.full_name.removeprefix('aten::')}" for place, (family, node) in enumerate(CALLS)]

# The dtype of an operator's samples is the first of these that it takes.
DTYPES = ("float32", "int64", "complex64")
WITH_DTYPE = {dtype: frozenset(operators_with(dtype)) for dtype in DTYPES}
# What so many samples of each operator reach: operators, with their overloads, that have a function, and calls of them.
SAMPLES = 20
SAMPLES_OF_VARIANTS = 3
LEAST_OPERATORS = 800
LEAST_CALLS = 20_000


# Sizes that are fixed


def test_shapes_are_those_of_torchs_own_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    # It takes half of the time, and no shape depends on it.
    monkeypatch.setattr(common_utils, "set_rng_seed", lambda *_: None)
    reached: collections.Counter[str] = collections.Counter()
    for node, shapes in sampled_calls():
        found = told(node, 1)
        if found is not None:
            reached[node.full_name] += 1
            assert found.shapes == shapes, node
    assert len(reached) >= LEAST_OPERATORS
    assert reached.total() >= LEAST_CALLS


def sampled_calls() -> Iterator[tuple[Node, list[tuple[int, ...]]]]:
    """The calls that torch's samples make, and composite operators inside, with the shapes of their results."""
    found: list[tuple[Node, list[tuple[int, ...]]]] = []

    def handle(op: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        node = recorded(op, args, keywords) if op.namespace == "aten" else None
        if compat.dispatch.is_composite(op):
            with compat.dispatch.seen_again():
                results = compat.dispatch.Composite(op)(*args, **keywords)
        else:
            results = op(*args, **keywords)
        has_sizes = all(isinstance(result, torch.Tensor) for result in flat(results))
        if node is not None and has_sizes and not size_depends_on_data(node):
            found.append((node, shapes_of(results)))
        return results

    for name, operator in OPERATORS.items():
        dtype = next((dtype for dtype in DTYPES if name in WITH_DTYPE[dtype]), "float32")
        for place, sample in enumerate(itertools.islice(samples(operator, dtype), SAMPLES)):
            for function in [operator.op, *(variants(operator) if place < SAMPLES_OF_VARIANTS else ())]:
                args, keywords = tree_map(copied, ((sample.input, *sample.args), sample.kwargs))
                # A few operators of the database do not run here, and not every sample can be written to.
                with contextlib.suppress(*REFUSALS), torch.no_grad(), compat.dispatch.seen_by(handle):
                    function(*args, **keywords)
        yield from found
        found.clear()


def samples(operator: Any, dtype: str) -> Iterator[Any]:
    yield from operator.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)


def variants(operator: Any) -> Iterator[Any]:
    """The same operator by its other names, and those that write to their argument."""
    for one in (operator, *operator.aliases):
        yield from (function for function in (one.op, one.inplace_variant) if function not in (None, operator.op))


def copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) and not leaf.is_sparse else leaf


def test_there_are_operators_of_these_names() -> None:
    without = [op for op in FUNCTIONS if op.startswith("aten::") and not list(schemas_of(op))]
    assert not without
    assert all(overload in dict(schemas_of(op)) for op, overload in OVERLOADS)


# Sizes that vary


@pytest.mark.parametrize("node", [node for _, node in CALLS], ids=NAMES)
def test_sizes_that_vary_are_what_torch_gives_at_each_point(node: Node) -> None:
    assert not mistakes(node, POINTS)


def test_expressions_hold_at_other_points() -> None:
    other = {N: 11, M: 5, B: 3}
    leaves = [axis(leaf.operands[0], (leaf.at[0], size)) for leaf, size in other.items()]
    elsewhere = [node for family in FAMILIES for node in family(*leaves)]
    wrong = []
    for (_, node), there in zip(CALLS, elsewhere, strict=True):
        found, wanted = told(node, POINTS), told(there, 2)
        assert found is not None and wanted is not None
        shapes = [tuple(evaluate(size, other) for size in shape) for shape in found.shapes]
        if not wanted.refused and shapes != wanted.at(1):
            wrong.append((node, shapes, wanted.at(1)))
    assert not wrong


def test_points_that_are_refused_have_a_reason() -> None:
    answers = [told(node, POINTS) for _, node in CALLS]
    reasons = [reason for found in answers if found is not None for reason in found.refused.values()]
    assert len(reasons) > 200
    assert all(reasons)


def test_operators_of_torchvision() -> None:
    node = call("torchvision::roi_align", tensor(B + 1, 3, 8, 8), tensor(N, 5), 1.0, 7, M + 1, 2, False)
    assert not mistakes(node, POINTS)


# What is not known


@pytest.mark.parametrize(
    "node",
    [
        call("add.Tensor", tensor(N), tensor(5)),  # refused at the first point, which a run was recorded at
        call("gather", tensor(N), 0, index(N, 2)),
        call("index.Tensor", tensor(N, 3), [tensor(N, dtype=torch.bool)]),
        call("where", tensor(N, 3)),
        call("one_hot", index(N)),
        call("zeros", [apply("truediv", N, 2)]),
        call("slice.Tensor", tensor(N), 0, 0, N, N),
        call("_foreach_add.Tensor", [tensor(N), tensor(M)], tensor()),
        call("nonzero", tensor(N)),
        call("as_strided", tensor(N), [3], [1]),  # whether it stays in memory no size tells
    ],
    ids=lambda node: node.full_name,
)
def test_other_calls_have_no_function(node: Node) -> None:
    assert told(node, POINTS) is None


def test_a_mask_takes_one_value_but_not_several() -> None:
    mask = tensor(N, dtype=torch.bool)
    assert told(call("index_put", tensor(N, 3), [mask], tensor()), POINTS) is not None
    assert told(call("index_put", tensor(N, 3), [mask], tensor(5, 3)), POINTS) is None


def test_a_size_that_becomes_1_may_not_change_the_number_of_axes() -> None:
    found = told(call("squeeze", tensor(B, 1, N)), POINTS)
    assert found is not None
    assert found.shapes == [(B, N)]
    assert set(found.refused) == {point for point in range(POINTS) if 1 in (B.at[point], N.at[point])}


def test_recurrent_layers_refuse_states_of_another_batch() -> None:
    """ATen reads beyond their end, or repeats them; the modules that call it refuse them."""
    weights = [tensor(12, 6), tensor(12, 3), tensor(12), tensor(12)]
    flags = True, 1, 0.0, False, False, True
    found = told(call("lstm.input", tensor(B, 4, 6), [tensor(1, B, 3), tensor(1, 2, 3)], weights, *flags), POINTS)
    assert found is not None
    assert set(found.refused) == {point for point in range(POINTS) if B.at[point] != 2}


def test_sizes_stay_what_they_were() -> None:
    """A size that an operator keeps is the same expression, not another one that is equal at these points."""
    found = told(call("conv2d", tensor(B, 4, N, M), tensor(8, 4, 3, 3), None, [1], [1]), POINTS)
    assert found is not None
    assert found.shapes[0][0] is B
    views = told(call("view", tensor(B, N, 8), [B, N, 2, -1]), POINTS)
    assert views is not None and views.shapes == [(B, N, 2, 4)]
    assert all(not isinstance(size, SizeExpr) or size.kind is int for size in views.shapes[0])
    assert shape_at(views.shapes[0], 0) == (2, 6, 2, 4)
