"""Scripted programs in which two names may stand for one tensor, list or object."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxport
from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
SEVERAL = [(X, n) for n in (0, 1, 2, 5)]
SEQUENCES = 13


def written_then_appended(x: Tensor, n: int) -> Tensor:
    parts = [x[0]]
    h = x[1]
    for _ in range(n):
        h = h + 1
        h.mul_(2)
        parts.append(h)
    return torch.stack(parts)


def copy_appended(x: Tensor, n: int) -> Tensor:
    parts = [x[0]]
    row = x[0].clone()
    for _ in range(n):
        row.add_(1)
        parts.append(row.clone())
    return torch.stack(parts)


def element_read_and_others_written(x: Tensor, n: int) -> Tensor:
    out = torch.zeros(6, 3)
    parts = [x[0]]
    for i in range(n):
        out[i] = parts[-1]
        parts.append(x[1] * i)
    return out + torch.stack(parts).sum()


def joined_list_written(x: Tensor, n: int) -> Tensor:
    parts = [x[0]]
    for i in range(n):
        parts.append(x[1] * i)
    joined = torch.stack(parts)
    joined[0] += 1
    return joined.relu_() + len(parts)


def new_in_each_round(x: Tensor, n: int) -> Tensor:
    h = x * 2
    total = torch.zeros(3)
    for _ in range(n):
        h = h + 1
        total = total + h[0]
        h.mul_(2)
        total.add_(1)
    return total


def list_of_either_side(x: Tensor, n: int) -> Tensor:
    parts = [x] if n > 1 else [x + 1, x]
    parts.append(x * 2)
    return torch.cat(parts)


def changed_on_one_side_and_new_on_the_other(x: Tensor, n: int) -> Tensor:
    parts = [x]
    for i in range(n):
        if i % 2 == 0:
            parts.append(x * i)
        else:
            parts = parts + [x]  # noqa: RUF005 - what is to be read
    parts.append(x)
    return torch.cat(parts)


def list_of_the_round_before(x: Tensor, n: int) -> Tensor:
    before = [x]
    for _ in range(n):
        now: list[Tensor] = []
        for tensor in before:
            now.append(tensor + 1)
        now.append(x)
        before = now
    return torch.cat(before)


def outer_list_as_result(x: Tensor, n: int) -> Tensor:
    outer = [x]
    current = [x + 1]
    for i in range(n):
        outer.append(x * i)
        current = outer
    return torch.cat(current)


def exchanged_lists(x: Tensor, n: int) -> Tensor:
    left, right = [x, x + 1], [x + 2]
    for _ in range(n):
        other = left
        left = right
        right = other
    return torch.cat(left) * 2 - torch.cat(right).sum()


PROGRAMS = [
    Program("written_then_appended", written_then_appended, (X, 2), SEVERAL, since=SEQUENCES),
    Program("copy_appended", copy_appended, (X, 2), SEVERAL, since=SEQUENCES),
    Program("element_read", element_read_and_others_written, (X, 2), SEVERAL, since=SEQUENCES),
    Program("joined_list_written", joined_list_written, (X, 2), SEVERAL, since=SEQUENCES),
    Program("new_in_each_round", new_in_each_round, (X, 2), SEVERAL),
    Program("list_of_either_side", list_of_either_side, (X, 2), SEVERAL, since=SEQUENCES),
    Program("changed_or_new", changed_on_one_side_and_new_on_the_other, (X, 2), SEVERAL, since=SEQUENCES),
    Program("list_of_the_round_before", list_of_the_round_before, (X, 2), SEVERAL, since=SEQUENCES),
    Program("outer_list_as_result", outer_list_as_result, (X, 2), SEVERAL, since=SEQUENCES),
    Program("exchanged_lists", exchanged_lists, (X, 2), SEVERAL, since=SEQUENCES),
]

test_aliases = table(PROGRAMS)


def perhaps_no_round(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    x = x.clone()
    y = x
    for _ in range(n):
        y = y + 1
    y.add_(5)
    return x, y


def element_of_the_next_round(x: Tensor, n: int) -> Tensor:
    parts = [x[0].clone(), x[1].clone()]
    total = torch.zeros(3)
    for i in range(n):
        total = total + parts[i % 2]
        parts[i % 2].add_(i)
    return total


def one_row_many_times(x: Tensor, n: int) -> Tensor:
    parts: list[Tensor] = []
    row = x[0].clone()
    for _ in range(n):
        row.add_(1)
        parts.append(row)
    parts.append(row)
    return torch.stack(parts)


def appended_then_written(x: Tensor, n: int) -> Tensor:
    parts: list[Tensor] = []
    row = x[0].clone()
    for _ in range(n):
        parts.append(row)
    row.add_(5)
    parts.append(row)
    return torch.stack(parts)


def written_element(x: Tensor, n: int) -> Tensor:
    parts = [x[0].clone(), x[1].clone()]
    for i in range(n):
        parts.append(x[0] + i)
    parts[-1].mul_(2)
    return torch.stack(parts)


def written_rows(x: Tensor, n: int) -> Tensor:
    x = x.repeat(n, 1)
    for row in x.unbind(0):
        row.add_(1)
    return x


REFUSED = [
    perhaps_no_round,
    element_of_the_next_round,
    one_row_many_times,
    appended_then_written,
    written_element,
    written_rows,
]


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_a_write_that_a_list_or_a_loop_may_share_is_refused(program: Callable[..., object]) -> None:
    with pytest.raises(onnxport.ExportError, match=r"test_aliases\.py:\d+: aten::\w+_ writes to a tensor.*clone\(\)"):
        onnxport.export(torch.jit.script(program), (X, 2))


def changed_list_of_either_side(x: Tensor, n: int) -> Tensor:
    left, right = [x], [x + 1]
    either = left if n > 1 else right
    either.append(x * 2)
    return torch.cat(left + right)


def changed_list_of_a_round(x: Tensor, n: int) -> Tensor:
    left, right = [x], [x + 1]
    current = left
    for _ in range(n):
        current.append(x * 2)
        current = right
    return torch.cat(left + right)


@pytest.mark.parametrize("program", [changed_list_of_either_side, changed_list_of_a_round], ids=lambda p: p.__name__)
def test_a_change_of_a_list_that_may_be_another_is_refused(program: Callable[..., object]) -> None:
    with pytest.raises(onnxport.CaptureError, match=r"test_aliases\.py:\d+: this changes a list, dict or object"):
        onnxport.export(torch.jit.script(program), (X, 2))


def test_a_list_of_tuples_that_grows_is_refused_with_advice() -> None:
    @torch.jit.script
    def pairs(x: Tensor, n: int) -> Tensor:
        found: list[tuple[Tensor, int]] = []
        for i in range(n):
            found.append((x, i))
        return x + len(found)

    with pytest.raises(
        onnxport.CaptureError, match=r"test_aliases\.py:\d+: a list of .*uple.* grows.*one list for each"
    ):
        onnxport.export(pairs, (X, 2))


class InBlocks:
    """Views and writes inside branches, of tensors from outside."""

    @staticmethod
    def view_in_each_branch(x: Tensor) -> Tensor:
        out = torch.zeros(6)
        if x[1, 0] > 0:
            out[0] = x[0, 0]
        else:
            out[1] = x[0, 0]
        return out

    @staticmethod
    def views_in_a_loop(x: Tensor) -> Tensor:
        doubled = x * 2
        out = torch.zeros(3, 3)
        rest = doubled[1:]
        for i in range(x.size(0)):
            if x[i, 0] > 0:
                out[0] += rest[0]
                out[1, 1:] = doubled[0, 1:]
            elif x[i, 1] > 0:
                out[1] += rest[0] * doubled[0]
            else:
                out[2] -= doubled[i]
        return out + rest[0]

    @staticmethod
    def written_before_it_is_returned(x: Tensor) -> Tensor:
        x = x * 1
        if x.sum() < 5:
            if x[0, 0] > 0:
                x += 1
            else:
                return x
        return x

    @staticmethod
    def written_or_new(x: Tensor) -> Tensor:
        state = x * 3
        if x.sum() > 0:
            state[:] = torch.ones(2, 3)
        else:
            state = state + 2
        return state


@pytest.mark.parametrize(
    "program",
    [
        InBlocks.view_in_each_branch,
        InBlocks.views_in_a_loop,
        InBlocks.written_before_it_is_returned,
        InBlocks.written_or_new,
    ],
    ids=lambda program: program.__name__,
)
def test_views_and_writes_in_branches(program: Callable[[Tensor], Tensor]) -> None:
    exported = onnxport.export(torch.jit.script(program), X)
    for x in (X, -X, torch.randn(2, 3), -torch.rand(2, 3), torch.tensor([[-1.0, 2.0, 0.0], [1.0, -2.0, 9.0]])):
        torch.testing.assert_close(exported(x), program(x))


class Chosen:
    """Tensors that a branch chooses, and writes to them and to what they are."""

    @staticmethod
    def one_of_two(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, z = x + 1, x * 2
        if bool(c.sum() > 0):
            w = y
        else:
            w = z
        w.add_(1.0)
        return y, z, w

    @staticmethod
    def one_or_new(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        w = y
        if bool(c.sum() > 0):
            w = x * 3
        w[0] = 7.0
        return y, w

    @staticmethod
    def a_part(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        w = y[:1] if bool(c.sum() > 0) else y[1:2]
        w += 1
        w[:, 0] *= 2
        return y, w

    @staticmethod
    def what_it_is_written(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        w = y if bool(c.sum() > 0) else x * 2
        y[0] = 5.0
        w.mul_(2.0)
        y.add_(w)
        return y, w

    @staticmethod
    def chosen_again(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, z = x + 1, x * 2
        w = y if bool(c.sum() > 0) else z
        v = w if bool(c.sum() > 1) else z
        v.add_(1.0)
        y.mul_(3.0)
        return y + z, w, v

    @staticmethod
    def written_inside_as_well(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y, w = x.clone(), x * 2
        if bool(c.sum() > 0):
            y.add_(1.0)
            w = y
        w.mul_(2.0)
        return y, w

    @staticmethod
    def in_each_round(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y, z = x + 1, x * 2
        for i in range(x.size(0)):
            y.add_(1.0)
            z.sub_(1.0)
            w = y if bool(c.sum() > float(i)) else z
            w.mul_(2.0)
        return y, z


CHOSEN = [
    Chosen.one_of_two,
    Chosen.one_or_new,
    Chosen.what_it_is_written,
    Chosen.written_inside_as_well,
]


@pytest.mark.parametrize(
    ("program", "dynamic"),
    [*((program, dynamic) for program in CHOSEN for dynamic in (False, True)), (Chosen.in_each_round, True)],
)
def test_writes_to_what_a_branch_chose(program: Callable[[Tensor, Tensor], Tensor], dynamic: bool) -> None:
    axes = {"x": {0: "n"}} if dynamic else None
    names = ["x", "c"]
    exported = onnxport.export(torch.jit.script(program), (X, torch.ones(2)), input_names=names, dynamic_axes=axes)
    for x in (X, -X, *([torch.randn(5, 3), torch.randn(4, 3)] if dynamic else [])):
        for c in (torch.ones(2), -torch.ones(2), torch.tensor([0.5, 0.0])):
            torch.testing.assert_close(tuple(exported(x, c)), program(x.clone(), c))


def test_a_write_to_a_part_that_a_branch_chose() -> None:
    exported = onnxport.export(torch.jit.script(Chosen.a_part), (X, torch.ones(2)))
    for c in (torch.ones(2), -torch.ones(2)):
        torch.testing.assert_close(tuple(exported(X + 3, c)), Chosen.a_part(X + 3, c))


def test_a_write_to_what_was_chosen_twice_is_refused() -> None:
    with pytest.raises(onnxport.ExportError, match="depending on a condition"):
        onnxport.export(torch.jit.script(Chosen.chosen_again), (X, torch.ones(2)))


def test_a_write_to_what_was_chosen_inside_of_another_block_is_refused() -> None:
    def program(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        w = y if bool(c.sum() > 0) else x * 2
        if bool(c.sum() > 1):
            w.add_(1.0)
        return y, w

    with pytest.raises(onnxport.ExportError, match="depending on a condition"):
        onnxport.export(torch.jit.script(program), (X, torch.ones(2)))
