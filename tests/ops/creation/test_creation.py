"""New tensors."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, table

X3 = [F("n", 3)]
EVERY = (*ALL, torch.bfloat16)

FILLED = [
    Case("zeros", lambda x: torch.zeros(3) + x, X3, dtypes=()),
    Case("zeros_size", lambda x: torch.zeros(x.shape[0], 3, dtype=torch.int64), X3, dtypes=()),
    Case("ones_size", lambda x: torch.ones(x.shape[0], dtype=torch.bool), X3, dtypes=()),
    Case("full", lambda x: torch.full((x.shape[0], 2), 3.5), X3, dtypes=()),
    Case("full_double", lambda x: torch.full((x.shape[0], 2), 0.1, dtype=torch.float64), X3, dtypes=()),
    Case("full_half", lambda x: torch.full((x.shape[0], 2), 3.5, dtype=torch.float16), X3, dtypes=()),
    Case("zeros_computed", lambda x: torch.zeros(x.shape[0] * 2, x.shape[1] + 1), [F("n", "c")], dtypes=()),
    Case("empty", lambda x: torch.empty(x.shape[0], 2), X3, dtypes=(), content=False),
    Case("zeros_like", torch.zeros_like, X3, dtypes=EVERY),
    Case("ones_like", torch.ones_like, X3, dtypes=EVERY),
    Case("ones_like_dtype", lambda x: torch.ones_like(x, dtype=torch.int64), X3, dtypes=ALL),
    Case("full_like", lambda x: torch.full_like(x, 3), X3, dtypes=ALL),
    Case("empty_like", torch.empty_like, X3, dtypes=ALL, content=False),
    Case("new_zeros", lambda x: x.new_zeros(x.shape[0], 2), X3, dtypes=ALL),
    Case("new_ones", lambda x: x.new_ones(x.shape[0], 2), X3, dtypes=ALL),
    Case("new_full", lambda x: x.new_full((x.shape[0], 2), 1.0), X3, dtypes=NUMBERS),
    Case("new_empty", lambda x: x.new_empty(x.shape[0], 2), X3, content=False),
    Case("new_tensor", lambda x: x.new_tensor([1.0, 2, 3]) + x, X3, dtypes=NUMBERS),
    Case("fill_in_place", lambda x: x.fill_(3), X3, dtypes=ALL),
    Case("fill_by_tensor", lambda x, y: torch.zeros_like(x).fill_(y), [F("n", 3), F()], dtypes=ALL),
    Case("fill_by_size", lambda x: torch.zeros((), dtype=torch.int64).fill_(x.shape[0]), X3, dtypes=()),
    Case("zero_in_place", lambda x: x.zero_(), X3, dtypes=ALL),
    Case("scalar_tensor", lambda x: torch.scalar_tensor(3.0) + x, X3),
    Case("constant", lambda x: torch.tensor([1.0, 2, 3]) + x, X3, graph=["Add"]),
    Case("eye", lambda x: torch.eye(3) + x[:1], X3, dtypes=()),
    Case("eye_size", lambda x: torch.eye(x.shape[0]), X3, dtypes=(), dynamic_since=9),
    Case("eye_wide", lambda x: torch.eye(x.shape[0], 4, dtype=torch.int16), X3, dtypes=(), dynamic_since=9),
]

RANGES = [
    Case("falling_index", lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], [F("t", 3)], dynamic_since=9),
    Case("falling_by_two", lambda x: x[torch.arange(x.shape[0] - 1, 0, -2)], [F("t", 3)], dynamic_since=9),
    Case("arange", lambda x: torch.arange(3) + x, X3, dtypes=NUMBERS, graph=["Add"]),
    Case("arange_size", lambda x: torch.arange(x.shape[0]), X3, dtypes=(), dynamic_since=9),
    Case("arange_float", lambda x: torch.arange(x.shape[0], dtype=torch.float32), X3, dtypes=(), dynamic_since=9),
    Case("arange_half", lambda x: torch.arange(x.shape[0], dtype=x.dtype), X3, dynamic_since=9),
    Case("arange_start", lambda x: torch.arange(1, x.shape[0] + 1, 2), X3, dtypes=(), dynamic_since=9),
    Case("arange_down", lambda x: torch.arange(x.shape[0] - 1, -1, -1), X3, dtypes=(), dynamic_since=9),
    Case("arange_steps", lambda x: torch.arange(0, x.shape[0], 0.5), X3, dtypes=(), dynamic_since=9),
    Case("arange_of_tensors", torch.arange, [F(low=-3, high=0), F(low=4, high=9), F(low=1, high=2)], since=9),
    Case("arange_into", lambda x: torch.arange(1, 7, out=torch.zeros(2, 3)) + x, [F(2, 1)], graph=["Add"]),
    Case("linspace_into", lambda x: torch.linspace(0, 1, 6, out=torch.zeros(2, 3)) + x, [F(2, 1)]),
    Case("logspace_into", lambda x: torch.logspace(0, 1, 6, out=torch.zeros(2, 3)) + x, [F(2, 1)]),
    Case("dim_arange", lambda x: torch._dim_arange(x, 1), [F("n", "c")], dynamic_since=9),
    Case("range", lambda x: torch.range(0, 2) + x, X3, dtypes=()),
    Case("linspace", lambda x: torch.linspace(0, 1, 3) + x, X3, dtypes=(), graph=["Add"]),
    Case("linspace_size", lambda x: torch.linspace(-1, 1, x.shape[0]), X3, dtypes=(), dynamic_since=9),
    Case("linspace_bounds", lambda x, y: torch.linspace(x, y, 5), [F(), F()]),
    Case("logspace", lambda x: torch.logspace(0, 1, 3) + x, X3, dtypes=()),
    Case("logspace_size", lambda x: torch.logspace(-1, 1, x.shape[0]), X3, dtypes=(), dynamic_since=9),
]
# torch cuts all bounds of 64-bit integers first. The length of smaller ones comes from the bounds as they are.
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
START, END, STEP = F(low=0, high=3), F(low=6, high=12), F(low=1, high=2.9)
TALL = [F("h", 2)]
CUT_RANGES = [
    case
    for dtype in WHOLE
    for case in [
        Case(f"end_{dtype}", lambda e, t=dtype: torch.arange(0, e, dtype=t), [END], since=9, dtypes=NUMBERS),
        Case(f"step_{dtype}", lambda e, t=dtype: torch.arange(2, e, 1.5, dtype=t), [END], since=9),
        Case(f"start_{dtype}", lambda s, t=dtype: torch.arange(s, 9, dtype=t), [START], since=9),
        Case(f"falling_{dtype}", lambda e, t=dtype: torch.arange(e, 0.5, -1.2, dtype=t), [END], since=9),
        Case(f"all_{dtype}", lambda *b, t=dtype: torch.arange(*b, dtype=t), [START, END, STEP], since=9),
        Case(f"size_{dtype}", lambda x, t=dtype: torch.arange(x.size(0) * 0.5, dtype=t), TALL, dynamic_since=9),
        Case(
            f"range_{dtype}", lambda x, t=dtype: torch.range(0.5, x.size(0) * 1.1, 1.5, dtype=t), TALL, dynamic_since=9
        ),
        Case(f"known_{dtype}", lambda x, t=dtype: torch.arange(0.5, 7, 1.5, dtype=t) + x, [F(1)], dtypes=()),
        Case(f"known_range_{dtype}", lambda x, t=dtype: torch.range(0.5, 7, 1.5, dtype=t) + x, [F(1)], dtypes=()),
    ]
]
CUT_RANGES += [
    Case("half_step", lambda e: torch.arange(0, e, 0.5, dtype=torch.int32), [END], since=9),
    Case("range_to_half", lambda x: torch.range(0, x.size(0) * 0.5), TALL, dynamic_since=9, dtypes=()),
    Case("range_by_third", lambda x: torch.range(1, x.size(0), 0.3), TALL, dynamic_since=9, dtypes=()),
    Case("range_whole", lambda x: torch.range(1, x.size(0), 3), TALL, dynamic_since=9, dtypes=()),
    Case("range_falling", lambda x: torch.range(x.size(0), 1, -3), TALL, dynamic_since=9, dtypes=()),
]

test_filled = table(FILLED)
test_cut_ranges = table(CUT_RANGES)
test_ranges = table(RANGES)
