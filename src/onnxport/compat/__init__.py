"""Every private or version-dependent name of torch that onnxport uses, in one place.

In: torch. Out: functions and contexts with a meaning of their own; `patches` has all that is replaced in torch while a
model is recorded. Imports torch alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import nn

from onnxport.compat import autograd_functions as autograd_functions
from onnxport.compat import compiled as compiled
from onnxport.compat import dispatch as dispatch
from onnxport.compat import double as double
from onnxport.compat import forks as forks
from onnxport.compat import functional as functional
from onnxport.compat import higher_order as higher_order
from onnxport.compat import patches as patches
from onnxport.compat import programs as programs
from onnxport.compat import schemas as schemas
from onnxport.compat import scripts as scripts
from onnxport.compat import stateless as stateless

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep

# Nested lists, tuples and dicts taken apart, and put together again.
tree_flatten = pytree.tree_flatten
tree_unflatten = pytree.tree_unflatten

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
_NARROW = [f"{kind}{bits}" for kind in ("uint", "int") for bits in range(1, 8)]
for _name in (*_NARROW, "float8_e8m0fnu", "float4_e2m1fn_x2"):
    DTYPE_CODES[len(DTYPE_CODES)] = getattr(torch, _name)

MEMORY_FORMATS: dict[int, torch.memory_format] = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}


# From here on a bound of a dimension means that there is none.
UNBOUNDED = 2**31


# How torch says that a tensor would have more elements or bytes than it can count.
OVERFLOWS = ("Storage size calculation overflowed", "integer multiplication overflow")


@contextlib.contextmanager
def called_through(calls: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Let each of these modules, when it is called, call a function with the arguments and return what that returns."""
    slot = "_compiled_call_impl"
    before = {module: module.__dict__[slot] for module in calls if slot in module.__dict__}
    for module, call in calls.items():
        module.__dict__[slot] = call
    try:
        yield
    finally:
        for module in calls:
            module.__dict__.pop(slot, None)
        for module, call in before.items():
            module.__dict__[slot] = call


# What a module that is called does without such a function: its forward, with the hooks around it.
call_module: Callable[..., Any] = nn.Module._call_impl


@functools.cache
def module_call() -> Callable[..., list[torch.Tensor]]:
    """An operator that is one node of a record: it gives copies of the results, and has what they were made of."""
    library: Any = torch.library.Library("onnxport", "FRAGMENT")  # type: ignore[no-untyped-call]
    parameters = "Tensor[] arguments, Tensor[] parameters, Tensor[] results, str operator, str attributes"
    library.define(f"module_call({parameters}) -> Tensor[]")
    library.impl("module_call", lambda a, p, results, o, t: [r.clone() for r in results], "CompositeExplicitAutograd")
    operator = torch.ops.onnxport.module_call.default

    def call(*given: Any, keeps_defined: Any = library) -> list[torch.Tensor]:
        results: list[torch.Tensor] = operator(*given)
        return results

    return call


@contextlib.contextmanager
def in_onnx_export(asked: Callable[[], None]) -> Iterator[None]:
    """Make ``torch.onnx.is_in_onnx_export()`` answer True, which models ask. ``asked`` is called each time."""
    state = _export_state()
    before = state.in_onnx_export

    def answer() -> bool:
        asked()
        return True

    state.in_onnx_export = True
    try:
        with patches.answered(type(state), "in_onnx_export", answer):
            yield
    finally:
        state.in_onnx_export = before


def in_no_export() -> contextlib.AbstractContextManager[None]:
    """Make it answer False, as in a plain call."""
    return patches.answered(type(_export_state()), "in_onnx_export", lambda: False)


def is_in_onnx_export() -> bool:
    return bool(_export_state().in_onnx_export)


def _export_state() -> Any:
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS  # noqa: PLC0415

    return GLOBALS


ATTENTION = nn.MultiheadAttention.forward


def _contiguous_attention(module: nn.MultiheadAttention, *args: Any, **kwargs: Any) -> Any:
    output, weights = ATTENTION(module, *args, **kwargs)
    return output.contiguous(), weights


@contextlib.contextmanager
def composite_attention() -> Iterator[None]:
    """Keep ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` off their fused inference kernels.

    Where the caller has gradients switched off, the result of attention lies in memory as those kernels lay it.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    fused = before and not torch.is_grad_enabled()
    instead = patches.replaced(nn.MultiheadAttention, "forward", _contiguous_attention)
    try:
        with instead if fused else contextlib.nullcontext():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


# The fast-path switch and the random generators belong to the process, not to a thread.
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


# The shape of a tensor as a tensor, made by an operator.
shape_as_tensor: Callable[[torch.Tensor], torch.Tensor] = torch._shape_as_tensor


def dtype_code(dtype: torch.dtype) -> int:
    return next(code for code, known in DTYPE_CODES.items() if known is dtype)


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory; for one inside ``torch.vmap``, that of the tensor which holds the batch."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return int(tensor.untyped_storage()._cdata)


def memory_place(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Equal for tensors that lie in memory in the same way, whoever holds it; None for those that lie nowhere."""
    if tensor.layout != torch.strided or tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    with torch._C.DisableTorchFunction():
        pointer = tensor.data_ptr() if torch._C._has_storage(tensor) else 0
        return (pointer, tensor.dtype, *tensor.shape, *tensor.stride()) if pointer else None


def generator_reference(generator: torch.Generator) -> Callable[[], torch.Generator | None]:
    """What gives the generator as long as somebody else holds it; before torch 2.13 it is held by this, too."""
    try:
        return weakref.ref(generator)
    except TypeError:
        return lambda: generator


def is_hollow(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a shape and no content: on the meta device, or a fake one."""
    return tensor.is_meta or isinstance(tensor, torch._subclasses.FakeTensor)


def without_fake_mode() -> contextlib.AbstractContextManager[Any]:
    """Tensors that are made inside have content, also where ``FakeTensorMode`` is on."""
    return torch._subclasses.fake_tensor.unset_fake_temporarily()


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
        return dispatch.Composite(function)
    return _written_in_python(op)


def _written_in_python(op: str) -> Callable[..., Any] | None:
    """What an operator calls that torch defines by ``torch.library.custom_op``. A model's own have a translation."""
    from torch._library.custom_ops import OPDEFS  # noqa: PLC0415

    function: Any = getattr(OPDEFS.get(op), "_init_fn", None)
    code = getattr(function, "__code__", None)
    return function if code is not None and code.co_filename.startswith(TORCH_FOLDER) else None


def dim_hint(entry: object) -> str | None:
    """AUTO, DYNAMIC or STATIC for torch.export's hints of that name; None for anything else."""
    return str(entry.type.name) if isinstance(entry, type(torch.export.Dim.AUTO)) else None


def dim_range(dim: Any) -> tuple[int, int | None]:
    """The smallest size of a dimension of torch.export, at least 1, and the largest; None where there is none."""
    low, high = (bound if type(bound) is int else None for bound in (dim.min, dim.max))
    return max(low or 1, 1), high if high is None or high < UNBOUNDED else None


def derived_dim(dim: Any) -> tuple[Any, Callable[[int], int]] | None:
    """What a dimension such as ``2 * n`` is derived from, and how; None for one that stands by itself."""
    return (dim.root, dim.fn) if hasattr(dim, "root") else None


def integer_kernels_saturate() -> bool:
    """Whether sums of two products of bytes are taken in 16 bits on this CPU: on those of Intel's kind without VNNI."""
    known = torch.cpu.get_capabilities()
    return known.get("architecture") == "x86_64" and not (known.get("avx512_vnni") or known.get("avx_vnni"))


def leaves(nested: Any) -> list[Any]:
    """What is in a nesting of lists, mappings and what libraries taught torch to take apart."""
    return pytree.tree_leaves(nested)
