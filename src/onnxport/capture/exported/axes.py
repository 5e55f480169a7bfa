"""The dynamic axes of a program of torch.export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport import compat
from onnxport.capture.axes.axis import Axis, InputDim
from onnxport.capture.axes.declared import Declared, axis_of, same
from onnxport.capture.exported.module import ExportedModule
from onnxport.capture.model.inputs import Inputs
from onnxport.errors import DynamicAxisError


def axes_of(module: ExportedModule, inputs: Inputs, names: Sequence[str]) -> list[Axis]:
    """The dynamic axes of the program, with the user's names, else named after their input."""
    symbols = compat.programs.Symbols(module.program)
    found: dict[Any, Declared] = {}
    labels: dict[Any, str] = {}
    for index, (_, fake) in zip(_order(module, inputs), module.user_inputs, strict=True):
        for dim, size in enumerate(fake.shape if index is not None else ()):
            free = symbols.of(size)
            if free is None or index is None:
                continue
            where = f"dimension {dim} of {names[index]!r}"
            if len(free) > 1:
                raise DynamicAxisError(
                    f"{where} is {size} in the exported program, an expression of several axes; declare the axes "
                    "with dynamic_shapes or dynamic_axes"
                )
            input_dim: InputDim = (index, dim)
            low, high = symbols.range(free[0])
            declared = found.setdefault(free[0], Declared(where, low=low, high=high))
            declared.forms[input_dim] = symbols.form(size, free[0]) or same
            name = symbols.name(size, free[0])
            if name is not None or free[0] not in labels:
                labels[free[0]] = name or f"{names[index]}_dim_{dim}"
    return [axis_of(labels[symbol], declared, inputs.tensors) for symbol, declared in found.items()]


def _order(module: ExportedModule, inputs: Inputs) -> list[int | None]:
    """The index of each program input among the call's tensors; None for one that is not a tensor."""
    marks = [_Mark(index) for index in range(len(inputs.tensors))]
    leaves = inputs.call(module.flat, marks)  # type: ignore[arg-type]
    return [leaf.index if isinstance(leaf, _Mark) else None for leaf in leaves]


class _Mark:
    """Stands for a tensor."""

    def __init__(self, index: int) -> None:
        self.index = index
