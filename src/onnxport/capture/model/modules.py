"""Calls of modules that stay visible in the graph: as one operator, or as the nodes of one call."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture.model.structure import flatten
from onnxport.capture.record.numbers.carriers import CARRIERS
from onnxport.errors import CaptureError, OptionError
from onnxport.graph.ir import MODULE_CALL, Graph

Classes = tuple[type[nn.Module], ...]


@dataclass(frozen=True)
class ModuleCalls:
    """The modules that become one operator (class to ``domain::Op``), and those with calls that become functions.

    A class includes its subclasses; the most specific class counts.
    """

    operators: Mapping[type[nn.Module], str] = field(default_factory=dict)
    apart: Classes = ()

    def check(self, paths: Mapping[str, nn.Module]) -> None:
        """Raise `OptionError` for a class that no submodule has."""
        for argument, classes in (("modules_as_ops", self.operators), ("export_modules_as_functions", self.apart)):
            for kind in classes:
                found = any(path and isinstance(module, kind) for path, module in paths.items())
                if kind is not nn.Module and not found:
                    raise OptionError(f"{argument}: the model has no submodule of class {kind.__name__}")

    @contextlib.contextmanager
    def hooked(self, paths: Mapping[str, nn.Module]) -> Iterator[None]:
        """Hook the modules that become operators, so that their results are the operators' results."""
        handles = []
        for path, module in paths.items():
            operator = self._operator(module) if path else None
            if operator is not None:
                handles.append(module.register_forward_hook(_Replace(operator, path), with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _operator(self, module: nn.Module) -> str | None:
        return next((self.operators[kind] for kind in type(module).__mro__ if kind in self.operators), None)


@dataclass(frozen=True)
class _Replace:
    """Replaces the results of a call by those of one operator on its arguments and the module's parameters."""

    operator: str
    path: str

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        leaves, names = flatten((args, kwargs))
        # A size among the arguments is an input of the operator.
        leaves = [torch.tensor(leaf) if type(leaf) in CARRIERS else leaf for leaf in leaves]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        attributes = {
            name: leaf
            for name, leaf in zip(self._names(module, names.names), leaves, strict=True)
            if leaf is not None and not isinstance(leaf, torch.Tensor)
        }
        parameters = [value for value in module.state_dict(keep_vars=True).values() if isinstance(value, torch.Tensor)]
        leaves, structure = flatten(output)
        results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        try:
            text = json.dumps(attributes)
        except (TypeError, ValueError):
            raise CaptureError(
                f"modules_as_ops: {self.path!r} is called with arguments that are not tensors, numbers or strings: "
                f"{attributes}"
            ) from None
        made = iter(compat.module_call()(tensors, parameters, results, self.operator, text))
        return structure.unflatten([next(made) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])

    def _names(self, module: nn.Module, paths: tuple[str, ...]) -> list[str]:
        """Parameter names of ``forward`` for the leaves at ``0.1``, a positional argument, or ``1.key``, a keyword."""
        parameters = list(inspect.signature(module.forward).parameters)
        named = []
        for path in paths:
            kind, name, *rest = path.split(".")
            if kind == "0" and int(name) < len(parameters):
                name = parameters[int(name)]
            named.append("_".join([name, *rest]))
        return named


def cut_calls(graph: Graph) -> None:
    """Cut the operators that replace modules off from the modules' own results, which become dead code."""
    for node in graph.block.all_nodes():
        if node.op == MODULE_CALL:
            node.inputs["results"] = []
