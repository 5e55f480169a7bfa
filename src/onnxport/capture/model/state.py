"""Snapshots of a model: mode, parameters, buffers, attributes and hooks are restored, also after an error."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture.model.attributes import ScriptState, has_content, write_back_all
from onnxport.capture.model.control_flow import BY_HAND

CONTAINERS = frozenset({dict, list, set, OrderedDict})
REGISTERS = ("_parameters", "_buffers", "_modules")
# Types that are compared by value.
PLAIN = (bool, int, float, complex, str, bytes)
# Attributes of these types hold no tensor that is looked at; most are of them, and to ask what is a tensor takes long.
HOLDING_NONE = frozenset({*PLAIN, NoneType, tuple})


class ModelState:
    """A snapshot of modules and all of their submodules.

    Buffers are copied. Parameters, and tensors among the attributes, are copied only before they are written to
    (`before_write`): a model of several gigabytes must not need twice its memory. Attributes are kept one level deep,
    with lists and dicts copied, so that what a forward pass caches on the module is removed again.
    """

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        self._roots = list(roots)
        self._modules = [module for root in self._roots for module in root.modules()]
        self._scripts = ScriptState(self._modules)
        self._attributes = [(dict(module.__dict__), _copies(module.__dict__)) for module in self._modules]
        buffers = {id(buffer): buffer for module in self._modules for buffer in module._buffers.values()}
        with torch.no_grad():  # a detach of each would take longer than its copy
            self._tensors = {key: (element, element.clone()) for key, element in buffers.items() if element is not None}

    @functools.cached_property
    def _watched(self) -> dict[int, list[torch.Tensor]]:
        """The model's tensors by their storage; computed at the first write, as few models write to tensors."""
        found: dict[int, list[torch.Tensor]] = {}
        for attributes, contents in self._attributes:
            for element in _tensors_in(attributes | contents):
                found.setdefault(compat.storage_key(element), []).append(element)
        return found

    def before_write(self, tensor: torch.Tensor) -> None:
        """Copy the model's tensors that share memory with this one."""
        for element in self._watched.get(compat.storage_key(tensor), ()):
            if id(element) not in self._tensors:
                self._tensors[id(element)] = (element, element.detach().clone())

    def restore(self) -> bool:
        """Restore everything; returns whether anything had changed."""
        changed = self._scripts.restore()
        for module, (attributes, contents) in zip(self._modules, self._attributes, strict=True):
            for name, content in contents.items():
                if (content or attributes[name]) and not _holds(attributes[name], content):
                    changed = changed or not _has_items(attributes[name], content)
                    _refill(attributes[name], content)
            if not _is_identical(module.__dict__, attributes):
                changed = changed or not _is_same_dict(module.__dict__, attributes)
                module.__dict__.clear()
                module.__dict__.update(attributes)
        return write_back_all(self._tensors.values()) or changed

    def advanced(self) -> ModelState:
        """The present state of the modules as another snapshot, which `restore` would set.

        Tensors that were written to are kept as copies in this state: the model's own have their old content again
        once they are given back. Parameters that are new need no gradient: a record has them as constants.
        """
        written = [tensor for tensor, content in self._tensors.values() if not has_content(tensor, content)]
        others = {id(tensor): _copy(tensor) for tensor in (*written, *self._scripts.written())}
        known = {id(tensor) for element in self._watched.values() for tensor in element}
        self._scripts.substitute(others)
        for module in (module for root in self._roots for module in root.modules()):
            for tensor in _tensors_in(module.__dict__):
                if tensor.requires_grad and id(tensor) not in known:
                    others.setdefault(id(tensor), nn.Parameter(tensor.detach(), requires_grad=False))
            _substitute(module.__dict__, others)
        return ModelState(self._roots)

    def changed_names(self) -> list[str]:
        """The attributes that have changed, as ``Class.name``."""
        written = {id(tensor) for tensor, content in self._tensors.values() if not has_content(tensor, content)}
        found = self._scripts.changed_names()
        for module, (attributes, contents) in zip(self._modules, self._attributes, strict=True):
            before, now = _flat(attributes, contents), _flat(module.__dict__, module.__dict__)
            names = [n for n in (*before, *now) if not _same(before.get(n), now.get(n)) or id(now.get(n)) in written]
            found += [f"{type(module).__name__}.{name.partition('[')[0]}" for name in names if name != "training"]
        return list(dict.fromkeys(found))


def _tensors_in(attributes: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors among the attributes and in the containers among them, parameters first of all."""
    for value in attributes.values():
        if type(value) in HOLDING_NONE:
            continue
        contents = value.values() if isinstance(value, dict) else value if type(value) in CONTAINERS else (value,)
        for element in contents:
            if isinstance(element, torch.Tensor) and element.layout is torch.strided:
                yield element


def _copies(attributes: dict[str, Any]) -> dict[str, Any]:
    """Shallow copies of the containers among the attributes, with hooks and parameters; () for empty ones."""
    return {name: value.copy() if value else () for name, value in attributes.items() if type(value) in CONTAINERS}


def _flat(attributes: dict[str, Any], contents: dict[str, Any]) -> dict[str, Any]:
    """The attributes by name, with the elements of containers in place of the containers."""
    flat: dict[str, Any] = {}
    for name, value in attributes.items():
        element = contents.get(name) if type(value) in CONTAINERS else None
        if element is None:
            flat[name] = value
        elif name in REGISTERS:
            flat |= element
        else:
            items = element.items() if isinstance(element, dict) else enumerate(element)
            flat |= {f"{name}[{key}]": item for key, item in items}
    return flat


def _refill(container: Any, content: Any) -> None:
    """Restore the content of a container, which stays the same object: handles of hooks refer to it."""
    if isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container.update(content)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    content = tensor.detach().clone()
    return nn.Parameter(content, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else content


def _substitute(attributes: dict[str, Any], others: dict[int, torch.Tensor]) -> None:
    """Replace tensors, which are given by their ``id``."""
    for name, value in list(attributes.items()):
        if id(value) in others:
            attributes[name] = others[id(value)]
        elif isinstance(value, dict) and type(value) in CONTAINERS:
            value.update({key: others[id(element)] for key, element in value.items() if id(element) in others})
        elif type(value) is list:
            value[:] = [others.get(id(element), element) for element in value]


def _is_identical(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether the entries are the same objects in the same order."""
    if len(left) != len(right) or not all(map(operator.is_, left.values(), right.values())):
        return False
    return all(map(operator.is_, left, right)) or list(left) == list(right)


def _is_same_dict(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether the entries are the same objects, or equal numbers and strings."""
    if _is_identical(left, right):
        return True
    return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())


def _holds(container: Any, content: Any) -> bool:
    """Whether a container still has the same elements."""
    if isinstance(container, dict) and content:
        return _is_identical(container, content)
    return isinstance(container, list) and len(container) == len(content) and all(map(operator.is_, container, content))


def _has_items(container: Any, content: Any) -> bool:
    if not content:
        return not container
    if isinstance(container, dict):
        return _is_same_dict(container, content)
    if isinstance(container, list):
        return len(container) == len(content) and all(map(_same, container, content))
    return bool(container == content)


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        # A weight that each call computes again is equal, but another tensor.
        dense = left.layout is right.layout is torch.strided
        return dense and left.dtype == right.dtype and left.device == right.device and has_content(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return type(left) in PLAIN and type(left) is type(right) and bool(left == right)


# Methods with names that look like these, and write.
WRITING_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "setitem", "set", "iadd", "isub", "imul", "idiv", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand",
        "ior", "ixor", "ilshift", "irshift",
    )
)  # fmt: skip


def writes(name: str) -> bool:
    """Whether a function of this name writes to its first argument."""
    return name.endswith("_") and (not name.endswith("__") or name in WRITING_METHODS)


class WriteGuard(compat.functional.FunctionMode):
    """Notifies the state before a torch function writes to a tensor, also inside torch.nn.functional."""

    def __init__(self, state: ModelState) -> None:
        super().__init__(compat.functional.is_plain)
        self.state = state

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = compat.functional.with_order(function, args, kwargs or {})
        name = getattr(function, "__name__", "").partition(".")[0]  # an operator has its overload there
        if name in BY_HAND and compat.higher_order.is_higher_order(function):
            with self:
                return BY_HAND[name](*args, **kwargs)
        self.guard(name, args, kwargs)
        return function(*args, **kwargs)

    def guard(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before each function with its name and arguments."""
        if writes(name) and args and isinstance(args[0], torch.Tensor):
            self.before_write(args[0])
        elif isinstance(kwargs.get("out"), torch.Tensor):
            self.before_write(kwargs["out"])

    def before_write(self, tensor: torch.Tensor) -> None:
        self.state.before_write(tensor)


@contextlib.contextmanager
def training_mode(roots: Iterable[nn.Module], train: bool | None, state: ModelState | None = None) -> Iterator[None]:
    """Switch every submodule to training or evaluation, and back to its own mode. None changes nothing.

    ``state`` is notified of writes to tensors by the switch, as in modules that merge weights then. A frozen module of
    TorchScript has no modes. Nothing is done if all modules have the mode already and none overrides ``train``.
    """
    outer = [] if train is None else [root for root in roots if hasattr(root, "training")]
    modules = [module for root in outer for module in root.modules() if hasattr(module, "training")]
    if all(module.training is train and type(module).train is nn.Module.train for module in modules):
        outer, modules = [], []
    before = [(module, module.training) for module in modules]
    with WriteGuard(state) if state is not None and outer else contextlib.nullcontext():
        for root in outer:
            # The mode of a module made by torch.export cannot change.
            with contextlib.suppress(NotImplementedError):
                root.train(bool(train))
    try:
        yield
    finally:
        for module, mode in before:
            if module.training is not mode:
                module.training = mode
