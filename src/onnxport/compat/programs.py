"""The internals of torch.export programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

UNBOUNDED = 2**31

# Where the functions are that call operators and take sizes which a record follows.
HOLDERS = (torch, *(getattr(torch._C, name) for name in ("_nn", "_linalg", "_fft", "_special")))


def aten_name(target: Any) -> str | None:
    """The name of an ATen operator; None for other targets of a call."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    return target._schema.name.partition("::")[2]


def unlifted(program: torch.export.ExportedProgram) -> fx.GraphModule:
    """The program as a module that holds its parameters, and writes to its buffers and inputs as the model did."""
    module: fx.GraphModule = program.module(check_guards=False)
    return module


def signature_of(module: fx.GraphModule) -> inspect.Signature:
    """How a program is called."""
    return inspect.signature(module.forward)


def flat_arguments(module: fx.GraphModule, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of a call's arguments, one for each placeholder; ValueError where they are nested otherwise."""
    spec: Any = module._in_spec
    ordered = {name: kwargs[name] for name in spec.child(1).context if name in kwargs}
    leaves, found = pytree.tree_flatten((tuple(args), {**ordered, **kwargs}))
    if found != spec:
        raise ValueError(f"the program was made for arguments that are nested as {spec}, not as {found}")
    return leaves


def positional_count(module: fx.GraphModule) -> int:
    spec: Any = module._in_spec
    return int(spec.child(0).num_children)


def nested_result(module: fx.GraphModule, leaves: Any) -> Any:
    spec: Any = module._out_spec
    return pytree.tree_unflatten(leaves, spec)


def user_inputs(program: torch.export.ExportedProgram) -> list[tuple[str, Any]]:
    """The inputs that a caller gives, in order: a fake tensor for each tensor, else the constant itself."""
    placeholders = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    kind = torch.export.graph_signature.InputKind.USER_INPUT
    specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is kind]
    return [(arg.name, arg.value if hasattr(arg, "value") else placeholders.get(arg.name)) for arg in specs]


def example_of(program: torch.export.ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    found: Any = program.example_inputs
    return None if found is None else (tuple(found[0]), dict(found[1]))


class Symbols:
    """The sizes that a program leaves open."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._ranges = program.range_constraints

    def of(self, size: Any) -> list[Any] | None:
        """The symbols that a size follows from; None for one that is fixed."""
        if isinstance(size, int):
            return None
        return sorted(size.node.expr.free_symbols, key=str) or None

    def form(self, size: Any, symbol: Any) -> Callable[[int], int] | None:
        """How a size follows from a symbol; None for the symbol itself."""
        expression = size.node.expr
        return None if expression == symbol else lambda number: int(expression.subs(symbol, number))

    def range(self, symbol: Any) -> tuple[int, int | None]:
        """The smallest size, at least 1, and the largest; None where there is none."""
        found = self._ranges.get(symbol)
        if found is None:
            return 1, None
        low, high = (int(bound) if bound.is_Integer else None for bound in (found.lower, found.upper))
        return max(low or 1, 1), high if high is not None and high < UNBOUNDED else None

    def name(self, size: Any, symbol: Any) -> str | None:
        """What the user called a symbol."""
        shapes = size.node.shape_env
        given = getattr(shapes, "source_name_to_debug_name", {})
        for source in getattr(shapes, "var_to_sources", {}).get(symbol, ()):
            name = source.name if isinstance(source.name, str) else source.name()
            for found in (given.get(name), name):
                if found is not None and found.isidentifier():
                    return str(found)
        return None
