"""Complex tensors. ONNX has no operators on them: they are two real tensors, or one with a last axis of two.

Arithmetic works on the parts. Inputs and outputs of the graph, `view_as_real` and ONNX's DFT have them joined. A value
in one form is converted to the other on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from onnxport.graph.sizes import Shape, is_static
from onnxport.lower import emit
from onnxport.lower.inference.infer import broadcast
from onnxport.lower.value import Operand, Value

if TYPE_CHECKING:
    from onnxport.lower.builder import Builder


class Parts(NamedTuple):
    """A number's real and imaginary part; a real number has no second one."""

    real: Value
    imag: Value | None


class Complex(Value):
    """A complex tensor; ``shape`` and ``dtype`` are torch's. Only its parts are values of the ONNX graph."""

    __slots__ = ("_home", "_joined", "_parts")

    def __init__(
        self, g: Builder, shape: Shape | None, *, parts: tuple[Value, Value] | None = None, joined: Value | None = None
    ) -> None:
        form = joined if parts is None else parts[0]
        assert form is not None
        super().__init__(None, form.dtype.to_complex(), shape)
        self._home = g
        self._parts = parts
        self._joined = joined

    @property
    def has_parts(self) -> bool:
        return self._parts is not None

    @property
    def real_dtype(self) -> torch.dtype:
        return self.dtype.to_real()

    def parts(self, g: Builder) -> tuple[Value, Value]:
        if self._parts is not None:
            return self._parts
        assert self._joined is not None
        found = _part(g, self._joined, 0, self.shape), _part(g, self._joined, 1, self.shape)
        if g is self._home:
            self._parts = found
        return found

    def joined(self, g: Builder) -> Value:
        """One real tensor with the two parts along its last axis."""
        if self._joined is not None:
            return self._joined
        assert self._parts is not None and self.shape is not None
        found = g.op("Concat", *(emit.unsqueeze(g, part, [self.rank]) for part in self._parts), axis=self.rank)
        g.typed(found, self.real_dtype, (*self.shape, 2))
        if g is self._home:
            self._joined = found
        return found


def _part(g: Builder, joined: Value, index: int, shape: Shape | None) -> Value:
    if joined.data is not None and g.is_constant(joined):
        return g.constant(joined.data[..., index])
    part = g.op("Gather", joined, g.constant(index, torch.int64), axis=joined.rank - 1)
    return g.typed(part, joined.dtype, shape)


def from_parts(g: Builder, real: Value, imag: Value) -> Complex:
    """A complex tensor from two real ones, which are broadcast."""
    shape = broadcast([real.shape, imag.shape])
    if shape is not None:
        real, imag = (emit.expand(g, part, shape) for part in (real, imag))
    return Complex(g, shape, parts=(real, imag))


def from_joined(g: Builder, joined: Value) -> Complex:
    return Complex(g, None if joined.shape is None else joined.shape[:-1], joined=joined)


def constant(g: Builder, content: torch.Tensor | complex) -> Complex:
    tensor = content if isinstance(content, torch.Tensor) else torch.tensor(content, dtype=torch.complex128)
    return from_joined(g, g.constant(stored(tensor)))


def plain(g: Builder, value: Value) -> Value:
    """The real tensor that represents a value as input or output of a block."""
    return value.joined(g) if isinstance(value, Complex) else g.realise(value)


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as it is stored in the file and passed to the runtime; other tensors unchanged."""
    return torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor


def parts(g: Builder, operand: Operand | complex, dtype: torch.dtype) -> Parts:
    """The parts of any operand, in a real dtype."""
    if isinstance(operand, complex):
        return Parts(g.constant(operand.real, dtype), g.constant(operand.imag, dtype))
    if isinstance(operand, Complex):
        real, imag = operand.parts(g)
        return Parts(g.cast(real, dtype), g.cast(imag, dtype))
    return Parts(g.cast(operand, dtype), None)


def both(g: Builder, operand: Operand | complex, dtype: torch.dtype) -> tuple[Value, Value]:
    """The parts of an operand; the imaginary part of a real one is zero."""
    real, imag = parts(g, operand, dtype)
    return real, zeros(g, real) if imag is None else imag


def zeros(g: Builder, like: Value) -> Value:
    if like.shape is not None and is_static(like.shape):
        return g.constant(torch.zeros([int(size) for size in like.shape if isinstance(size, int)], dtype=like.dtype))
    return emit.filled(g, like.shape or (), 0, like.dtype)


def cast(g: Builder, operand: Operand | complex, dtype: torch.dtype) -> Complex:
    """An operand as a complex tensor of this dtype."""
    if isinstance(operand, Complex) and operand.dtype == dtype:
        return operand
    if isinstance(operand, Complex) and not operand.has_parts:
        return from_joined(g, g.cast(operand.joined(g), dtype.to_real()))
    return from_parts(g, *both(g, operand, dtype.to_real()))


def expanded(g: Builder, value: Complex, shape: Shape) -> Complex:
    """The value with its captured shape."""
    if value.shape == shape:
        return value
    if value.has_parts:
        return from_parts(g, *(_shaped(g, part, shape) for part in value.parts(g)))
    return from_joined(g, _shaped(g, value.joined(g), (*shape, 2)))


def _shaped(g: Builder, x: Value, shape: Shape) -> Value:
    return g.typed(x, x.dtype, shape) if x.shape is None else emit.expand(g, x, shape)
