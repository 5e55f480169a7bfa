"""Programs written by hand, where exports of real models went wrong: by what comes of them."""

from __future__ import annotations

from tests.fuzz.program import Input, Program

ROWS = (Input("x", ("n", 4)),)
PAIR = (*ROWS, Input("y", ("n", 4)))
SEQUENCE = (Input("x", ("b", "n", 4)),)
IMAGE = (Input("x", ("b", 4, "n", "m")),)


def program(
    text: str, inputs: tuple[Input, ...] = ROWS, *, layers: tuple[str, ...] = (), family: str = "data"
) -> Program:
    lines = tuple(text.strip("\n").split("\n"))
    return Program(family, inputs, lines, ("v",), layers=layers, script=family == "scripts")


def scripted(text: str, inputs: tuple[Input, ...] = ROWS) -> Program:
    return program(text, inputs, family="scripts")


def of(kind: str, text: str) -> Program:
    return program(text, (Input("x", ("n", 4), kind),), family="numerics")


CONTENT_READ = {
    "equal": program("v = x * 2 if torch.equal(x, y) else x + y", PAIR),
    "equal to itself": program("v = x * 2 if torch.equal(x.abs(), x) or x.equal(x + 0) else x"),
    "allclose": program("v = x * 2 if torch.allclose(x, x.abs(), atol=3) else x + 1"),
    "is_nonzero": program("v = x * 2 if torch.is_nonzero(x.sum() > 0) else x - 1"),
    "assert_close": program("torch.testing.assert_close(x, x * 1.0)\nv = x * 2"),
    "a tensor of elements": program("v = torch.tensor([x.min(), x.max()])"),
    "as_tensor of elements": program("v = torch.as_tensor([x.min(), x.max()]) * x.sum()"),
    "new_tensor of elements": program("v = x.new_tensor([x.min(), x.max()])"),
    "dlpack": program("v = torch.from_dlpack(x) * 2"),
    "resize_as_": program("v = torch.zeros(0)\nv.resize_as_(x).copy_(x)"),
    "resize_": program("v = x.clone()\nv.resize_(x.shape[0] * 2, 2)"),
    "a condition": program("v = x * float(x.sum() > 0)"),
    "a condition on a number": program("v = x\nif x.sum().item() > 0: v = x * 2"),
}
RANDOM = {
    "a seed": program("torch.manual_seed(0)\nv = x @ torch.randn(4, 3)"),
    "a generator": program("g = torch.Generator().manual_seed(3)\nv = x @ torch.randn(4, 3, generator=g)"),
}
MASKS_AND_SLICES = {
    "a mask without dimensions": program("v = x[x.sum() > 0]"),
    "a write by a mask without dimensions": program("v = x.clone()\ns = x.sum()\nv[v.sum() > 0] = s"),
    "median of a slice": program("v = x[x > 0][:3].median()"),
    "zeros like a slice": program("v = torch.zeros_like(x[x > 0][:2])"),
    "the first of an order": program("s = x[:, 0]\nk = s > 0\nv = x[k][s[k].argsort(descending=True)[:5]]"),
    "mean of a slice": program("v = x[x[:, 0] > 0][:3]\nv = v.sum(0) / v.shape[0]"),
    "a slice beyond the axis": program("v = x.clone()\nv[:, :100] += 1", SEQUENCE),
    "a chunk": program("v = x.chunk(2, 1)[0]", SEQUENCE),
    "unflatten": program("x = x.repeat(5, 1)\nv = x.unflatten(0, (-1, x.shape[0] // 5))"),
    "halves of an image": program(
        "b, c, h, w = x.repeat(1, 1, 2, 2).shape\n"
        "v = x.repeat(1, 1, 2, 2).reshape(b, c, h // 2, 2, w // 2, 2).mean((3, 5))",
        IMAGE,
    ),
    "a sliding cache": program(
        "n = x.shape[1]\nc = torch.cat([torch.ones(x.shape[0], 3, 4), x], 1)[:, n:]\nv = torch.cat([c, x], 1)[:, -n:]",
        SEQUENCE,
    ),
    "data choose how much of a static axis": program("v = x.narrow(1, 0, int((x[0] > 0).sum())).sum(1)"),
    "data choose where to split a static axis": program(
        "k = int((x[0] > 0).sum())\nv = torch.cat([p * 2 for p in x.split([k, 4 - k], 1)], 1)"
    ),
}
NUMERICS = {
    "floor division at the limits": of("int limits", "v = x // -2"),
    "relu of large integers": of("long limits", "v = x.relu()"),
    "maximum of large integers": of("long limits", "v = torch.maximum(x, x.flip(0))"),
    "minimum of large integers": of("long limits", "v = torch.minimum(x, x.flip(0))"),
    "clamp of large integers": of("long limits", "v = x.clamp(-(2**33), 2**33)"),
    "fmod of large integers": of("long limits", "v = x.fmod(7) + x.fmod(-3)"),
    "a power that overflows": of("long limits", "v = x ** 3"),
    "a power of int32 that overflows": of("int limits", "v = x ** 5"),
    "sums of halves": of("half", "v = x.sum(0) + x.prod(0) + x.mean()"),
    "cumulative sums of halves": of("half", "v = x.cumsum(0)"),
    "sign of NaN": of("special", "v = x.sign()"),
    "atan2 of bools": of("bool", "v = torch.atan2(x, x.flip(0))"),
    "an empty slice is written to": program("v = x.clone()\nv[5:2] = 0"),
    "a remainder of the least integer": of("long limits", "v = x % -1"),
}
RAISED = {
    "a view that fails": program("try:\n    v = x.view(7, -1)\nexcept RuntimeError:\n    v = x * 2"),
    "an index that fails": program("try:\n    v = x + x[3]\nexcept IndexError:\n    v = x - 1"),
    "scripted nested loops": scripted(
        "v = x.clone()\nfor i in range(v.size(0)):\n    for j in range(2):\n        v = v + i * j"
    ),
}
NUMBERS = {
    "round": program("v = x * round(x.shape[0] / 2)"),
    "methods of int": program(
        "n = x.shape[0]\nv = x * n.bit_length() * n.conjugate() * n.real + n.imag + n.numerator / n.denominator"
    ),
    "as_integer_ratio": program("v = x * x.shape[0].as_integer_ratio()[0]"),
    "powers": program("v = x * x.shape[0] ** 3 + 2 ** x.shape[0] + pow(x.shape[0], 2, 7)"),
    "divmod": program("q, r = divmod(x.shape[0], 3)\nv = x * q + r"),
    "a table of bools": program("v = x * {True: 1, False: 2}[x.shape[0] > 5]"),
    "a digit": program("v = x * int(str(x.shape[0])[-1])"),
    "bits": program("v = (x.view(torch.int32) & -65536).view(torch.float32)"),
    "scripted bits": scripted("v = x.clone()\nfor i in range(v.size(0)):\n    v = v + (i & 3)"),
    "a scripted write to one of two": scripted(
        "w = x.clone()\nu = w * 2\nif bool(x.sum() > 0):\n    u = w\nu.add_(1.0)\nv = w + u"
    ),
    "a quotient by a size less another": program("n = x.shape[0]\nv = x * 2 if n - 6 == 0 or 12 / (n - 6) > 3 else x"),
    "a list of axes in a script": scripted(
        "d: List[int] = torch.arange(1, len(x.shape)).tolist()\nv = x.mean(d)", SEQUENCE
    ),
    "padding of a pool": program(
        "n = x.shape[1]\nv = F.avg_pool1d(x.transpose(1, 2), 3, stride=2, padding=min(n % 2, 1)).transpose(1, 2)",
        SEQUENCE,
    ),
    "frames": program(
        "n = x.shape[0] * 160\ns = x.repeat(1, 40).reshape(-1)\nf = 1 + (n - 400) // 160\n"
        "v = s.as_strided((f, 400), (160, 1)).mean(1)"
    ),
    "windows that are filled up": program(
        "n, k, s = x.shape[0], 5, 3\np = math.ceil((max(n, k) - k) / s) * s + k - n\n"
        "v = F.pad(x, (0, 0, 0, p)).unfold(0, k, s)"
    ),
    "a loop from the end": program("v = x.clone()\nfor i in reversed(range(v.shape[0])):\n    v[i] = v[i:].mean(0)"),
}
NOTHING_TO_TELL = {
    "whether there is something": program("v = x.sum() if x.numel() else x.new_zeros(())"),
    "how many rows there are": program("v = x * len(x.tolist())"),
    "a mask": program(
        "v = torch.ones(x.shape[1], x.shape[1]).tril().bool()\nv = x.transpose(1, 2).masked_fill(~v[0], 0)", SEQUENCE
    ),
    "shifted windows": program(
        """
v = torch.roll(x, (-1, -1), (2, 3))
m = torch.zeros(1, x.shape[2], x.shape[3], 1)
k = 0
for rows in (slice(0, -2), slice(-2, -1), slice(-1, None)):
    for columns in (slice(0, -2), slice(-2, -1), slice(-1, None)):
        m[:, rows, columns, :] = k
        k += 1
v = v + m.permute(0, 3, 1, 2)""",
        IMAGE,
    ),
}
RIGHT_PROGRAMS = {**CONTENT_READ, **RANDOM, **MASKS_AND_SLICES, **NUMERICS, **RAISED, **NUMBERS, **NOTHING_TO_TELL}

# What no file can follow is told with its line: by a warning, or an error where the check meets other results.
TOLD_PROGRAMS = {
    "the length of a text": (program("v = x * len(str(x))"), "used as a text"),
    "the text of a number": (program("v = x * float(f'{x.sum()}')"), "used as a text"),
    "the representation": (program("v = x * len(repr(x))"), "used as a text"),
    "an array": (program("v = x * float(np.asarray(x).sum())"), "used as an array"),
    "an array and back": (program("v = torch.from_numpy(np.asarray(x) * 2)"), "used as an array"),
}
