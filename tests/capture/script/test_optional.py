"""Optional values that a loop sets, unsets and passes on."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
SEVERAL = [(X, n) for n in (0, 1, 2, 5)]
SEQUENCES = 13


def first_of_a_loop(x: Tensor, n: int) -> Tensor:
    best: Tensor | None = None
    for i in range(n):
        best = x * i if best is None else best + i
    if best is None:
        return x
    return best


def unset_again(x: Tensor, n: int) -> Tensor:
    last: Tensor | None = x
    for i in range(n):
        if i % 2 == 0:
            last = None
        else:
            last = x + i
    return x * 3 if last is None else last


def number(x: Tensor, n: int) -> Tensor:
    found: int | None = None
    for i in range(n):
        if i > 1 and found is None:
            found = i
    return x if found is None else x + found


def state(x: Tensor, n: int) -> Tensor:
    state: tuple[Tensor, Tensor] | None = None
    out = [x]
    for i in range(n):
        if state is None:
            h, c = x * 0, x * 0 + 1
        else:
            h, c = state
        h = h + c * i
        state = (h, c + 1)
        out.append(h)
    return torch.cat(out)


def growing(x: Tensor, n: int) -> Tensor:
    joined: Tensor | None = None
    for i in range(n):
        part = x + i
        joined = part if joined is None else torch.cat([joined, part])
    if joined is None:
        joined = x
    return joined


def only_read(x: Tensor, n: int) -> Tensor:
    mask: Tensor | None = None
    if n > 1:
        mask = x * 2
    for _ in range(n):
        x = x - 1 if mask is None else x + mask
    return x


def searched(x: Tensor, n: int) -> Tensor:
    found: Tensor | None = None
    i = 0
    while found is None and i < n:
        y = x + i
        if bool(y.sum() > 20):
            found = y
        i += 1
    return x if found is None else found * 10


def list_of_known_length(x: Tensor, n: int) -> Tensor:
    parts: list[Tensor] | None = None
    for i in range(n):
        parts = [x * i] if parts is None else [parts[0] + 1]
    return x if parts is None else parts[0]


def returned_from_within(x: Tensor, n: int) -> Tensor:
    last = x
    for i in range(n):
        parts = [x]
        for j in range(i):
            parts.append(x * j)
        if len(parts) > 2:
            return torch.cat(parts)
        last = parts[-1]
    return last


PROGRAMS = [
    Program("first_of_a_loop", first_of_a_loop, (X, 3), SEVERAL),
    Program("unset_again", unset_again, (X, 3), SEVERAL),
    Program("number", number, (X, 3), SEVERAL),
    Program("state", state, (X, 3), SEVERAL, since=SEQUENCES),
    Program("growing", growing, (X, 3), SEVERAL),
    Program("only_read", only_read, (X, 3), SEVERAL),
    Program("searched", searched, (X, 3), SEVERAL),
    Program("list_of_known_length", list_of_known_length, (X, 3), SEVERAL),
    Program("returned_from_within", returned_from_within, (X, 3), SEVERAL, since=SEQUENCES),
]

test_optional = table(PROGRAMS)
