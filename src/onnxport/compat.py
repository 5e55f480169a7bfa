"""Every private or version-dependent name of torch that onnxport uses, in one place."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import nn

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# Methods through which a tensor's content becomes a Python number, and so a constant of the trace.
READS_CONTENT = frozenset({"__index__", "__bool__", "__int__", "__float__", "__complex__", "item", "tolist", "numpy"})

# The numbers that TorchScript graphs hold where an operator takes a dtype.
DTYPE_CODES: dict[int, torch.dtype] = dict(
    enumerate(
        (
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
            torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32,
            torch.bfloat16, torch.quint4x2, torch.quint2x4, torch.bits1x8, torch.bits2x4, torch.bits4x2, torch.bits8,
            torch.bits16, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz, torch.float8_e4m3fnuz,
            torch.uint16, torch.uint32, torch.uint64,
        )
    )
)  # fmt: skip

MEMORY_FORMATS: dict[int, torch.memory_format] = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}


# How torch's tracer says that it has no way to write down a call that it was shown.
TRACER_REFUSALS = ("We don't have an op for", "Tracing a list of arbitrary type")


def trace_graph(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> torch.Graph:
    """Run a function of flat tensors under torch's C++ tracer; the graph's inputs are these tensors in order.

    The tracer's own warnings are switched off: they show on two models of three and say nothing of what goes wrong.
    """

    def run(*flat: torch.Tensor) -> Any:
        try:
            return function(*flat)
        except BaseException:
            # An index that was refused (x[traced number] out of range) is still kept for the operator that should have
            # got it. The next trace would take it for its own and crash: use it up while this graph is there.
            torch.zeros(1).select(0, 0)
            torch.zeros(1)[0:1:1]
            raise

    warns = torch._C._jit_get_tracer_state_warn()  # type: ignore[attr-defined]
    torch._C._jit_set_tracer_state_warn(False)  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit._trace.TracerWarning)
            graph, _ = torch._C._create_graph_by_tracing(run, tuple(tensors), lambda tensor: "", False, False)
    finally:
        torch._C._jit_set_tracer_state_warn(warns)  # type: ignore[attr-defined]
    return graph


@contextlib.contextmanager
def module_scopes(names: Mapping[nn.Module, str]) -> Iterator[None]:
    """Let the tracer write these names as the scope of the nodes made inside each module."""
    before = torch.jit._trace._trace_module_map
    torch.jit._trace._trace_module_map = dict(names)
    try:
        yield
    finally:
        torch.jit._trace._trace_module_map = before


@contextlib.contextmanager
def in_onnx_export() -> Iterator[None]:
    """Make ``torch.onnx.is_in_onnx_export()`` answer True, since models in the wild ask it."""
    state = _export_state()
    before = state.in_onnx_export
    state.in_onnx_export = True
    try:
        yield
    finally:
        state.in_onnx_export = before


def is_in_onnx_export() -> bool:
    return bool(_export_state().in_onnx_export)


def _export_state() -> Any:
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS  # noqa: PLC0415

    return GLOBALS


@contextlib.contextmanager
def composite_attention() -> Iterator[None]:
    """Keep ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` off their fused inference kernels."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


# The tracer's module names, the fast-path switch and the random generators belong to the process, not to a thread.
PROCESS_STATE = threading.RLock()


@contextlib.contextmanager
def random_state() -> Iterator[Callable[[], None]]:
    """Give the random generators back as they were; the yielded function rewinds them in between."""
    torch_state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()

    def rewind() -> None:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)

    try:
        yield rewind
    finally:
        rewind()


def traced_value(tensor: torch.Tensor) -> Any:
    """The tracer's value for a tensor; None for one that the trace has not seen."""
    try:
        return torch._C._get_value_trace(tensor)  # type: ignore[attr-defined]
    except RuntimeError:
        return None


def wrapped_module(model: object) -> object:
    """The module inside ``DataParallel``, ``DistributedDataParallel`` and ``torch.compile``."""
    while isinstance(model, nn.Module):
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif type(model).__name__ == "OptimizedModule" and "_orig_mod" in model._modules:
            model = model._orig_mod  # by name: torch.compile's class takes a second to import
        else:
            break
    return model


def lost_in_function(error: RuntimeError) -> bool:
    """Whether the tracer met, inside an autograd Function, a tensor that is not among its arguments."""
    return str(error) == "unordered_map::at"


def is_tracing() -> bool:
    return bool(torch._C._is_tracing())


def is_scripted(model: object) -> bool:
    return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory."""
    return int(tensor.untyped_storage()._cdata)


def is_registered_container(value: object) -> bool:
    """Whether some library taught torch's pytree how to take this object apart (dataclass-like model outputs)."""
    return type(value) in pytree.SUPPORTED_NODES


def container_parts(value: object) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]:
    """The children of a registered container with their names, and how to put it together again."""
    definition = pytree.SUPPORTED_NODES[type(value)]
    children, context = definition.flatten_fn(value)
    children = list(children)
    names = [str(index) for index in range(len(children))]
    if definition.flatten_with_keys_fn is not None:
        keyed, _ = definition.flatten_with_keys_fn(value)
        names = [_key_name(key) for key, _ in keyed]
    return list(zip(names, children, strict=True)), lambda parts: definition.unflatten_fn(parts, context)


def _key_name(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def decomposition(op: str, overload: str) -> Callable[..., Any] | None:
    """torch's own definition of an operator in terms of simpler ones, if it has one."""
    from torch._decomp import decomposition_table  # noqa: PLC0415

    namespace, name = op.split("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    function = getattr(packet, overload or "default", None)
    if function is None:
        return None
    if function in decomposition_table:
        found: Callable[..., Any] = decomposition_table[function]
        return found
    if not torch._C._dispatch_has_kernel(function.name()):
        return None  # known to TorchScript only
    if torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd"):
        composite: Callable[..., Any] = function.decompose
        return composite
    return None
