from __future__ import annotations

import numpy as np
import pytest

from onnxport.optimize import FusePads
from tests.optimize.harness import check, parse

WEIGHT = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32)


def conv(pads: list[int], pad: str = "Pad(x, p)", attributes: str = "", size: str = "a, b") -> list[str]:
    body = f"p = Constant<value_ints = {pads}>()  zero = Constant<value_float = 0.0>()"
    body += f"  one = Constant<value_float = 1.0>()  t = {pad}  y = Conv{attributes}(t, w)"
    model = parse(f"g (float[1, 3, 8, 9] x) => (float[1, 2, {size}] y) {{ {body} }}", weights={"w": WEIGHT}, opset=17)
    return [op for op in check(model, FusePads(), exact=False) if op != "Constant"]


@pytest.mark.parametrize("pad", ["Pad(x, p)", "Pad(x, p, zero)", 'Pad<mode = "constant">(x, p)'])
@pytest.mark.parametrize("attributes", ["", "<pads = [1, 0, 2, 1]>", "<strides = [2, 2]>"])
def test_zeros_around_an_image(pad: str, attributes: str) -> None:
    assert conv([0, 0, 0, 1, 0, 0, 2, 1], pad, attributes) == ["Conv"]


@pytest.mark.parametrize(
    ("pads", "pad", "attributes"),
    [
        ([0, 0, 0, 1, 0, 0, 2, 1], "Pad(x, p, one)", ""),
        ([0, 0, 0, 1, 0, 0, 2, 1], 'Pad<mode = "reflect">(x, p)', ""),
        ([0, 0, 0, -1, 0, 0, 2, 1], "Pad(x, p)", ""),
        ([0, 0, 0, 1, 0, 0, 2, 1], "Pad(x, p)", '<auto_pad = "SAME_UPPER">'),
    ],
    ids=["ones", "reflected", "cut", "auto-pad"],
)
def test_what_stays(pads: list[int], pad: str, attributes: str) -> None:
    assert conv(pads, pad, attributes) == ["Pad", "Conv"]
