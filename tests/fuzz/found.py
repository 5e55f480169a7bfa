"""Programs that were once silently wrong or crashed, in their smallest form."""

from __future__ import annotations

from tests.fuzz.families import KEPT
from tests.fuzz.program import Input, Program

ROWS = Input("x", ("n", 4))
SEQUENCE = Input("x", ("b", "n", 4))

FOUND = {
    "a slice that ends before it starts": Program("state", (ROWS,), ("v = x.clone()", "v[:, 5:2] = 0"), ("v",)),
    "a slice that is empty at size 1": Program("state", (ROWS,), ("v = x.clone()", "v[1:-1] = 0"), ("v",)),
    "division by minus one": Program("numerics", (Input("x", ("n", 4), "long limits"),), ("v = x % -1",), ("v",)),
    "division by a tensor of minus ones": Program(
        "numerics", (Input("x", ("n", 4), "int limits"),), ("v = x % x.clamp(max=-1).clamp(min=-1)",), ("v",)
    ),
    "floor division": Program("numerics", (Input("x", ("n", 4), "int limits"),), ("v = x // -2",), ("v",)),
    "maximum of long integers": Program(
        "numerics", (Input("x", ("n", 4), "long limits"),), ("v = torch.maximum(x, x.flip(0)).amax(0)",), ("v",)
    ),
    "sign of long integers": Program("numerics", (Input("x", ("n", 4), "long limits"),), ("v = x.sign()",), ("v",)),
    "sign of NaN": Program("numerics", (Input("x", ("n", 4), "special"),), ("v = x.sign()",), ("v",)),
    "an einsum of integers and floats": Program(
        "numerics", (SEQUENCE,), ("v = torch.einsum('bni,bni->bni', x.int(), x)",), ("v",)
    ),
    "bits of a number in a script": Program(
        "scripts", (ROWS,), ("v = x.clone()", "v = v + (v.size(0) & 3)"), ("v",), script=True
    ),
    "the last piece, where another size is scaled": Program(
        "images",
        (Input("x", ("b", 4, "n", "m")),),
        ("v = F.interpolate(x.transpose(1, 2), scale_factor=2)", "v = x.split(4, -1)[-1]"),
        ("v",),
    ),
    "a mask without dimensions": Program(
        "state", (ROWS,), ("v = x.clone()", "v[v.sum() > 0] = 0.5"), ("v",), layers=KEPT
    ),
}  # fmt: skip
