"""Sizes that a model looks up in Python's lists, dicts and sets: right at every size, or refused with the line."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace

import pytest
import torch
from torch import nn

import onnxport

FAR = {100: 2.0}
BY_SIZE = {4: 1.0, 8: 2.0}
CHOSEN = {8, 64}
WEIGHTS = {size: torch.sin(torch.arange(3) + size**3) for size in range(1, 200)}
# Tables in which a size that nobody tries by chance is another number.
MANY = {size: size % 5 for size in range(100, 1000, 7)}
FAR_ONES = frozenset(range(100, 120))
TABLES = {"small": {100: 2.0}}
ORDERED = collections.OrderedDict(FAR)
COUNTED = collections.Counter({100: 2})
FIXED = MappingProxyType(FAR)
PAIRS = {(100, 2): 2.0}
SETTINGS = SimpleNamespace(inner=SimpleNamespace(tables=FAR))


def table() -> dict[int, float]:
    return {100: 2.0}


class OfClass(nn.Module):
    TABLE = FAR

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.TABLE.get(x.shape[0], 3.0)


class OfPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = OfClass()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.part.TABLE.get(x.shape[0], 3.0)


class Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = [1.0] * 60 + [3.0] * 60

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = int(x.shape[0])
        return x * self.scales[n]


def matched(x: torch.Tensor) -> torch.Tensor:
    match int(x.shape[0]):
        case 100:
            return x * 2
        case _:
            return x


REFUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "get": lambda x: x * FAR.get(int(x.shape[0]), 3.0),
    "get_by_length": lambda x: x * FAR.get(len(x), 3.0),
    "get_by_a_traced_size": lambda x: x * FAR.get(x.shape[0], 3.0),
    "in_a_dict": lambda x: x * 2 if x.shape[0] in FAR else x,
    "in_a_set": lambda x: x * 2 if x.shape[0] in CHOSEN else x,
    "in_a_set_written_out": lambda x: x * 2 if x.shape[0] in {8, 64} else x,
    "tensors": lambda x: x * WEIGHTS[int(x.shape[0])],
    "element_of_a_part": lambda x: x * [1.0, 2.0, 4.0, 3.0][int(x.shape[0]) // 50],
    "element_of_a_minimum": lambda x: x * [1.0, 2.0, 3.0][min(x.shape[0], 2)],
    "held_by_a_module": Held(),
    "many_keys": lambda x: x * MANY.get(x.shape[0], 9),
    "in_many": lambda x: x * 2 if x.shape[0] in FAR_ONES else x,
    "table_of_tables": lambda x: x * TABLES["small"].get(x.shape[0], 3.0),
    "ordered": lambda x: x * ORDERED.get(x.shape[0], 3.0),
    "counted": lambda x: x * COUNTED[x.shape[0]],
    "fixed": lambda x: x * FIXED.get(x.shape[0], 3.0),
    "part_of_a_key": lambda x: x * PAIRS.get((x.shape[0], 2), 3.0),
    "in_settings": lambda x: x * SETTINGS.inner.tables.get(x.shape[0], 3.0),
    "written_out": lambda x: x * {100: 2.0}.get(x.shape[0], 3.0),
    "made_by_a_function": lambda x: x * table().get(x.shape[0], 3.0),
    "of_a_class": OfClass(),
    "of_a_class_of_a_part": OfPart(),
}
FOLLOWED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "truth_of_a_difference": lambda x: x * 2 if x.shape[0] - 64 else x,
    "truth_of_a_bit": lambda x: x * 2 if x.shape[0] & 64 else x,
    "match": matched,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_found_only_at_some_sizes_is_refused(name: str) -> None:
    with pytest.raises((onnxport.DynamicAxisError, onnxport.VerificationError)):
        onnxport.export(REFUSED[name], torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_compared_is_followed(name: str) -> None:
    model = FOLLOWED[name]
    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 8, 63, 64, 65, 100, 128, 200):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), model(x))


def test_the_length_in_bits_is_followed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * int(x.shape[0]).bit_length()

    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 7, 8, 255, 256):
        torch.testing.assert_close(program(torch.ones(n, 3)), model(torch.ones(n, 3)))


def test_a_lookup_that_fails_at_other_sizes_is_told_with_its_values() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * BY_SIZE[int(x.shape[0])]

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(
        onnxport.DynamicAxisError, match=rf"test_lookups\.py:{line}, in \S+: .*1\.0 at n=4; 2\.0 at n=8"
    ):
        onnxport.export(model, torch.randn(4, 3), dynamic_axes={"x": {0: "n"}})


def test_a_table_of_what_follows_from_the_size_is_followed() -> None:
    table = {size: size // 3 for size in range(1, 400)}
    model = nn.Module()
    model.table = table  # type: ignore[assignment]
    model.forward = lambda x: x * model.table[int(x.shape[0])]  # type: ignore[method-assign, operator, index]
    program = onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 50, 121):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), x * table[n])


def test_hashes_of_tensors_are_as_before() -> None:
    before = torch.Tensor.__hash__
    onnxport.export(REFUSED["in_a_set"], torch.randn(4, 3))
    assert torch.Tensor.__hash__ is before


@pytest.mark.parametrize("name", ["count", "length"])
def test_a_number_that_an_expression_fits_by_chance_is_refused(name: str) -> None:
    hidden = {"count": lambda n: bin(n).count("1"), "length": lambda n: len(bin(n))}

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * hidden[name](int(x.shape[0]))

    with pytest.raises(onnxport.DynamicAxisError, match=r"\d at n=4; .*cannot follow"):
        onnxport.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def hidden(size: int) -> float:
    return float(str(size).zfill(1) != "2") + 1.0


def scale(x: torch.Tensor) -> torch.Tensor:
    return x * HIDDEN[0](int(x.shape[0]))


HIDDEN = [hidden]


def test_a_number_elsewhere_that_is_another_at_a_size_checked_is_an_error() -> None:
    with pytest.raises(onnxport.VerificationError, match="n=2"):
        onnxport.export(scale, torch.randn(5, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_numbers_that_an_iterator_compares() -> None:
    """``groupby`` compares in the instruction of the loop, and looks nothing up."""

    def positions(kinds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows = []
        for row, kind in enumerate(kinds):
            parts, position = [], 0
            for key, group in itertools.groupby(kind[mask[row].bool()].tolist()):
                count = len(list(group))
                parts.append(torch.arange(count) + position)
                position += count if key == 0 else 1
            rows.append(torch.cat(parts))
        return torch.stack(rows) + kinds

    kinds = torch.tensor([[0, 0, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0]])
    with pytest.warns(onnxport.TraceWarning):
        program = onnxport.export(positions, (kinds, torch.ones_like(kinds)))
    assert program.verification.passed
    expected = torch.tensor([[0, 1, 2, 3, 3, 4], [0, 1, 2, 2, 3, 4]]) + kinds
    assert torch.equal(program(kinds, torch.ones_like(kinds)), expected)


def test_a_key_that_is_too_far_to_try_is_an_error() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * FAR.get(x.shape[0], 3.0)

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(onnxport.DynamicAxisError, match=rf"test_lookups\.py:{line}, in .*looked up .*n=100"):
        onnxport.export(model, torch.randn(4, 50_000), input_names=["x"], dynamic_axes={"x": {0: "n"}})


NAMED = {"4": 1.0, "100": 2.0, "other": 7.0}


def by_text(x: torch.Tensor) -> torch.Tensor:
    return x * NAMED.get(str(x.shape[0]), 3.0)


def by_formatted(x: torch.Tensor) -> torch.Tensor:
    return x * (2.0 if f"{x.shape[0] // 2}" in NAMED else 3.0)


def by_written(x: torch.Tensor) -> torch.Tensor:
    return x * {"100": 2.0, "-7": 5.0}.get(str(x.size(0)), 3.0)


class ByPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"100": nn.ReLU(), "5": nn.Tanh()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        name = str(x.shape[0])
        return self.parts[name](x) if name in self.parts else x


@pytest.mark.parametrize("model", [by_text, by_formatted, by_written, ByPart()])
def test_a_size_that_is_looked_up_as_text_is_tried_at_the_keys(model: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(onnxport.DynamicAxisError, match=r"test_lookups\.py:\d+, in .* n=(5|8|100|200)"):
        onnxport.export(model, torch.randn(3, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_a_key_out_of_range_is_none() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * FAR.get(x.shape[0], 3.0)

    n = torch.export.Dim("n", min=2, max=20)
    program = onnxport.export(model, torch.randn(4, 50_000), input_names=["x"], dynamic_shapes={"x": {0: n}})
    x = torch.randn(19, 50_000)
    torch.testing.assert_close(program(x), model(x))
