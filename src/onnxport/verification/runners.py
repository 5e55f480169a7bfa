"""Who runs the file where it is checked: ONNX Runtime, with a user's session options, or a runner of the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_state

from onnxport.errors import OptionError, VerificationError
from onnxport.graph.ir import Node
from onnxport.optimize.traversal import all_nodes
from onnxport.verification.runtime import Loaded, Session

Array = npt.NDArray[Any]
Runner: TypeAlias = Callable[[onnx.ModelProto, dict[str, Array]], Any]
Verify: TypeAlias = "bool | Literal['warn'] | Runner | onnxruntime.SessionOptions"


def checked_verify(verify: Any) -> Verify:
    """What ``verify`` may be."""
    if verify in (True, False) or verify == "warn":
        return verify
    if callable(verify) or isinstance(verify, onnxruntime.SessionOptions):
        return verify
    raise OptionError(
        "verify must be True, 'warn', False, a function of the model and its inputs, or an onnxruntime.SessionOptions, "
        f"not {verify!r}"
    )


@functools.cache
def _has_runtime(domain: str, op_type: str) -> bool:
    """Whether ONNX has an operator, or ONNX Runtime one of another domain that it has operators of."""
    if domain == "":
        return bool(onnx.defs.has(op_type, ""))
    return (domain, op_type) in _runtime_operators()


@functools.cache
def _runtime_operators() -> frozenset[tuple[str, str]]:
    """The operators that ONNX Runtime has, by domain and name."""
    return frozenset((schema.domain, schema.name) for schema in runtime_state.get_all_operator_schema())


def foreign_operators(model: ir.Model, kept: Collection[Node]) -> list[str]:
    """The operators that ONNX Runtime does not have, as ``domain::Op``; those ``kept`` for torch are not among them."""
    functions = {(domain, name) for domain, name, _ in model.functions}
    origins = {id(node) for node in kept}
    found = {
        f"{node.domain}::{node.op_type}"
        for node in all_nodes(model.graph)
        if not _has_runtime(node.domain, node.op_type)
        and (node.domain, node.op_type) not in functions
        and id(node.meta.get("origin")) not in origins
    }
    return sorted(found)


def told_of_missing_domains(operators: Sequence[str]) -> str | None:
    """What to warn of where a symbolic function made operators in ONNX's own domain that ONNX does not have."""
    without = [name.removeprefix("::") for name in operators if name.startswith("::")]
    if not without:
        return None
    return (
        f"ONNX has no operator {', '.join(without)}: a symbolic function made it without a domain. A runtime runs the "
        f'file only if it is registered there. Give it a domain, as in g.op("my.domain::{without[0]}", ...).'
    )


def why_not_run(operators: Sequence[str], verify: Verify) -> str | None:
    """The reason why a file with these operators of other domains is not run."""
    if not operators or isinstance(verify, onnxruntime.SessionOptions) or _is_runner(verify):
        return None
    return (
        f"ONNX Runtime does not have {', '.join(operators)}; a function that runs the model, or session options with "
        "the library that has them, can be given as verify="
    )


def loader(verify: Verify, default: Callable[[Any], Loaded]) -> Callable[[str | bytes], Loaded]:
    """How the written model is loaded to be run."""
    if isinstance(verify, onnxruntime.SessionOptions):
        return functools.partial(Session, options=verify)
    return functools.partial(RunnerSession, verify) if _is_runner(verify) else default  # type: ignore[arg-type]


def _is_runner(verify: Verify) -> bool:
    return callable(verify) and not isinstance(verify, onnxruntime.SessionOptions)


class RunnerSession:
    """A model that a user's function runs: ``runner(model, inputs)`` gives the outputs in order, or by name."""

    def __init__(self, runner: Runner, source: str | bytes) -> None:
        self._runner = runner
        self._model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
        self._outputs = [output.name for output in self._model.graph.output]

    def run(self, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        outputs = self._runner(self._model, {name: _to_array(tensor) for name, tensor in inputs.items()})
        if isinstance(outputs, Mapping):
            outputs = [outputs[name] for name in self._outputs]
        if isinstance(outputs, (np.ndarray, torch.Tensor)):
            outputs = [outputs]
        if len(outputs) != len(self._outputs):
            raise VerificationError(
                f"verify: the runner returned {len(outputs)} outputs, the model has {', '.join(self._outputs)}"
            )
        return [o if isinstance(o, torch.Tensor) else torch.from_numpy(np.array(o)) for o in outputs]


def _to_array(tensor: torch.Tensor) -> Array:
    """The content; of a dtype that numpy lacks, as onnx has it in numpy."""
    array: Array = ir.tensor_adapters.TorchTensor(tensor.detach().cpu()).numpy()
    return array
