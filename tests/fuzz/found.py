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
    "sizes of two axes that are alike from a bound on": Program(
        "images",
        (Input("x", ("b", 4, "n", "m")),),
        (
            "v = x[..., : min(x.shape[2], 4), : min(x.shape[3], 3)]",
            "a = F.conv2d(v, torch.ones(4, 4, 3, 3), stride=2, padding=1).repeat(1, 1, 2, 2)",
            "h, w = v.shape[2] - a.shape[2], v.shape[3] - a.shape[3]",
            "v = F.pad(a, (w // 2, w - w // 2, h // 2, h - h // 2))",
        ),
        ("v",),
    ),
    "a loop in each branch": Program(
        "flow",
        (ROWS,),
        (
            "v = x.clone()",
            "v = v * 2 if all(bool(c.sum() > -3) for c in v.unbind(1)) else v",
            "v = torch.round(v * v.shape[0]) / 3",
            "for w in v.split(2):\n    w[0] *= 2\n    w.T[0].add_(-0.5)",
        ),
        ("v",),
    ),
    "a mask without dimensions": Program(
        "state", (ROWS,), ("v = x.clone()", "v[v.sum() > 0] = 0.5"), ("v",), layers=KEPT
    ),
}  # fmt: skip
