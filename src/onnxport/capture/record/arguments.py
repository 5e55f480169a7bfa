"""The arguments of a function of torch and those of the operator that it calls, one matched with the other.

Where a schema wants plain numbers (kernel sizes, dims), C++ asks a size for its value. Which argument of the operator
it became is found by matching the function's arguments with the operator's: one by one where the function is the
operator's own binding, else by value and form, the last first, as what C++ adds of its own, such as the dim of an
index, stands in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from onnxport import compat
from onnxport.capture.record.numbers.carriers import SYMBOLIC, number_of
from onnxport.capture.record.numbers.carriers import plain as plain_number
from onnxport.capture.record.record import Number

Tree = Any
Kind = TypeVar("Kind")


def mapped(tree: Tree, function: Callable[[Any], Any]) -> Tree:
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind([mapped(leaf, function) for leaf in tree])
    if kind is dict:
        return {name: mapped(leaf, function) for name, leaf in tree.items()}
    return function(tree)


def _mapped_backwards(tree: Tree, function: Callable[[Any], Any]) -> Tree:
    """As `mapped`, the last leaf first."""
    if isinstance(tree, (list, tuple)):
        return type(tree)([_mapped_backwards(leaf, function) for leaf in reversed(tree)][::-1])
    return function(tree)


def instances_in(tree: Tree, kind: type[Kind]) -> Iterator[Kind]:
    """What is of a kind in nested containers, in order."""
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, dict):
        yield from instances_in(list(tree.values()), kind)
    elif isinstance(tree, (list, tuple)):
        for leaf in tree:
            yield from instances_in(leaf, kind)


def plain(tree: Tree) -> Tree:
    """Arguments as the operator takes them, without expressions."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind([plain(leaf) for leaf in tree])
    if kind in SYMBOLIC:
        return plain_number(tree)
    return tree.value if kind is Number else tree


def matched_by_value(
    call: tuple[tuple[Any, ...], dict[str, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    plain_reads: Sequence[Number],
    ref_of: Callable[[torch.Tensor], Any],
) -> tuple[tuple[Any, ...], dict[str, Any], list[Number]]:
    """The operator's arguments with expressions in the positions of the plain numbers that they became, and the numbers
    that C++ wanted plain (``plain_reads``) and that no argument holds. A tensor that is given for a number is read as
    one."""
    matching = _Matching(_given(call, plain_reads, ref_of), list(dict.fromkeys(plain_reads)))
    both = [*args, *kwargs.values()]
    both = [matching.by_form(argument) for argument in reversed(both)][::-1]
    if matching.todo:  # a tensor that was used as a number, or numbers in another form
        both = _mapped_backwards(both, matching.by_value)
    return tuple(both[: len(args)]), dict(zip(kwargs, both[len(args) :], strict=True)), matching.todo


def _given(
    call: tuple[tuple[Any, ...], dict[str, Any]], plain_reads: Sequence[Number], ref_of: Callable[[torch.Tensor], Any]
) -> list[Any]:
    """The numbers, and lists of numbers, that a function was given, the last first."""
    read = {number.operands[0]: number for number in plain_reads if number.op == "item"}

    def as_number(leaf: Any) -> Any:
        return read.get(ref_of(leaf), leaf) if isinstance(leaf, torch.Tensor) else leaf

    function_arguments = [*call[0], *call[1].values()]
    if read:
        function_arguments = mapped(_with_slices_open(function_arguments), as_number)
    # Sizes may be given one by one: zeros(2, n).
    one_by_one = [argument for argument in function_arguments[: len(call[0])] if _is_number(argument)]
    numbers = [number for argument in function_arguments for number in _numbers(argument)]
    return [one_by_one, *reversed(numbers)]


@dataclass
class _Matching:
    """Matches what a function was ``given`` with an operator's arguments; ``todo`` has the numbers without a match."""

    given: list[Any]
    todo: list[Number]

    def by_form(self, argument: Any) -> Any:
        """An argument that has the value and the form of something given."""
        if not _is_plain(argument):
            return argument
        form = plain(argument)
        for index, function_argument in enumerate(self.given):
            values = plain(function_argument)
            if values == form and type(values) is type(form):
                self.given.pop(index)
                return mapped(function_argument, self._taken)
            if type(form) is list and type(values) is not list and all(leaf == values for leaf in form):
                self.given.pop(index)
                return [self._taken(function_argument)] * len(argument)
        return argument

    def by_value(self, leaf: Any) -> Any:
        """A plain number that has the value of the last number without a place."""
        if self.todo and type(leaf) in (int, float) and leaf == self.todo[-1].value:
            return self.todo.pop()
        return leaf

    def _taken(self, leaf: Any) -> Any:
        number = number_of(leaf)
        if type(number) is Number and number in self.todo:
            self.todo.remove(number)
        return number


def is_binding_of(function: Any, op: Any) -> bool:
    """Whether a function is torch's binding of an operator, which has its name and its parameters.

    Others have parameters of their own, whatever values they are given: the index of ``x[i]`` is no ``dim``.
    """
    name: str = op._schema.name
    return name.partition("::")[2] == getattr(function, "__name__", "").partition(".")[0]


def matched_by_schema(
    call: tuple[tuple[Any, ...], dict[str, Any]],
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    plain_reads: Sequence[Number],
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The operator's arguments as the function was given them; None if they do not fit.

    C++ leaves out arguments at the end that are as the schema has them: a number may be so in this run alone.
    """
    parameters = {parameter.name: parameter for parameter in op._schema.arguments}
    names = list(parameters)
    given = dict(zip(names, call[0], strict=False)) | {
        "self" if name == "input" and names[:1] == ["self"] else name: value for name, value in call[1].items()
    }
    taken = dict(zip(names, args, strict=False)) | kwargs
    if len(call[0]) > len(names) or len(given) != len(call[0]) + len(call[1]) or not given.keys() <= parameters.keys():
        return None
    if not all(_is_taken(value, taken.get(name, parameters[name].default_value)) for name, value in given.items()):
        return None
    numbers = {name: [number_of(leaf) for leaf in _leaves(value)] for name, value in given.items()}
    holding = {name for name, found in numbers.items() if any(number in plain_reads for number in found)}
    if not set(plain_reads) <= {number for found in numbers.values() for number in found if type(number) is Number}:
        return None  # a tensor is used as a number
    last = max((names.index(name) for name in (*holding, *names[: len(args)])), default=-1)
    if any(parameters[name].kwarg_only for name in holding - kwargs.keys()):
        return None
    complete = {name: taken.get(name, parameters[name].default_value) for name in names[: last + 1]}
    complete |= {name: _in_form(given[name], complete.get(name, taken.get(name))) for name in holding}
    rest = {name: complete.get(name, value) for name, value in kwargs.items()}
    return tuple(complete[name] for name in names[: last + 1] if name not in kwargs), rest


def _is_taken(given: Any, taken: Any) -> bool:
    """Whether an operator's argument is what the function was given, perhaps once for each axis."""
    if isinstance(given, torch.Tensor) or isinstance(taken, torch.Tensor):
        return given is taken
    return bool(plain(_in_form(given, taken)) == plain(taken))


def _in_form(given: Any, taken: Any) -> Any:
    if not isinstance(taken, (list, tuple)):
        return mapped(given, number_of)
    many = list(given) if isinstance(given, (list, tuple)) else [given]
    return [number_of(leaf) for leaf in (many * len(taken) if len(many) == 1 else many)]


def _is_number(leaf: Any) -> bool:
    return type(leaf) in (int, float, Number) or type(leaf) in SYMBOLIC


def _with_slices_open(tree: Tree) -> Tree:
    """The arguments with slices as lists of their bounds."""
    return mapped(tree, lambda leaf: [leaf.start, leaf.stop, leaf.step] if type(leaf) is slice else leaf)


def _is_plain(argument: Any) -> bool:
    """Whether it is a plain number, or a list of numbers some of which are plain."""
    if type(argument) is list:
        return all(map(_is_number, argument)) and any(type(leaf) in (int, float) for leaf in argument)
    return type(argument) in (int, float)


def _numbers(tree: Tree) -> Iterator[Any]:
    """The numbers and lists of numbers of a call, in order; nested containers are opened.

    A container of numbers and others is an index. C++ takes its entries one by one: plain ones are of other operators.
    """
    if isinstance(tree, (list, tuple)):
        leaves = list(tree)
        if leaves and all(map(_is_number, leaves)):
            yield leaves
        else:
            for leaf in leaves:
                if type(leaf) not in (int, float):
                    yield from _numbers(leaf)
    elif type(tree) is dict:
        yield from _numbers(list(tree.values()))
    elif type(tree) is slice:
        yield from _numbers([tree.start, tree.stop, tree.step])
    elif _is_number(tree):
        yield tree


def numbers_that_fill(call: tuple[tuple[Any, ...], dict[str, Any]], tensor: torch.Tensor) -> list[Any] | None:
    """The numbers of a call, in the order of a tensor's elements, that it was filled with; None if there are none."""
    with compat.dispatch.unseen():
        return _numbers_that_fill(call, tensor)


def _numbers_that_fill(tree: Tree, tensor: torch.Tensor) -> list[Any] | None:
    if type(tree) is dict:
        tree = tuple(tree.values())
    if not isinstance(tree, (list, tuple)) and type(tree) not in SYMBOLIC:
        return None
    leaves = list(_leaves(tree))
    if len(leaves) == tensor.numel() and any(type(leaf) in SYMBOLIC for leaf in leaves) and _fills(leaves, tensor):
        return [number_of(leaf) for leaf in leaves]
    parts = tree if isinstance(tree, (list, tuple)) else ()
    return next((found for part in parts if (found := _numbers_that_fill(part, tensor)) is not None), None)


def _leaves(tree: Tree) -> Iterator[Any]:
    if isinstance(tree, (list, tuple)):
        for leaf in tree:
            yield from _leaves(leaf)
    elif type(tree) is dict:
        yield from _leaves(list(tree.values()))
    else:
        yield tree


def _fills(leaves: Sequence[Any], tensor: torch.Tensor) -> bool:
    values = [plain_number(leaf) for leaf in leaves]
    if not all(type(value) in (int, float, bool) for value in values):
        return False
    filled = torch.tensor(values, dtype=torch.float64).to(tensor.dtype)
    return torch.equal(filled, tensor.detach().flatten())


def numbers_among(numbers: Sequence[Number], tensor: torch.Tensor) -> list[Any] | None:
    """The elements of a tensor with these numbers, in their order, in the places of their values; None where they are
    not there, or there is more than one way."""
    with compat.dispatch.unseen():
        elements = tensor.detach().flatten()
        values = torch.tensor([number.value for number in numbers], dtype=torch.float64).to(tensor.dtype).tolist()
        content = elements.tolist()
    first, last = _positions_in_order(values, content), _positions_in_order(values[::-1], content[::-1])
    if first is None or last is None or first != [len(content) - 1 - index for index in reversed(last)]:
        return None
    by_place = dict(zip(first, numbers, strict=True))
    return [by_place.get(index, element) for index, element in enumerate(content)]


def _positions_in_order(values: Sequence[Any], content: Sequence[Any]) -> list[int] | None:
    """The first places at which these values stand one after another."""
    indices: list[int] = []
    for value in values:
        start = indices[-1] + 1 if indices else 0
        found = next((index for index in range(start, len(content)) if content[index] == value), None)
        if found is None:
            return None
        indices.append(found)
    return indices
