"""What models do in several lines: containers, functions, conditions, loops; and with indices and masks as inputs."""

from __future__ import annotations

from tests.fuzz.indexing import lines_of

# One line each; `|` ends a line of the program.
BLOCKS = tuple(
    line.replace("|", "\n")
    for line in lines_of(
        """
d = {'a': {t}, 'b': {t} * 2}|{t} = d['a'] - sum(d.values())
d = {}|for k, part in enumerate({t}.split({i}, 0)):|    d[k] = part.sum(0)|{t} = torch.stack(list(d.values()))
xs = [{t}]|for _ in range({i}):|    xs.append(xs[-1] * 2 + 1)|{t} = torch.cat(xs)
xs = [{t}, None, {t} + 1]|{t} = torch.stack([x for x in xs if x is not None]).mean(0)
xs = []|for i in range({t}.shape[1]):|    xs.append({t}[:, i] * i)|{t} = torch.stack(xs, 1)
xs = {t}.unbind(0)|{t} = torch.stack([a + b for a, b in zip(xs[1:], xs)] or list(xs))
def f(a, b=2):|    return a * b|{t} = f({t}) + f({t}, {i})
def f(a, n):|    return a if n == 0 else f(a + 1, n - 1)|{t} = f({t}, {i})
def f(a):|    a += 1|    return a[1:]|{t} = f({t}) if {t}.shape[0] > 2 else {t}
n = {t}.shape[0]|def f(a):|    return a[: n // 2 + 1]|{t} = f({t})
f = lambda a, *rest, **named: a + sum(rest) * named.get('c', 1)|{t} = f({t}, {t}, {t}, c={i})
if {t}.sum() > {f}:|    {t}[0] = {f}
if {t}.sum() > {f}:|    {t} = {t} * 2|else:|    {t} = {t} - 1
if {t}.mean() > {f}:|    {t} = {t}[1:]
if {t}.shape[0] > 3:|    {t}[1:3] += 1
if {t}.shape[0] % 2:|    {t} = F.pad({t}, (0, 0, 0, 1))
if {t}.shape[0] > {i} and {t}.sum() > 0:|    {t} = {t} + 1
w = {t}[:2]|if {t}.sum() > 0:|    w.mul_(2)
w = {t}[:, 1]|if {t}.shape[0] > 4:|    w += 1|else:|    w -= 1
w = {t} * 2|if {t}.sum() > 0:|    w = {t}|w[0] += 1|{t} = {t} + w
assert {t}.dim() == 2 and {t}.shape[1] > 0|{t} = {t} * 3
while {t}.abs().max() > {i}:|    {t} = {t} / 2
n = 0|while n < {t}.shape[0]:|    n += 2|{t} = {t} * n
n = 1|while n * 2 <= {t}.shape[0]:|    n *= 2|{t} = {t}[:n]
try:|    {t} = {t}.view(7, -1)|except RuntimeError:|    {t} = {t} * 2
try:|    {t} = {t} + {t}[3]|except IndexError:|    {t} = {t} - 1
for i in range(0, {t}.shape[0], {i}):|    {t}[i] = {t}[i] * i
for i in range({t}.shape[0] - 1):|    {t}[i + 1] = {t}[i] * 0.5 + {t}[i + 1]
for i in range({t}.shape[0]):|    if i % 2:|        {t}[i] += 1
for row in {t}:|    row += 1
for i, row in enumerate({t}):|    {t} = {t} + row * i
for i in range({t}.shape[0]):|    if {t}[i].sum() > 0:|        {t}[i] = 0
for i in reversed(range({t}.shape[0])):|    {t}[i] = {t}[i:].sum(0)
for i in range({t}.shape[0]):|    if i > {i}:|        break|    {t} = {t} + {t}[i]
for i in range(1, {i}):|    for j in range({t}.shape[0]):|        {t} = {t} + i * j
out = torch.zeros_like({t})|for i in range({t}.shape[1]):|    out[:, i] = {t}[:, : i + 1].sum(1)|{t} = out
out = torch.empty({t}.shape[0], 2)|out[:, 0] = {t}[:, 0]|out[:, 1] = {t}.sum(1)|{t} = torch.cat([{t}, out], 1)
out = torch.zeros({t}.shape[0] + 2, {t}.shape[1])|out[1:-1] = {t}|{t} = out
state = {t}[0]|for row in {t}:|    state = torch.tanh(state + row)|{t} = {t} + state
state, xs = torch.zeros(4), []|for row in {t}:|    state = state * 0.5 + row|    xs.append(state)|{t} = torch.stack(xs)
with torch.no_grad():|    {t} = {t} + {t}.mean()
with torch.autocast('cpu', dtype=torch.bfloat16):|    w = {t} @ {t}.T|{t} = {t} + w.float().sum(1, keepdim=True)
with torch.autocast('cpu', enabled=False):|    {t} = {t}.float() * 2
mask = torch.ones({t}.shape[0], {t}.shape[0]).tril() == 0|{t} = ({t} @ {t}.T).masked_fill(mask, -1e9).softmax(-1) @ {t}
n, w = {t}.shape[0], {t}[None]|{t} = F.scaled_dot_product_attention(w, w, w, torch.full((n, n), -1e9).triu(1))[0]
b, c = {t}.shape|{t} = {t}.reshape(b, 2, c // 2).transpose(1, 2).reshape(b, c)
a, b = {t}.chunk(2, 1)|{t} = torch.cat([a * b.sigmoid(), b], 1)
*rest, last = {t}.unbind(1)|{t} = torch.stack([last, *rest], 1)
(a, b), c = {t}.split([{t}.shape[0] // 2, {t}.shape[0] - {t}.shape[0] // 2]), 3|{t} = torch.cat([b, a]) * c
i = int({t}.argmax())|{t} = {t} * i
i = int({t}[:, 0].argmax())|{t} = {t} + {t}[i]
k = int(({t}[:, 0] > 0).sum())|{t} = {t}[:k] if k else {t}
k = ({t}[:, 0] > 0).sum().item()|{t} = {t} * k / {t}.shape[0]
k = max(1, {t}.shape[0] // 2)|{t} = {t}.topk(k, 0)[0]
values, places = {t}.topk(min({i}, {t}.shape[0]), 0)|{t} = values * (places % 3)
values, places = {t}.sort(0, stable=True)|{t} = values + {t}.gather(0, places)
keep = {t}[:, 0] > 0|out = torch.zeros_like({t})|out[keep] = {t}[keep] * 2|{t} = out
keep = {t}.sum(1) > 0|rest = {t}[~keep]|{t} = torch.cat([{t}[keep], rest * 2])
keep = ({t} > 0).nonzero()|{t} = {t} + keep.sum()
s = {t}.std(0) if {t}.shape[0] > 1 else torch.ones({t}.shape[1])|{t} = {t} / (s + 1)
m, i = {t}.max(1)|{t} = torch.where(i[:, None] > 1, {t}, m[:, None])
m = {t}.mean(0, keepdim=True)|v2 = (({t} - m) ** 2).mean(0, keepdim=True)|{t} = ({t} - m) / (v2 + 1e-5).sqrt()
n = {t}.shape[0]|p = torch.arange(n)|{t} = {t} * torch.where(p % 2 == 0, 1, -1)[:, None]
n = {t}.shape[0]|p = torch.arange(n)[:, None] - torch.arange(n)[None]|{t} = (p.clamp(-3, 3) + 3).float() @ {t}
q = torch.arange({t}.shape[0])[:, None] / 10 ** (torch.arange(2) / 2)|{t} = {t} + torch.cat([q.sin(), q.cos()], 1)
w = {t}|w = w.clone()|w[w > 0] = 0|{t} = {t} - w
w = {t}.view(-1)|w[::2] = {f}
w = {t}.reshape(-1)|w[0] = {f}|{t} = {t} + w[0]
w = {t}.t()|w[0].add_(1)|{t} = {t} * 2
w = {t}.new_zeros({t}.shape[0] + 1, {t}.shape[1])|w[1:] = {t}.cumsum(0)|{t} = w[1:] - w[:-1]
w = torch.cat([{t}, {t}])|w[: {t}.shape[0]] *= 2|{t} = w
w = {t}.flatten(0).unfold(0, {t}.shape[1], {t}.shape[1])|{t} = w + 1
"""
    )
)

# With the inputs k, small indices, one for each row, and m, a mask of the shape of x.
KEYED = lines_of(
    """
torch.zeros(5, {t}.shape[1]).index_add(0, k, {t})
torch.zeros(5, {t}.shape[1]).index_put((k,), {t}, accumulate=True)
torch.zeros(5, 4).index_put((k, torch.tensor(1)), {t}[:, 0], accumulate=True)
torch.zeros(5, {t}.shape[1]).scatter_add(0, k[:, None].expand_as({t}), {t})
torch.zeros(5, {t}.shape[1]).scatter_reduce(0, k[:, None].expand_as({t}), {t}, 'mean', include_self=False)
torch.zeros(5, {t}.shape[1]).scatter_reduce(0, k[:, None].expand_as({t}), {t}, 'amax')
F.one_hot(k, 5).to({t}.dtype).T @ {t}
{t}[k % {t}.shape[0]]
{t}.gather(1, k[:, None])
{t}[torch.arange(len(k)), k]
{t}[torch.arange(len(k))[:, None], torch.stack([k, 3 - k], 1)]
F.embedding(k, torch.arange(20.0).view(5, 4)) + {t}
F.embedding(k, torch.arange(20.0).view(5, 4), padding_idx=0)
F.embedding_bag(k[None], {t}[:4].repeat(4, 1), mode='max')
{t}.masked_fill(m, {f})
{t}.masked_fill(m.all(1, keepdim=True), {f})
torch.where(m, {t}, {f})
torch.where(m, torch.where({t} > 0, {t}, -{t}), torch.where({t} > 1, 0.5, {t}))
{t}[m]
{t}[m.any(1)]
{t}[m[:, 0]].sum(0) / m[:, 0].sum()
{t} * m
{t} * ~m + k[:, None]
({t} * m).sum(0) / m.sum(0).clamp(min=1)
{t}.masked_select(m).sum()
{t}.masked_scatter(m, {t}.flip(0))
{t}.repeat_interleave(k, 0)
{t}[k.argsort(stable=True)]
{t}[k == {i}]
{t}[k > {i}].mean(0)
{t}[: k.max()]
{t}[: int(k[0]) + 1]
{t}[int(k.min()):]
{t}.roll(int(k[0]), 0)
{t}.narrow(0, 0, int(k[0]) + 1)
F.pad({t}, (0, int(k[0])))
F.pad({t}, (0, 0, 0, int(k.max())))
torch.arange(int(k.max()) + 1) * {t}.sum()
torch.zeros(int(k.sum()) + 1, 2) + {t}.sum()
{t} * (torch.arange({t}.shape[0])[:, None] < k[0])
(torch.arange(5)[None] < k[:, None]).float()
{t} * int(k.sum())
{t} if k.sum() > {i} else -{t}
{t} if m.any() else {t} * 2
{t} if bool(m[0, 0]) else {t}[:1]
k.bincount(minlength=5) + {t}.sum()
torch.unique(k, return_inverse=True)[1] + {t}[:, 0]
torch.unique(k, return_counts=True)[1]
torch.unique_consecutive(k)
{t}.scatter(1, k[:, None], {f})
{t}.scatter(1, k[:, None], {t}[:, :1] * 2)
{t}.scatter_add(1, k[:, None], {t}[:, :1])
{t}.index_fill(0, k[:1], {f})
{t}.index_copy(0, torch.arange(len(k)), {t}.flip(0))
m.cumsum(0) * {t}
m.float().cumsum(1).argmax(1)
m.long() @ torch.ones(4, 2).long()
(m & ({t} > 0)).any(1)
(m | ({t} > 0)).all(0)
m.nonzero() * 2
m.sum(1, keepdim=True) + {t}
torch.stack([{t}[i] * k[i] for i in range(len(k))])
torch.cat([{t}[k == i] for i in range(4)])
torch.stack([{t}[k == i].sum(0) for i in range(4)])
F.cross_entropy({t}, k)
F.cross_entropy({t}, k, reduction='none', label_smoothing=0.1)
F.nll_loss({t}.log_softmax(1), k, ignore_index=0)
k + {t}[:, 0]
k // 2 * {t}[:, 0]
k / 2
k.float().mean() * {t}
k.to(torch.int32) % 3 - m[:, 0].int()
(k[:, None] == k[None]).float() @ {t}
torch.where(k[:, None] > 1, {t}, k[:, None])
torch.isin(k, torch.tensor([0, 2]))[:, None] * {t}
torch.searchsorted(torch.tensor([0, 1, 3]), k)
torch.take_along_dim({t}, k[:, None], 1)
{t}.take(k)
torch.index_select({t}, 1, k[:2])
torch.nn.utils.rnn.pad_sequence([{t}, {t}[:1]])
torch.combinations(k[:3])
torch.tensor_split({t}, {i})[0] * k.sum()
{t}.split([1, len(k) - 1])[1]
"""
)

ATTENTION = lines_of(
    """
torch.einsum('bnd,bmd->bnm', {t}, {t})
torch.einsum('bnd,de->bne', {t}, torch.ones({t}.shape[-1], 3))
torch.einsum('bnd,bn->bd', {t}, {t}.mean(-1))
torch.einsum('...nd,...md->...nm', {t}, {t})
torch.einsum('bnd->dbn', {t})
torch.einsum('bnd->n', {t})
torch.einsum('bnd,bnd->', {t}, {t})
torch.einsum('b...,b...->b', {t}, {t})
torch.bmm({t}, {t}.transpose(1, 2)).softmax(-1) @ {t}
torch.baddbmm({t}, {t}, torch.eye({t}.shape[-1]).expand({t}.shape[0], -1, -1))
F.scaled_dot_product_attention({t}, {t}, {t}, is_causal=True)
F.scaled_dot_product_attention({t}, {t}, {t}, torch.ones({t}.shape[1], {t}.shape[1]).tril().bool())
F.scaled_dot_product_attention({t}[:, :1], {t}, {t}, scale={i})
{t}.view(*{t}.shape[:2], 2, -1).transpose(1, 2).flatten(2)
{t}.unflatten(-1, (2, -1)).permute(0, 2, 1, 3).mean(-1)
{t} * torch.rsqrt({t}.pow(2).mean(-1, keepdim=True) + 1e-6)
torch.cat([-{t}[..., 2:], {t}[..., :2]], -1) * torch.arange({t}.shape[1])[:, None].sin() + {t}
{t}.topk({t}.shape[1] // 2 + 1, 1)[0]
{t}.sort(1)[0][:, : {t}.shape[1] // 2 + 1]
{t}.kthvalue({t}.shape[1] // 2 + 1, 1)[0]
{t}.cumsum(1) / torch.arange(1, {t}.shape[1] + 1)[:, None]
{t}.cumsum(1)[:, -1:] - {t}.cumsum(1)
{t}.flip(1).cummax(1)[0]
F.pad({t}, (0, 0, 1, 0))[:, :-1]
F.pad({t}, (0, 0, {t}.shape[1] - 1, 0))
F.pad({t}, ({t}.shape[0], 0))
F.pad({t}.transpose(1, 2), (1, 1), mode='replicate').transpose(1, 2)
F.interpolate({t}.transpose(1, 2), scale_factor={i}, mode='linear').transpose(1, 2)
F.interpolate({t}.transpose(1, 2), size={t}.shape[1] // 2 + 1).transpose(1, 2)
F.adaptive_max_pool1d({t}.transpose(1, 2), {t}.shape[1] // 2 + 1).transpose(1, 2)
F.conv1d({t}.transpose(1, 2), torch.ones({t}.shape[2], 1, 3), padding=1, groups={t}.shape[2]).transpose(1, 2)
F.conv1d(F.pad({t}.transpose(1, 2), (2, 0)), torch.ones(4, {t}.shape[2], 3)).transpose(1, 2)
{t}.unfold(1, 2, 1).mean(-1)
{t}.unfold(1, 3, 2).flatten(2)
{t}[:, ::2] + {t}[:, ::2].flip(1)
{t}[:, None] - {t}[:, :, None]
({t}[:, None] - {t}[:, :, None]).norm(dim=-1)
torch.where(({t} > 0).all(-1, keepdim=True), {t}, {t}.mean(1, keepdim=True))
{t}.masked_fill(torch.arange({t}.shape[1])[:, None] > {i}, {f})
{t} * (torch.arange({t}.shape[1]) < {t}.shape[1] // 2)[:, None]
{t}[torch.arange({t}.shape[0]), {t}.mean(-1).argmax(1)]
{t}.gather(1, {t}.argmax(1, keepdim=True))
{t}.mean(1, keepdim=True).expand_as({t})
{t}.amax((0, 1)) + {t}.sum((1, 2), keepdim=True)
{t}.softmax(1) * {t}.log_softmax(-1)
F.gumbel_softmax({t} * 1e4, hard=True) * 0 + {t}
{t}.view({t}.shape[0] * {t}.shape[1], -1).view({t}.shape)
{t}.reshape({t}.shape[0], -1, 2).flip(-1).flatten(1)
{t}.reshape(-1).view({t}.shape[0], -1)
{t}.repeat(2, 1, 1).view(2, *{t}.shape).sum(0)
torch.stack([{t}, {t} * 2], 2).flatten(1, 2)
torch.cat([{t}[:, :1].expand(-1, 2, -1), {t}], 1)
torch.cat([torch.zeros({t}.shape[0], 1, {t}.shape[2]), {t}], 1)
{t}.half().float() + {t}
({t}.double() * 2).to({t}.dtype)
({t}.bfloat16() + {t}.bfloat16()).float()
F.linear({t}.half().float(), torch.ones(4, {t}.shape[-1]))
{t} + {t}.argmax(-1, keepdim=True)
{t} * ({t} > 0) + ({t} < 0) * {f}
F.layer_norm({t}, {t}.shape[1:])
F.layer_norm({t}, {t}.shape[-1:], torch.ones({t}.shape[-1]))
F.rms_norm({t}, ({t}.shape[-1],))
F.cosine_similarity({t}[:, None], {t}[:, :, None], dim=-1)
torch.cdist({t}, {t}[:, :1])
torch.linalg.norm({t}, dim=(1, 2))
{t}.logcumsumexp(1)
{t}.tril() + {t}.triu(1)
{t}.diagonal(0, 1, 2).sum(-1)
{t}.std((1, 2), keepdim=True) * {t}
torch.nan_to_num({t} / 0)
torch.quantile({t}, {t}.new_tensor([0.25, 0.5]), 1)[0]
"""
)
