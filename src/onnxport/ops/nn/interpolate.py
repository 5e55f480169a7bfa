"""interpolate, in all its modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from onnxport.graph.sizes import Shape, Size, SizeExpr, is_static, values
from onnxport.lower import emit, sizes
from onnxport.lower.builder import Builder
from onnxport.lower.registry import Converter, entries
from onnxport.lower.value import AnySize, Operand, Value
from onnxport.ops.nn.resize_weights import Weights
from onnxport.ops.shape.shape import target_shape

aten = torch.ops.aten
# Factors for which torch's nearest and nearest-exact agree.
WHOLE_FACTORS = frozenset(range(1, 33))
# Sizes at which a factor is tested: the largest covers the pixels of all smaller ones, the others result sizes.
PROBES = (*range(1, 65), 1000, 4096)
# Two pixels become three with this factor: with smaller ones, few pixels stay as many.
LEAST_GROWTH = 1.5

# The factor of an axis; a value where the model computes it from sizes or data.
Factor: TypeAlias = "float | Value"


@dataclass(frozen=True)
class Kind:
    """A mode: ONNX's name for it, and torch's operator for one axis.

    ``by_size`` says that an axis which keeps its size, or doubles it, is copied or doubled whatever the factor.
    """

    mode: str
    along: Callable[..., torch.Tensor]
    exact: bool = False
    antialias: bool = False
    by_size: bool = False

    @property
    def is_nearest(self) -> bool:
        return self.mode == "nearest"

    def attributes(self, align_corners: bool) -> dict[str, Any]:
        """torch's nearest takes the pixel below, nearest-exact the one with the closest centre."""
        if self.is_nearest:
            coordinates, rounding = ("half_pixel", "round_prefer_ceil") if self.exact else ("asymmetric", "floor")
            return {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        return {
            "mode": self.mode,
            "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
            "cubic_coeff_a": (-0.5 if self.antialias else -0.75) if self.mode == "cubic" else None,
            "antialias": 1 if self.antialias else None,
            "exclude_outside": 1 if self.antialias else None,
        }


def _nearest_in_an_image(row: torch.Tensor, size: list[int], factor: float | None) -> torch.Tensor:
    made: torch.Tensor = aten.upsample_nearest2d(row[:, :, None], [1, *size], None, factor)
    return made[:, :, 0]


NEAREST = Kind("nearest", aten.upsample_nearest1d)
NEAREST_IN_AN_IMAGE = Kind("nearest", _nearest_in_an_image, by_size=True)
NEAREST_EXACT = Kind("nearest", aten._upsample_nearest_exact1d, exact=True)
LINEAR = Kind("linear", aten.upsample_bilinear2d)
CUBIC = Kind("cubic", aten.upsample_bicubic2d)
SMOOTH_LINEAR = Kind("linear", aten._upsample_bilinear2d_aa, antialias=True)
SMOOTH_CUBIC = Kind("cubic", aten._upsample_bicubic2d_aa, antialias=True)


def _resize(kind: Kind) -> Converter:
    def convert(
        g: Builder,
        input: Value | None = None,
        output_size: list[AnySize] | None = None,
        align_corners: bool = False,
        scale_factors: list[Factor] | None = None,
        self: Value | None = None,
        **scales: Factor | None,
    ) -> Value:
        x = input if input is not None else self
        assert x is not None
        stated = scale_factors if scale_factors is not None else [factor for factor in scales.values() if factor]
        factors = stated if len(stated) == x.rank - 2 else None
        # The runtime truncates integers, except with antialiasing.
        image = x if x.is_float or kind.is_nearest or kind.antialias else g.cast(x, torch.float32)
        result = g.typed(_resized(g, image, kind, align_corners, output_size, factors), image.dtype, g.outputs[0].shape)
        return result if image is x else _rounded(g, result, x.dtype)

    return convert


def _rounded(g: Builder, x: Value, dtype: torch.dtype) -> Value:
    """Floats as integers, clamped to the range of the type, which cubic weights may exceed."""
    limits = torch.iinfo(dtype)
    return g.cast(emit.clip(g, emit.round_(g, x), float(limits.min), float(limits.max)), dtype)


RESIZES = entries(
    _resize,
    {
        "aten::upsample_nearest1d": NEAREST,
        "aten::upsample_nearest2d": NEAREST_IN_AN_IMAGE,
        "aten::upsample_nearest3d": NEAREST,
        "aten::_upsample_nearest_exact1d": NEAREST_EXACT,
        "aten::_upsample_nearest_exact2d": NEAREST_EXACT,
        "aten::_upsample_nearest_exact3d": NEAREST_EXACT,
        "aten::upsample_linear1d": LINEAR,
        "aten::upsample_bilinear2d": LINEAR,
        "aten::upsample_trilinear3d": LINEAR,
        "aten::upsample_bicubic2d": CUBIC,
        "aten::_upsample_bilinear2d_aa": SMOOTH_LINEAR,
        "aten::_upsample_bicubic2d_aa": SMOOTH_CUBIC,
    },
)


def _resized(
    g: Builder,
    x: Value,
    kind: Kind,
    align_corners: bool,
    output_size: list[AnySize] | None,
    stated: Sequence[Factor] | None,
) -> Value:
    assert x.shape is not None
    before, after = x.shape[2:], g.outputs[0].shape[2:]
    factors = None if stated is None else [factor for factor in stated if not isinstance(factor, Value)]
    if kind.exact and g.opset < 11 and factors is not None and set(factors) <= WHOLE_FACTORS:
        kind = NEAREST
    target = after if output_size is None else target_shape(after, output_size)
    if factors != stated or not is_static((*before, *after)):
        return _resized_free(g, x, kind, align_corners, target, stated)
    axes = _axes(before, after, factors)
    if all(axis.before == axis.after and axis.ratio == 1 for axis in axes):
        return x
    if (kind.antialias and align_corners) or not _can_say(g, x, kind, axes):
        return _picked(g, x, kind, axes) if kind.is_nearest else _weighted(g, x, kind, align_corners, axes)
    by_size = factors is None or align_corners
    scales = _exact_scales(axes) if by_size and g.opset >= 11 else [_scale(axis.ratio) for axis in axes]
    return emit.resize(g, x, scales, target, **kind.attributes(align_corners))


def _resized_free(
    g: Builder,
    x: Value,
    kind: Kind,
    align_corners: bool,
    target: Sequence[AnySize],
    factors: Sequence[Factor] | None,
) -> Value:
    """An image whose size or factors are only known at run time."""
    numbers = [factor for factor in factors or () if not isinstance(factor, Value)]
    says = _upsamples(g, kind, numbers)
    is_free = factors is not None and len(numbers) < len(factors)
    known = None if factors is None else numbers
    if kind.is_nearest and (is_free or not says or x.dtype == torch.float64 or not _is_safe(g, x, kind, known)):
        return _picked_at_run_time(g, x, kind, target, factors)
    keeps_size = not kind.antialias and any(1 < factor < LEAST_GROWTH for factor in numbers)
    if (is_free or keeps_size) and not align_corners:  # with aligned corners torch goes by the sizes
        return _weighted_at_run_time(g, x, kind, factors or ())
    if not says:
        g.require(18 if kind.antialias else 11, "this interpolation of an image of dynamic size")
    if kind.antialias and align_corners:
        g.unsupported("ONNX has no antialiasing with aligned corners, for an image of dynamic size")
    if known is not None and not is_free and not _reaches(x.shape or (), g.outputs[0].shape, known):
        g.unsupported("resizing to a size other than the factors give, for an image of dynamic size")
    scales = None if known is None or is_free else [_scale(factor) for factor in known]
    return emit.resize(g, x, scales, target, **kind.attributes(align_corners))


def _reaches(before: Shape, after: Shape, factors: Sequence[float]) -> bool:
    """Whether the factors give the result's size, at all sizes that are tested."""
    captures = max(len(size.at) for size in (*before, *after) if isinstance(size, SizeExpr))
    return all(
        int(old_at * factor) == new_at
        for old, new, factor in zip(before[2:], after[2:], factors, strict=True)
        for old_at, new_at in zip(values(old, captures), values(new, captures), strict=True)
    )


def _is_safe(g: Builder, x: Value, kind: Kind, factors: Sequence[float] | None) -> bool:
    """Whether Resize selects the same pixels as torch, at every size of the image.

    Both compute positions in float32, in different ways. They agree for most factors, and for sizes that are twice the
    original or one less, as when an image is enlarged to the size of one that was halved.
    """
    if factors is not None:
        probes = [Axis(2, n, int(n * f), f) for f in set(factors) for n in PROBES if int(n * f)]
        # An axis may keep its size where all do, and the image is copied, or beside one that grows.
        beside = probes[-1:] if x.rank > 3 else []
        return all(_can_say(g, x, kind, axes) for axis in probes for axes in ([axis], [axis, *beside]))
    pairs: list[tuple[int, int]] = []
    for old, new in zip((x.shape or ())[2:], g.outputs[0].shape[2:], strict=True):
        captures = len(old.at if isinstance(old, SizeExpr) else new.at if isinstance(new, SizeExpr) else (0,))
        pairs += zip(values(old, captures), values(new, captures), strict=True)
    return all(new in ((2 * old,) if kind.exact else (2 * old, 2 * old - 1)) for old, new in pairs)


def _picked_at_run_time(
    g: Builder, x: Value, kind: Kind, target: Sequence[AnySize], factors: Sequence[Factor] | None
) -> Value:
    """The nearest pixels, with positions computed as in torch."""
    assert x.shape is not None
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    for axis, before in enumerate(x.shape[2:]):
        length, count = sizes.scalar(g, before), target[axis]
        scale: Operand
        if factors is None:
            scale = g.op("Div", g.cast(length, dtype), g.cast(sizes.scalar(g, count), dtype))
        else:
            factor = factors[axis]
            if isinstance(factor, Value):
                factor = g.cast(g.realise(factor), torch.float64)
                scale = g.cast(g.op("Div", g.constant(1.0, torch.float64), factor), dtype)
            else:
                scale = g.constant(1.0 / factor, dtype)
            if not isinstance(count, int):
                count = g.cast(g.op("Mul", g.cast(length, torch.float64), factor), torch.int64)
            for times in (1, 2) if kind.by_size else ():
                if isinstance(factor, Value) or times == int(factor) != factor:
                    is_whole = emit.equal(g, sizes.scalar(g, count), g.op("Mul", length, times))
                    scale = emit.where(g, is_whole, 1.0 / times, scale, dtype)
        positions = g.cast(emit.counting(g, count), dtype)
        positions = g.op("Mul", g.op("Add", positions, 0.5) if kind.exact else positions, scale)
        positions = g.op("Min", g.op("Floor", positions), g.op("Sub", g.cast(length, dtype), 1.0))
        x = g.op("Gather", x, g.cast(positions, torch.int64), axis=axis + 2)
    return x


@dataclass(frozen=True)
class Axis:
    """A spatial axis of known sizes, and the factor between them if the model has one."""

    index: int
    before: int
    after: int
    factor: float | None

    @property
    def ratio(self) -> float:
        return self.factor or self.after / self.before


def _axes(before: Shape, after: Shape, factors: Sequence[float] | None) -> list[Axis]:
    axes = []
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        assert isinstance(old, int) and isinstance(new, int)
        axes.append(Axis(index + 2, old, new, factors[index] if factors else None))
    return axes


def _exact_scales(axes: Sequence[Axis]) -> list[float] | None:
    """The scales that Resize computes from sizes, if they are exact: otherwise the sizes that they lead to may be
    rounded to others."""
    scales = [float(np.float32(axis.after / axis.before)) for axis in axes]
    is_exact = all(axis.before * scale == axis.after for axis, scale in zip(axes, scales, strict=True))
    return scales if is_exact else None


def _scale(factor: float) -> float:
    """As float32, rounded up: the size is the floor of a product, which must not become smaller."""
    rounded = np.float32(factor)
    return float(rounded if float(rounded) >= factor else np.nextafter(rounded, np.float32(np.inf)))


def _upsamples(g: Builder, kind: Kind, ratios: Sequence[float]) -> bool:
    """Whether the opset supports the mode: before 11 ONNX only enlarges by the nearest pixel."""
    if g.opset >= (18 if kind.antialias else 11):
        return True
    return kind.is_nearest and not kind.exact and bool(ratios) and min(ratios) >= 1


def _can_say(g: Builder, x: Value, kind: Kind, axes: Sequence[Axis]) -> bool:
    """Whether Resize agrees with torch.

    It lacks float64, may round positions of pixels or sizes differently, and copies an image that keeps its size.
    """
    if x.dtype == torch.float64 or not _upsamples(g, kind, [axis.ratio for axis in axes]):
        return False
    is_copied = all(axis.before == axis.after for axis in axes)
    for axis in axes:
        by_scale = axis.factor is not None or g.opset < 11
        scale = np.float32(_scale(axis.ratio)) if by_scale else np.float32(axis.after) / np.float32(axis.before)
        if by_scale and int(np.float32(axis.before) * scale) != axis.after:
            return False
        taken = np.arange(axis.after) if is_copied else _runtime_positions(kind, axis, scale)
        if kind.is_nearest and not np.array_equal(_positions(kind, axis), taken):
            return False
    return True


def _positions(kind: Kind, axis: Axis, dtype: torch.dtype = torch.float32) -> Any:
    """The pixel that torch selects for each one of the result."""
    positions = kind.along(torch.arange(axis.before, dtype=dtype)[None, None], [axis.after], axis.factor)
    return positions[0, 0].to(torch.int64).numpy()


def _runtime_positions(kind: Kind, axis: Axis, scale: np.float32) -> Any:
    """The pixel that Resize selects, in the float32 arithmetic of the runtime."""
    positions = np.arange(axis.after, dtype=np.float32)
    half = np.float32(0.5)
    positions = np.floor(((positions + half) / scale - half) + half) if kind.exact else np.floor(positions / scale)
    return np.clip(positions, 0, axis.before - 1).astype(np.int64)


def _picked(g: Builder, x: Value, kind: Kind, axes: Sequence[Axis]) -> Value:
    """The nearest pixels, by Gather; torch computes positions in float64 for float64, else in float32."""
    for axis in axes:
        positions = _positions(kind, axis, torch.float64 if x.dtype == torch.float64 else torch.float32)
        if not np.array_equal(positions, np.arange(axis.before)):
            x = g.op("Gather", x, g.constant(positions), axis=axis.index)
    return x


def _weighted(g: Builder, x: Value, kind: Kind, align_corners: bool, axes: Sequence[Axis]) -> Value:
    """Interpolation is linear in the pixels: along each axis a product with torch's weights."""
    if not x.is_float:
        return _rounded(g, _weighted(g, g.cast(x, torch.float32), kind, align_corners, axes), x.dtype)
    for axis in axes:
        unit = torch.eye(axis.before, dtype=torch.float64)[None, :, None, :]
        weights = kind.along(unit, [1, axis.after], align_corners, None, axis.factor)[0, :, 0, :].to(x.dtype)
        weights = weights if axis.index == x.rank - 1 else weights.T.contiguous()
        x = _multiplied(g, x, axis.index, g.constant(weights), axis.after)
    return x


def _weighted_at_run_time(g: Builder, x: Value, kind: Kind, factors: Sequence[Factor]) -> Value:
    """The same at run time. ONNX Runtime copies an image that keeps its size whatever the factors are."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    for index, factor in enumerate(factors, start=2):
        assert x.shape is not None
        before, after = x.shape[index], g.outputs[0].shape[index]
        number = g.cast(g.realise(factor), torch.float64) if isinstance(factor, Value) else factor
        scale = g.cast(g.op("Div", g.constant(1.0, torch.float64), number), dtype)
        weights = Weights(kind.mode, kind.antialias, scale, sizes.scalar(g, before), sizes.scalar(g, after))
        rows = g.cast(weights.rows(g), x.dtype)
        if weights.beyond:
            pads = [weights.beyond if at == index else 0 for at in range(x.rank)]
            shape = (*x.shape[:index], before + 2 * weights.beyond, *x.shape[index + 1 :])
            x = g.typed(emit.pad(g, x, pads * 2, "edge"), x.dtype, shape)
        x = _multiplied(g, x, index, g.op("Transpose", rows, perm=[1, 0]) if index == x.rank - 1 else rows, after)
    return x


def _multiplied(g: Builder, x: Value, index: int, weights: Value, after: Size) -> Value:
    """The product along an axis with weights: those for the last axis have a column for each pixel of the result, those
    for others a row."""
    assert x.shape is not None
    leading, shape = x.shape[: index + 1], (*x.shape[:index], after, *x.shape[index + 1 :])
    if index == x.rank - 1:
        x = g.op("MatMul", x, weights)
    elif index == x.rank - 2:
        x = g.op("MatMul", weights, x)
    else:
        flat = emit.reshape(g, x, (*leading, -1))
        x = emit.reshape(g, g.op("MatMul", weights, flat), shape)
    return g.typed(x, x.dtype, shape)
