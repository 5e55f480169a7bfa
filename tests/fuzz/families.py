"""What random programs are made of, by family: lines with places for tensors, numbers and axes.

``{t}`` is any tensor made so far, ``{i}`` a small number, ``{j}`` a number of either sign, ``{a}`` an axis, ``{f}`` a
fraction, ``{k}`` the number of the line. A line that the model does not run with is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.blocks import ATTENTION, BLOCKS, KEYED
from tests.fuzz.flow import FLOW, PYRAMIDS
from tests.fuzz.indexing import INDEXING, TYPES, WRITE_VALUES, WRITES
from tests.fuzz.program import Input
from tests.fuzz.shapes import IMAGES, PYTHON, RANKS


@dataclass(frozen=True)
class Family:
    """``layers`` are constructors of layers with the call of each; ``begin`` are lines that all programs begin with.

    ``statements`` are lines that make nothing by themselves: they change the one tensor that is written in them.
    """

    name: str
    inputs: tuple[tuple[Input, ...], ...]
    lines: tuple[str, ...]
    layers: tuple[tuple[str, str], ...] = ()
    begin: tuple[str, ...] = ()
    script: bool = False
    statements: bool = False
    length: int = 6


SEQUENCE = Input("x", ("b", "n", 4))
OTHER = Input("y", ("b", "n", 4))
ROWS = Input("x", ("n", 4))
IMAGE = Input("x", ("b", 4, "n", "m"))
FLIPPED = "self.l{k}({t}.transpose(1, 2)).transpose(1, 2)"

LAYERS = (
    ("nn.Linear(4, 4)", "self.l{k}({t})"),
    ("nn.Linear(4, 6)", "self.l{k}({t})"),
    ("nn.LayerNorm(4)", "self.l{k}({t})"),
    ("nn.Conv1d(4, 4, 3, padding=1)", FLIPPED),
    ("nn.Conv1d(4, 4, 3, stride=2, padding=1)", FLIPPED),
    ("nn.ConvTranspose1d(4, 4, 2, stride=2)", FLIPPED),
    ("nn.BatchNorm1d(4)", FLIPPED),
    ("nn.GroupNorm(2, 4)", FLIPPED),
    ("nn.InstanceNorm1d(4)", FLIPPED),
    ("nn.MaxPool1d(3, 2, 1)", FLIPPED),
    ("nn.AvgPool1d(2, ceil_mode=True)", FLIPPED),
    ("nn.AdaptiveAvgPool1d(3)", FLIPPED),
    ("nn.AdaptiveMaxPool1d(1)", FLIPPED),
    ("nn.Upsample(scale_factor=2)", FLIPPED),
    ("nn.GRU(4, 4, batch_first=True)", "self.l{k}({t})[0]"),
    ("nn.LSTM(4, 4, batch_first=True, bidirectional=True)", "self.l{k}({t})[0][..., :4]"),
    ("nn.MultiheadAttention(4, 2, batch_first=True)", "self.l{k}({t}, {t}, {t})[0]"),
    ("nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)", "self.l{k}({t})"),
    ("nn.Conv2d(4, 4, 3, padding=1)", "self.l{k}({t})"),
    ("nn.Conv2d(4, 4, 2, stride=2)", "self.l{k}({t})"),
    ("nn.BatchNorm2d(4)", "self.l{k}({t})"),
    ("nn.PReLU()", "self.l{k}({t})"),
    ("nn.Softplus()", "self.l{k}({t})"),
    ("nn.Conv1d(4, 8, 3, groups=2, padding='same')", FLIPPED),
    ("nn.Conv1d(4, 4, 3, dilation=2, padding=2, padding_mode='replicate')", FLIPPED),
    ("nn.Conv2d(4, 4, 3, groups=4, padding=1, padding_mode='reflect')", "self.l{k}({t})"),
    ("nn.Conv2d(4, 8, (1, 3), stride=(1, 2), groups=2, bias=False)", "self.l{k}({t})"),
    ("nn.ConvTranspose2d(4, 4, 3, 2, 1, 1, groups=2)", "self.l{k}({t})"),
    ("nn.LSTM(4, 4, 2, batch_first=True, proj_size=2)", "self.l{k}({t})[0].repeat(1, 1, 2)"),
    ("nn.LSTM(4, 4)", "torch.cat([*self.l{k}({t})[1]])"),
    ("nn.GRU(4, 4, 2)", "self.l{k}({t}, {t}.new_zeros(2, {t}.shape[1], 4))[0]"),
    ("nn.RNN(4, 4, bidirectional=True)", "self.l{k}({t})[1]"),
    ("nn.LSTMCell(4, 4)", "torch.stack(self.l{k}({t}[:, 0]))"),
    ("nn.GRUCell(4, 4)", "torch.stack([self.l{k}({t}[:, i]) for i in range({t}.shape[1])], 1)"),
    ("nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)", "self.l{k}({t}, {t}[:, :1])"),
    ("nn.MultiheadAttention(4, 2)", "self.l{k}({t}[:1], {t}, {t}, key_padding_mask={t}.amax(2).T > 9)[0]"),
    ("nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])", "sum(layer({t}) for layer in self.l{k})"),
    ("nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.Identity()})", "self.l{k}['a']({t}) + self.l{k}['b']({t})"),
    ("nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 4))", "{t} + self.l{k}({t})"),
    ("nn.Sequential(nn.Flatten(1), nn.Unflatten(1, (-1, 2)))", "self.l{k}({t})"),
    ("nn.AdaptiveAvgPool2d((1, None))", "self.l{k}({t})"),
    ("nn.Upsample(scale_factor=2, mode='bilinear')", "self.l{k}({t})"),
    ("nn.PixelShuffle(2)", "self.l{k}({t})"),
    ("nn.RMSNorm(4)", "self.l{k}({t})"),
    ("nn.Hardswish()", "self.l{k}({t})"),
    ("nn.ZeroPad2d((1, 0, 2, 0))", "self.l{k}({t})"),
    ("nn.Embedding(8, 4)", "self.l{k}({t}.argmax(-1) % 8)"),
    ("nn.EmbeddingBag(8, 4)", "self.l{k}({t}[..., 0].abs().long() % 8)"),
    ("nn.Bilinear(4, 4, 3)", "self.l{k}({t}, {t})"),
)
ELEMENTWISE = (
    "{t} + {t}", "{t} * {t}", "{t} - {t}.mean({a}, keepdim=True)", "{t} / ({t}.abs() + 1)", "torch.relu({t})",
    "F.gelu({t})", "F.softmax({t}, {a})", "torch.sigmoid({t}) * {t}", "{t}.clamp(-1, {f})", "torch.tanh({t})",
    "torch.where({t} > {f}, {t}, -{t})", "torch.maximum({t}, {t})", "{t}.abs().sqrt()", "{t}.pow(2)", "{t} ** 3",
    "F.normalize({t}, dim={a})", "torch.lerp({t}, {t}, {f})", "{t}.exp().log1p()", "F.leaky_relu({t}, {f})",
)  # fmt: skip
MOVES = (
    "{t}.transpose({a}, {a})", "{t}.permute(1, 0, 2)", "{t}.flatten({i} % 2)", "{t}.reshape({t}.shape[0], -1)",
    "{t}.unsqueeze({a})", "{t}.squeeze({a})", "{t}[:, {j}:]", "{t}[:, :{j}]", "{t}[..., {j}:{j}]", "{t}[:, ::{i}]",
    "{t}.flip({a})", "{t}.roll({j}, {a})", "torch.cat([{t}, {t}], {a})", "torch.stack([{t}, {t}], {a})",
    "{t}.chunk(2, {a})[0]", "{t}.split({i}, {a})[-1]", "{t}.repeat(1, {i}, 1)", "{t}.expand({i}, *{t}.shape)",
    "F.pad({t}, ({i}, {j}))", "{t}.unfold({a}, {i}, 1)", "{t}.tril() if {t}.dim() > 1 else {t}", "{t}[{j}]",
    "{t}.select({a}, {j})", "{t}.narrow({a}, 0, {i})", "{t}.unflatten(-1, (2, -1))", "{t}.diagonal()", "{t}.T",
    "{t}.repeat_interleave({i}, {a})", "torch.broadcast_to({t}, (2, *{t}.shape))", "{t}.movedim({a}, 0)",
)  # fmt: skip
REDUCTIONS = (
    "{t}.sum({a})", "{t}.mean({a}, keepdim=True)", "{t}.amax({a})", "{t}.argmax({a}).float()", "{t}.var({a})",
    "{t}.std({a}, keepdim=True)", "{t}.cumsum({a})", "{t}.sort({a})[0]", "{t}.topk({i}, {a})[0]", "{t}.norm(dim={a})",
    "{t}.logsumexp({a})", "{t}.prod({a})", "{t}.median({a})[0]", "{t}.max({a})[0]", "{t}.min()", "{t}.softmax({a})",
    "{t}.cummax({a})[0]", "{t}.any({a}).float()", "{t}.kthvalue(1, {a})[0]",
)  # fmt: skip
PRODUCTS = (
    "{t} @ {t}.transpose(-1, -2)", "torch.einsum('...i,...i->...', {t}, {t})",
    "torch.einsum('bi...,bj...->bij', {t}, {t})", "F.scaled_dot_product_attention({t}, {t}, {t})",
    "torch.cdist({t}, {t})", "F.cosine_similarity({t}, {t}, dim={a})",
    "F.interpolate({t}.transpose(1, 2), scale_factor=2).transpose(1, 2)", "F.avg_pool1d({t}, {i})",
)  # fmt: skip

SIZED = (
    "{t}[:, : {t}.shape[1] // {i}]", "{t}[:, {t}.shape[1] // 2 :]", "{t} * {t}.shape[0]",
    "{t} / math.sqrt({t}.shape[-1])", "{t}.view({t}.shape[0], -1)", "{t}.reshape(-1, {t}.shape[-1])",
    "{t}.new_zeros({t}.shape[0], {t}.shape[1]) + {t}.sum()", "torch.arange({t}.shape[1]) + {t}[0, 0, 0]",
    "torch.arange({t}.shape[0] * 2, {t}.shape[0] * 3) * {t}.mean()", "F.pad({t}, (0, 0, 0, -{t}.shape[1] % {i}))",
    "{t}.expand({t}.shape[0] + 0, -1, -1)", "{t}.repeat(1, ({t}.shape[1] + {i}) // {i}, 1)",
    "torch.ones({t}.shape[1], {t}.shape[1]).tril() * {t}.sum()",
    "torch.linspace(0, 1, {t}.shape[1])[None, :, None] * {t}", "{t}[:, {t}.shape[1] - 1]", "{t}[{t}.shape[0] // 2]",
    "{t} if {t}.shape[1] % 2 else -{t}", "{t} if {t}.shape[1] > {i} * 2 else {t} * 2", "{t} * max({t}.shape[0], {i})",
    "{t} * len({t})", "{t} * {t}.numel()", "sum({t}[:, i] for i in range({t}.shape[1]))",
    "torch.stack([{t}[i].sum() for i in range({t}.shape[0])])", "torch.cat([c.mean({a}) for c in {t}.split(2, 1)])",
    "{t}.unflatten(1, (-1, 1))", "torch.full(({t}.shape[1],), {f}) + {t}.amax()", "{t} * round({t}.shape[1] / {i})",
    "F.interpolate({t}.transpose(1, 2), size={t}.shape[1] * 2 - 1).transpose(1, 2)",
    "{t} + {t}.shape[1].bit_length()", "F.adaptive_avg_pool1d({t}, max({t}.shape[-1] // 2, 1))",
    "{t}.chunk({i}, 1)[-1]", "{t} * divmod({t}.shape[1], {i})[1]",
    "torch.eye({t}.shape[1])[:, : {t}.shape[0]] + {t}.min()", "{t} * min({t}.shape) ** 2",
    "torch.tensor([{t}.shape[0], {t}.shape[1]]).float() * {t}.sum()",
    "{t}[:, torch.arange({t}.shape[1] - 1, -1, -1)]", "{t}.reshape({t}.shape[0], {t}.shape[1] * 2, 2)",
    "{t}.reshape({t}.shape[0] * {t}.shape[1], -1)", "{t} * (1 if {t}.shape[0] == {t}.shape[1] else 2)",
    "{t} * [1, 2, 3][{t}.shape[1] % 3]",
)  # fmt: skip

DATA = (
    "{t}[{t} > {f}]", "{t}[{t}[:, 0] > 0]", "{t}[{t}.sum() > 0]", "({t} > 0).nonzero()",
    "{t}.masked_select({t} > {f})", "{t}.masked_fill({t} < 0, {f})", "torch.unique(({t} * 2).round())",
    "{t}[({t} > 0).any(1)].sum(0)", "torch.where({t}.sum() > 0, {t}, -{t})", "{t} if {t}.sum() > 0 else {t} * 2",
    "{t}[{t}[:, 0].argsort(stable=True)]", "{t}.gather(0, {t}.argsort(0, stable=True))",
    "{t}[{t}[:, 0].topk({i})[1]]", "{t}.index_select(0, ({t}[:, 0] > 0).nonzero()[:, 0])",
    "torch.bincount(({t}.flatten().abs() * 2).long())", "{t}[:{i}][{t}[:{i}, 0] > 0]", "({t} > 0).sum() * {t}",
    "{t}.repeat_interleave(({t}[:, 0].abs() * 2).long(), 0)", "{t}[{t} > 0].mean()", "{t} * int(({t} > 0).sum())",
    "{t}[({t} > 0).sum() % {t}.shape[0]]", "torch.zeros_like({t}).scatter_(0, {t}.argmax(0, keepdim=True), 1.0)",
    "torch.cat([{t}[{t}[:, 0] > 0], {t}[{t}[:, 0] <= 0]])", "{t}.index_put((({t}[:, 0] > 0),), torch.tensor({f}))",
    "torch.stack([r for r in {t} if r.shape[0] > 1])", "{t}[{t} > 0][:{i}]", "F.one_hot({t}.argmax(1), 6).float()",
    "torch.searchsorted({t}[0].sort()[0], {t}).float()", "{t}.float().cumsum(0)",
    "torch.tensor([{t}.min(), {t}.max()])", "torch.where({t} > 0)[0]", "{t}[~({t} > 0).all(1)]",
)  # fmt: skip

STATE = (
    "{t}[:, {i}:] = {f}", "{t}[{j}] += 1", "{t}[:, {j}] = {t}[:, 0] * 2", "{t}.add_({f})", "{t}.mul_({t})",
    "{t}[{t} > 0] = {f}", "{t}[{t}.sum() > 0] = {f}", "{t}[0:1] *= 3", "{t}.transpose(0, 1)[{j}] -= 1",
    "{t}.clamp_(-1, 1)", "{t}[:, {i}:{j}] = 0", "{t}.fill_diagonal_({f})", "{t}.view(-1)[::{i}] += 1", "{t}.zero_()",
    "{t}[1:] += {t}[:-1].clone()", "{t}.index_fill_(0, torch.tensor([0, {i}]), {f})",
    "{t}.scatter_(0, {t}.argmax(0, keepdim=True), {f})", "{t}.copy_({t}.flip(0))", "{t}.select(1, {j}).zero_()",
    "{t}[..., ::2].neg_()", "{t}.unsqueeze(0).add_(1)", "{t}[:, :1].expand(-1, 1).mul_(2)", "self.count += 1",
    "self.total.add_({t}.sum())", "self.kept[:{i}] += {t}.mean()", "self.last = {t}.sum()", "{t} -= self.kept.sum()",
    "{t} *= self.count + 1", "{t}.masked_fill_({t} < 0, {f})",
)  # fmt: skip
STATE_VALUES = (
    "{t}.clone()", "{t}[1:]", "{t}.T.contiguous()", "{t} + self.count", "{t} * self.total", "{t} + self.kept.sum()",
    "{t}.view(-1, 2)", "{t}.detach()", "torch.empty_like({t}).copy_({t})", "{t}[:, ::2]", "{t}.reshape(-1)",
)  # fmt: skip

SCRIPTS = (
    "w = {t}\nif bool({t}.sum() > {f}):\n    w = {t} * 2\nw.add_(1.0)\n{t} = {t} + w",
    "w = {t} if bool({t}.sum() > {f}) else {t} + 1\n{t}[0] = 3.0\nw[-1] -= 1\n{t} = {t} + w * 2",
    "u = {t} * 2\nw = {t} if bool({t}.sum() > {f}) else u\nw.mul_({f})\n{t}.add_(u)\nu[0] = 1.0\n{t} = {t} - w + u",
    "u = {t} + 1\nif bool({t}.mean() > {f}):\n    u += 1\n    w = u[1:]\nelse:\n    w = {t}[1:]\nw += 2\n{t} = {t} * u",
    "for i in range({t}.size(0)):\n    {t} = {t} + i",
    "for i in range({t}.size(0)):\n    if i % 2 == 0:\n        {t} = {t} * 2",
    "if bool({t}.sum() > 0):\n    {t} = {t} * 2\nelse:\n    {t} = {t} - 1",
    "if {t}.size(0) > {i}:\n    {t} = {t} + 1", "k = 0\nwhile k < {i}:\n    {t} = {t} + k\n    k += 1",
    "if {t}.size(0) % 2 == 0:\n    {t} = {t}[1:]",
    "rows = []\nfor i in range({t}.size(0)):\n    rows.append({t}[i] * i)\n{t} = torch.stack(rows)",
    "{t} = {t} + ({t}.size(0) & 3)", "n = {t}.size(0)\n{t} = {t}[: n // 2 + 1]", "{t} = {t} * float({t}.size(0))",
    "for row in {t}.unbind(0):\n    {t} = {t} + row", "{t} = torch.cat([{t}, {t}])", "{t} = {t}.transpose(0, 1)",
    "i = 0\nwhile bool({t}.abs().max() > {i} + 1) and i < 9:\n    {t} = {t} / 2\n    i += 1", "{t}[0] = {t}[-1] + 1",
    "for i in range({t}.size(0)):\n    for j in range(2):\n        {t} = {t} + i * j",
    "{t} = {t}.sum(0, keepdim=True) + {t}",
    "total = 0\nfor i in range({t}.size(0)):\n    total += i\n{t} = {t} + total",
    "{t} = F.pad({t}, [0, 0, {t}.size(0), 0])",
    "for i in range({t}.size(0) - 1):\n    {t}[i + 1] = {t}[i] + {t}[i + 1]", "{t} = {t}.view(-1, {t}.size(1))",
    "parts = {t}.split(2)\n{t} = torch.cat([p.mean(0, keepdim=True) for p in parts])", "{t} = torch.relu({t}) - {f}",
    "if {t}.dim() == 2:\n    {t} = {t} @ {t}.t()", "assert {t}.size(0) > 0\n{t} = {t} * 3",
)  # fmt: skip

NUMERICS = (
    "{t} // {i}", "{t} // -{i}", "{t} % {i}", "{t} % -{i}", "{t}.fmod({i})", "{t} // {t}.clamp(min=1)",
    "{t} % {t}.clamp(max=-1)", "torch.div({t}, {i}, rounding_mode='floor')", "torch.maximum({t}, {t}.flip(0))",
    "torch.minimum({t}, {t}.flip(0))", "{t}.clamp(-{i}, {i})", "{t}.abs()", "-{t}", "{t}.sign()", "{t} + {t}.flip(0)",
    "{t} - {t}.flip(0)", "{t} * {i}", "{t} ** 2", "{t} ** 3", "{t}.amax({a})", "{t}.amin({a})", "{t}.max({a})[0]",
    "{t}.argmax({a})", "{t}.sort({a})[0]", "{t}.topk(2, {a})[0]", "{t}.cumsum({a})", "{t}.float()", "{t}.double()",
    "{t}.half()", "{t}.long()", "{t}.int()", "{t} > {i}", "{t} == {t}.flip(0)", "({t} > 0).sum({a})", "{t} & 3",
    "{t} | {i}", "{t} ^ {i}", "{t} << 1", "{t} >> 1", "torch.where({t} > 0, {t}, {i})", "{t} / {i}", "{t} / {t}",
    "{t}.isnan()", "{t}.isfinite()", "{t}.nan_to_num()", "torch.fmax({t}, {t}.flip(0))", "{t}.round()", "{t}.floor()",
    "{t}.trunc()", "{t}.relu()", "{t}.remainder({f})", "{t}.bool()", "{t}.softmax({a})", "{t}.median({a})[0]",
    "{t}.unique()", "{t}.mean()", "{t}.logical_not()", "{t}.bitwise_not()", "torch.copysign({t}, {t}.flip(0))",
    "{t}.exp()", "{t}.frac()", "{t}.square()", "{t}.argsort({a}, stable=True)",
)  # fmt: skip

NUMBERS = tuple(
    (Input("x", ("n", 4), kind),)
    for kind in ("long", "int", "byte", "bool", "half", "double", "long limits", "int limits", "special")
)
TYPED = tuple(
    (Input("x", ("n", 4), kind),)
    for kind in ("long", "int", "byte", "bool", "half", "double", "float", "small", "short")
)
KEPT = (
    "self.register_buffer('count', torch.zeros(()))",
    "self.register_buffer('total', torch.zeros(()))",
    "self.register_buffer('kept', torch.ones(8))",
)

PIPELINE = (*ELEMENTWISE, *MOVES, *REDUCTIONS, *PRODUCTS)
PAIR = (SEQUENCE, OTHER)
KEYS = (ROWS, Input("k", ("n",), "index"), Input("m", ("n", 4), "bool"))
PAIR_OF_ROWS = (ROWS, Input("y", ("n", 4)))
FAMILIES = (
    Family("pipelines", ((SEQUENCE,), PAIR, (IMAGE,)), PIPELINE, LAYERS),
    Family("sizes", ((SEQUENCE,), PAIR), (*SIZED, *SIZED, *ELEMENTWISE[:6], *MOVES, *REDUCTIONS[:4]), length=4),
    Family("data", ((ROWS,), PAIR_OF_ROWS), (*DATA, *DATA, *ELEMENTWISE[:4], *REDUCTIONS[:4]), length=4),
    Family("state", ((ROWS,),), (*STATE, *STATE, *STATE_VALUES), begin=("v = x.clone()",), length=5),
    Family("scripts", ((ROWS,),), SCRIPTS, begin=("v = x.clone()",), script=True, length=3),
    Family("numerics", NUMBERS, NUMERICS, length=4),
    Family("indexing", ((ROWS,), (SEQUENCE,)), INDEXING, length=4),
    Family("writes", ((ROWS,),), (*WRITES, *WRITES, *WRITE_VALUES), begin=("v = x.clone()",), length=5),
    Family("types", TYPED, TYPES, length=3),
    Family("images", ((IMAGE,),), IMAGES, length=3),
    Family("ranks", ((ROWS,),), RANKS, length=3),
    Family("python", ((ROWS,),), PYTHON, length=3),
    Family("blocks", ((ROWS,),), BLOCKS, begin=("v = x.clone()",), statements=True, length=3),
    Family("keyed", (KEYS,), (*KEYED, *KEYED, *ELEMENTWISE[:4], *REDUCTIONS[:4]), length=4),
    Family("attention", ((SEQUENCE,),), ATTENTION, LAYERS, length=4),
    Family("flow", ((ROWS,),), FLOW, begin=("v = x.clone()",), statements=True, length=3),
    Family("pyramids", ((IMAGE,),), PYRAMIDS, begin=("v = x.clone()",), statements=True, length=3),
)
