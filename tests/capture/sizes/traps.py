"""Small models that exporters get wrong at other sizes than the example's, as users have met them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LIMIT = 40


@dataclass(frozen=True)
class Trap:
    """A model, the shape of its example, its dynamic axes, and sizes of those that it is run at, in their order."""

    model: Callable[[torch.Tensor], Any]
    shape: tuple[int, ...]
    axes: dict[int, str]
    sizes: tuple[tuple[int, ...], ...]


ONE = ((1,), (2,), (7,), (8,), (16,), (33,), (60,))
TWO = ((1, 1), (1, 9), (5, 2), (7, 7), (8, 16), (3, 40))
IMAGES = ((8, 8), (9, 31), (16, 24), (40, 7), (33, 33))

RIGHT: dict[str, Trap] = {}


# On both sides of limits in the models.
LIMITS = ((1,), (7,), (14,), (50,), (51,), (100,), (101,), (300,))


def right(shape: tuple[int, ...], axes: dict[int, str], sizes: tuple[tuple[int, ...], ...] | None = None) -> Any:
    """The decorated model exports, and is right at the sizes."""

    def register(model: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        RIGHT[model.__name__] = Trap(model, shape, axes, sizes or (ONE if len(axes) == 1 else TWO))
        return model

    return register


@right((1, 3), {0: "n"})
def example_with_batch_one(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(x.shape[0], 3)


@right((1, 1, 4), {0: "b", 1: "t"})
def example_with_two_ones(x: torch.Tensor) -> torch.Tensor:
    return x.expand(x.shape[0], x.shape[1], 4) + x.new_ones(x.shape[1], 4)


@right((2, 3, 4, 5, 6), {3: "h"})
def flatten_over_a_dynamic_axis(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(2, 4)


@right((2, 5), {1: "t"})
def arange_over_a_size(x: torch.Tensor) -> torch.Tensor:
    return x + torch.arange(x.shape[1])


@right((6, 2, 4), {0: "t", 1: "b"})
def flipped_both_ways(x: torch.Tensor) -> torch.Tensor:
    forward, backward = x.cumsum(0), x.flip(0).cumsum(0).flip(0)
    return torch.cat([forward, backward], -1)


@right((1, 10, 13, 4), {1: "h", 2: "w"}, IMAGES)
def windows_with_padding(x: torch.Tensor) -> torch.Tensor:
    b, h, w, c = x.shape
    bottom, right = (8 - h % 8) % 8, (8 - w % 8) % 8
    x = F.pad(x, (0, 0, 0, right, 0, bottom))
    h, w = h + bottom, w + right
    return x.view(b, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)


@right((1, 10, 13, 4), {1: "h", 2: "w"}, IMAGES)
def windows_padded_where_needed(x: torch.Tensor) -> torch.Tensor:
    b, h, w, c = x.shape
    bottom, right = (8 - h % 8) % 8, (8 - w % 8) % 8
    if bottom > 0 or right > 0:
        x = F.pad(x, (0, 0, 0, right, 0, bottom))
    h, w = h + bottom, w + right
    return x.view(b, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)


@right((1, 10, 13, 4), {1: "h", 2: "w"}, IMAGES)
def windows_in_python_integers(x: torch.Tensor) -> torch.Tensor:
    b, h, w, c = map(int, x.shape)
    bottom, right = (8 - h % 8) % 8, (8 - w % 8) % 8
    x = F.pad(x, (0, 0, 0, right, 0, bottom))
    h, w = h + bottom, w + right
    return x.view(b, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)


TABLE = torch.linspace(-1, 1, 127 * 4).reshape(127, 4)


@right((2, 6, 4), {1: "t"})
def relative_position_table(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.shape[1])
    return TABLE[places[:, None] - places[None, :] + 63].sum(-1) + x.sum()


@right((2, 6, 4), {0: "b", 1: "t"})
def relative_position_table_in_integers(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(int(x.shape[1]))
    return TABLE[places[:, None] - places[None, :] + 63].sum(-1) + x.sum()


TOKEN = torch.linspace(-1, 1, 4).reshape(1, 1, 4)


@right((2, 6, 4), {0: "b"})
def expand_by_a_python_integer(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([TOKEN.expand(int(x.shape[0]), -1, -1), x], 1)


@right((2, 6, 4), {0: "b", 1: "t"})
def mask_from_the_shape(x: torch.Tensor) -> torch.Tensor:
    b, t, _ = x.shape
    mask = torch.ones(b, t, t, dtype=torch.bool).tril()
    return (x @ x.transpose(1, 2)).masked_fill(~mask, -1e9).softmax(-1)


@right((2, 6, 4), {0: "b", 1: "t"})
def zeros_of_the_shape(x: torch.Tensor) -> torch.Tensor:
    b, t = x.shape[:2]
    return x.new_zeros(b, t) + x[..., 0]


@right((1, 2, 8, 10), {2: "h", 3: "w"}, IMAGES)
def interpolate_to_a_computed_size(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(int(x.shape[2] * 1.5), int(x.shape[3]) // 2), mode="bilinear")


@right((1, 2, 8, 10), {2: "h", 3: "w"}, IMAGES)
def interpolate_to_half_rounded_up(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=[math.ceil(size / 2) for size in x.shape[2:]], mode="nearest")


@right((2, 3, 6, 4), {0: "b", 2: "t"})
def view_by_a_product(x: torch.Tensor) -> torch.Tensor:
    b, h, t, _ = x.shape
    return x.view(int(b * h), t, -1)


ENCODING = torch.linspace(-1, 1, 512 * 4).reshape(512, 4)


@right((2, 6, 4), {1: "t"})
def positional_encoding_cut(x: torch.Tensor) -> torch.Tensor:
    return x + ENCODING[: x.size(1)]


@right((2, 6, 4), {1: "t"})
def positional_encoding_cut_by_len(x: torch.Tensor) -> torch.Tensor:
    return x + ENCODING[: len(x[0])]


@right((2, 6, 4), {1: "t"})
def causal_mask_by_triu(x: torch.Tensor) -> torch.Tensor:
    t = int(x.shape[1])
    return (x @ x.transpose(1, 2) + torch.full((t, t), float("-inf")).triu(1)).softmax(-1)


@right((2, 6), {1: "t"})
def pooling_over_everything(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x[:, None], x.size(1)).squeeze(2)


@right((2, 6), {1: "t"})
def float_factor(x: torch.Tensor) -> torch.Tensor:
    return x / math.sqrt(x.shape[1])


@right((2, 6), {1: "t"})
def mean_by_len(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1) / len(x[0])


@right((2, 6), {1: "t"})
def ratio_of_neighbours(x: torch.Tensor) -> torch.Tensor:
    n = int(x.shape[1])
    return x * ((n - 1) / (n + 1))


@right((4, 6), {0: "n", 1: "m"})
def ratio_of_axes(x: torch.Tensor) -> torch.Tensor:
    return x * (int(x.shape[0]) / int(x.shape[1]))


@right((2, 6), {1: "t"})
def list_of_equal_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.5 for _ in range(x.shape[1])])


@right((2, 6), {1: "t"})
def list_of_indices(x: torch.Tensor) -> torch.Tensor:
    return x[:, torch.tensor([i for i in range(int(x.shape[1])) if i % 2 == 0])]


@right((2, 6), {1: "t"})
def numpy_range(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(np.arange(3, 3 + 2 * int(x.shape[1]), 2))


@right((4, 6), {0: "n", 1: "m"})
def numpy_product(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(int(np.prod(x.shape)))


@right((4, 6), {0: "n", 1: "m"})
def tensor_of_sizes(x: torch.Tensor) -> torch.Tensor:
    return x.sum() / torch.tensor([x.shape[0], x.shape[1] * 2, 5])


@right((4, 6), {0: "n", 1: "m"})
def tensor_of_a_product(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(int(x.shape[0]) * int(x.shape[1]))


@right((3, 20), {1: "t"}, ((8,), (9,), (16,), (33,), (60,)))
def frames(x: torch.Tensor) -> torch.Tensor:
    count = 1 + math.floor((x.shape[1] - 8) / 5)
    return x.unfold(1, 8, 5).reshape(3, count, 8)


@right((3, 20), {1: "t"})
def pad_to_a_multiple(x: torch.Tensor) -> torch.Tensor:
    t = int(x.shape[1])
    return F.pad(x, (0, math.ceil(t / 16) * 16 - t)).view(3, -1, 16).mean(-1)


@right((3, 5, 20), {1: "s", 2: "t"})
def part_of_a_product(x: torch.Tensor) -> torch.Tensor:
    s, t = int(x.shape[1]), int(x.shape[2])
    return torch.zeros(s * t // 4 + 1, 2 * s + 3 * t) + x.sum()


@right((3, 5, 20), {1: "s", 2: "t"})
def longer_of_two(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(max(int(x.shape[1]), int(x.shape[2]))) + x.sum()


@right((2, 6), {1: "t"})
def top_half(x: torch.Tensor) -> torch.Tensor:
    return x.topk(max(1, int(x.shape[1]) // 2), 1).values


@right((2, 6), {1: "t"})
def top_five_at_most(x: torch.Tensor) -> torch.Tensor:
    return x.topk(min(5, int(x.shape[1])), 1).values


@right((4, 6), {0: "n"})
def cut_at_a_limit(x: torch.Tensor) -> torch.Tensor:
    n = min(int(x.shape[0]), 50)
    return x[:n] + torch.zeros(n, 1)


@right((2, 6, 4), {0: "b", 1: "t"})
def identity_matrix(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2) @ torch.eye(int(x.shape[1]))


@right((2, 6, 4), {0: "b", 1: "t"})
def coordinates(x: torch.Tensor) -> torch.Tensor:
    return x + torch.linspace(-1, 1, int(x.shape[1]))[:, None]


@right((2, 6, 4), {0: "b", 1: "t"})
def repeated_mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(1, keepdim=True).repeat(1, int(x.shape[1]), 1) - x


@right((2, 3, 12, 16), {2: "h", 3: "w"}, IMAGES)
def global_pooling_by_size(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, (x.shape[2], x.shape[3])).flatten(1)


@right((2, 8), {1: "t"}, ((3,), (4,), (9,), (33,)))
def narrowed(x: torch.Tensor) -> torch.Tensor:
    return x.narrow(1, 1, int(x.shape[1]) - 2)


@right((2, 6), {1: "t"})
def last_by_index(x: torch.Tensor) -> torch.Tensor:
    return x[:, int(x.shape[1]) - 1]


@right((2, 4, 9), {0: "b", 2: "t"})
def condition_on_the_rank(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 3:
        x = x.transpose(1, 2)
    return x.reshape(x.shape[0], -1)


@right((4, 6), {0: "n"}, ((1,), (2,), (8,)))
def refuses_more_than_eight(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] <= 8, "at most 8 rows"
    return x + 1


@right((4, 6), {0: "n"})
def global_limit(x: torch.Tensor) -> torch.Tensor:
    n = int(x.shape[0])
    if n > LIMIT:
        x = x[-LIMIT:]
    return x * 2


@right((3, 20), {1: "t"})
def power_of_two(x: torch.Tensor) -> torch.Tensor:
    t = int(x.shape[1])
    return F.pad(x, (0, 2 ** math.ceil(math.log2(t)) - t))


# Axes that cannot vary, or not alone: the warning says so in these words.
STATIC: dict[str, tuple[Trap, str]] = {}


def static(shape: tuple[int, ...], axes: dict[int, str], words: str) -> Any:
    def register(model: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        STATIC[model.__name__] = Trap(model, shape, axes, ()), words
        return model

    return register


@static((4, 6), {0: "n"}, "invalid for input of size")
def fixed_reshape(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(4, 6)


@static((6, 6), {0: "a", 1: "b"}, "have to be equal")
def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x


@static((4, 6), {0: "n"}, "this model takes 4 rows")
def takes_four_rows(x: torch.Tensor) -> torch.Tensor:
    if int(x.shape[0]) != 4:
        raise ValueError("this model takes 4 rows")
    return x + 1


REFUSED: dict[str, tuple[Trap, int, str]] = {}


def refused(shape: tuple[int, ...], axes: dict[int, str], line: int, words: str) -> Any:
    """The decorated model is refused with the line, counted from its ``def``, and in these words."""

    def register(model: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        first = model.__code__.co_firstlineno + 1
        REFUSED[model.__name__] = Trap(model, shape, axes, ()), first + line, words
        return model

    return register


@right((4, 6), {0: "n"}, LIMITS)
def above_in_integers(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if int(x.shape[0]) > 100 else x - 1


@right((4, 6), {0: "n"}, LIMITS)
def above_by_len(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if len(x) > 100 else x - 1


@right((4, 6), {0: "n"}, LIMITS)
def every_seventh(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 7 == 0:
        return x + 1
    return x - 1


@right((4, 6), {0: "n"}, LIMITS)
def every_seventh_in_integers(x: torch.Tensor) -> torch.Tensor:
    n = int(x.shape[0])
    return x + 1 if n % 7 == 0 else x - 1


def rows(x: torch.Tensor) -> int:
    return int(x.shape[0])


@right((4, 6), {0: "n"}, LIMITS)
def size_from_a_helper(x: torch.Tensor) -> torch.Tensor:
    n = rows(x)
    if n > 50:
        return x * 2
    return x


@right((4, 6), {0: "n"})
def loop_over_a_size(x: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(6)
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
    return h


@right((4, 6), {0: "n"})
def list_over_a_size(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[0] * i for i in range(x.shape[0])])


@right((2, 16), {1: "t"}, ((1,), (2,), (3,), (7,), (8,), (33,), (64,)))
def path_by_the_number_of_elements(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, -1, 2) if x.numel() % 4 == 0 else x[:, :-1].reshape(2, -1, 2)


@refused((4, 6), {0: "n"}, 1, "takes another path")
def table_computed_in_python(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0] + torch.tensor([math.sin(i) for i in range(int(x.shape[0]))])


class Limited(nn.Module):
    """A limit that is an attribute, and a number that is handed on."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 40

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cut(x, int(x.shape[1])) * 2

    def cut(self, x: torch.Tensor, n: int) -> torch.Tensor:
        if n > self.limit:
            x = x[:, -self.limit :]
        return x + 1
