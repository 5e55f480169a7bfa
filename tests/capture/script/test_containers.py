"""Lists, dicts, tuples, objects and optional values of scripted programs."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
SEVERAL = [(X, n) for n in (0, 1, 2, 7)]
SIGNS = [(X,), (-X - 1,), (X * 0,)]
ROWS = [(torch.arange(3.0 * n).view(n, 3),) for n in (1, 2, 5)]
BATCH = {"x": {0: "batch"}}


def known_list(x: Tensor) -> Tensor:
    parts = [x, x + 1]
    parts.append(x * 2)
    parts.insert(0, x - 1)
    parts[1] = parts[-1] + parts[2]
    last = parts.pop()
    return torch.cat(parts) + last.sum()


def comprehension(x: Tensor) -> list[Tensor]:
    return [row * 2 for row in x.unbind(0)]


def growing(x: Tensor) -> Tensor:
    parts = [x[0]]
    for i in range(1, x.size(0)):
        parts.append(parts[-1] + x[i])
    return torch.stack(parts)


def growing_from_empty(x: Tensor, n: int) -> Tensor:
    parts: list[Tensor] = []
    for i in range(n):
        parts.append(x + i)
    parts.append(x)
    return torch.cat(parts, 1)


def returned(x: Tensor, n: int) -> list[Tensor]:
    parts = [x]
    for i in range(n):
        parts.append(x[: i % 2 + 1])
    return parts


def inserted(x: Tensor, n: int) -> Tensor:
    parts = [x]
    for i in range(n):
        parts.insert(0, x + i)
    return torch.cat(parts)


def popped(x: Tensor, n: int) -> Tensor:
    parts = [x]
    for i in range(n):
        parts.append(x + i)
    last = parts.pop()
    first = parts.pop(0) if len(parts) > 0 else x
    return last * 2 + first


def length_and_index(x: Tensor, n: int) -> Tensor:
    parts = [x]
    for i in range(n):
        parts.append(x * i)
    total = torch.zeros(1)
    for i in range(len(parts)):
        total = total + parts[i].sum() * i
    return total + len(parts)


def iterated(x: Tensor, n: int) -> Tensor:
    parts: list[Tensor] = [x]
    for i in range(n):
        parts.append(x - i)
    total = torch.zeros_like(x)
    for part in parts:
        total = total * 0.5 + part
    return total


def sliced(x: Tensor, n: int) -> Tensor:
    parts = [x, x + 1]
    for i in range(n):
        parts.append(x * i)
    return torch.cat(parts[1:]).sum() + torch.cat(parts[:-1]).sum()


def joined(x: Tensor, n: int) -> Tensor:
    left, right = [x], [x + 1]
    for i in range(n):
        left.append(x * i)
        right = right + [x]  # noqa: RUF005 (TorchScript has no [*right, x])
    return torch.cat(left + right)


def replaced(x: Tensor, n: int) -> Tensor:
    parts = [x, x, x]
    for i in range(n):
        parts[i % 3] = parts[i % 3] + i
    return torch.cat(parts)


def fixed_states(x: Tensor, n: int) -> Tensor:
    states = [x, x + 1]
    for _ in range(n):
        new = [states[1], states[0] * 0.5]
        states = new
    return states[0] - states[1]


def list_in_branch(x: Tensor) -> Tensor:
    parts = [x]
    if bool(x.sum() > 0):
        parts.append(x + 1)
        parts.append(x + 2)
    else:
        parts.append(x - 1)
    return torch.cat(parts)


def unbound(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x.unbind(0):
        total = total * 2 + row
    return total


def split_rows(x: Tensor) -> Tensor:
    total = torch.zeros(1)
    for part in x.split(2, 0):
        total = total * 2 + part.sum()
    return total


def chunked(x: Tensor, n: int) -> Tensor:
    total = torch.zeros(1)
    for part in x.chunk(n, 1):
        total = total * 2 + part.sum()
    return total


def numbers(x: Tensor, n: int) -> Tensor:
    found: list[int] = []
    for i in range(n):
        if i % 2 == 0:
            found.append(i * 3)
    total = 0
    for number in found:
        total += number
    return x + total + len(found)


def numbers_to_tensor(x: Tensor, n: int) -> Tensor:
    found = [1]
    for i in range(n):
        found.append(found[-1] + i)
    return torch.tensor(found) + x.size(0)


def sizes(x: Tensor) -> Tensor:
    shape = x.size()
    target = [shape[1], shape[0]]
    return x.reshape(target) + len(shape)


def list_argument(xs: list[Tensor], n: int) -> Tensor:
    total = xs[0]
    for i in range(n):
        for x in xs:
            total = total + x * i
    return total


def with_dict(x: Tensor, n: int) -> dict[str, Tensor]:
    found = {"a": x, "b": x + 1}
    for _ in range(n):
        found["a"] = found["a"] + found["b"]
    if "c" not in found:
        found["c"] = x * 2
    total = torch.zeros_like(x)
    for key, value in found.items():
        if key != "b":
            total = total + value
    found["d"] = total
    return found


def dict_argument(d: dict[str, Tensor]) -> Tensor:
    return d["left"] - d["right"]


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def named_tuple(x: Tensor, n: int) -> Pair:
    pair = Pair(x, x + 1)
    for _ in range(n):
        pair = Pair(pair.second, pair.first * 0.5)
    return pair


@torch.jit.script
class Accumulator:
    def __init__(self, start: Tensor) -> None:
        self.total = start
        self.count = 0

    def add(self, x: Tensor) -> None:
        self.total = self.total + x
        self.count += 1

    def mean(self) -> Tensor:
        return self.total / max(self.count, 1)


def with_object(x: Tensor, n: int) -> Tensor:
    found = Accumulator(torch.zeros_like(x))
    for i in range(n):
        if i % 2 == 0:
            found.add(x * i)
    return found.mean()


class Mode(Enum):
    SUM = 1
    MEAN = 2


class WithEnum(nn.Module):
    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        if self.mode == Mode.SUM:
            return x.sum(0)
        return x.mean(0)


def optional_argument(x: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        x = x * mask
    return x + 1


def optional_at_run_time(x: Tensor) -> Tensor:
    found: Tensor | None = None
    if bool(x.sum() > 0):
        found = x * 2
    if found is not None:
        return found + 1
    return x - 1


def steered_by_text(x: Tensor, mode: str = "double") -> Tensor:
    if mode == "double":
        return x * 2
    elif mode.startswith("ha"):
        return x / 2
    raise ValueError(f"unknown mode {mode}")


def forked(x: Tensor) -> Tensor:
    def_later = torch.jit.fork(torch.relu, x)
    y = x + 1
    return torch.jit.wait(def_later) + y


def annotated(x: Tensor, n: int) -> Tensor:
    found = torch.jit.annotate(list[Tensor], [])
    for _ in range(n):
        found += [x]
    if torch.jit.is_scripting():
        found.append(x + 1)
    return torch.stack(found).sum(0)


def tuple_of_lists(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    left: list[Tensor] = []
    right: list[Tensor] = []
    for i in range(n + 1):
        left.append(x + i)
        right.append(x.sum(1) * i)
    return torch.stack(left), torch.stack(right)


SEQUENCES = 13


def long_loop_over_tuples(x: Tensor) -> Tensor:
    pairs: list[tuple[Tensor, int]] = []
    for i in range(20):
        pairs.append((x + i, i))
    for tensor, number in pairs:
        x = x + tensor * number
    return x


PROGRAMS = [
    Program("long_loop_over_tuples", long_loop_over_tuples, (X,), SIGNS),
    Program("known_list", known_list, (X,), ROWS, axes=BATCH),
    Program("comprehension", comprehension, (X,)),
    Program("growing", growing, (X,), ROWS, axes=BATCH, since=SEQUENCES),
    Program("growing_from_empty", growing_from_empty, (X, 2), SEVERAL, since=SEQUENCES),
    Program("returned", returned, (X, 2), SEVERAL, since=SEQUENCES),
    Program("inserted", inserted, (X, 2), SEVERAL, since=SEQUENCES),
    Program("popped", popped, (X, 2), SEVERAL, since=SEQUENCES),
    Program("length_and_index", length_and_index, (X, 2), SEVERAL, since=SEQUENCES),
    Program("iterated", iterated, (X, 2), SEVERAL, since=SEQUENCES),
    Program("sliced", sliced, (X, 2), SEVERAL, since=SEQUENCES),
    Program("joined", joined, (X, 2), SEVERAL, since=SEQUENCES),
    Program("replaced", replaced, (X, 2), SEVERAL, since=SEQUENCES),
    Program("fixed_states", fixed_states, (X, 2), SEVERAL),
    Program("list_in_branch", list_in_branch, (X,), SIGNS, since=SEQUENCES),
    Program("unbound", unbound, (X,), ROWS, axes=BATCH),
    Program("split_rows", split_rows, (X,), ROWS, axes=BATCH),
    Program("chunked", chunked, (X, 2), [(X, 1), (X, 3)]),
    Program("numbers", numbers, (X, 3), SEVERAL),
    Program("numbers_to_tensor", numbers_to_tensor, (X, 3), SEVERAL),
    Program("sizes", sizes, (X,), ROWS, axes=BATCH),
    Program("list_argument", list_argument, ([X, X + 1], 2), [([X, X - 1], n) for n in (0, 1, 3)]),
    Program("with_dict", with_dict, (X, 2), SEVERAL),
    Program("dict_argument", dict_argument, ({"left": X, "right": X * 2},)),
    Program("named_tuple", named_tuple, (X, 2), SEVERAL),
    Program("with_object", with_object, (X, 2), SEVERAL),
    Program("enum_sum", WithEnum(Mode.SUM), (X,)),
    Program("enum_mean", WithEnum(Mode.MEAN), (X,)),
    Program("optional_given", optional_argument, (X, X > 2), [(X, X > 3)]),
    Program("optional_left_out", optional_argument, (X, None)),
    Program("optional_at_run_time", optional_at_run_time, (X,), SIGNS),
    Program("steered_by_default", steered_by_text, (X,)),
    Program("steered_by_text", steered_by_text, (X, "half")),
    Program("forked", forked, (X,), SIGNS),
    Program("annotated", annotated, (X, 2), SEVERAL, since=SEQUENCES),
    Program("tuple_of_lists", tuple_of_lists, (X, 2), SEVERAL, since=SEQUENCES),
]

test_containers = table(PROGRAMS)
