"""What models do in Python: loops and conditions on data, containers, functions of other kinds; complex numbers."""

# ruff: noqa: E501 (a program is one line)

from __future__ import annotations

from tests.fuzz.indexing import lines_of


def blocks_of(text: str) -> tuple[str, ...]:
    """One line each; `|` ends a line of the program, `^` stands for the operator."""
    return tuple(line.replace("|", "\n").replace("^", "|") for line in lines_of(text))


FLOW = blocks_of(
    """
a, n = {t}, 0|while a.abs().sum() > {i} and n < 5:|    a, n = a * 0.7, n + 1|{t} = a + n
a, b = {t}.sum(0), {t}.mean(0)|while (a - b).abs().max() > 0.01:|    a, b = (a + b) / 2, b + (a - b) / 4|{t} = {t} + a - b
a, b = {t}, torch.ones_like({t})|while a.abs().max() > {f}:|    a, b = a / 2, b + a|    if b.sum() > 99:|        break|{t} = a + b
a = {t}|while True:|    a = a / 2|    if a.abs().max() < 0.3:|        break|{t} = a
a, n = {t}, 0|while n < 4:|    n += 1|    if a.sum() > 0:|        a = a - 0.5|        continue|    a = a + 0.3|{t} = a * n
if {t}.sum() > 0:|    {t} = {t} * 2 if {t}[0, 0] > 0 else {t} * 3|elif {t}.mean() < -0.1:|    {t} = {t} - 1
if {t}.shape[0] > 4:|    {t} = {t} * 2 if {t}.sum() > 0 else {t} - 1|else:|    {t} = {t} + 3 if {t}[0].max() > 0.5 else {t}.flip(0)
if {t}.sum() > 0:|    {t} = {t}[:2]|elif {t}[0, 0] > 0:|    {t} = {t}[1:]|else:|    {t} = torch.cat([{t}, {t}])
def f(a):|    if a.sum() > 0:|        return a * 2|    a = a + 1|    return a if a[0, 0] > 0 else a - 3|{t} = f({t}) + f({t} - 1)
def f(a):|    for i in range(4):|        if a[:, i % a.shape[1]].sum() > 0:|            return a * i|    return a - 1|{t} = f({t})
def f(a):|    for i, row in enumerate(a.T):|        if row.max() > 1:|            return row.sum() + i|    return a[-1].sum()|{t} = {t} + f({t})
def f(a, n):|    return a if n == 0 or a.abs().max() < 0.4 else f(a * 0.5, n - 1)|{t} = f({t}, {i})
def f(a):|    n = a.shape[0]|    return a if n <= 1 else torch.cat([f(a[: n // 2]) + 1, a[n // 2 :]])|{t} = f({t}) if {t}.shape[0] < 9 else {t}
try:|    if {t}.sum() > 0:|        raise ValueError|    {t} = {t} * 2|except ValueError:|    {t} = {t} - 1
try:|    w = {t}.reshape(-1, 8)|except RuntimeError:|    w = {t} - 1|finally:|    {t} = {t} + 1|{t} = {t} + w.sum()
try:|    w = {t}[4]|except IndexError:|    {t} = {t} * 3|else:|    {t} = {t} + w
{t} = {t} * 2 if all(bool(c.sum() > -3) for c in {t}.unbind(1)) else {t}
{t} = {t} * 2 if any(c > 1 for c in {t}[0]) else {t}
n = 0|for c in {t}.unbind(1):|    if c.max() > 1:|        n += 1|{t} = {t} * n
best, at = {t}[:, 0], 0|for i in range(1, {t}.shape[1]):|    if {t}[:, i].sum() > best.sum():|        best, at = {t}[:, i], i|{t} = {t} + best[:, None] * at
xs = [c for c in {t}.unbind(1) if c[0] > 0]|{t} = torch.stack(xs, 1) if xs else {t}[:, :0]
xs = [{t}[0]]|for i in range(1, {t}.shape[0]):|    xs.append(xs[-1] * 0.5 + {t}[i])|{t} = torch.stack(xs)
xs = [{t}[0]]|for row in {t}[1:]:|    xs.append(torch.maximum(xs[-1] * 0.9, row))|{t} = torch.stack(xs) - xs[-1]
{t} = torch.stack(list(itertools.accumulate({t}.unbind(0), lambda a, b: a * 0.5 + b)))
{t} = torch.stack(list(itertools.accumulate({t}.unbind(1), torch.maximum)), 1)
{t} = {t} + sum({t}[:, i] * {t}[:, j] for i, j in itertools.combinations(range(4), 2))[:, None]
s, xs, ys = torch.zeros({t}.shape[1]), [], []|for row in {t}:|    xs.append(s)|    s = s * 0.5 + row|    ys.append(s)|{t} = torch.stack(xs) - torch.stack(ys)
xs = [{t}[:1] * 3]|for i in range({t}.shape[0]):|    xs.append({t}[i : i + 1] * i)|{t} = torch.cat(xs)
xs = list({t}.unbind(1))|ys = []|while xs:|    ys.append(xs.pop() * (len(xs) + 1))|{t} = torch.stack(ys, 1)
d = {'s': {t}}|if {t}.sum() > 0:|    d['s'] = d['s'] * 2|    d['r'] = {t} + 1|else:|    d['r'] = {t} - 1|{t} = d['s'] + d['r']
d = {'a': {t}, 'b': {t} * 2}|d.update({k + '2': w + 1 for k, w in d.items()})|{t} = torch.cat([d[k] for k in sorted(d)])
d = {k: w for k, w in zip('abcd', {t}.unbind(1))}|d['a'] = d.pop('b') + d['a']|{t} = torch.stack([*d.values()], 1)
xs = [{t}[:1], {t}]|xs.insert(1, {t} * 2)|xs[0], xs[-1] = xs[-1], xs[0]|xs.extend([{t}[-1:]] * 2)|{t} = torch.cat(xs[::-1])
P = collections.namedtuple('P', 'a b')|p = P({t}, {t}.mean(0))|{t} = p._replace(a=p.a * 2).a + p.b
q = collections.deque({t}.unbind(1), maxlen=2)|q.rotate(1)|{t} = torch.stack(list(q), 1)
@dataclasses.dataclass|class D:|    a: object|    b: object = None|d = D({t})|d.b = d.a.sum(1, keepdim=True)|{t} = d.a - dataclasses.replace(d, a=d.b).a
class F(torch.autograd.Function):|    @staticmethod|    def forward(ctx, a, p):|        return a.abs() ** p|{t} = F.apply({t}, 2) + F.apply({t} + 1, 3)
class G(torch.autograd.Function):|    @staticmethod|    def forward(ctx, a):|        return torch.round(a * a.shape[0])|{t} = G.apply({t}) / 3
class H(torch.autograd.Function):|    @staticmethod|    def forward(ctx, a):|        a.add_(1)|        ctx.mark_dirty(a)|        return a|w = {t} * 1|{t} = H.apply(w) + w
@torch.jit.script|def g(a: Tensor, n: int) -> Tensor:|    for i in range(n):|        a = a - i if bool(a.sum() > 0) else a + 1|    return a|{t} = g({t}, {i})
@torch.jit.script|def g(a: Tensor):|    n = a.size(0) // 2 + 1|    return a[:n], n|w, n = g({t})|{t} = w * n
{t} = torch.vmap(lambda r: r * r.sum())({t})
{t} = torch.vmap(lambda r: r.cumsum(0), in_dims=1, out_dims=1)({t})
{t} = torch.vmap(lambda r, i: r.gather(0, i[None])[0])({t}, {t}.argmax(1))[:, None] + {t}
{t} = torch.vmap(lambda r: torch.where(r.sum() > 0, r, -r))({t})
{t} = torch.vmap(torch.vmap(lambda a: a.sin() * 2))({t})
n = {t}.shape[0]|{t} = torch.vmap(torch.vmap(lambda i, j: (i >= j) & (i - j < 3), (None, 0)), (0, None))(torch.arange(n), torch.arange(n)).float() @ {t}
{t} = torch.func.grad(lambda a: (a ** 3).sum())({t})
out, f = torch.func.vjp(lambda a: a.sin() * a, {t})|{t} = f(out)[0]
{t} = torch.func.jvp(lambda a: a.tanh(), ({t},), (torch.ones_like({t}),))[1]
with torch.enable_grad():|    w = {t}.detach().requires_grad_()|    (g,) = torch.autograd.grad((w ** 2).sum() + w.prod(1).sum(), w)|{t} = {t} - 0.1 * g.detach()
{t} = torch.utils.checkpoint.checkpoint(lambda a: a[: a.shape[0] // 2 + 1] + 1, {t}, use_reentrant=False)
c = torch.fft.fft({t}, dim=0)|c[0] = 0|c[1:3] *= 2|{t} = torch.fft.ifft(c, dim=0).real
c = torch.complex({t}, {t}.flip(0))|{t} = (c * c.conj()).real + (c == c.conj()).float() + c.sum(0).imag
c = torch.fft.rfft({t}, dim=1)|{t} = torch.cat([c, c.flip(1).conj()], 1).abs()
c = torch.complex({t}, {t} + 1)|{t} = torch.where(c.abs() > 1, c, torch.zeros_like(c)).real + (c.sqrt() * 1j).imag + torch.exp(c * 0.1).real
q = torch.polar(torch.ones_like({t}), {t} * torch.arange({t}.shape[0])[:, None])|{t} = torch.view_as_real(q * torch.complex({t}, {t})).flatten(1)
w = {t}.view(-1, 2, {t}.shape[1] // 2)[:, 0]|w.T[1:].mul_(3)
w = {t}[1:].transpose(0, 1)[::2]|w[..., -1:].fill_({f})|w += 1
w = {t}.permute(1, 0)|u = w[1:3]|u[0] += u[1]|w[0, -1] = {f}|{t} = torch.cat([{t}, w.permute(1, 0)], 1)
w = {t}.view(-1)|for i in range(0, w.shape[0], 3):|    w[i] = w[i] * i
for w in {t}.unbind(0):|    w[1:].add_(w[0])
for w in {t}.split(2):|    w[0] *= 2|    w.T[0].add_({f})
w = torch.zeros({t}.shape[0], {t}.shape[0])|w.diagonal().copy_({t}[:, 0])|w.diagonal(1)[:] = 2|{t} = w @ {t}
w = {t}[1:] if {t}.shape[0] > 3 else {t}[:1]|w *= 2
w = {t}[None].expand(2, -1, -1).clone()|w[0, 1:], w[1, :-1] = w[1, 1:].clone(), w[0, :-1] * 2|{t} = w.sum(0)
w = {t}.chunk(2, 1)[0].squeeze(1)|w.mul_(2).clamp_(max=1)|{t} = {t} - w.sum()
w = {t}[:, :2]|{t} = {t} + 1|w.zero_()|{t}[:, :1] += w[:, :1]
w = {t}.unflatten(1, (2, -1)).transpose(0, 1)|w[0, ..., 0] = w[1, ..., 0]
r = {t}[:, 0].argsort(descending=True, stable=True)|{t} = {t}[torch.empty_like(r).scatter_(0, r, torch.arange(r.shape[0]))]
b = ({t}[:, 0].clamp(-2, 1.99) + 2).long()|{t} = torch.zeros(4, {t}.shape[1]).index_add_(0, b, {t}) / b.bincount(minlength=4).clamp(min=1)[:, None]
b = torch.bucketize({t}, torch.tensor([-1.0, 0.0, 1.0]))|{t} = F.one_hot(b, 4).float().mean(0) + {t}.sum()
i = ({t}.abs() * 2).long() % {t}.shape[1]|{t} = torch.zeros_like({t}).scatter_add(1, i, {t}).gather(1, i)
i = ({t}[:, 0] > 0).long().cumsum(0) - 1|{t} = {t}[i.clamp(min=0)]
i = ({t}[:, :1].abs() * 3).long() % {t}.shape[0]|{t} = {t}.gather(0, i.expand(-1, {t}.shape[1]))
k = {t}.flatten().abs().argmax()|{t} = {t} * {t}.flatten()[k] + {t}.view(-1).index_select(0, k.view(1))
k = {t}[:, 0].long() & 1|m = torch.full((2,), -math.inf).scatter_reduce(0, k, {t}[:, 0], 'amax')|e = ({t}[:, 0] - m[k]).exp()|{t} = {t} * (e / torch.zeros(2).scatter_add(0, k, e)[k])[:, None]
{t} = torch.where({t} > 1, 1.0, torch.where({t} > 0, {t}, torch.where({t} > -1, -{t}, torch.tensor(5.0))))
e = {t}[{t} > 100]|{t} = {t} + e.any() + e.all() + e.sum() + e.numel()
e = {t}[:0]|{t} = torch.cat([e, {t}, e * 2]) + e.sum() + e.prod() + {t}[:, :0].sum(1, keepdim=True)
s = {t}.sum().clone()|s += 1|s.mul_(2)|s[...] = s + 3|{t} = {t} * s.unsqueeze(0).expand({t}.shape[1])
s = torch.stack([{t}.sum(), {t}.mean(), {t}[0, 0]])|{t} = {t} * s[s.argmax()] + s.softmax(0)[None, :1]
u, w = {t}[:1], {t}[:, :1]|{t} = u * w + (u + w).mean(0, keepdim=True) * w.expand_as({t})
{t} = {t}.flip(0)[::2].flip(1)[:, 1:].rot90(2)
{t} = ({t} * 2).round().unique(dim=0)
{t} = {t}[{t}[:, 0].sort(stable=True)[1]].diff(dim=0, prepend={t}[:1])
n = {t}.shape[0]|p = -n % 3|{t} = F.pad({t}, (0, 0, 0, p)).view(-1, 3, {t}.shape[1]).softmax(1).flatten(0, 1)[:n]
n = {t}.shape[0]|i = torch.arange(n)|m = (i[:, None] - i).abs() <= 2|{t} = ({t} @ {t}.T).masked_fill(~m, -math.inf).softmax(-1) @ {t}
a = {t} @ {t}.T|n = a.shape[0]|{t} = F.pad(a, (1, 0)).view(n + 1, n)[1:].reshape(n, n)
s = max({t}.shape) - min({t}.shape)|{t} = F.pad({t}, (s // 2, s - s // 2))[:, : {t}.shape[1]]
y = torch.ones_like({t})|for _ in range(20):|    z = (y + {t}.abs() / y) / 2|    if (z - y).abs().max() < 1e-3:|        break|    y = z|{t} = y
y, h = {t}, 0.0|while h < 0.35:|    y, h = y + 0.1 * (y.mean() - y + math.sin(h)), h + 0.1|{t} = y
p = ({t} @ {t}.T).softmax(1)|for _ in range(3):|    p = p / p.sum(0, keepdim=True)|    p = p / p.sum(1, keepdim=True)|{t} = p
"""
)

PYRAMIDS = blocks_of(
    """
a = F.avg_pool2d({t}, 2, ceil_mode=True)|{t} = {t} + F.interpolate(a, size={t}.shape[-2:])
a = F.max_pool2d({t}, 3, 2, 1)|b = F.max_pool2d(a, 3, 2, 1)|{t} = F.interpolate(a + F.interpolate(b, size=a.shape[2:]), {t}.shape[2:], mode='bilinear')
a = F.conv_transpose2d(F.avg_pool2d({t}, 2, ceil_mode=True), torch.ones({t}.shape[1], 4, 2, 2), stride=2)|{t} = a[:, :, : {t}.shape[2], : {t}.shape[3]]
a = F.conv_transpose2d(F.conv2d({t}, torch.ones(4, {t}.shape[1], 3, 3), stride=2, padding=1), torch.ones(4, 4, 2, 2), stride=2)|h, w = {t}.shape[2] - a.shape[2], {t}.shape[3] - a.shape[3]|{t} = F.pad(a, (w // 2, w - w // 2, h // 2, h - h // 2))
xs = [{t}]|while min(xs[-1].shape[-2:]) > 3:|    xs.append(F.avg_pool2d(xs[-1], 2))|{t} = sum(F.adaptive_avg_pool2d(a, 1) for a in xs) + {t}
{t} = torch.cat([{t}] + [F.interpolate(F.adaptive_avg_pool2d({t}, k), {t}.shape[2:], mode='bilinear') for k in (1, 2)], 1)[:, ::3]
{t} = torch.cat([F.adaptive_max_pool2d({t}, k).flatten(2) for k in (1, 2)], 2)[..., None]
h, w = {t}.shape[2:]|y = F.pad({t}, (0, -w % 2, 0, -h % 2))|y = y.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).amax((3, 5))|{t} = F.interpolate(y, scale_factor=2.0)[..., :h, :w]
h, w = {t}.shape[2:]|p = 4|y = F.pad({t}, (0, (p - w % p) % p, 0, (p - h % p) % p))|y = y.softmax(1)|{t} = y[:, :, :h, :w].contiguous()
h, w = {t}.shape[2:]|s = max(h, w)|{t} = F.pad({t}, ((s - w) // 2, s - w - (s - w) // 2, (s - h) // 2, s - h - (s - h) // 2))
h, w = {t}.shape[2:]|r = 8 / min(h, w)|{t} = F.interpolate({t}, size=(int(round(h * r)), int(round(w * r))), mode='bilinear')
h, w = {t}.shape[2:]|i, j = (h - min(h, 4)) // 2, (w - min(w, 3)) // 2|{t} = {t}[..., i : i + min(h, 4), j : j + min(w, 3)]
y, x_ = torch.meshgrid(torch.linspace(-1, 1, {t}.shape[2]), torch.linspace(-1, 1, {t}.shape[3]), indexing='ij')|{t} = F.grid_sample({t}, torch.stack([x_, y], -1).expand({t}.shape[0], -1, -1, -1) * 0.9, align_corners=True)
m = torch.tensor([[[0.9, 0.1, 0.0], [0.0, 1.1, 0.1]]]).expand({t}.shape[0], -1, -1)|{t} = F.grid_sample({t}, F.affine_grid(m, {t}.shape, align_corners=False), align_corners=False)
m = F.max_pool2d({t}, 3, 1, 1)|{t} = torch.where(m - {t} < {f}, {t} * 0, m)
i = {t}.flatten(2).argmax(2)|{t} = {t} + (i // {t}.shape[3] + i % {t}.shape[3])[..., None, None]
p = {t}.flatten(2).softmax(2).view_as({t})|{t} = {t} * (p.sum(2) * torch.arange({t}.shape[3])).sum(2)[..., None, None]
u = F.unfold({t}, 3, padding=1).view({t}.shape[0], {t}.shape[1], 9, *{t}.shape[2:])|{t} = (u * {t}[:, :, None]).sum(2).softmax(1)
{t} = torch.cat([torch.cat(list(r.split(2, 3))[::-1], 3) for r in {t}.split(2, 2)], 2)
{t} = {t} * (F.adaptive_avg_pool2d({t}, 1).flatten(1) @ torch.ones({t}.shape[1], {t}.shape[1])).sigmoid()[..., None, None]
a, b = {t}.chunk(2, 1)|{t} = torch.cat([a * b.sigmoid(), a.flip(-1) + b.amax((2, 3), keepdim=True)], 1)
{t} = F.interpolate(F.interpolate({t}, scale_factor=0.5, mode='bilinear'), {t}.shape[2:], mode='bicubic')
{t} = {t}[:, :, 1:, :-1] - F.pad({t}, (1, 0, 0, 1))[:, :, 1:, :-2][..., : {t}.shape[2] - 1, :]
k = 3 if {t}.shape[2] > 4 else 1|{t} = F.max_pool2d({t}, k, 1, k // 2)
"""
)
