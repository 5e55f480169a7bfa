"""The quantizers of a captured graph: what each makes of a tensor when torch runs the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.model.other_data import last_bits_changed
from onnxport.graph.ir import QUANTIZED, Block, Graph, Node, Value
from onnxport.verification.bisect.walk import Replay
from onnxport.verification.quantized.layers import LAYERS

Arguments = Mapping[str, Any]
# How far a number may be from a whole one for rounding alone to explain it, in steps.
OFF_GRID = 1e-2
# The rounding errors with which a graph is run again, to see how far they move its outputs.
SHAKEN = (1, 2, 3, 4)


@dataclass(frozen=True)
class Rounding:
    """A tensor when it is quantized: ``steps`` are the numbers before they are rounded to ``integers``, or no numbers
    where torch does not show them. ``kernel`` is what torch's run goes on with, where that may be something else."""

    steps: torch.Tensor
    integers: torch.Tensor
    floats: torch.Tensor
    scale: torch.Tensor
    kernel: torch.Tensor | None = None

    def given(self, dtype: torch.dtype | None) -> torch.Tensor:
        """What later steps are given: the floats, or the integers of a dtype."""
        if dtype is None:
            return self.floats if self.kernel is None else self.kernel.dequantize()
        return (self.integers if self.kernel is None else self.kernel.int_repr()).to(dtype)


@dataclass(frozen=True)
class FileGrid:
    """Scale and zero point of a quantizer as the file has them; with an axis they are vectors along it."""

    scale: torch.Tensor
    zero: torch.Tensor
    axis: int | None

    def rounding(self, arguments: Arguments, result: torch.Tensor) -> Rounding:
        """What a function did of which only the result is seen: the floats of integers, if it is on this grid.

        Else its integers are no whole numbers, and no file has them.
        """
        scale = _spread(self.scale, self.axis, result.dim()).double()
        zero = _spread(self.zero, self.axis if self.zero.dim() else None, result.dim()).double()
        steps = result.double() / scale
        on_grid = bool(((steps - steps.round()).abs() <= OFF_GRID).all())
        given = (x for x in arguments.values() if isinstance(x, torch.Tensor) and x.is_floating_point())
        x = next((x for x in given if x.shape == result.shape), torch.full_like(result, torch.nan))
        return Rounding(x.double() / scale + zero, (steps.round() if on_grid else steps) + zero, result, scale)


def _spread(parameter: Any, axis: int | None, rank: int) -> torch.Tensor:
    tensor = torch.as_tensor(parameter).detach()
    return tensor.reshape([] if axis is None else [-1 if index == axis % rank else 1 for index in range(rank)])


def _affine(
    x: torch.Tensor, scale: Any, zero: Any, low: int, high: int, axis: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As torch's kernels do it: by the inverse of the scale, in single precision."""
    scale = _spread(scale, axis, x.dim()).float()
    zero = _spread(zero, axis, x.dim()).double()
    steps = (x.float() * (1 / scale)).double()
    integers = (steps.round() + zero).clamp(low, high)
    return steps + zero, integers, ((integers - zero) * scale.double()).float(), scale.double()


def _fake(a: Arguments, axis: int | None = None) -> tuple[torch.Tensor, ...]:
    return _affine(a["self"], a["scale"], a["zero_point"], a["quant_min"], a["quant_max"], a.get("axis", axis))


def _learned(a: Arguments) -> tuple[torch.Tensor, ...]:
    zero = a["zero_point"].detach().round().clamp(a["quant_min"], a["quant_max"])
    return _fake({**a, "zero_point": zero})


def _fused(a: Arguments) -> tuple[torch.Tensor, ...]:
    return _fake(a, a["ch_axis"] if a.get("per_row_fake_quant") else None)


def _decomposed(a: Arguments) -> tuple[torch.Tensor, ...]:
    scale, zero = a.get("scale", a.get("scales")), a.get("zero_point", a.get("zero_points"))
    return _affine(a["input"], scale, zero, int(a["quant_min"]), int(a["quant_max"]), a.get("axis"))


def _to_tensor(a: Arguments) -> tuple[torch.Tensor, ...]:
    limits = torch.iinfo(torch.uint8 if a["dtype"] == torch.quint8 else torch.int8)
    return _affine(a["self"], a["scale"], a["zero_point"], limits.min, limits.max)


def _dynamic(a: Arguments) -> tuple[torch.Tensor, ...]:
    x, most = a["X"], 127 if a.get("reduce_range") else 255
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = ((high - low) / most).clamp(min=torch.finfo(torch.float32).eps)
    return _affine(x, scale, (-low / scale).round().clamp(0, most), 0, most)


def _rounded(a: Arguments) -> tuple[torch.Tensor, ...]:
    """Rounding by itself, which quantization that is written out is made of: the steps are those of whole numbers."""
    whole = a["self"].round()
    return a["self"].double(), whole.double(), whole, torch.ones((), dtype=torch.float64)


# The operator that is a quantizer only as a part of others.
ROUND = "aten::round"
# How each operator that quantizes does it.
QUANTIZERS: dict[str, Callable[[Arguments], tuple[torch.Tensor, ...]]] = {
    ROUND: _rounded,
    "aten::quantize_per_tensor": _to_tensor,
    "quantized::linear_dynamic": _dynamic,
    "quantized::linear_relu_dynamic": _dynamic,
    "aten::fake_quantize_per_tensor_affine": _fake,
    "aten::fake_quantize_per_channel_affine": _fake,
    "aten::fake_quantize_per_tensor_affine_cachemask": _fake,
    "aten::fake_quantize_per_channel_affine_cachemask": _fake,
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _fake,
    "aten::_fake_quantize_learnable_per_tensor_affine": _learned,
    "aten::_fake_quantize_learnable_per_channel_affine": _learned,
    "aten::_fused_moving_avg_obs_fq_helper_functional": _fused,
    "quantized_decomposed::quantize_per_tensor": _decomposed,
    "quantized_decomposed::quantize_per_channel": _decomposed,
}
# Layers that quantize in each of their steps.
RECURRENT = frozenset({"aten::quantized_lstm", "aten::quantized_gru"})


def is_quantizer(value: Value) -> bool:
    """Whether the quantizer that gives a value is known, or that is a quantized tensor, whose integers torch shows."""
    if is_round(value):
        return value.is_tensor and value.dtype == torch.float32
    known = value.node is not None and value.node.op in QUANTIZERS
    return known or (value.is_tensor and value.dtype in QUANTIZED)


def is_round(value: Value) -> bool:
    """Whether a value is rounded by itself."""
    return value.node is not None and value.node.op == ROUND


def rounds_inside(graph: Graph) -> bool:
    """Whether a graph has layers that quantize in each of their steps, which nothing outside of them shows."""
    return any(node.op in RECURRENT for node in graph.block.all_nodes())


def _given(result: torch.Tensor) -> Rounding:
    """The integers of a quantized tensor."""
    integers = result.int_repr().double()
    scale = torch.tensor(result.q_scale(), dtype=torch.float64)
    return Rounding(torch.full_like(integers, torch.nan), integers, result.dequantize(), scale)


def _seen(found: tuple[torch.Tensor, ...], result: Any) -> Rounding:
    """What a quantizer did; a quantized tensor shows its integers, and kernels differ in the middle between two."""
    steps, integers, floats, scale = found
    if isinstance(result, torch.Tensor) and result.is_quantized:
        integers, floats = result.int_repr().double(), result.dequantize()
    return Rounding(steps, integers, floats, scale)


class Watching(Replay):
    """A run of the captured graph by torch that keeps what some quantizers did."""

    def __init__(self, values: Mapping[Value, FileGrid | None]) -> None:
        super().__init__()
        self._values = values
        self.roundings: dict[Value, Rounding] = {}

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        results = super().step(node, arguments)
        known = QUANTIZERS.get(node.op)
        layer = LAYERS.get(node.op)
        for value, result in zip(node.outputs, results, strict=True):
            if value not in self._values:
                continue
            grid = self._values[value]
            if grid is not None:
                self.roundings[value] = grid.rounding(arguments, result)
            elif layer is not None:
                self.roundings[value] = Rounding(*layer(arguments), kernel=result)
            else:
                self.roundings[value] = _given(result) if known is None else _seen(known(arguments), result)
        return results


def watch(
    block: Block, inputs: Sequence[Any], values: Mapping[Value, FileGrid | None]
) -> tuple[list[Any], dict[Value, Rounding]]:
    """The outputs of a graph by torch, and what the quantizers of some values did. Those of the user have a grid."""
    run = Watching(values)
    with torch.no_grad():
        outputs = run.run(block, inputs)
    return outputs, run.roundings


class _Shaken(Replay):
    """A run of the captured graph whose steps between quantizers all come out some rounding errors away."""

    def __init__(self, errors: int) -> None:
        super().__init__()
        self._errors = errors

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        results = super().step(node, arguments)
        if node.op in QUANTIZERS:
            return results
        return [
            last_bits_changed([result], self._errors)[0] if isinstance(result, torch.Tensor) else result
            for result in results
        ]


def moved_by_roundings(block: Block, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[float]:
    """How far rounding errors of torch's own kernels move the outputs of a graph with quantizers, at the most seen."""
    most = [0.0] * len(outputs)
    with torch.no_grad():
        for errors in SHAKEN:
            for index, other in enumerate(_Shaken(errors).run(block, inputs)):
                most[index] = max(most[index], distance(outputs[index], other))
    return most


def distance(left: Any, right: Any) -> float:
    """The largest difference of two results; without bound where there is none to be told."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor) or left.shape != right.shape:
        return math.inf
    if not left.is_floating_point():
        return 0.0 if torch.equal(left, right) else math.inf
    apart = (left.double() - right.double()).abs()
    return float(apart.max()) if apart.numel() else 0.0
