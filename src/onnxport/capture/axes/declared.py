"""Dynamic axes as ``torch.export`` declares them: ``dynamic_shapes``, nested like the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.axes.axis import Axis, Form, InputDim
from onnxport.capture.axes.sums import with_sums
from onnxport.capture.model.inputs import Inputs
from onnxport.capture.model.structure import children_of
from onnxport.errors import OptionError, OptionTypeError

ARGUMENT = "dynamic_shapes"


@dataclass
class Declared:
    """The dimensions declared with one name, their range, and how each size follows from the axis."""

    where: str
    named: bool = True
    optional: bool = False
    low: int = 1
    high: int | None = None
    forms: dict[InputDim, Form] = field(default_factory=dict)


def read_axes(given: Any, inputs: Inputs, names: Sequence[str]) -> list[Axis]:
    """The axes that ``dynamic_shapes`` declares; ``names`` are the inputs' names in the graph."""
    reader = _Reader(inputs.tensors, names)
    for path, value, spec in _arguments(given, inputs.arguments, inputs.positional):
        reader.read(path, value, None if path in inputs.numbers and _is_dynamic(spec) else spec)
    return with_sums([axis_of(label, declared, inputs.tensors) for label, declared in reader.declared.items()])


def by_argument(given: Any, inputs: Inputs, names: Sequence[str]) -> Any:
    """``dynamic_shapes`` with the arguments' own names for the ``names`` that inputs get; the own ones come first."""
    if not isinstance(given, Mapping):
        return given
    arguments = {name for name, _ in inputs.arguments}
    own = {new: name for new, name in zip(names, inputs.names, strict=False) if name in arguments}
    return {name if name in arguments else own.get(name, name): spec for name, spec in given.items()}


def declared_numbers(given: Any, inputs: Inputs) -> dict[str, type]:
    """The arguments that are ints and declared dynamic: they become inputs."""
    arguments = _arguments(given, inputs.arguments, inputs.positional) if given is not None else ()
    return {path: int for path, value, spec in arguments if type(value) is int and _is_dynamic(spec)}


def _is_dynamic(spec: Any) -> bool:
    return compat.dim_hint(spec) == "DYNAMIC"


def _arguments(given: Any, arguments: Sequence[tuple[str, Any]], positional: int) -> Iterator[tuple[str, Any, Any]]:
    """Each argument with its declaration, in the order of the call."""
    if isinstance(given, Mapping):
        rest = dict(given)
        for name, value in arguments:
            yield name, value, _taken(name, rest)
        unknown = [name for name in rest if rest[name] is not None]
        if unknown:
            known = [name for name, _ in arguments]
            raise OptionError(f"{ARGUMENT}: the call has no argument {unknown[0]!r}; it has {known}")
        return
    if not isinstance(given, (tuple, list)):
        raise OptionTypeError(f"{ARGUMENT} must be a dict by argument name, or a tuple like args, not {given!r}")
    if len(given) not in (positional, len(arguments)):
        raise OptionError(
            f"{ARGUMENT} has {len(given)} entries, the call has {positional} arguments: give one for each"
        )
    for (name, value), spec in zip(arguments, given, strict=False):
        yield name, value, spec


def _taken(name: str, rest: dict[str, Any]) -> Any:
    """The declaration for an argument; ``*args`` are declared under their common name."""
    if name in rest:
        return rest.pop(name)
    group, _, index = name.rpartition(".")
    several = rest.get(group) if index.isdigit() else None
    if not isinstance(several, (tuple, list)) or int(index) >= len(several):
        return None
    if int(index) == len(several) - 1:
        del rest[group]
    return several[int(index)]


class _Reader:
    """Walks arguments and their declarations in parallel."""

    def __init__(self, tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        self.tensors = tensors
        self.names = names
        self.declared: dict[str, Declared] = {}
        self._next = 0

    def read(self, path: str, value: Any, spec: Any) -> None:
        """Read the declaration of one argument or a part of it. Tensors come in the order of the inputs."""
        if isinstance(value, torch.Tensor):
            for dim, entry in _dimensions(path, value, spec):
                self._entry(f"{ARGUMENT}[{path!r}][{dim}]", (self._next, dim), entry)
            self._next += 1
            return
        children = children_of(value)
        if children is None:
            # A number is a constant of the graph, which is what STATIC asks for and AUTO allows.
            if spec is not None and compat.dim_hint(spec) not in ("STATIC", "AUTO"):
                raise OptionError(
                    f"{ARGUMENT}[{path!r}]: a {type(value).__name__} has no dimensions; give None, or Dim.DYNAMIC for "
                    "an int that is to be an input"
                )
            return
        for (key, child), inner in zip(children, _nested(path, [key for key, _ in children], spec), strict=True):
            self.read(f"{path}.{key}", child, inner)

    def _entry(self, where: str, input_dim: InputDim, entry: Any) -> None:
        index, dim = input_dim
        length = self.tensors[index].shape[dim]
        hint = compat.dim_hint(entry)
        if entry is None or hint == "STATIC":
            return
        if isinstance(entry, int) and not isinstance(entry, bool):
            if entry != length:
                raise OptionError(f"{where} is {entry}, the example has {length} there")
        elif isinstance(entry, str) and entry:
            self._declare(where, entry, input_dim, lambda size: size, 1, None)
        elif hint is not None:
            declared = Declared(where, named=False, optional=hint == "AUTO", forms={input_dim: same})
            declared.low, declared.high = compat.dim_range(entry)
            self.declared[f"{self.names[index]}_dim_{dim}"] = declared
        elif isinstance(entry, torch.export.Dim):
            root, form = compat.derived_dim(entry) or (entry, same)
            self._declare(where, root.__name__, input_dim, form, *compat.dim_range(root))
        else:
            raise OptionTypeError(
                f"{where} must be a torch.export.Dim, a name, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, an int or None, "
                f"not {entry!r}"
            )

    def _declare(self, where: str, label: str, input_dim: InputDim, form: Form, low: int, high: int | None) -> None:
        declared = self.declared.setdefault(label, Declared(where, low=low, high=high))
        if (declared.low, declared.high) != (low, high):
            raise OptionError(f"{where} and {declared.where} give {label!r} different ranges")
        declared.forms[input_dim] = form


def same(size: int) -> int:
    return size


def _dimensions(path: str, tensor: torch.Tensor, spec: Any) -> Iterator[tuple[int, Any]]:
    """The declared dimensions of a tensor: by index, or one entry for each."""
    rank = tensor.dim()
    if spec is None:
        return
    if isinstance(spec, Mapping):
        for dim, entry in spec.items():
            if isinstance(dim, bool) or not isinstance(dim, int):
                raise OptionTypeError(f"{ARGUMENT}[{path!r}]: a dimension must be an int, not {dim!r}")
            if not -rank <= dim < rank:
                raise OptionError(f"{ARGUMENT}[{path!r}]: dimension {dim} is out of range, {path!r} has {rank}")
            yield dim % rank, entry
    elif isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            raise OptionError(f"{ARGUMENT}[{path!r}] has {len(spec)} entries, {path!r} has {rank} dimensions")
        yield from enumerate(spec)
    else:
        raise OptionTypeError(f"{ARGUMENT}[{path!r}] must be a dict of dimensions, a tuple or None, not {spec!r}")


def _nested(path: str, keys: Sequence[str], spec: Any) -> list[Any]:
    """The declaration for each element of a container."""
    if spec is None:
        return [None] * len(keys)
    if isinstance(spec, Mapping):
        by_key = {str(key): inner for key, inner in spec.items()}
        unknown = sorted(set(by_key) - set(keys))
        if unknown:
            raise OptionError(f"{ARGUMENT}[{path!r}]: there is no {unknown[0]!r} in it; it has {list(keys)}")
        return [by_key.get(key) for key in keys]
    if isinstance(spec, (tuple, list)):
        if len(spec) != len(keys):
            raise OptionError(f"{ARGUMENT}[{path!r}] has {len(spec)} entries, the argument has {len(keys)} parts")
        return list(spec)
    raise OptionTypeError(f"{ARGUMENT}[{path!r}] must be nested like the argument, or None, not {spec!r}")


def axis_of(label: str, declared: Declared, tensors: Sequence[torch.Tensor]) -> Axis:
    found: dict[int, InputDim] = {}
    for input_dim, form in declared.forms.items():
        length = tensors[input_dim[0]].shape[input_dim[1]]
        size = _inverse(form, length)
        if size is None:
            raise OptionError(f"{declared.where}: no size of {label!r} gives the example's {length}")
        found.setdefault(size, input_dim)
    if len(found) > 1:
        raise OptionError(
            f"{declared.where}: {label!r} would be {sorted(found)} in the example; axes with one name have to be "
            "equal. Give them different names."
        )
    size = next(iter(found))
    low, high = declared.low, declared.high
    if size < low or (high is not None and size > high):
        raise OptionError(f"{declared.where}: {label!r} is {size} in the example, outside its range {low} to {high}")
    if low == high:
        raise OptionError(f"{declared.where}: the range of {label!r} has one size; give it as an int instead")
    forms = {input_dim: form for input_dim, form in declared.forms.items() if form is not same}
    input_dims = tuple(declared.forms)
    promised = not declared.optional
    return Axis(label, input_dims, size, declared.named, low, high, forms, declared.optional, promised=promised)


def _inverse(form: Callable[[int], int], length: int) -> int | None:
    """The argument for which an affine function gives a length; None if there is none."""
    offset, factor = form(0), form(1) - form(0)
    if not factor or (length - offset) % factor:
        return None
    return (length - offset) // factor
