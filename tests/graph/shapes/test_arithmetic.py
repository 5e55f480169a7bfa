"""Numbers and sizes as they come: slices, reshapes, convolutions and pools against torch itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnxport.graph.ir import Node
from onnxport.graph.sizes import Size, axis
from tests.graph.shapes.calls import call, mistakes, outcome, tensor

POINTS = 6
EXAMPLES = settings(max_examples=60, deadline=None, database=None)

sizes = st.lists(st.integers(0, 12), min_size=POINTS, max_size=POINTS)
positive = st.lists(st.integers(1, 12), min_size=POINTS, max_size=POINTS)
some = st.integers(1, 4)


def size(label: str, at: Sequence[int]) -> Size:
    """An expression, as there is one only for what varies."""
    return at[0] if len(set(at)) == 1 else axis(label, at)


def check(node: Node) -> None:
    """Only what torch takes at the first point is ever recorded."""
    assume(not isinstance(outcome(node, 0, "cpu"), str))
    assert not mistakes(node, POINTS)


@st.composite
def bounds(draw: Any, n: Size, m: Size) -> Any:
    kind = draw(st.sampled_from(["none", "number", "n", "m", "half", "maximum"]))
    shift = draw(st.integers(-6, 6))
    given = {
        "none": None,
        "number": shift,
        "n": n + shift,
        "m": m + shift,
        "half": n // 2 + shift,
        "maximum": 2**63 - 1,
    }
    return given[kind]


@EXAMPLES
@given(st.data(), sizes, sizes, st.integers(1, 4))
def test_slices(data: st.DataObject, n_at: list[int], m_at: list[int], step: int) -> None:
    n, m = size("n", n_at), size("m", m_at)
    start, end = data.draw(bounds(n, m)), data.draw(bounds(n, m))
    check(call("slice.Tensor", tensor(n, 2), 0, start, end, step))


@EXAMPLES
@given(st.data(), sizes, sizes)
def test_reshapes_with_a_rest(data: st.DataObject, n_at: list[int], m_at: list[int]) -> None:
    n, m = size("n", n_at), size("m", m_at)
    factors = [n, m, 2, 3, 4]
    shape = data.draw(st.lists(st.sampled_from(factors), min_size=1, max_size=4))
    wanted = data.draw(st.lists(st.sampled_from([*shape, n * 2, m // 2 + 1]), max_size=3))
    wanted.insert(data.draw(st.integers(0, len(wanted))), -1)
    check(call("reshape", tensor(*shape), wanted))


@EXAMPLES
@given(sizes, sizes, st.permutations(["n", "m", "2", "6"]))
def test_reshapes_to_sizes(n_at: list[int], m_at: list[int], order: list[str]) -> None:
    n, m = size("n", n_at), size("m", m_at)
    known: dict[str, Size] = {"n": n, "m": m, "2": 2, "6": 6}
    check(call("view", tensor(n, m, 12), [known[name] for name in order]))


@EXAMPLES
@given(positive, some, some, st.integers(0, 4), some, st.booleans())
def test_convolutions(n_at: list[int], kernel: int, stride: int, padding: int, dilation: int, unbatched: bool) -> None:
    given = tensor(3, size("n", n_at)) if unbatched else tensor(2, 3, size("n", n_at))
    check(call("conv1d", given, tensor(4, 3, kernel), None, [stride], [padding], [dilation]))


@EXAMPLES
@given(positive, some, some, st.integers(0, 3), st.integers(0, 3), some)
def test_transposed_convolutions(
    n_at: list[int], kernel: int, stride: int, padding: int, more: int, dilation: int
) -> None:
    """Whether torch takes one that gives no elements depends on the kernel that it chooses."""
    assume(more < max(stride, dilation))
    shrunk = 2 * padding - dilation * (kernel - 1) - 1 - more
    assume(all((size - 1) * stride != shrunk for size in n_at))
    given = tensor(2, 3, size("n", n_at))
    check(call("conv_transpose1d", given, tensor(3, 4, kernel), None, [stride], [padding], [more], 1, [dilation]))


@EXAMPLES
@given(sizes, some, some, st.data(), some, st.booleans(), st.booleans())
def test_pools(
    n_at: list[int], kernel: int, stride: int, data: st.DataObject, dilation: int, ceil: bool, greatest: bool
) -> None:
    padding = data.draw(st.integers(0, kernel // 2))
    given = tensor(2, 3, size("n", n_at), 6)
    window = [kernel, 1], [stride, 1], [padding, 0]
    if greatest:
        check(call("max_pool2d", given, *window, [dilation, 1], ceil))
    else:
        check(call("avg_pool2d", given, *window, ceil))


@EXAMPLES
@given(positive, st.floats(0.2, 4))
def test_scale_factors(n_at: list[int], factor: float) -> None:
    check(call("upsample_nearest2d.vec", tensor(2, 3, size("n", n_at), 5), None, [factor, 1.0]))


@EXAMPLES
@given(sizes, st.integers(1, 5), st.sampled_from(["split.Tensor", "chunk", "tensor_split.sections", "unfold"]))
def test_pieces(n_at: list[int], count: int, name: str) -> None:
    given = tensor(2, size("n", n_at))
    check(call(name, given, 1, count, 2) if name == "unfold" else call(name, given, count, 1))


@EXAMPLES
@given(sizes, sizes, st.integers(-5, 5), st.integers(-5, 5), st.integers(-3, 3))
def test_ranges(n_at: list[int], m_at: list[int], first: int, last: int, step: int) -> None:
    assume(step != 0)
    n, m = size("n", n_at), size("m", m_at)
    check(call("arange.start_step", n + first, m + last, step))


@EXAMPLES
@given(
    sizes, st.sampled_from([0.1, 0.25, 1 / 3, 0.7, 1.0, 1.5]), st.floats(-2, 2), st.sampled_from([None, torch.int64])
)
def test_ranges_of_floats(n_at: list[int], step: float, first: float, dtype: torch.dtype | None) -> None:
    check(call("arange.start_step", first, size("n", n_at) / 2, step, dtype=dtype))
