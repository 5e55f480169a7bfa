"""What converters work with: values of the ONNX graph that know torch's dtype and the captured shape."""

from __future__ import annotations

from typing import TypeAlias

import onnx_ir as ir
import torch

from onnxport.graph.ir import Node
from onnxport.graph.sizes import Shape, Size


class Value:
    """A tensor in the ONNX graph, with torch's dtype and, where it is known, its shape.

    ``data`` is the content of a parameter or constant. ``size`` is set on integers that stand for a size; such a value
    may have no ONNX form yet (``ir`` is None): it gets one where it is first needed as a tensor. ``guessed`` tells that
    the dtype is a guess: what an operator of another domain yields is for its author to know.
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


# A size as converters get it: a number, a dimension, or a value that is computed at run time.
AnySize: TypeAlias = "Size | Value"
Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Value | int | float | bool"
