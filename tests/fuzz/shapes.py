"""What models do with images, with tensors of few or no elements, and in Python."""

from __future__ import annotations

from tests.fuzz.indexing import lines_of

IMAGES = lines_of(
    """
F.interpolate({t}, size=({t}.shape[2] * 2, {t}.shape[3] // 2 + 1))
F.interpolate({t}, scale_factor={f} + 0.6)
F.interpolate({t}, size={t}.shape[-1], mode='bilinear')
F.interpolate({t}, scale_factor=(1.5, 2), mode='bilinear', align_corners=True)
F.interpolate({t}, (7, 5), mode='bicubic')
F.interpolate({t}, scale_factor=0.5, mode='area')
F.interpolate({t}, scale_factor=0.6, recompute_scale_factor=True)
F.interpolate({t}, size=({t}.shape[2] + 1, {t}.shape[3]), mode='bilinear', antialias=True)
F.interpolate({t}, size=4, mode='nearest-exact')
F.unfold({t}, {i}, padding=1).transpose(1, 2)
F.fold(F.unfold({t}, 2), {t}.shape[2:], 2)
F.fold(F.unfold({t}, 3, padding=1, stride=2), {t}.shape[2:], 3, padding=1, stride=2)
F.pixel_unshuffle(F.pad({t}, (0, {t}.shape[3] % 2, 0, {t}.shape[2] % 2)), 2)[:, :4]
F.pixel_shuffle({t}, 2)
F.pad({t}, ({i}, 1, {j}, 0))
F.pad({t}, (1, 1), mode='reflect')
F.pad({t}, (1, 0, 1, 1), mode='replicate')
F.pad({t}, (1, 1, 0, 1), mode='circular')
F.pad({t}, (0, -{t}.shape[3] % 4, 0, -{t}.shape[2] % 4), value={f})
F.max_pool2d({t}, {i}, 1, {i} // 2)
F.max_pool2d({t}, 2, ceil_mode=True)
F.max_pool2d({t}, (2, 1), dilation=(2, 1))
F.avg_pool2d({t}, 3, 2, 1, ceil_mode=True)
F.avg_pool2d({t}, 3, 1, 1, count_include_pad=False)
F.avg_pool2d({t}, {t}.shape[2:])
F.max_pool2d({t}, 3, stride=1, padding=min({t}.shape[2] // 4, 1))
F.avg_pool2d({t}, max({t}.shape[3] // {i}, 1), stride=1)
F.adaptive_avg_pool2d({t}, ({i}, 1))
F.adaptive_avg_pool2d({t}, (None, {i}))
F.adaptive_max_pool2d({t}, 2)
F.lp_pool2d({t}.abs(), 2, 2)
F.conv2d({t}, torch.ones({t}.shape[1], 1, 3, 3), groups={t}.shape[1], padding='same')
F.conv2d({t}, torch.ones(4, {t}.shape[1], 2, 2), stride=2, dilation=2, padding=1)
F.conv_transpose2d({t}, torch.ones({t}.shape[1], 4, 3, 3), stride=2, padding=1, output_padding=1)
F.grid_sample({t}, {t}[:, :2].permute(0, 2, 3, 1).tanh(), mode='nearest', padding_mode='border', align_corners=True)
{t}.flatten(2).transpose(1, 2)
{t}.flatten(2).transpose(1, 2).reshape({t}.shape[0], {t}.shape[2], -1, {t}.shape[1]).permute(0, 3, 1, 2)
{t}.mean((2, 3), keepdim=True) * {t}
{t}.amax((-1, -2))
{t}.std((2, 3), keepdim=True) + {t}
F.layer_norm({t}.permute(0, 2, 3, 1), ({t}.shape[1],)).permute(0, 3, 1, 2)
F.group_norm({t}, 2)
F.instance_norm({t})
F.local_response_norm({t}, 3)
{t}.permute(0, 2, 3, 1)
{t}.view({t}.shape[0], 2, -1, *{t}.shape[2:]).transpose(1, 2).flatten(1, 2)
{t}.roll((1, -1), (2, 3))
{t}[:, :, ::2, 1::2]
{t}.flip(-1)
{t}.softmax(1)
torch.cat([{t}, {t}.mean(1, keepdim=True)], 1)[:, 1:]
{t}.unfold(2, 2, 1).unfold(3, 2, 2).mean((-1, -2))
{t}.repeat_interleave(2, 2)
{t} * torch.linspace(-1, 1, {t}.shape[3])
{t} + torch.meshgrid(torch.arange({t}.shape[2]), torch.arange({t}.shape[3]), indexing='ij')[0]
{t}.sigmoid() * {t}
F.relu6({t})
{t}.cumsum({a})
torch.fft.rfft2({t}).abs()
torch.einsum('bchw,bdhw->bcd', {t}, {t})[..., None, None] * {t}[:, :1, None]
F.cosine_similarity({t}, {t}.flip(2))
F.channel_shuffle({t}, 2)
{t}[..., : {t}.shape[-2]]
F.dropout2d({t}, 0.5, False)
F.normalize({t}, dim=1)
F.glu({t}, 1)
{t} * {t}.shape[2] / {t}.shape[3]
torch.logcumsumexp({t}, 2)
{t}.flatten(2).topk({i}, -1)[0]
F.interpolate({t}, scale_factor=2.0).narrow(2, 1, {t}.shape[2])
torch.nn.functional.embedding({t}.argmax(1), torch.arange(8.0).view(4, 2)).permute(0, 3, 1, 2)
F.pad({t}, [0] * 5 + [1])[:, :4]
{t}.unsqueeze(1).expand(-1, 2, -1, -1, -1).reshape(-1, *{t}.shape[1:])
"""
)

RANKS = lines_of(
    """
{t}.sum()
{t}.mean() + {t}
{t}.max() - {t}.min()
{t}[0, 0]
{t}[0:0]
torch.cat([{t}[0:0], {t}])
torch.cat([{t}, {t}[{t}.shape[0]:]])
{t}[0:0].sum(0)
{t}[:, 0:0].sum(1)
{t}[:, 0:0].mean(1)
{t}[0:0].prod(0) + {t}
{t}[:1] + {t}
{t}[:, :1] * {t}
{t}.unsqueeze(1) - {t}.unsqueeze(0)
{t}[:1].expand_as({t})
{t}[:1, :1].expand({t}.shape[0], 3)
torch.broadcast_tensors({t}[:1], {t})[0]
{t}.squeeze()
{t}.squeeze(0)
{t}[:1].squeeze(0)
{t}.sum(0, keepdim=True).squeeze()
{t}.sum().unsqueeze(0)
{t}.sum().expand(2, 2)
torch.stack([{t}.sum(), {t}.mean()])
torch.stack([{t}.sum(), {t}.amax()]).max()
{t}.sum().view(1, 1)
{t}.sum() * torch.ones({t}.shape)
{t}.sum().item() * {t}
float({t}.shape[0]) * {t}
torch.tensor({f}) * {t}.shape[0]
torch.scalar_tensor(2.0) * {t}
torch.zeros(0, 4).sum() + {t}
torch.zeros(0).sum() + {t}
torch.empty({t}.shape[0], 0).sum(1, keepdim=True) + {t}
torch.cat([{t}.sum().reshape(1), {t}.flatten()])
torch.atleast_2d({t}.sum())
torch.atleast_1d({t}.mean())
{t}.matmul({t}.T)
{t}.matmul({t}[0])
{t}[0].matmul({t}[0])
{t}[0] @ {t}.T
torch.outer({t}[0], {t}[:, 0])
torch.dot({t}[0], {t}[-1])
torch.mv({t}, {t}[0])
torch.einsum('ij,kj->ik', {t}, {t})
torch.einsum('ij->j', {t})
torch.einsum('ii->i', {t} @ {t}.T)
torch.einsum('...j,j', {t}, {t}[0])
torch.tensordot({t}, {t}, ([1], [1]))
torch.kron({t}[:2], {t}[:, :2])
torch.trace({t} @ {t}.T)
{t}.view(-1, 1, {t}.shape[-1])
{t}.reshape(1, -1)
{t}.reshape({t}.shape[0], 2, -1)
{t}.flatten()
{t}.reshape(-1)[: {t}.shape[0]]
{t}.unflatten(-1, (2, 2))
{t}.view_as({t})
{t}.reshape(*{t}.shape[:-1], 2, -1).sum(-1)
{t}.ravel().sum()
{t}.numel() * {t}
{t}.dim() * {t}
{t}.nelement() / {t}.size(0) + {t}
{t}.var(0) if {t}.shape[0] > 1 else {t}[0]
{t}.amax(())
{t}.sum((0, 1))
{t}.sum([])
{t}.mean(dim=(-1,))
{t}.std() + {t}
{t}.median()
{t}.quantile(0.3, 0)
{t}.nanmean(0)
{t}.aminmax()[0]
torch.var_mean({t}, 0)[1]
{t}.argmin().float()
{t}.argmax(0, keepdim=True).float()
{t}.max(1)[1].float()
{t}.cumsum(0)
{t}.flip(0).cumsum(0).flip(0)
{t}.cumprod(1)
{t}.cummin(0)[0]
torch.cumulative_trapezoid({t}, dim=1)
torch.trapz({t})
torch.histc({t}, 4)
F.pad({t}[None], (0, 0, 1, 0))[0]
torch.block_diag({t}, {t}[:1])
torch.diag({t}[0])
torch.diag_embed({t})
{t}.tril(-1)
torch.triu({t}, 1)
torch.vander({t}[0])
torch.baddbmm({t}[:1, None], {t}[:, :, None], {t}[:, None])
torch.linalg.norm({t}, dim=1)
torch.linalg.vector_norm({t}, 1, 0)
torch.cov({t})
torch.corrcoef({t})
torch.renorm({t}, 2, 0, 1.0)
F.pairwise_distance({t}, {t}.flip(0))
torch.pdist({t})
F.mse_loss({t}, {t}.flip(0))
F.smooth_l1_loss({t}, {t} * 2)
F.cross_entropy({t}, {t}.argmax(1).flip(0))
F.nll_loss({t}.log_softmax(1), {t}.argmin(1), reduction='none')
F.binary_cross_entropy_with_logits({t}, ({t} > 0).float())
F.kl_div({t}.log_softmax(1), {t}.softmax(1), reduction='batchmean')
F.embedding({t}.argmax(1), {t})
F.embedding_bag({t}.argmax(1)[None], {t})
F.bilinear({t}, {t}, torch.ones(2, 4, 4))
F.linear({t}, torch.ones(3, {t}.shape[-1]))
torch.complex({t}, {t}.flip(0)).abs()
torch.view_as_real(torch.view_as_complex({t}.reshape(-1, 2)) * 2j)
torch.polar({t}.abs(), {t}).real
torch.fft.fft({t}).imag
torch.fft.irfft(torch.fft.rfft({t}, dim=0), n={t}.shape[0], dim=0)
(torch.complex({t}, {t}) @ torch.complex({t}, {t}).T).real
torch.fft.rfft({t}, dim=0).abs()
torch.fft.fftshift({t})
torch.stft({t}.flatten(), 4, 2, window=torch.ones(4), return_complex=True).abs()
torch.exp(1j * {t}).real
torch.complex({t}, {t}).angle()
torch.complex({t}, {t}).conj().imag
(torch.complex({t}, {t}) ** 2).imag
torch.view_as_real(torch.complex({t}, {t})).flatten(1)
"""
)

PYTHON = lines_of(
    """
(lambda d: d['a'] + d['b'][0])({'a': {t}, 'b': [{t}, None]})
sum([{t}, {t}])
torch.cat([r[None] * k for k, r in enumerate({t})])
torch.stack([a + b for a, b in zip({t}, {t}.flip(0))])
max([{t}.shape[0], 4]) * {t}
torch.cat(sorted([{t}, {t}[:1]], key=len))
functools.reduce(torch.add, {t}.unbind(1))
torch.cat([{t}[i : i + 2].mean(0, keepdim=True) for i in range(0, {t}.shape[0], 2)])
torch.cat([{t}[k * 2 : (k + 1) * 2] for k in range({t}.shape[0] // 2)][::-1] or [{t}])
{t}[: len({t}) // 2 * 2].view(-1, 2, {t}.shape[1]).mean(1)
{t}.view({t}.size(0), *([1] * 2), -1)
[{t}, -{t}][{t}.dim() % 2]
next(iter({t}))
{t} * sum(s for s in {t}.shape)
{t} * math.sqrt(math.prod({t}.shape))
{t} * np.prod({t}.shape)
{t} * float(np.sqrt({t}.shape[0]))
{t} * torch.Size({t}.shape).numel()
{t}.reshape([s for s in {t}.shape] + [1])
{t}.reshape(tuple({t}.shape) + (1,)).squeeze(-1)
{t}.reshape(torch.Size([{t}.shape[0], -1]))
{t}.expand(torch.Size((2,)) + {t}.shape)
dict(enumerate({t}.shape))[0] * {t}
{t} * ({t}.shape[0] if {t}.shape[0] % 2 == 0 else {t}.shape[0] + 1)
{t} * int({t}.shape[0] / 2 + 0.5)
{t} * int(math.ceil({t}.shape[0] / 4))
{t} * (({t}.shape[0] - 1) // 2 + 1)
{t} * ({t}.shape[0] > 4)
{t} + (not {t}.shape[0] % 3)
{t} * all(s > 2 for s in {t}.shape)
{t} * any([{t}.shape[0] > 8])
{t} * {t}.shape.index(4)
{t} * {t}.shape.count(4)
{t} * len([s for s in {t}.shape if s > 4])
{t} * np.arange({t}.shape[0]).sum()
{t} + torch.from_numpy(np.arange({t}.shape[0])[:, None])
{t} + torch.tensor(np.linspace(0, 1, {t}.shape[0]))[:, None]
{t} + torch.tensor([[i] for i in range({t}.shape[0])])
{t} + torch.tensor([math.sin(i) for i in range({t}.shape[0])])[:, None]
{t} * torch.tensor({t}.shape)[0]
{t} / torch.tensor({t}.shape[-2:]).flip(0).prod()
{t} * torch.as_tensor({t}.shape[0])
{t} * max(1, {t}.shape[0] // 3)
{t} * min(8, {t}.shape[0])
{t}[: min(8, {t}.shape[0])]
{t} * ({t}.shape[0] and 3)
{t} * {4: 1, 6: 2}.get({t}.shape[0], 3)
{t} * next(p for p in (2, 3, 5, 7, 99) if p >= min({t}.shape[0], 90))
{t} * bisect.bisect([3, 6, 12], {t}.shape[0])
{t} * sorted({t}.shape)[-1]
{t} * [*{t}.shape][0]
{t} * list(range({t}.shape[0]))[-1]
{t} * range(0, {t}.shape[0], 2)[-1]
{t} * len(range(1, {t}.shape[0], 3))
{t} * 2 ** (({t}.shape[0] - 1).bit_length())
{t} * (1 << {t}.shape[0].bit_length())
{t}.new_zeros(len({t}), 1) + {t}
F.pad({t}, (0, 0, 0, 2 ** math.ceil(math.log2({t}.shape[0])) - {t}.shape[0]))
F.pad({t}, (0, 0, 0, (4 - {t}.shape[0] % 4) % 4)).view(-1, 4, {t}.shape[1])
{t}.repeat(math.ceil(10 / {t}.shape[0]), 1)[:10]
{t}[torch.randperm({t}.shape[0]).sort()[0]]
{t} * divmod({t}.shape[0], 4)[0]
{t} + round({t}.shape[0] * 0.75)
"""
)
