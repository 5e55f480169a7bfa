"""What models do with tensors beyond layers and arithmetic: indices, writes to views, dtypes."""

from __future__ import annotations


def lines_of(text: str) -> tuple[str, ...]:
    return tuple(text.strip().split("\n"))


INDEXING = lines_of(
    """
{t}[{j}]
{t}[..., {j}]
{t}[:, None]
{t}[None, ..., {j}:]
{t}[{j}:, ..., None]
{t}[::{i}, {j}]
{t}[[0, {j}]]
{t}[:, [{j}, 0, -1]]
{t}[torch.tensor([{j}, 0])]
{t}[..., torch.tensor([{j}, 0])]
{t}[torch.tensor([[0, -1], [{j}, 0]])]
{t}[[0, {j}], [1, -1]]
{t}[[0], :, [1, {j}]]
{t}[:, [0, {j}], [1, -1]]
{t}[{j}, :, [0, 1]]
{t}[[0, 1], {j}]
{t}[None, [0, {j}], None]
{t}[torch.arange({t}.shape[0]), {j}]
{t}[torch.arange({t}.shape[0])[:, None], torch.tensor([0, {j}])]
{t}[torch.arange({t}.shape[0]).flip(0)]
{t}[..., [True, False] * ({t}.shape[-1] // 2)]
{t}[torch.tensor(True)]
{t}[True]
{t}[..., {t}.new_ones({t}.shape[-1]).bool()]
{t}[{j}:][{j}:]
{t}[{t}.shape[0] // 2 :: 2]
{t}[: -{t}.shape[0] // 2]
{t}[-{i}:, -{i}:]
{t}[{t}.argmax(0)]
{t}[({t}[:, 0] > 0).long()]
{t}[({t} > 0).flatten(1).any(1)]
{t}.take({t}.argmax(0))
{t}.flatten()[{t}.flatten(1).argmin(0)]
{t}.gather(0, {t}.argsort(0))
{t}.gather(-1, {t}[..., :1].long() * 0)
torch.take_along_dim({t}, {t}.argmax(0, keepdim=True), 0)
{t}.index_select({a}, torch.tensor([0, 0, 1]))
torch.cat(torch.tensor_split({t}, {i}, 0)[::-1])
{t}.split([1, {t}.shape[0] - 1])[1]
{t}.chunk({i}, {a})[-1]
torch.cat([p * k for k, p in enumerate({t}.split({i}, 0))])
torch.stack({t}.unbind({a})[::2])
torch.hsplit({t}, 2)[1]
torch.vstack([{t}, {t}])
{t}[{t}.shape[0] - 1, ...]
{t}.swapaxes(0, -1)[{j}]
torch.tril_indices({t}.shape[0], 3)[0] + {t}.sum()
{t}[tuple(torch.triu_indices({t}.shape[0], {t}.shape[1]))]
{t}.masked_fill(torch.ones({t}.shape[0], {t}.shape[0]).tril()[:, :1].bool(), {f})
{t}[torch.where({t} > 0)]
torch.nn.functional.one_hot({t}.argmax(-1), {t}.shape[-1]).float()
{t}.diff(dim={a})
torch.rot90({t})
torch.cartesian_prod({t}.flatten()[:3], {t}.flatten()[:2])
torch.meshgrid({t}[:, 0], {t}[0], indexing='ij')[1]
{t}.topk(min({i}, {t}.shape[0]), 0)[1].float()
{t}.sort({a}, descending=True, stable=True)[1].float()
{t}.topk(max({t}.shape[0] // 2, 1), 0, largest=False)[0]
torch.bucketize({t}, {t}.flatten().sort()[0]).float()
"""
)

WRITES = lines_of(
    """
{t}[{j}, ...] = {f}
{t}[..., {j}] = {t}[..., 0] * 2
{t}[[0, {j}]] = {f}
{t}[:, [0, {j}]] += 1
{t}[torch.arange({t}.shape[0]), {j}] = {f}
{t}[{t} > {f}] *= 2
{t}[{t}[:, 0] > 0] = {t}[0]
{t}[::2][..., 1:] = {f}
{t}[1:].transpose(0, 1)[{j}] = {f}
{t}.view(-1)[{j}] = {f}
{t}.flatten()[0] = {f}
{t}.narrow(0, 0, 1).fill_({f})
{t}.unbind(-1)[{j}].add_(1)
{t}.chunk(2, -1)[0].mul_({f})
{t}.split(1, -1)[1].copy_({t}.mean(-1, keepdim=True))
{t}.diagonal().add_(1)
{t}.T[{j}].zero_()
{t}.index_add_(0, torch.tensor([0, 0]), {t}[:2].clone())
{t}.index_copy_(0, torch.tensor([0]), {t}[-1:].clone())
{t}.index_put_((torch.tensor([0, 0]),), torch.tensor({f}), accumulate=True)
{t}.permute(1, 0)[{j}:] -= 1
{t}.scatter_add_(0, {t}.argmax(0, keepdim=True), {t}[:1].clone())
{t}.unsqueeze(1)[:, 0].sub_({f})
{t}.scatter_(1, {t}.argmin(1, keepdim=True), {f})
{t}.scatter_reduce_(0, {t}.argmax(0, keepdim=True), {t}[:1] * 2, 'amax')
{t}.masked_scatter_({t} > 0, {t}.flip(0).contiguous())
{t}[: {t}.shape[0] // 2] = {t}[-({t}.shape[0] // 2) :].clone()
{t}[1:, 1:] = {t}[:-1, :-1].clone()
{t}.swapaxes(0, 1).mul_(2)
{t}.squeeze().add_(1)
{t}[None, {j}].neg_()
{t}.clamp_(min={f})
{t}.lerp_({t}.flip(0), {f})
{t}.where({t} > 0, {t}).add_(1)
{t}.tril_()
{t}.cumsum_(0)
{t}.t()[1:3].sigmoid_()
{t}.view({t}.shape[0], 2, -1)[:, {j}] = 0
{t}.expand(2, -1, -1)[0].add({f})
{t}[{t}.shape[0] // 2] = {t}.sum(0)
{t}[...] = {t}.flip(0)
{t}[:] = {f}
{t}[{t}.argmax(0), torch.arange({t}.shape[1])] = 0
{t}[torch.tensor([0, -1]), :] = {t}[torch.tensor([-1, 0]), :]
{t}.select(0, {j}).add_({t}[0])
{t}.add_({t}.T[:1].T)
{t}.real.mul_(2)
{t}.view(torch.int32).bitwise_and_(-2)
"""
)

WRITE_VALUES = lines_of(
    """
{t}.clone()
{t}[1:]
{t}.T
{t}[..., ::2]
{t}.reshape(-1, 2)
{t} + 1
{t}.contiguous()
{t}[:, 1:3]
{t}.view(-1)
{t}.detach()
{t}.flip(0)
{t}.chunk(2, 1)[1]
{t}.expand_as({t})
torch.zeros_like({t})
{t}.to(torch.float32)
{t}.float()
{t}.unsqueeze(0)[0]
{t}.new_zeros({t}.shape)
torch.stack([{t}, {t}])[0]
"""
)

TYPES = lines_of(
    """
{t} + 1
{t} + 1.5
{t} * True
{t} / 2
{t} // 2
{t} % 3
{t} ** 2
{t} ** 0.5
2 ** {t}
1 - {t}
1.0 / {t}
{t} + {t}.float()
{t} + {t}.double()
{t} * {t}.half()
{t} + {t}.bfloat16()
{t}.int() + {t}
{t} - {t}.long()
{t}.to(torch.uint8) + {t}
{t} + torch.tensor(2)
{t} * torch.tensor(0.5)
{t} + torch.tensor(0.5, dtype=torch.float64)
{t} + torch.tensor([1.5], dtype=torch.float16)
({t} > 0) + {t}
({t} > 0) * 2
({t} > 0) + ({t} < 2)
({t} > 0).sum()
({t} > 0) & ({t} < 2)
({t} > 0) | ~({t} > 1)
({t} > 0) ^ ({t} < 2)
torch.where({t} > 0, {t}, 0)
({t} > 0).cumsum({a})
torch.where({t} > 0, 1, 0)
torch.where({t} > 0, 1.0, {t})
torch.where({t} > 0, {t}, torch.tensor(2.0))
({t} > 0).prod({a})
torch.where({t} > 0, {t}.float(), {t}.double())
{t}.clamp(min=torch.tensor(0.5))
{t}.clamp({t}.float() - 1, {t}.float() + 0.5)
{t}.clamp(max={t}.flip(0))
torch.cat([{t}, {t}.float()])
torch.stack([{t}, {t}.long()])
{t}.sum({a})
{t}.mean({a}, dtype=torch.float32)
{t}.sum(dtype=torch.float64)
{t}.cumsum({a})
{t}.to({t}.dtype)
{t}.type_as({t})
{t}.bool().float()
torch.true_divide({t}, 3)
torch.floor_divide({t}, 3)
torch.div({t}, -3, rounding_mode='trunc')
torch.div({t}, {t}.flip(0) + 30, rounding_mode='floor')
torch.remainder({t}, -3)
torch.fmod({t}, -3)
{t}.round()
{t}.round(decimals=1)
torch.full_like({t}, {f})
torch.full_like({t}, 3, dtype=torch.int64)
torch.full(({i},), {f}) * {t}.sum()
torch.zeros(2, 1) + {t}.flatten()[:4]
torch.arange({t}.shape[0]) + {t}[:, :1].T
torch.arange(0, {t}.shape[0], 1.0) * 2 + {t}[0, 0]
torch.linspace(0, 1, {i}) + {t}[0, 0]
{t}.new_tensor([1, 2]).sum() + {t}
{t}.new_full((2,), 1) + {t}[0, 0]
{t}.abs().sqrt()
{t}.exp().log()
{t}.addcmul({t}, {t}, value=2)
torch.add({t}, {t}, alpha=2)
torch.sub({t}, 1, alpha=2)
torch.rsub({t}, 2)
{t}.lerp({t}.flip(0), 0.5)
torch.addmm({t}[:, :1] * 0, {t}, {t}.T)
torch.maximum({t}, {t}.long())
torch.pow({t}.abs(), {t} * 0 + 2)
{t}.eq(1)
{t} != {t}.float()
{t}.gt({t}.long())
torch.isin({t}, torch.tensor([0, 1]))
{t}.softmax(0, dtype=torch.float32)
F.softmax({t}.float(), -1).to({t}.dtype)
{t}.argmax(-1) * {t}[..., 0]
{t} >> 1
{t} & 7
~{t}
-{t}
{t}.sign()
torch.logical_xor({t}, {t}.flip(0))
{t}.amax({a}) == {t}.amin({a})
{t}.std({a})
{t}.var(0, correction=0)
{t}.norm()
torch.atan2({t}, {t}.flip(0))
{t}.view(-1).dot({t}.view(-1))
{t} @ {t}.T
torch.hypot({t}.float(), {t}.double())
{t}.nonzero().sum()
{t}.any({a})
{t}.all()
torch.count_nonzero({t}, {a})
{t}.logsumexp({a})
"""
)
