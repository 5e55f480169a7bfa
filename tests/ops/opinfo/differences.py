"""Where the file gives something else than torch for values that few models meet, as docs/operators.md says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

NAN = float("nan")

NAN_ORDER = [
    "`max`, `min`, `amax`, `amin`, `argmax`, `argmin`, `sort`, `topk`, `kthvalue`, `median`, `quantile`, `cummax`,",
    "`cummin`, norms of infinite order, and scatters by `amax` and `amin` are the plain operators of ONNX, which leave",
    "open what they make of NaN. With `exact_nan=True` they take some nodes more where a NaN may be, and order it as",
    "torch does: it is the result of a maximum or minimum that it is part of, and above infinity in `sort`, `topk` and",
    "`kthvalue`. Integers, and floats that were just made of integers, take the plain operator there, too. As the",
    "runtime has it, NaN is in any case in max pools, in `unique`, in `sort`, `topk` and `kthvalue` before opset 9,",
    "and in extremes of float64 at opset 7.",
]


@dataclass(frozen=True)
class Difference:
    """Operators, what is different, and a call with inputs on which it shows."""

    operators: str
    text: str
    call: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


# Halves that are multiplied one after another round each time.
FACTORS = torch.linspace(0.9, 1.12, 300).to(torch.float16)

DIFFERENCES = [
    Difference(
        "`sum`, `nansum` of int64",
        "ONNX Runtime adds in double precision: a sum beyond 2^53 is rounded, and one beyond 2^63 is the largest "
        "integer, where torch wraps. `cumsum` is exact.",
        lambda x: x.sum(),
        (torch.tensor([2**53, 1]),),
    ),
    Difference(
        "`prod` of int64",
        "The same for products beyond 2^53.",
        lambda x: x.prod(),
        (torch.tensor([2**53 - 1, 3]),),
    ),
    Difference(
        "`pow` of integers by a tensor",
        "ONNX Runtime's Pow goes through double precision: a power beyond 2^53 is rounded, and one beyond the type is "
        "its lowest integer, where torch wraps. A power by a number, `x ** 5`, is exact.",
        lambda x: 3**x,
        (torch.tensor([34, 41]),),
    ),
    Difference(
        "`amax`, `amin`, `max`, `min`, `clamp` of int64 before opset 11 (pairs and `clamp`: before 9)",
        "ONNX Runtime compares 64-bit integers by halves: of two that share the upper 32 bits the wrong one may come "
        "out. From there on the file says it by operators that are exact.",
        lambda x: x.amax(0),
        (torch.tensor([2**31 + 1, 5, 0, 1, 2, 3, 4, 5]),),
    ),
    Difference(
        "`prod` of float16 and bfloat16",
        "torch rounds after each factor, the file once in the end: it is the closer one.",
        lambda x: x.prod(),
        (FACTORS,),
    ),
    Difference(
        "`mode` with NaN",
        "torch's result depends on where among the others the NaN stands; in the file NaN is passed over.",
        lambda x: x.mode().values,
        (torch.tensor([NAN, NAN, 1.0, 2.0]),),
    ),
    Difference(
        "`cdist` where squares overflow (float64 from 1e154 on)",
        "With more than 25 rows torch takes differences of products, which are NaN there; the file has infinity.",
        torch.cdist,
        (torch.full((30, 3), 1e300, dtype=torch.float64), torch.full((30, 3), 2e300, dtype=torch.float64)),
    ),
    Difference(
        "`atan2` of two infinities, and of zeros with a sign",
        "The file has NaN for two infinities, and takes a negative zero for zero.",
        torch.atan2,
        (torch.tensor([float("inf")]), torch.tensor([float("inf")])),
    ),
    Difference(
        "`//` of infinity by a power of two",
        "The file has infinity, torch NaN.",
        lambda x: x // 2,
        (torch.tensor([float("inf")]),),
    ),
    Difference(
        "`hypot` where squares overflow (float32 from 1e19 on)",
        "The file has infinity, torch the result.",
        torch.hypot,
        (torch.tensor([3e30]), torch.tensor([4e30])),
    ),
]


def section() -> list[str]:
    """The lines of docs/operators.md."""
    return [
        "## Differs from torch",
        "",
        "On these values the file gives something else. Where the check meets one of them the export fails.",
        "",
        *(f"- {row.operators}: {row.text}" for row in DIFFERENCES),
        "",
    ]
