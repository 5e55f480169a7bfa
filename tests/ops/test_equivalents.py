"""Operators that are others under another name: on lists, copies of views, primitives, internal convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.harness import Case, F, Variant, table

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims
DOUBLE = (torch.float32, torch.float64)
ONE_BY_ONE = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc", "clone", "max", "norm", "powsum", "zero",
]  # fmt: skip
PAIR = [F("n", 3, low=0.2, high=0.9), F(4, low=0.2, high=0.9)]


def each(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: call([x, y])


def in_place(tensors: list[Tensor]) -> list[Tensor]:
    grown = [tensor * 2 for tensor in tensors]
    torch._foreach_add_(grown, 1.5)
    torch._foreach_mul_(grown, tensors)
    return grown


def moments(x: Tensor, y: Tensor) -> list[Tensor]:
    """As an optimiser's step computes them, with one number for each tensor."""
    return aten._foreach_addcdiv([x, y], [x + 1, y + 1], [x + 2, y + 2], torch.tensor([0.5, 2.0], dtype=x.dtype))


LISTS = [
    Case("foreach-add", each(lambda given: torch._foreach_add(given, given, alpha=2)), PAIR),
    Case("foreach-add-number", each(lambda given: torch._foreach_add(given, 3)), PAIR, graph=["Add", "Add"]),
    Case("foreach-mul-tensor", lambda x, y: torch._foreach_mul([x, y], y.sum()), PAIR),
    Case("foreach-div", each(lambda given: torch._foreach_div(given, [t + 1 for t in given])), PAIR),
    Case("foreach-maximum", each(lambda given: torch._foreach_maximum(given, 0.5)), PAIR),
    Case("foreach-minimum", each(lambda given: torch._foreach_minimum(given, [t * t for t in given])), PAIR),
    Case(
        "foreach-clamp",
        each(lambda given: torch._foreach_clamp_min(torch._foreach_clamp_max(given, 0.7), 0.3)),
        PAIR,
    ),
    Case("foreach-pow", each(lambda given: torch._foreach_pow(2.0, torch._foreach_pow(given, 3.0))), PAIR),
    Case("foreach-lerp", each(lambda given: torch._foreach_lerp(given, [t + 1 for t in given], 0.3)), PAIR),
    Case("foreach-addcmul", each(lambda given: torch._foreach_addcmul(given, given, given, value=0.5)), PAIR),
    Case("foreach-addcdiv-tensor", moments, PAIR),
    Case("foreach-in-place", each(in_place), PAIR),
    Case("foreach-copy", lambda x, y: torch._foreach_copy_([x * 1, x + 1], [x * 2, x * 3]), PAIR),
]

COPIES = [
    Case("select-copy", lambda x: aten.select_copy(x, 0, 1), [F(4, "c")]),
    Case("slice-copy", lambda x: aten.slice_copy(x, 1, 1, 3), [F("n", 4)]),
    Case("split-copy", lambda x: aten.split_copy(x, 2), [F(5, "c")]),
    Case("unbind-copy", aten.unbind_copy, [F(3, "c")]),
    Case("diagonal-copy", lambda x: aten.diagonal_copy(x, 1), [F(4, 4)]),
    Case("unfold-copy", lambda x: aten.unfold_copy(x, 0, 2, 1), [F(4)]),
    Case("narrow-copy", lambda x: aten.narrow_copy(x, 0, 1, 2), [F(4, "c")]),
    Case("negative-copy", aten._neg_view_copy, [F("n")], graph=["Neg"]),
]

PRIMITIVES = [
    Case(
        "prims-unary", lambda x: (prims.exp2(x), prims.erf_inv(x), prims.cbrt(x)), [F("n", low=-0.9, high=0.9)], since=9
    ),
    Case("prims-binary", lambda x, y: (prims.maximum(x, y), prims.hypot(x, y)), [F("n"), F("n")]),
    Case(
        "prims-div",
        prims.div,
        [F("n", low=-9, high=9), F("n", low=1, high=3)],
        base=torch.int64,
        dtypes=(torch.float32,),
    ),
    Case("prims-sum", lambda x: (prims.sum(x, [1]), prims.prod(x, [0, 1]), prims.amax(x, [0])), [F("n", 3)]),
    Case("prims-var", lambda x: prims.var(x, [1], 1.0), [F("n", 4)]),
    Case(
        "prims-shape",
        lambda x: (prims.transpose(x, [1, 0]), prims.collapse(x, 0, 1), prims.split_dim(x, 1, 2)),
        [F("n", 4)],
    ),
    Case("prims-broadcast", lambda x: prims.broadcast_in_dim(x, [3, 4, 2], [1]), [F(4)]),
    Case("prims-where", lambda x, y: prims.where(x > y, x, y), [F("n"), F("n")], since=9),
    Case("prims-convert", lambda x: prims.convert_element_type(x * 4, torch.int64), [F("n")], graph=["Mul", "Cast"]),
    Case("prims-flip", lambda x: prims.rev(x, [0]), [F("n", 3)], dynamic_since=10),
]

INTERNAL = [
    Case(
        "dilated-convolution",
        lambda x, w: aten.slow_conv_dilated2d(x, w, [3, 3], None, [1, 1], [1, 1], [2, 2]),
        [F("n", 4, 6, 6), F(5, 4, 3, 3)],
        dtypes=(),
        graph=["Conv"],
    ),
    Case(
        "transposed-convolution",
        lambda x, w: aten.slow_conv_transpose2d(x, w, [3, 3]),
        [F("n", 4, 6, 6), F(4, 5, 3, 3)],
        dtypes=(),
        graph=["ConvTranspose"],
    ),
    Case(
        "volume-convolution",
        lambda x, w, b: aten.slow_conv3d_forward(x, w, [3, 3, 3], b, [1, 1, 1], [1, 1, 1]),
        [F("n", 2, 5, 5, 5), F(5, 2, 3, 3, 3), F(5)],
        dtypes=(),
        graph=["Conv"],
    ),
    Case("truth", lambda x: (aten._is_all_true(x > 0), aten._is_any_true(x > 0)), [F("n")]),
    Case(
        "batch-norm-training",
        lambda x, w, b, m, v: (*aten._native_batch_norm_legit(x, w, b, m, v, True, 0.1, 1e-5), m * 1, v * 1),
        [F(3, 4, 5), F(4), F(4), F(4), F(4, low=0.5)],
        dtypes=DOUBLE,
    ),
    Case(
        "batch-norm-with-update",
        lambda x, w, b, m, v: (aten._batch_norm_with_update(x, w, b, m, v, 0.1, 1e-5)[0], m * 1, v * 1),
        [F(3, 4, 5), F(4), F(4), F(4), F(4, low=0.5)],
        dtypes=DOUBLE,
    ),
]


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_each_of_a_list(name: str) -> None:
    """The single operators have rows of their own at every opset."""
    call = each(getattr(aten, f"_foreach_{name}"))
    Variant(Case(name, call, PAIR), 20, dynamic=True, dtype=torch.float32).run()


test_lists = table(LISTS)
test_copies = table(COPIES)
test_primitives = table(PRIMITIVES)
test_internal = table(INTERNAL)
