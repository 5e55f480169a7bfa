"""Padding."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as nnf

from tests.ops.harness import ALL, FLOATS, NUMBERS, Case, F, table

MORE = (*FLOATS, torch.bfloat16)
EVERY = (*ALL, torch.bfloat16)

CASES = [
    Case("constant", lambda x: nnf.pad(x, (1, 2, 0, 3)), [F("n", "c", "h", 5)], dtypes=EVERY, graph=["Pad"]),
    Case("constant_value", lambda x: nnf.pad(x, (1, 2), value=1.5), [F("n", "h")], dtypes=NUMBERS),
    Case("constant_infinite", lambda x: nnf.pad(x, (1, 2), value=float("-inf")), [F("n", "h")]),
    Case("constant_true", lambda x: nnf.pad(x > 0, (1, 0), value=True), [F("n", "h")]),
    Case("constant_negative", lambda x: nnf.pad(x, (-1, 2, 1, -2)), [F("n", "h", "w")], graph=["Pad"]),
    Case("constant_none", lambda x: nnf.pad(x, (0, 0)) + 0, [F("n", "h")]),
    Case("constant_nd", lambda x: torch.constant_pad_nd(x, (1, 1), 2), [F("n", "h")], dtypes=NUMBERS),
    Case("constant_size", lambda x: nnf.pad(x, (0, x.size(0))), [F("n", "h")], dynamic_since=11),
    Case("constant_to_multiple", lambda x: nnf.pad(x, (0, -x.size(1) % 4)), [F("n", "h")], dynamic_since=11),
    Case("ConstantPad3d", nn.ConstantPad3d((1, 2, 0, 1, 2, 0), 3.0), [F("n", 2, "d", 3, 4)]),
    Case("ZeroPad2d", nn.ZeroPad2d(1), [F("n", 2, "h", "w")]),
    Case("reflect1", lambda x: nnf.pad(x, (2, 1), mode="reflect"), [F("n", 2, "h")], dtypes=MORE, graph=["Pad"]),
    Case("reflect2", lambda x: nnf.pad(x, (2, 1, 0, 2), mode="reflect"), [F("n", 2, "h", "w")]),
    Case("reflect3", lambda x: nnf.pad(x, (2, 1, 0, 2, 1, 1), mode="reflect"), [F("n", 2, "d", "h", "w")]),
    Case("reflect_negative", lambda x: nnf.pad(x, (-2, 3, 1, -1), mode="reflect"), [F("n", 2, "h", "w")]),
    Case("reflect_unbatched", nn.ReflectionPad1d(2), [F(3, "w")]),
    Case("reflection_pad2d", lambda x: torch.ops.aten.reflection_pad2d(x, [1, 2, 3, 0]), [F("n", 2, "h", "w")]),
    Case("replicate1", lambda x: nnf.pad(x, (9, 1), mode="replicate"), [F("n", 2, "h")], dtypes=MORE, graph=["Pad"]),
    Case("replicate2", lambda x: nnf.pad(x, (2, 1, 0, 2), mode="replicate"), [F("n", 2, "h", "w")]),
    Case("replicate3", nn.ReplicationPad3d((2, 1, 0, 2, 1, 1)), [F("n", 2, "d", "h", "w")]),
    Case("replicate_negative", lambda x: nnf.pad(x, (-2, 3, 1, -1), mode="replicate"), [F("n", 2, "h", "w")]),
    Case("replication_pad1d", lambda x: torch.ops.aten.replication_pad1d(x, [1, 2]), [F("n", 2, "h")]),
    Case("circular1", lambda x: nnf.pad(x, (2, 1), mode="circular"), [F("n", 2, "h")], dtypes=NUMBERS, graph=["Pad"]),
    Case("circular2", lambda x: nnf.pad(x, (2, 1, 0, 2), mode="circular"), [F("n", 2, "h", "w")], dtypes=MORE),
    Case("circular3", nn.CircularPad3d((2, 1, 0, 2, 1, 1)), [F("n", 2, "d", "h", "w")]),
    Case("circular_nothing", lambda x: nnf.pad(x, (1, 2), mode="circular"), [F(0, 3, 3)]),
    Case("circular_negative", lambda x: nnf.pad(x, (-2, 3, 1, -1), mode="circular"), [F("n", 2, "h", "w")]),
]  # fmt: skip

test_padding = table(CASES)
