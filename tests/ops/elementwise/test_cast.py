"""Changes of dtype, and numbers read from sizes and tensors."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, NUMBERS, Case, F, I, table

X3 = [F("n", 3)]
EVERY = (*ALL, torch.bfloat16)

CASES = [
    Case("float", lambda x: x.float(), [I("n", 3)], dtypes=(), graph=["Cast"]),
    Case("long", lambda x: x.long(), X3, dtypes=EVERY, graph=["Cast"]),
    Case("int", lambda x: x.int(), X3, dtypes=EVERY),
    Case("half", lambda x: x.half(), X3, dtypes=EVERY),
    Case("double", lambda x: x.double(), X3, dtypes=EVERY),
    Case("bfloat16", lambda x: x.bfloat16(), X3, since=13, dtypes=EVERY),
    Case("bool", lambda x: x.bool(), X3, dtypes=EVERY),
    Case("byte", lambda x: x.byte(), [F("n", 3, low=0, high=200)], dtypes=EVERY),
    Case("to_dtype", lambda x: x.to(torch.int16), X3, dtypes=EVERY),
    Case("to_device", lambda x: x.to("cpu", torch.float64), X3, dtypes=NUMBERS),
    Case("to_other", lambda x, y: x.to(y), [F("n", 3), I("n", 3)], dtypes=NUMBERS),
    Case("to_nothing", lambda x: x.to("cpu").contiguous().clone().detach() * 2, X3, dtypes=NUMBERS, graph=["Mul"]),
    Case("type", lambda x: x.type(torch.int64), X3, dtypes=NUMBERS),
    Case("type_as", lambda x, y: x.type_as(y), [F("n", 3), I("n", 3)], dtypes=NUMBERS),
    Case("copy_in_place", lambda x, y: torch.zeros_like(x).copy_(y) + 1, [F("n", 3), I(3)], dtypes=NUMBERS),
    Case("copy", torch.ops.aten.copy, [F("n", 3), I(3)], dtypes=NUMBERS),
    Case("as_tensor", lambda x: torch.as_tensor(x, dtype=torch.int32), X3, dtypes=NUMBERS),
    Case("size", lambda x: x * x.size(0) + x.shape[-1], X3, dtypes=NUMBERS),
    Case("size_as_tensor", lambda x: torch.tensor(x.shape[1]) + x, X3),
    Case("numel", lambda x: x + x.numel(), X3, dtypes=NUMBERS),
    Case("dim", lambda x: x + x.dim(), X3, dtypes=NUMBERS),
    Case("shape_as_tensor", torch._shape_as_tensor, [F("n", "c")], dtypes=(), graph=["Identity"]),
    Case("size_to_index", lambda x: x[x.shape[0] - 1], X3),
]

test_conversion = table(CASES)
