"""The internals of scripted modules and functions (TorchScript)."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxport.compat.patches import shared

# How torch says that TorchScript is deprecated: a DeprecationWarning up to 2.14, a FutureWarning from 2.15 on.
DEPRECATED = r"`torch\.jit\.\w+` is "


def is_scripted(model: object) -> bool:
    return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def is_script_module(model: object) -> bool:
    return isinstance(model, torch.jit.ScriptModule)


def can_be_scripted(function: Callable[..., Any]) -> bool:
    """Whether TorchScript takes a function, which is compiled from now on."""
    try:
        torch.jit.script(function)
    except RuntimeError:
        return False
    return True


def without_deprecations() -> contextlib.AbstractContextManager[None]:
    """What torch says of TorchScript, which onnxport and libraries call, does not reach who exports a model."""

    @contextlib.contextmanager
    def quiet() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", DEPRECATED)
            yield

    return shared((id(warnings), "filters"), quiet)


def script_object(model: Any) -> Any:
    """The object that TorchScript keeps behind a scripted module."""
    return model._c


def is_script_object(value: object) -> bool:
    return isinstance(value, (torch._C.ScriptModule, torch._C.ScriptObject))


def is_script_module_object(value: object) -> bool:
    return isinstance(value, torch._C.ScriptModule)


def is_native(script: object) -> bool:
    """Whether an object is of a class that C++ registers with TorchScript, whose attributes no program reads."""
    return isinstance(script, torch._C.ScriptObject) and script_type_name(script).startswith("__torch__.torch.classes.")


def script_type_name(script: Any) -> str:
    return str(script._type().qualified_name())


def class_of(module: torch.nn.Module) -> tuple[str, str]:
    """The Python module and the name of a module's class; of a scripted one those of the class it was made from."""
    if not is_script_module(module):
        return type(module).__module__, type(module).__name__
    _, *place, name = script_type_name(module._c).split(".")  # numbers tell apart what was compiled of one class
    return ".".join(part for part in place if not part.startswith("___torch_mangle_")) or "__main__", name


def plain_execution() -> contextlib.AbstractContextManager[None]:
    """Run scripted code as it is: profiling and optimizing it takes longer than the few calls that an export makes."""
    execution: contextlib.AbstractContextManager[None] = torch.jit._fuser.optimized_execution(False)
    return execution


def script_graph(model: Any, *, inlined: bool) -> Any:
    """The graph of a scripted function or of a module's forward; ``inlined`` with all calls in it replaced."""
    graph = model.graph if isinstance(model, torch.jit.ScriptFunction) else model._c._get_method("forward").graph
    if inlined or _is_loaded(model):
        graph = graph.copy()
        torch._C._jit_pass_inline(graph)
    return graph


def _is_loaded(model: Any) -> bool:
    """Whether the model comes from a file: its functions may have the names of others that are known here."""
    return isinstance(model, torch.jit._script.RecursiveScriptModule) and "forward" not in vars(model)


def has_forward(model: Any) -> bool:
    return isinstance(model, torch.jit.ScriptFunction) or bool(model._c._has_method("forward"))


def script_schema(model: Any) -> Any:
    return model.schema if isinstance(model, torch.jit.ScriptFunction) else model._c._get_method("forward").schema


def script_parameters(model: Any) -> list[Any]:
    """The arguments of the schema without the module itself, whatever the user calls it."""
    return list(script_schema(model).arguments)[int(is_script_module(model)) :]


def script_attribute_names(modules: Sequence[Any]) -> set[str]:
    """The attributes that the methods of scripted modules read or set."""
    scripts = {module._c._type().qualified_name(): module._c for module in modules}
    graphs = [script._get_method(name).graph for script in scripts.values() for name in script._method_names()]
    kinds = ("prim::GetAttr", "prim::SetAttr")
    return {node.s("name") for graph in graphs for kind in kinds for node in graph.findAllNodes(kind)}


def scripted_signature(model: Any) -> Callable[..., Any]:
    """A function with the parameters of a scripted model."""

    def scripted() -> None: ...

    scripted.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                argument.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
            )
            for argument in script_parameters(model)
        ]
    )
    return scripted


def scripted_numbers(model: Any) -> dict[str, Any]:
    """The parameters of a scripted model that are numbers, given or optional, with their Python types.

    A tuple has a tuple of those of its elements, with None for what is no number.
    """
    kinds = {argument.name: _number_kind(argument.type) for argument in script_parameters(model)}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _number_kind(type: Any) -> Any:
    if type.kind() == "OptionalType":
        return _number_kind(type.getElementType())
    if type.kind() == "TupleType":
        kinds = tuple(map(_number_kind, type.elements()))
        return kinds if any(kind is not None for kind in kinds) else None
    return {"IntType": int, "FloatType": float, "BoolType": bool}.get(type.kind())


# What Python calls of scripts. Other ways to call one lead through these.
CALLED = (torch._C.ScriptFunction, torch._C.ScriptMethod)
_CALLS = {kind: kind.__call__ for kind in CALLED}


def is_method(script: object) -> bool:
    return isinstance(script, torch._C.ScriptMethod)


def call(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a script returns, whatever its call was replaced by."""
    return _CALLS[CALLED[is_method(script)]](script, *args, **kwargs)


def writes(graph: Any) -> bool:
    """Whether a script, or one that it calls, writes to a tensor."""
    inlined = graph.copy()
    torch._C._jit_pass_inline(inlined)
    return any("!" in node.schema() for node in _all_nodes(inlined) if "::" in node.kind())


def _all_nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _all_nodes(inner)


def script_function_graph(name: str) -> Any:
    """The graph of a scripted function by its qualified name; None if it is not known in this process."""
    function = torch.jit._state._python_cu.find_function(name)
    return None if function is None else function.graph


def script_method_graph(script: Any, type_name: str, name: str) -> Any:
    """The graph of a method of a module, or of an object of a scripted class."""
    if isinstance(script, torch._C.ScriptModule):
        return script._get_method(name).graph
    return script_function_graph(f"{type_name}.{name}")
