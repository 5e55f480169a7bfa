"""Two ways to be asked for every ATen call of a thread, above autograd, while that is switched on.

Both give the overload, and the arguments as its schema binds them, to a function that calls the operator itself.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch._ops import OpOverload

from onnxport.compat.patches import replaced

# (operator, *args, **kwargs) -> result
Fallback = Callable[..., Any]
_include: Callable[[Any, bool], None] = torch._C._dispatch_tls_set_dispatch_key_included
_is_included: Callable[[Any], bool] = torch._C._dispatch_tls_is_dispatch_key_included


class Interception(Protocol):
    """Calls are given to the fallback where this has been ``entered`` and is switched on in the thread."""

    def entered(self) -> contextlib.AbstractContextManager[None]: ...

    def switch(self, on: bool) -> None: ...

    def is_on(self) -> bool: ...

    def see_dispatching_tensors(self) -> None:
        """Have the calls on tensors with a __torch_dispatch__ seen, too."""


class FallbackKey:
    """A boxed fallback on a dispatch key that nothing else uses. RuntimeError if that is not to be had.

    torch does not find a fallback in Python for tensors that have a __torch_dispatch__, nor under a dispatch mode: it
    looks for a kernel of the operator's own.
    """

    NAME = "TESTING_ONLY_GenericMode"

    def __init__(self, fallback: Fallback) -> None:
        self._key: Any = torch._C._parse_dispatch_key(self.NAME)
        if self._key is None:
            raise RuntimeError(f"this torch has no dispatch key {self.NAME}")
        self._fallback = fallback
        # The registrations last as long as the libraries.
        self._library = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
        self._library.fallback(fallback, self.NAME)  # type: ignore[no-untyped-call]
        self._libraries: dict[str, Any] = {}  # those of operators' own kernels, by namespace
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self.switch = functools.partial(_include, self._key)  # twice for each call of an operator
        self.is_on = functools.partial(_is_included, self._key)

    def entered(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def see_dispatching_tensors(self) -> None:
        """The first time takes 20 ms."""
        with self._lock:
            for name in torch._C._dispatch_get_all_op_names():
                if name not in self._names:
                    self._names.add(name)
                    namespace, _, op = name.partition("::")
                    if namespace not in self._libraries:
                        self._libraries[namespace] = torch._C._dispatch_library("IMPL", namespace, self.NAME)
                    self._libraries[namespace].impl(op, self.NAME, _OwnKernel(name, self._fallback), False)


class _OwnKernel:
    """The fallback as a kernel of one operator."""

    def __init__(self, name: str, fallback: Fallback) -> None:
        self._name = name
        self._fallback = fallback
        self._op: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._op is None:
            namespace, _, name = self._name.partition("::")
            packet, _, overload = name.partition(".")
            self._op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
        return self._fallback(self._op, *args, **kwargs)


class PreDispatch:
    """The key that torch.export records at. There torch's dispatcher in Python asks the operator who takes a call."""

    _KEY: Any = torch._C.DispatchKey.PreDispatch
    _DISPATCHER: Any = torch._C.DispatchKey.PythonDispatcher

    def __init__(self, fallback: Fallback) -> None:
        self._fallback = fallback

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with replaced(OpOverload, "_get_dispatch", self._kernel), torch._C._EnablePythonDispatcher():
            yield

    def _kernel(self, op: Any, key: Any) -> Any:
        return functools.partial(self._fallback, op) if key == self._KEY else NotImplemented

    def switch(self, on: bool) -> None:
        _include(self._KEY, on)
        _include(self._DISPATCHER, on)

    def is_on(self) -> bool:
        return _is_included(self._KEY)

    def see_dispatching_tensors(self) -> None:
        """They are."""


def available(fallback: Fallback) -> Interception:
    """The first way, which is the faster one; the second where somebody else uses its key, or torch has it no more."""
    try:
        return FallbackKey(fallback)
    except RuntimeError:
        return PreDispatch(fallback)
