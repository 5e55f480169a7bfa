"""Views of memory by sizes and strides, of whole tensors and of views that lie in memory in their own way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onnxport
from tests.ops.harness import ALL, Case, F, table


def overlapping(x: Tensor) -> Tensor:
    """Windows of 4 rows that begin every 2 rows, read through a view of non-overlapping ones."""
    rows = x.view(x.size(0), x.size(1) // 4, 4, x.size(2))
    size, stride = list(rows.size()), list(rows.stride())
    size[1], stride[1] = size[1] * 2 - 1, stride[1] // 2
    return rows.as_strided(size, stride)


def windows(x: Tensor) -> Tensor:
    """All windows of 3 along the last axis."""
    return x.as_strided((x.shape[0], x.shape[1] - 2, 3), (x.stride(0), 1, 1))


def written_through(x: Tensor, y: Tensor) -> Tensor:
    base = x.clone()
    base[:, 1:].as_strided((2, 2), (1, 4), 1).copy_(y)
    return base


CASES = [
    Case("as_strided", lambda x: x.as_strided((2, 3), (1, 2), 1), [F(3, 4)], graph=["Reshape", "Gather"]),
    Case("scatter", lambda x, y: x.as_strided_scatter(y, (2,), (5,), 1), [F(3, 5), F(2)], since=9, dtypes=ALL),
    Case("write_through_slice", written_through, [F(3, 4), F(2, 2)], since=9),
    Case("overlapping", overlapping, [F("n", 8, 3)], graph=["Gather"]),
    Case("overlapping_many", lambda x: overlapping(torch.cat([x, x, x, x], 1)), [F("n", "t", 3)], dynamic_since=9),
    Case("windows", windows, [F("n", "t")], graph=["Gather"], dynamic_since=9),
    Case("of_transposed", lambda x: x.t().as_strided((2, 3), (1, 2)), [F(3, 4)]),
    Case("of_slice", lambda x: x[:, 1:].as_strided((2, 3), (1, 2)), [F(3, 4)]),
    Case("of_slice_from_start", lambda x: x[1:].as_strided((2, 3), (1, 2), 0), [F(3, 4)]),
    Case("of_row", lambda x: x[1].as_strided((2, 3), (2, 1)), [F(3, "s")]),
    Case("of_computed_transposed", lambda x: (x.t() + 1).as_strided((2, 3), (1, 2)), [F(3, 4)]),
    Case("of_copy", lambda x: x.t().contiguous().as_strided((2, 3), (1, 2)), [F(3, 4)]),
    Case("of_moved", lambda x: x.t().to("cpu", x.dtype).cpu().as_strided((2, 3), (1, 2)), [F(3, 4)]),
    Case("of_nothing", lambda x: x.view(2, 6).as_strided((), (), 3), [F(3, 4)]),
    Case("steps_of_rows", lambda x: x.as_strided((2, x.shape[1]), (2 * x.stride(0), 1)), [F(4, "t")], dynamic_since=9),
]  # fmt: skip

test_strided = table(CASES)


def test_memory_of_many_tensors_is_refused() -> None:
    """What a gapped parameter's memory holds in between is not part of the model."""
    part = torch.randn(4, 6)[:, ::2]

    def reads_between(x: Tensor) -> Tensor:
        return x + part.as_strided((3,), (1,))

    with pytest.raises(onnxport.UnsupportedOperatorError, match=r"unknown offset or strides"):
        onnxport.export(reads_between, (torch.ones(3),), None)
