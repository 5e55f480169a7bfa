from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import MergeChains, RemoveDeadCode
from tests.optimize.harness import check, parse

I64 = "Constant <value = int64[{n}] {{{v}}}> ()"


def ints(*values: int) -> str:
    return I64.format(n=len(values), v=", ".join(map(str, values)))


# The body of a model that reads h[2, 3, 4] and yields y, and the operators that are left of it.
CASES = {
    "cast there and back": ("a = Cast <to = 11> (h) y = Cast <to = 1> (a)", []),
    "cast on from a wider type": ("a = Cast <to = 11> (h) y = Cast <to = 10> (a)", ["Cast"]),
    "cast through a narrower type": ("a = Cast <to = 10> (h) y = Cast <to = 1> (a)", ["Cast", "Cast"]),
    "cast through an integer": ("a = Cast <to = 7> (h) y = Cast <to = 1> (a)", ["Cast", "Cast"]),
    "transposes that cancel": ("a = Transpose <perm = [1, 2, 0]> (h) y = Transpose <perm = [2, 0, 1]> (a)", []),
    "transposes": ("a = Transpose <perm = [1, 2, 0]> (h) y = Transpose <perm = [1, 2, 0]> (a)", ["Transpose"]),
    "an axis that is added, moved and taken away": (
        f"k = {ints(0)} m = {ints(3)} a = Unsqueeze(h, k) b = Transpose <perm = [3, 1, 2, 0]> (a) y = Squeeze(b, m)",
        ["Transpose"],
    ),
    "an axis added, and another taken away": (
        f"k = {ints(0, 1)} m = {ints(0)} a = Unsqueeze(h, k) b = Transpose<perm = [1,0,4,3,2]>(a) y = Squeeze(b, m)",
        ["Unsqueeze", "Transpose", "Squeeze"],
    ),
    "transposes by default": ("a = Transpose(h) y = Transpose(a)", []),
    "transpose read twice": (
        "a = Transpose <perm = [1, 2, 0]> (h) b = Transpose <perm = [1, 2, 0]> (a) c = Neg(a) y = Sin(b)",
        ["Transpose", "Transpose", "Neg", "Sin"],
    ),
    "reshapes": (f"s = {ints(6, 4)} a = Reshape(h, s) t = {ints(-1, 2)} y = Reshape(a, t)", ["Reshape"]),
    "reshape of flatten": (f"a = Flatten(h) t = {ints(0, 6, 2)} y = Reshape(a, t)", ["Reshape"]),
    "reshape that copies a new dimension": (
        f"s = {ints(6, 4)} a = Reshape(h, s) t = {ints(0, 2, 2)} y = Reshape(a, t)",
        ["Reshape"],
    ),
    "an axis of size 1 moved before a reshape": (
        f"s = {ints(6, 1, 4)} a = Reshape(h, s) b = Transpose<perm=[1, 0, 2]>(a) t = {ints(-1, 2)} y = Reshape(b, t)",
        ["Reshape"],
    ),
    "an axis of size 1 moved after a reshape": (
        f"s = {ints(6, 1, 4)} a = Reshape(h, s) y = Transpose <perm = [1, 0, 2]> (a)",
        ["Reshape"],
    ),
    "an axis of size 1 moved after a reshape that is read twice": (
        f"s = {ints(6, 1, 4)} a = Reshape(h, s) b = Transpose <perm = [1, 0, 2]> (a) y = Mul(a, b)",
        ["Reshape", "Transpose", "Mul"],
    ),
    "other axes moved before a reshape": (
        f"s = {ints(6, 1, 4)} a = Reshape(h, s) b = Transpose<perm=[2, 1, 0]>(a) t = {ints(-1, 2)} y = Reshape(b, t)",
        ["Reshape", "Transpose", "Reshape"],
    ),
    "a reshape that copies where an axis of size 1 was moved": (
        f"s = {ints(6, 1, 4)} a = Reshape(h, s) b = Transpose<perm=[1, 0, 2]>(a) t = {ints(0, 8, 3)} y = Reshape(b, t)",
        ["Reshape"],
    ),
    "an empty part of a concat": (
        f"k = {ints(0)} e = Slice(h, k, k, k) a = Neg(h) y = Concat <axis = 0> (a, e, h)",
        ["Neg", "Concat"],
    ),
    "axes put back after a reduction": (
        f"r = {ints(1, -1)} a = ReduceSum <keepdims = 0> (h, r) t = {ints(2, -2)} y = Unsqueeze(a, t)",
        ["ReduceSum"],
    ),
    "axes taken away after a reduction": (
        f"r = {ints(0, -2)} a = ReduceMax (h, r) t = {ints(-2, 0)} y = Squeeze(a, t)",
        ["ReduceMax"],
    ),
    "one of two axes taken away after a reduction": (
        f"r = {ints(0, -2)} a = ReduceMax (h, r) t = {ints(0)} y = Squeeze(a, t)",
        ["ReduceMax", "Squeeze"],
    ),
    "other axes put in after a reduction": (
        f"r = {ints(1)} a = ReduceMean <keepdims = 0> (h, r) t = {ints(0)} y = Unsqueeze(a, t)",
        ["ReduceMean", "Unsqueeze"],
    ),
    "a reduction read twice": (
        f"r = {ints(1)} a = ReduceMean <keepdims = 0> (h, r) b = Unsqueeze(a, r) c = Sub(h, b) d = Neg(a) y = Abs(c)",
        ["ReduceMean", "Unsqueeze", "Sub", "Neg", "Abs"],
    ),
    "squeeze undoes unsqueeze": (f"s = {ints(1, 3)} a = Unsqueeze(h, s) t = {ints(3, -4)} y = Squeeze(a, t)", []),
    "squeeze of others": (
        f"s = {ints(0, 1)} a = Unsqueeze(h, s) t = {ints(0)} y = Squeeze(a, t)",
        ["Unsqueeze", "Squeeze"],
    ),
    "unsqueeze undoes squeeze": (
        f"r = {ints(1)} k = ReduceSum(h, r) a = Squeeze(k, r) t = {ints(-2)} y = Unsqueeze(a, t)",
        ["ReduceSum"],
    ),
    "unsqueezes": (f"s = {ints(1)} a = Unsqueeze(h, s) t = {ints(0, -1)} y = Unsqueeze(a, t)", ["Unsqueeze"]),
    "unsqueezes interleaved": (
        f"s = {ints(3, 1)} a = Unsqueeze(h, s) t = {ints(2, 1)} y = Unsqueeze(a, t)",
        ["Unsqueeze"],
    ),
    "unsqueeze read twice": (
        f"s = {ints(1)} a = Unsqueeze(h, s) t = {ints(0)} b = Unsqueeze(a, t) y = Mul(a, b)",
        ["Unsqueeze", "Unsqueeze", "Mul"],
    ),
    "relu twice": ("a = Relu(h) y = Relu(a)", ["Relu"]),
    "neg twice": ("a = Neg(h) y = Neg(a)", []),
    "neg thrice": ("a = Neg(h) b = Neg(a) y = Neg(b)", ["Neg"]),
    "clip twice": ("l = Constant <value_float = 0.5> () a = Clip(h, l) y = Clip(a, l)", ["Clip"]),
    "clips": ("l = Constant <value_float = 0.5> () a = Clip(h, l) y = Clip(a, '', l)", ["Clip", "Clip"]),
}


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES.keys())
def test_chain(body: str, expected: list[str]) -> None:
    model = parse(f"g (float[2, 3, 4] x) => (y) {{ h = Sin(x) {body} }}".replace("''", ""))
    left = check(model, MergeChains())
    assert [op for op in left if op != "Constant"] == ["Sin", *expected]


@pytest.mark.parametrize(
    ("source", "through", "lossless"),
    [
        ("bool", 1, True),
        ("bool", 2, True),
        ("int32", 7, True),
        ("int32", 1, False),
        ("int32", 11, True),
        ("int64", 11, False),
        ("int64", 9, False),
        ("uint8", 10, True),
        ("uint8", 3, False),
        ("int8", 2, False),
        ("float16", 1, True),
        ("float16", 16, False),
        ("float", 10, False),
    ],
)
def test_lossless_casts(source: str, through: int, lossless: bool) -> None:
    back = {"bool": 9, "int32": 6, "int64": 7, "uint8": 2, "int8": 3, "float16": 10, "float": 1}[source]
    model = parse(
        f"g ({source}[n] x) => ({source}[n] y) {{ a = Cast <to = {through}> (x) y = Cast <to = {back}> (a) }}"
    )
    assert check(model, MergeChains()) == (["Identity"] if lossless else ["Cast", "Cast"])


@pytest.mark.parametrize("opset", [7, 12])
def test_axes_as_attribute(opset: int) -> None:
    body = "a = Unsqueeze <axes = [1]> (x) b = Unsqueeze <axes = [0]> (a) y = Abs(b)"
    model = parse(f"g (float[2, 3] x) => (y) {{ {body} }}", opset=opset)
    assert check(model, MergeChains()) == ["Unsqueeze", "Abs"]
    body = "a = Unsqueeze <axes = [1]> (x) b = Squeeze <axes = [1]> (a) y = Abs(b)"
    model = parse(f"g (float[2, 3] x) => (y) {{ {body} }}", opset=opset)
    assert check(model, MergeChains()) == ["Abs"]


def test_reshape_without_known_shape_stays() -> None:
    text = "g (float[2, 6] x, int64[2] s) => (float[a, b] y) { r = Abs(x) h = Reshape(r, s) y = Reshape(h, s) }"
    inputs = {"x": np.ones((2, 6), np.float32), "s": np.array([3, 4])}
    assert check(parse(text), MergeChains(), inputs=inputs) == ["Abs", "Reshape", "Reshape"]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = Concat<axis = 1>(x, z)  y = Concat<axis = -1>(t, x)", ["Concat"]),
        ("t = Concat<axis = 1>(x, z)  u = Concat<axis = 1>(t, x)  y = Concat<axis = 1>(t, u)", ["Concat"]),
        ("t = Concat<axis = 0>(x, z)  y = Concat<axis = 1>(t, t)", ["Concat", "Concat"]),
        ("t = Concat<axis = 1>(x, z)  u = Relu(t)  y = Concat<axis = 1>(t, u)", ["Concat", "Relu", "Concat"]),
    ],
    ids=["one", "twice", "other-axis", "other-reader"],
)
def test_concatenations_in_a_row(body: str, left: list[str]) -> None:
    assert check(parse(f"g (float[2, 3] x, float[2, 3] z) => (y) {{ {body} }}"), MergeChains()) == left


@pytest.mark.parametrize(("rows", "left"), [("3", ["Reshape"]), ("m", ["Reshape", "Reshape"])])
def test_reshape_that_copies_sizes_of_another_shape(rows: str, left: list[str]) -> None:
    body = f"v = Reshape(x, s) w = {ints(0, 0, 2, 2)} y = Reshape(v, w)"
    head = "g (float[n, 12] x, int64[3] s)"
    text = f"{head} => (float[n, {rows}, 2, 2] y) <float[n, {rows}, 4] v> {{ {body} }}"
    inputs = {"x": np.arange(60, dtype=np.float32).reshape(5, 12), "s": np.array([5, 3, 4])}
    found = check(parse(text, infer=False), MergeChains(), RemoveDeadCode(), inputs=inputs)
    assert [op for op in found if op == "Reshape"] == left


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        (((0,), (3,), (1,)), ["Relu"]),
        (((3,), (2**63 - 1,), (-1,)), ["Relu"]),
        (((-5,), (8,), (1,)), ["Relu"]),
        (((-9,), (-5,), (1,)), ["Relu"]),
        (((0,), (4,), (1,)), ["Concat", "Slice", "Relu"]),
        (((0,), (8,), (1,)), ["Concat", "Slice", "Relu"]),
        (((0,), (3,), (0,)), ["Concat", "Slice", "Relu"]),
        (((0, 0), (3, 1), (1, 0)), ["Concat", "Slice", "Relu"]),
        (((0,), (3,), (1,), (2,)), ["Concat", "Slice", "Relu"]),
    ],
)
def test_whole_parts_of_a_concatenation(bounds: tuple[tuple[int, ...], ...], left: list[str]) -> None:
    operands = "".join(f"k{index} = {ints(*values)} " for index, values in enumerate(bounds))
    read = ", ".join(f"k{index}" for index in range(len(bounds)))
    body = f"{operands} t = Concat<axis = -1>(x, z) s = Slice(t, {read}) y = Relu(s)"
    model = parse(f"g (float[a, 3] x, float[a, 5] z) => (y) {{ {body} }}")
    assert [op for op in check(model, MergeChains(), RemoveDeadCode()) if op != "Constant"] == left


def test_whole_parts_of_a_concatenation_by_attributes() -> None:
    body = "t = Concat<axis = 1>(x, z) s = Slice<starts = [3], ends = [8], axes = [1]>(t) y = Relu(s)"
    model = parse(f"g (float[2, 3] x, float[2, 5] z) => (y) {{ {body} }}", opset=9)
    assert check(model, MergeChains(), RemoveDeadCode()) == ["Relu"]


def test_parts_of_unknown_size_are_sliced() -> None:
    body = f"k = {ints(0)} n = {ints(3)} m = {ints(1)} t = Concat<axis = 1>(x, z) s = Slice(t, k, n, m) y = Relu(s)"
    model = parse(f"g (float[2, n] x, float[2, m] z) => (y) {{ {body} }}")
    assert "Slice" in check(model, MergeChains(), RemoveDeadCode())


@pytest.mark.parametrize(
    ("shapes", "left"), [("4, 6", ["Relu", "Exp"]), ("6, 4", ["Relu", "Reshape", "Exp"])], ids=["same", "other"]
)
def test_reshapes_that_lead_back(shapes: str, left: list[str]) -> None:
    body = f"""
        r = Relu(x)  a = Constant<value_ints = [2, -1]>()  b = Constant<value_ints = [{shapes}]>()
        t = Reshape(r, a)  u = Reshape(t, b)  y = Exp(u)
    """
    found = check(parse(f"g (float[4, 6] x) => (float[{shapes}] y) {{ {body} }}"), MergeChains(), RemoveDeadCode())
    assert [op for op in found if op != "Constant"] == left
