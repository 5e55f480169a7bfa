"""Slices, single positions, and writing to them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import ALL, Case, F, I, table


def write(place: Callable[[torch.Tensor], torch.Tensor], value: float | None) -> Callable[..., torch.Tensor]:
    """A function that writes a number, or its second argument, to a part of its first."""

    def call(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        part = place(y)
        part.copy_(torch.full_like(part, value) if value is not None else others[0])
        return y

    return call


CASES = [
    Case("slice", lambda x: x[1:3], [F(6, "n")], dtypes=(*ALL, torch.bfloat16), graph=["Slice"]),
    Case("slice_dim", lambda x: x[:, 1:4], [F("n", 6)], graph=["Slice"]),
    Case("slice_negative", lambda x: x[:, -3:-1], [F("n", "t")]),
    Case("slice_beyond", lambda x: x[:, 2:100], [F("n", "t")]),
    Case("slice_before", lambda x: x[:, -100:2], [F("n", "t")]),
    Case("slice_nothing", lambda x: x[4:2], [F(6, "n")]),
    Case("slice_all", lambda x: x[:][:, 0:] + 1, [F("n", 6)], graph=["Add"]),
    Case("slice_all_static", lambda x: x[:, :9] + 1, [F("n", 6)], graph=["Add"]),
    Case("slice_steps", lambda x: x[1::2, ::3], [F(6, 7)], graph=["Slice"]),
    Case("slice_steps_dynamic", lambda x: x[:, 1::2], [F("n", "t")], dynamic_since=10),
    Case("slice_axes", lambda x: x[1:, 2:5, :-1], [F("n", 6, "t")], graph=["Slice"]),
    Case("slice_twice", lambda x: x[:, 1:][:, 1:], [F(3, 6)], graph=["Slice", "Slice"]),
    Case("slice_shared", lambda x: (x[1:] + 1, x[1:, 2:]), [F(3, 6)]),
    Case("slice_to_size", lambda x, y: x[:, : y.shape[0]], [F("n", 10), F("c")], dynamic_since=10),
    Case("slice_half", lambda x: x[:, x.shape[1] // 2 :], [F("n", "s")], dynamic_since=10),
    Case("slice_tensor_bounds", lambda x, i: x[i:], [F(6, 2), I(low=1, high=3)], since=10),
    Case("select", lambda x: x[1], [F(3, "n")], dtypes=(*ALL, torch.bfloat16), graph=["Gather"]),
    Case("select_dim", lambda x: x.select(1, 2), [F("n", 3, 4)], graph=["Gather"]),
    Case("select_last", lambda x: x[:, -1], [F("n", "t", 4)]),
    Case("select_last_but_one", lambda x: x.select(-1, -2), [F("n", 4, "t")]),
    Case("select_by_size", lambda x, y: x[y.shape[0] - 1], [F(20, 2), F("c")]),
    Case("select_by_tensor", lambda x, i: x[i], [F(6, "n"), I()]),
    Case("narrow", lambda x: x.narrow(1, 1, 2), [F("n", 4)], graph=["Slice"]),
    Case("narrow_negative", lambda x: x.narrow(1, -2, 2), [F("n", "t")]),
    Case("narrow_by_size", lambda x, y: x.narrow(1, 0, y.shape[0]), [F("n", 10), F("c")], dynamic_since=9),
    Case("narrow_from_size", lambda x, y: x.narrow(1, y.shape[0], 2), [F("n", 10), F("c")], dynamic_since=9),
    Case("narrow_tensor", lambda x, i: x.narrow(1, i, 2), [F("n", 10), I()], since=9),
    Case("narrow_tensor_negative", lambda x, i: x.narrow(1, i, 1), [F("n", 10), I(low=-2, high=0)], since=9),
    Case("slice_write", write(lambda x: x[1:3], 5), [F(6, "n")], dtypes=(*ALL, torch.bfloat16)),
    Case("slice_write_rows", write(lambda x: x[1:3], None), [F(6, 2), F(2, 2)], graph=["ScatterND"]),
    Case("slice_write_dim", write(lambda x: x[:, 1:3], None), [F("n", 6), F("n", 2)]),
    Case("slice_write_begin", write(lambda x: x[:, :2], None), [F("n", 6), F("n", 2)], graph=["Slice", "Concat"]),
    Case("slice_write_end", write(lambda x: x[:, -2:], None), [F("n", "t"), F("n", 2)]),
    Case("slice_write_middle", write(lambda x: x[:, 1:-1], 0), [F("n", "t")]),
    Case("slice_write_all", write(lambda x: x[:, :6], None), [F("n", 6), F("n", 6)]),
    Case("slice_write_nothing", write(lambda x: x[:, 4:2], 0), [F("n", 6)]),
    Case("slice_write_broadcast", write(lambda x: x[:, 1:3], None), [F("n", 6), F(2)]),
    Case("slice_write_steps", write(lambda x: x[:, 1::2], None), [F(3, 6), F(3, 3)], since=9),
    Case("slice_write_steps_dynamic", write(lambda x: x[:, ::2], 7), [F("n", "t")], since=9, dynamic_since=10),
    Case("slice_write_steps_rows", write(lambda x: x[::2], None), [F(6, "n"), F(3, "n")], since=9),
    Case("slice_scatter", lambda x, y: x.slice_scatter(y, 1, 2, 5), [F("n", 6), F("n", 3)]),
    Case("select_write", write(lambda x: x[1], 5), [F(6, "n")], dtypes=(*ALL, torch.bfloat16)),
    Case("select_write_row", write(lambda x: x[1], None), [F(6, 2), F(2)], graph=["ScatterND"]),
    Case("select_write_dim", write(lambda x: x[:, 1], None), [F("n", 6, 2), F("n", 2)], graph=["Unsqueeze", "Where"]),
    Case("select_write_last", write(lambda x: x[:, -1], None), [F("n", "t", 2), F("n", 2)]),
    Case("select_write_second", write(lambda x: x[..., 1], None), [F("n", 2, "t"), F("n", 2)]),
    Case("select_write_last_but_one", write(lambda x: x[..., -2], None), [F("n", 2, "t"), F("n", 2)]),
    Case("select_scatter", lambda x, y: x.select_scatter(y, 1, 2), [F("n", 6), F("n")]),
    Case("select_scatter_size", lambda x, y, z: x.select_scatter(y, 1, z.shape[0]), [F(2, 8), F(2), F("c")],
         dynamic_since=9),
]  # fmt: skip

test_slicing = table(CASES)


def test_an_axis_at_which_an_index_is_out_of_range_stays_static() -> None:
    def pick(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[(y.shape[0] - 4) * (y.shape[0] - 4) * 100]

    given = torch.randn(4, 2), torch.ones(4)
    for _ in range(3):
        with pytest.warns(onnxport.DynamicAxisWarning, match=r"'n' is 4 in the file: .*out of bounds"):
            program = onnxport.export(pick, given, None, input_names=["x", "y"], dynamic_axes={"y": {0: "n"}})
        torch.testing.assert_close(program(*given), pick(*given))


EMPTY = {
    "backwards": lambda x: x[:, 5:2],
    "backwards_from_the_end": lambda x: x[:, -1:-4],
    "between_ends": lambda x: x[:, 1:-1],
    "from_the_end": lambda x: x[:, -3:2],
    "to_a_size": lambda x: x[:, 3 : x.shape[1] - 2],
    "from_a_size": lambda x: x[:, x.shape[1] // 2 : 3],
}


@pytest.mark.parametrize("name", EMPTY)
def test_writes_to_slices_that_are_empty_at_some_sizes(name: str) -> None:
    target = io.BytesIO()
    call = write(EMPTY[name], 0)
    onnxport.export(call, (torch.randn(2, 7),), target, input_names=["x"], dynamic_axes={"x": {1: "n"}}, verify=False)
    session = Session(target.getvalue())
    for size in (1, 2, 3, 4, 5, 6, 7, 9, 12):
        x = torch.randn(2, size)
        (actual,) = session.run({"x": x})
        assert torch.equal(actual, call(x.clone())), size
