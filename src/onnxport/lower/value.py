"""Values of the ONNX graph with torch's dtype and the captured shape, as converters use them."""

from __future__ import annotations

from typing import TypeAlias

import onnx_ir as ir
import torch

from onnxport.graph.ir import Node
from onnxport.graph.sizes import Shape, Size


class Value:
    """A tensor in the ONNX graph, with torch's dtype and, where it is known, its shape.

    ``data`` is the content of a parameter or constant. ``size`` is set on integers that are sizes; such a value may not
    be in the ONNX graph yet (``ir`` is None): it is added when it is first needed as a tensor. ``guessed`` says that
    the dtype is a guess: only its author knows the result type of an operator in another domain.
    """

    __slots__ = ("data", "dtype", "guessed", "ir", "origin", "shape", "size")

    def __init__(
        self,
        ir_value: ir.Value | None,
        dtype: torch.dtype,
        shape: Shape | None,
        *,
        data: torch.Tensor | None = None,
        size: Size | None = None,
        origin: Node | None = None,
        guessed: bool = False,
    ) -> None:
        self.ir = ir_value
        self.dtype = dtype
        self.shape = shape
        self.data = data
        self.size = size
        self.origin = origin
        self.guessed = guessed

    @property
    def rank(self) -> int:
        assert self.shape is not None, "the rank of this intermediate value is not known"
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    def __repr__(self) -> str:
        return f"%{self.ir.name if self.ir else self.size} : {self.dtype}{self.shape}"


# A size in a converter: a number, an expression, or a value that is computed at run time.
AnySize: TypeAlias = "Size | Value"
Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Value | int | float | bool"
