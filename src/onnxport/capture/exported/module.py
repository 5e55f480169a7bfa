"""A torch.export program as a module: its nodes run one by one, in frames with the model's source lines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import fx, nn

from onnxport import compat
from onnxport.capture.exported.calls import call, is_check, is_number
from onnxport.capture.record.calls.module_calls import in_module
from onnxport.capture.record.source_lines import IS_USERS
from onnxport.errors import OptionError

LINE = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


class ExportedModule(nn.Module):
    """A module with the program's parameters and buffers, called like the model the program was made from."""

    _unlifted: fx.GraphModule

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        unlifted = compat.programs.unlifted(program)
        self.program = program
        self.user_inputs = compat.programs.user_inputs(program)
        self.__dict__["_unlifted"] = unlifted
        self._take_over(unlifted)
        self.__name__ = _class_names(unlifted).get("", "model")
        for inner in unlifted.modules():
            if isinstance(inner, fx.GraphModule):
                _without_checks(inner.graph)
                if inner is not unlifted:
                    inner.__dict__["forward"] = _Walk(inner)
        self._walk = _Walk(unlifted, self)
        self.forward = _with_signature(self._call, unlifted)

    def _take_over(self, unlifted: fx.GraphModule) -> None:
        for name, value in unlifted.named_children():
            self.add_module(name, value)
        for name, parameter in unlifted.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in unlifted.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name not in unlifted._non_persistent_buffers_set)
        for name, value in vars(unlifted).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value)
        for path, kind in _class_names(unlifted).items():
            if path:
                _name_class(self, path, kind)

    def flat(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The leaves of the arguments, one for each input of the program."""
        bound = compat.programs.signature_of(self._unlifted).bind(*args, **kwargs)
        named: list[tuple[str, Any]] = []
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                named += [(name, part) for part in value]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named += value.items()
            else:
                named.append((name, value))
        count = compat.programs.positional_count(self._unlifted)
        positional = [value for _, value in named[:count]]
        try:
            return compat.programs.flat_arguments(self._unlifted, positional, dict(named[count:]))
        except ValueError as error:
            raise OptionError(f"args: {error}") from None

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise `OptionError` for arguments that the program was not made for."""
        for leaf, (name, wanted) in zip(self.flat(*args, **kwargs), self.user_inputs, strict=True):
            if not isinstance(wanted, torch.Tensor):
                if not isinstance(leaf, torch.Tensor) and leaf != wanted and type(wanted) in (bool, int, float, str):
                    raise OptionError(f"args: the program was exported with {name}={wanted!r}, the call has {leaf!r}")
                continue
            fixed = [size if isinstance(size, int) else None for size in wanted.shape]
            fits = (
                isinstance(leaf, torch.Tensor)
                and leaf.dtype == wanted.dtype
                and len(leaf.shape) == len(fixed)
                and all(size in (None, length) for size, length in zip(fixed, leaf.shape, strict=True))
            )
            if not fits:
                shown = [*leaf.shape] if isinstance(leaf, torch.Tensor) else leaf
                raise OptionError(
                    f"args: the program takes {wanted.dtype} of shape {[*wanted.shape]} for {name!r}, not {shown}"
                )

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return compat.programs.nested_result(self._unlifted, self._walk(*self.flat(*args, **kwargs)))


def opened(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, Any, Mapping[str, Any] | None]:
    """A program as a module, with its own example if ``args`` is empty; any other model as it is."""
    if not isinstance(model, torch.export.ExportedProgram):
        return model, args, kwargs
    example = compat.programs.example_of(model)
    none_given = not kwargs and isinstance(args, tuple) and not args
    arguments = example if none_given and example is not None else (args, kwargs)
    return ExportedModule(model), *arguments


class _Walk:
    """Runs the nodes of a graph one by one. ``root`` has the modules and tensors that they refer to."""

    def __init__(self, module: fx.GraphModule, root: nn.Module | None = None) -> None:
        self._root = module if root is None else root
        self._graph = module.graph
        self._frames = {node: _frames(node) for node in module.graph.nodes}

    def __call__(self, *args: Any) -> Any:
        return _Interpreter(self._root, self._graph, self._frames).run(*args, enable_io_processing=False)


class _Interpreter(fx.Interpreter):
    def __init__(self, root: nn.Module, graph: fx.Graph, frames: Mapping[fx.Node, list[Any]]) -> None:
        super().__init__(root, graph=graph)
        self._frames = frames

    def run_node(self, node: fx.Node) -> Any:
        frames = self._frames[node]
        with in_module(_path(node)):
            if not frames:
                return super().run_node(node)
            return frames[0](frames[1:], super().run_node, (node,))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(target, args, kwargs)


def _frame_code() -> CodeType:
    frame: Any = lambda rest, function, args: rest[0](rest[1:], function, args) if rest else function(*args)  # noqa: E731 the first line has to be the only
    code: CodeType = frame.__code__
    return code


FRAME = _frame_code()


def _frames(node: fx.Node) -> list[Callable[..., Any]]:
    """Functions that call each other, with frames that show the node's source lines in a traceback."""
    # torch keeps no source line for a call of torch.cond, but one for its condition.
    lines = next(filter(None, map(_lines, (node, *node.all_input_nodes))), [])
    return [
        FunctionType(FRAME.replace(co_filename=file, co_firstlineno=line, co_name=name), {})
        for file, line, name in lines
    ]


def _path(node: fx.Node) -> str:
    """The path of the module that called a node."""
    return next(reversed([path for path, _ in _module_stack(node)]), "")


def _lines(node: fx.Node) -> list[tuple[str, int, str]]:
    """The source lines of a node in the model, the outermost first."""
    lines = [(file, int(line), name) for file, line, name in LINE.findall(node.meta.get("stack_trace") or "")]
    return [found for found in lines if IS_USERS[found[0]] and not found[0].startswith("<")]


def _module_stack(node: fx.Node) -> list[tuple[str, Any]]:
    """The modules that called a node, the outermost first: paths and classes."""
    return list((node.meta.get("nn_module_stack") or {}).values())


def _class_names(module: fx.GraphModule) -> dict[str, str]:
    """The classes of the model's modules by their paths."""
    found: dict[str, str] = {}
    for node in module.graph.nodes:
        for path, kind in _module_stack(node):
            name = kind if isinstance(kind, str) else kind.__name__
            found.setdefault(path, name.rpartition(".")[2])
    return found


def _name_class(root: nn.Module, path: str, name: str) -> None:
    """Give the module at a path a class with this name; an empty module is added where the program has none."""
    parent = root
    for part in path.split("."):
        child = parent._modules.get(part)
        if child is None:
            child = nn.Module()
            parent.add_module(part, child)
        parent = child
    if type(parent) is nn.Module:
        parent.__class__ = type(name, (nn.Module,), {})


def _without_checks(graph: fx.Graph) -> None:
    """Drop checks of sizes and dtypes, and the numbers that are computed for them."""
    for node in reversed(list(graph.nodes)):
        if is_check(node) or (is_number(node) and not node.users):
            graph.erase_node(node)


def _with_signature(function: Callable[..., Any], module: fx.GraphModule) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    forward.__signature__ = compat.programs.signature_of(module)  # type: ignore[attr-defined]
    return forward
